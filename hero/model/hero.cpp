// hero.h over the Verilated hero_system.
#include "hero.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>

#include "Vhero_system.h"
#include "line.h"
#include "map.h"
#include "memory.h"
#include "registers.h"
#include "verilated.h"

// build.py defines the parameters of hero_system, and HERO_SYS_MHZ.
#if !defined(HERO_BUS) || !defined(HERO_SETUP) || !defined(HERO_ROUTES) || !defined(HERO_ROUTES6) || !defined(HERO_SYS_MHZ)
#error "build with build.py"
#endif

using namespace hero_model;

namespace {
constexpr uint64_t SYS_PS = 1000000 / HERO_SYS_MHZ;
constexpr unsigned ACCESS_CYCLES = 4096;  // a register access that takes longer has failed
constexpr size_t MAX_FRAME = 9216;
constexpr uint64_t MAX_RUN_NS = uint64_t{1} << 52;  // in ps it still fits 64 bits
}  // namespace

struct hero {
    VerilatedContext context;
    Vhero_system top{&context, ""};
    Memory memory;
    Registers registers;
    Line lines[HERO_CARDS];
    uint64_t now_ps = 0, next_mac = MAC_PS, next_sys = SYS_PS;

    hero() {
        top.link = 0xF;
        top.sys_rst = 1;
        top.eval();
        run(HERO_RESET_CYCLES * SYS_PS);
        top.sys_rst = 0;
        for (unsigned k = 0; k < HERO_CARDS; k++) wait_ready(k);
    }

    // A card ignores writes until its reset is over.
    void wait_ready(unsigned card) {
        for (unsigned tries = 0; tries < ACCESS_CYCLES; tries++) {
            registers.read(card, HERO_STATUS);
            if (finish_access() && registers.value() & HERO_STATUS_READY) return;
        }
    }

    void run(uint64_t ps) {
        uint64_t end = now_ps + ps;
        while (std::min(next_mac, next_sys) <= end) edge();
        now_ps = end;
    }

    // The next rising edge, of one clock or of both.
    void edge() {
        now_ps = std::min(next_mac, next_sys);
        const bool mac = next_mac == now_ps, sys = next_sys == now_ps;
        if (mac) sample_lines();
        if (sys) {
            memory.sample(top);
            registers.sample(top);
        }
        top.rx_clk = top.tx_clk = mac ? 0xF : 0;
        top.sys_clk = sys;
        top.eval();
        if (mac) {
            drive_lines();
            next_mac += MAC_PS;
        }
        if (sys) {
            memory.drive(top);
            registers.drive(top);
            next_sys += SYS_PS;
        }
        // Nothing happens at falling edges, so their time does not matter; this also evaluates the
        // inputs.
        top.rx_clk = top.tx_clk = top.sys_clk = 0;
        top.eval();
    }

    void sample_lines() {
        for (unsigned k = 0; k < HERO_CARDS; k++) {
            lines[k].sample(now_ps, top.gmii_txd >> (8 * k) & 0xFF, top.gmii_tx_en >> k & 1,
                            top.gmii_tx_er >> k & 1);
        }
    }

    void drive_lines() {
        uint32_t rxd = 0, rx_dv = 0, rx_er = 0;
        for (unsigned k = 0; k < HERO_CARDS; k++) {
            uint8_t octet;
            bool valid, error;
            lines[k].drive(now_ps, octet, valid, error);
            rxd |= uint32_t{octet} << (8 * k);
            rx_dv |= uint32_t{valid} << k;
            rx_er |= uint32_t{error} << k;
        }
        top.gmii_rxd = rxd;
        top.gmii_rx_dv = rx_dv;
        top.gmii_rx_er = rx_er;
    }

    // False if the card did not answer.
    bool finish_access() {
        for (unsigned cycles = 0; registers.busy() && cycles < ACCESS_CYCLES;) {
            cycles += next_sys <= next_mac;
            edge();
        }
        bool done = !registers.busy();
        registers.give_up();
        return done;
    }
};

extern "C" {

uint32_t hero_abi(void) { return HERO_ABI; }

hero *hero_new(void) {
    try {
        auto made = std::make_unique<hero>();
        return made->memory.octets() ? made.release() : nullptr;
    } catch (const std::exception &) {
        return nullptr;
    }
}

void hero_free(hero *h) { delete h; }

int64_t hero_parameter(const hero *, const char *name) {
    if (!name) return -1;
    if (!strcmp(name, "bus")) return HERO_BUS;
    if (!strcmp(name, "setup")) return HERO_SETUP;
    if (!strcmp(name, "routes")) return HERO_ROUTES;
    if (!strcmp(name, "routes6")) return HERO_ROUTES6;
    if (!strcmp(name, "sys_mhz")) return HERO_SYS_MHZ;
    return -1;
}

uint8_t *hero_memory(hero *h, size_t *octets) {
    if (octets) *octets = Memory::OCTETS;
    return h->memory.octets();
}

void hero_set_host(hero *h, const hero_host *host) { h->memory.set_host(host ? *host : hero_host{}); }

uint64_t hero_now(const hero *h) { return h->now_ps / 1000; }

void hero_run(hero *h, uint64_t ns) { h->run(std::min(ns, MAX_RUN_NS) * 1000); }

uint32_t hero_irq(const hero *h) { return h->top.irq; }

uint32_t hero_run_until_irq(hero *h, uint64_t ns, uint32_t cards) {
    uint64_t end = h->now_ps + std::min(ns, MAX_RUN_NS) * 1000;
    while (!(h->top.irq & cards)) {
        if (std::min(h->next_mac, h->next_sys) > end) {
            h->now_ps = end;
            break;
        }
        h->edge();
    }
    return h->top.irq;
}

uint32_t hero_read(hero *h, unsigned card, unsigned reg) {
    if (card >= HERO_CARDS || reg >= 64) return ~0u;
    h->registers.read(card, reg);
    return h->finish_access() ? h->registers.value() : ~0u;
}

void hero_write(hero *h, unsigned card, unsigned reg, uint32_t value) {
    if (card >= HERO_CARDS || reg >= 64) return;
    h->registers.write(card, reg, value);
    h->finish_access();
}

void hero_set_link(hero *h, unsigned card, int up) {
    if (card >= HERO_CARDS) return;
    h->top.link = (h->top.link & ~(1u << card)) | (up ? 1u << card : 0);
}

int hero_receive(hero *h, unsigned card, const uint8_t *frame, size_t octets, uint64_t at, unsigned faults) {
    if (card >= HERO_CARDS || !frame || octets == 0 || octets > MAX_FRAME || h->lines[card].full()) return -1;
    try {
        h->lines[card].receive(frame, octets, std::min(at, MAX_RUN_NS) * 1000, faults & HERO_BAD_FCS,
                               faults & HERO_RX_ER, !(faults & HERO_NO_PAD));
    } catch (const std::bad_alloc &) {
        return -1;
    }
    return 0;
}

size_t hero_arriving(const hero *h, unsigned card) { return card < HERO_CARDS ? h->lines[card].arriving() : 0; }

long hero_transmitted(hero *h, unsigned card, uint8_t *frame, size_t room, uint64_t *first, uint64_t *last) {
    if (card >= HERO_CARDS || h->lines[card].sent.empty()) return -1;
    Line::Sent sent = std::move(h->lines[card].sent.front());
    h->lines[card].sent.pop_front();
    if (first) *first = sent.first / 1000;
    if (last) *last = sent.last / 1000;
    if (!sent.good) return -2;
    size_t octets = sent.octets.size() - 4;
    if (octets > room) return -3;
    memcpy(frame, sent.octets.data(), octets);
    return static_cast<long>(octets);
}

}  // extern "C"
