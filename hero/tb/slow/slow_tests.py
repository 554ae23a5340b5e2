"""Slow path: frames, completions and their order, descriptors, errors, quiesce."""

import cocotb
from slow_host import CPL_BASE, RXHI, RXLO, SIZE, TX, Host, frame


async def host(dut, pause=0.0, seed=1):
    h = Host(dut, seed)
    await h.start()
    h.pause(pause)
    return h


async def feed(h, ring, buffers, octets=2048):
    """Gives descriptors in vectors of random size whenever one is free."""
    buffers = list(buffers)
    while buffers:
        n = h.rng.randint(1, 32)
        await h.until(lambda: h.free(ring) > 0, what=f"ring {ring} free")
        await h.give(ring, [(b, octets) for b in buffers[:n]])
        buffers = buffers[n:]


async def receive(dut, pause):
    h = await host(dut, pause)
    # More than a pass of the completion ring, so that the phase turns.
    queues = [[frame(h.rng) for _ in range(300)], [frame(h.rng, 60) for _ in range(270)]]
    expected = [list(q) for q in queues]
    buffers = [[0x8_0000 * p + 0x800 * (i % 100) for i in range(len(queues[p]))] for p in (0, 1)]
    h.queues = queues
    cocotb.start_soon(feed(h, RXLO, buffers[0]))
    cocotb.start_soon(feed(h, RXHI, buffers[1]))
    seen = [0, 0]
    while seen != [300, 270]:
        for p in (0, 1):
            completion = h.completion(p)
            if completion is not None:
                packet, buffer = expected[p][seen[p]], buffers[p][seen[p]]
                assert completion == (buffer, len(packet), p, 0)
                assert h.octets(buffer, len(packet)) == packet
                seen[p] += 1
        await h.cycles(1)
    await h.until(lambda: h.pulses["completed"] == [300, 270, 0])
    assert h.completion(RXLO) is None and h.completion(RXHI) is None


@cocotb.test()
async def receive_smoothly(dut):
    await receive(dut, 0.0)


@cocotb.test()
async def receive_with_pauses(dut):
    await receive(dut, 0.5)


@cocotb.test()
async def high_priority_first(dut):
    h = await host(dut)
    h.queues = [[frame(h.rng, 100) for _ in range(5)], [frame(h.rng, 100) for _ in range(5)]]
    h.dut.h_head.value = 3
    await h.give(RXHI, [(0x8000 + 2048 * i, 2048) for i in range(5)])
    await h.give(RXLO, [(0x0000 + 2048 * i, 2048) for i in range(5)])
    await h.until(lambda: h.pulses["completed"] == [5, 5, 0])
    data = [address for channel, address, _ in h.transactions if channel == "aw" and address < CPL_BASE]
    assert data == [0x8000 + 2048 * i for i in range(5)] + [2048 * i for i in range(5)]


@cocotb.test()
async def no_priority_waits_for_the_descriptors_of_the_other(dut):
    h = await host(dut)
    h.queues = [[frame(h.rng)], [frame(h.rng)]]
    await h.give(RXLO, [(0, 2048)])
    await h.until(lambda: h.pulses["completed"] == [1, 0, 0])
    h.queues[0].append(frame(h.rng))
    await h.give(RXHI, [(0x1000, 2048)])
    await h.until(lambda: h.pulses["completed"] == [1, 1, 0])
    await h.cycles(200)
    assert h.pulses["completed"] == [1, 1, 0] and len(h.queues[0]) == 1


async def transmit(dut, pause):
    h = await host(dut, pause)
    h.sink_pause = pause
    packets = [frame(h.rng) if i % 3 else frame(h.rng, h.rng.randint(14, 70)) for i in range(300)]
    slots = [0x800 * (i % 100) for i in range(300)]

    async def driver():
        given = 0
        while given < 300:
            n = min(h.rng.randint(1, 32), 300 - given)
            await h.until(lambda: h.free(TX) > 0 and given + n - h.place[TX] <= 100, what="ring TX")
            vector = []
            for i in range(given, given + n):
                h.memory.mem[slots[i]:slots[i] + len(packets[i])] = packets[i]
                vector.append((slots[i], len(packets[i])))
            await h.give(TX, vector)
            given += n

    cocotb.start_soon(driver())
    while h.place[TX] < 300:
        i = h.place[TX]
        completion = h.completion(TX)
        if completion is not None:
            assert completion == (slots[i], len(packets[i]), 0, 0)
        await h.cycles(1)
    await h.until(lambda: len(h.sent) == 300)
    assert h.sent == packets
    assert dut.tx_len.value == 0


@cocotb.test()
async def transmit_smoothly(dut):
    await transmit(dut, 0.0)


@cocotb.test()
async def transmit_with_pauses(dut):
    await transmit(dut, 0.4)


@cocotb.test()
async def transmit_waits_for_room_and_for_enable(dut):
    h = await host(dut)
    h.sink_pause = 1.0
    longest = int(dut.MTU.value) + 18
    words = (longest + 7) // 8
    packets = [frame(h.rng, longest) for _ in range(15)]
    for i, p in enumerate(packets):
        h.memory.mem[0x800 * i:0x800 * i + longest] = p
    dut.tx_enable.value = 0
    await h.give(TX, [(0x800 * i, longest) for i in range(15)])
    await h.cycles(300)
    assert h.pulses["completed"][TX] == 0 and dut.tx_len.value == 15
    dut.tx_enable.value = 1
    await h.cycles(6000)
    fits = (2048 - words) // words + 1
    assert h.pulses["completed"][TX] == fits and dut.tx_len.value == 15 - fits
    h.sink_pause = 0.0
    await h.until(lambda: len(h.sent) == 15)
    assert h.sent == packets


@cocotb.test()
async def bad_transmit_descriptors(dut):
    h = await host(dut)
    good = frame(h.rng, 100)
    h.memory.mem[0x1000:0x1000 + 100] = good
    h.memory.bad.add(0x9)
    longest = int(dut.MTU.value) + 18
    bad = [(0x1000, 13), (0x1000, longest + 1), (0x1000, 0), (0x1000, 65535), (0x1004, 100), (0x1fa0, 100), (0x9000, 100),
           (SIZE, longest)]
    at_the_end_of_a_page = (0x1f98, 100)
    h.memory.mem[0x1f98:0x1f98 + 100] = good
    order = [d for b in bad for d in (b, (0x1000, 100))] + [at_the_end_of_a_page]
    await h.give(TX, order)
    await h.until(lambda: h.pulses["completed"][TX] == len(order))
    for buffer, octets in order:
        error = (buffer, octets) in bad
        assert h.completion(TX) == (buffer, octets, 0, int(error))
    await h.until(lambda: len(h.sent) == 9)
    assert h.sent == [good] * 9
    assert h.pulses["bad_length"] == 4 and h.pulses["bad_buffer"] == [0, 2] and h.pulses["rd_failed"] == 2
    assert dut.tx_len.value == 0


@cocotb.test()
async def bad_receive_buffers(dut):
    h = await host(dut)
    h.memory.bad.add(0x9)
    packets = [frame(h.rng, 1514) for _ in range(3)]
    h.queues[0] = list(packets)
    # Misaligned and page-crossing ones are skipped; a bus error costs the frame and says so.
    await h.give(RXLO, [(0x1001, 2048), (0x1c00, 2048), (0x2000, 2048), (0x9000, 2048), (0x3000, 2048)])
    await h.until(lambda: h.pulses["completed"][RXLO] == 5)
    assert [h.completion(RXLO) for _ in range(5)] == [
        (0x1001, 0, 0, 1), (0x1c00, 0, 0, 1), (0x2000, 1514, 0, 0), (0x9000, 1514, 0, 1), (0x3000, 1514, 0, 0)]
    assert h.octets(0x2000, 1514) == packets[0] and h.octets(0x3000, 1514) == packets[2]
    assert h.pulses["bad_buffer"] == [2, 0] and h.pulses["wr_failed"] == 1


@cocotb.test()
async def a_completion_that_memory_refuses_is_told(dut):
    """Counted, and its ring named until a reset; the ring's next completion takes its place, the other rings go on."""
    h = await host(dut)
    packets = [frame(h.rng, 100) for _ in range(6)]
    for number, ring in enumerate((RXLO, RXHI, TX)):
        first, second = packets[2 * number : 2 * number + 2]
        for buffer, packet in ((0x1000, first), (0x2000, second)):
            if ring == TX:
                h.memory.mem[buffer : buffer + 100] = packet
        h.memory.bad = {CPL_BASE + 0x800 * ring >> 12}
        if ring != TX:
            h.queues[ring].append(first)
        await h.give(ring, [(0x1000, 100)])
        await h.until(lambda: h.pulses["lost"] == number + 1, what="the loss")
        await h.cycles(5)
        assert h.pulses["wr_failed"] == number + 1 and dut.broken.value == (2 << number) - 1
        assert h.completion(ring) is None and h.pulses["completed"][ring] == 0
        h.memory.bad = set()
        if ring != TX:
            h.queues[ring].append(second)
        await h.give(ring, [(0x2000, 100)])
        await h.until(lambda: h.pulses["completed"][ring] == 1, what="the next completion")
        assert h.completion(ring) == (0x2000, 100, int(ring == RXHI), 0)
        assert h.octets(0x1000, 100) == first and h.octets(0x2000, 100) == second
    await h.until(lambda: len(h.sent) == 2, what="both frames")
    assert dut.tx_len.value == 1 and h.sent == packets[4:]
    dut.sys_rst.value = 1
    await h.cycles(2)
    assert dut.broken.value == 0


@cocotb.test()
async def vectors_are_refused_counted_and_levels_told(dut):
    h = await host(dut)
    for ring in (RXLO, RXHI):
        assert h.free(ring) == 2 and h.held(ring) == 0
        for i in range(4):  # two are fetched into the card, two wait
            await h.give(ring, [(2048 * j, 2048) for j in range(32)])
            await h.cycles(150)
            assert (h.held(ring), h.free(ring)) == [(32, 2), (64, 2), (64, 1), (64, 0)][i]
        refused = h.pulses["refused"]
        await h.give(ring, [(0, 2048)])
        assert h.pulses["refused"] == refused + 1
    refused = h.pulses["refused"]
    await h.give(TX, [], count=0)
    await h.give(TX, [], count=33)
    await h.give(TX, [], count=255)
    assert h.pulses["refused"] == refused + 3 and h.free(TX) == 2 and dut.tx_len.value == 0


@cocotb.test()
async def used_up_is_told_once(dut):
    h = await host(dut)
    h.queues[1] = [frame(h.rng) for _ in range(4)]
    await h.give(RXHI, [(0x1000 * i, 2048) for i in range(3)])
    await h.until(lambda: h.pulses["completed"][RXHI] == 3)
    await h.cycles(20)
    assert h.pulses["used_up"] == [0, 1]
    await h.give(RXHI, [(0x1000, 2048), (0x2000, 2048)])
    await h.until(lambda: h.pulses["completed"][RXHI] == 4)
    await h.cycles(20)
    assert h.pulses["used_up"] == [0, 1]


@cocotb.test()
async def an_unreadable_vector_is_dropped_whole(dut):
    h = await host(dut)
    await h.give_raw(TX, SIZE | 7)
    await h.until(lambda: h.pulses["rd_failed"] == 1)
    await h.cycles(5)
    assert dut.tx_len.value == 0 and h.free(TX) == 2
    packet = frame(h.rng)
    h.memory.mem[0:len(packet)] = packet
    await h.give(TX, [(0, len(packet))])
    await h.until(lambda: h.sent == [packet])
    assert h.completion(TX) == (0, len(packet), 0, 0)


@cocotb.test()
async def quiesce_ends_what_is_under_way_and_begins_nothing(dut):
    h = await host(dut, 0.3)
    for round in range(30):
        h.queues = [[frame(h.rng) for _ in range(4)], [frame(h.rng) for _ in range(4)]]
        await h.give(RXLO, [(0x800 * i, 2048) for i in range(8)])
        await h.give(RXHI, [(0x4000 + 0x800 * i, 2048) for i in range(8)])
        await h.give(TX, [(0x8000 + 0x800 * i, 1000) for i in range(8)])
        await h.cycles(h.rng.randint(1, 400))
        dut.quiesce.value = 1
        await h.cycles(1)
        await h.until(lambda: dut.quiet.value == 1, 3000, "quiet")
        before = len(h.transactions)
        await h.cycles(20)
        assert dut.quiet.value == 1 and len(h.transactions) == before
        assert not dut.m_axi_awvalid.value and not dut.m_axi_wvalid.value and not dut.m_axi_arvalid.value
        dut.sys_rst.value = 1
        h.queues = [[], []]
        h.place = [0, 0, 0]
        await h.cycles(2)
        dut.sys_rst.value = 0
        dut.quiesce.value = 0
        await h.cycles(1)
        assert h.free(RXLO) == 2 and h.held(RXLO) == 0 and dut.tx_len.value == 0
