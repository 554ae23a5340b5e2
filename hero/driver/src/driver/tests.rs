//! Tests of the driver with a card that is only memory.

use bora_port::ReadStats;
use std::sync::Arc;

use bora_buffer::{Region, SharedFrames};
use bora_port::Bell;

use super::*;
use crate::plain::Plain;

const MAC: [u8; 6] = [2, 1, 2, 3, 4, 5];

fn start(device: &mut Plain) -> (Driver, SharedFrames) {
    let region = Arc::new(Region::new(512, 2048).unwrap());
    let frames = SharedFrames::of_new_region(&region);
    let exchange = Exchange::new(region, Arc::new(Bell::new().unwrap())).unwrap();
    let driver = Driver::start(device, 2, MAC, Arc::new(exchange));
    (driver.unwrap(), frames)
}

/// Completes a buffer, as a card that receives a frame does.
fn complete(device: &mut Plain, ring: &Ring, number: u64, octets: u64) {
    let word = u64::from(ring.buffer(number)) | octets << 32 | 1 << 50;
    let at = ring.completion_address(number);
    device.set_word(at, word);
}

#[test]
fn bring_up_writes_all_settings() {
    let mut device = Plain::new();
    let (driver, _) = start(&mut device);
    let cmd = device.written(CMD);
    assert_eq!(cmd.first(), Some(&reg::CMD_RESET));
    assert_eq!(cmd.last(), Some(&(ENABLED | reg::CMD_COMMIT)));
    let enabled = |value: &&u32| **value & ENABLED != 0;
    assert_eq!(
        cmd.iter().filter(enabled).count(),
        1,
        "the card must be off until everything is written"
    );
    assert_eq!(device.written(reg::MAC_LOW), [0x0302_0102]);
    assert_eq!(device.written(reg::MAC_HIGH), [0x0002_0504]);
    let bases: Vec<_> = (0..PEERS)
        .flat_map(|peer| device.written(reg::peer_base(peer)))
        .collect();
    assert_eq!(bases, [0x8000_0000, 0x8010_0000, 0x8030_0000]);
    assert_eq!(device.written(reg::route(1)[0]), [0]);
    assert_eq!(device.written(reg::route(1)[1]), [u32::MAX]);
    assert_eq!(device.written(reg::CPL_BASE), [2 << 21]);
    assert_eq!(driver.slots(), 3);
    for register in [reg::RXLO_DESC, reg::RXHI_DESC] {
        let vectors = device.written(register);
        // the card accepts more, but the driver gives only ENOUGH buffers of the 256
        assert_eq!(vectors.len() as u64, ENOUGH / VECTOR + 1);
        assert!(vectors.iter().all(|vector| vector & 0xFF == VECTOR as u32));
    }
}

#[test]
fn errors_of_a_missing_card_are_named() {
    let exchange = || {
        let region = Arc::new(Region::new(1, 2048).unwrap());
        Arc::new(Exchange::new(region, Arc::new(Bell::new().unwrap())).unwrap())
    };
    let mut device = Plain::new();
    device.registers[usize::from(reg::STATUS)] = 2 << 16;
    let error = Driver::start(&mut device, 0, MAC, exchange()).unwrap_err();
    assert_eq!(error, DriverError::Version(2));
    device.registers[usize::from(reg::STATUS)] = reg::VERSION << 16; // the reset never ends
    let error = Driver::start(&mut device, 0, MAC, exchange()).unwrap_err();
    assert_eq!(error, DriverError::Reset);
    device.registers[0] = u32::MAX;
    let error = Driver::start(&mut device, 0, MAC, exchange()).unwrap_err();
    assert_eq!(error, DriverError::NoCard(u32::MAX));
}

#[test]
fn interrupts_are_off_while_it_polls() {
    let mut device = Plain::new();
    let (mut driver, frames) = start(&mut device);
    let _ = device.written(reg::IRQ_MASK);
    let count = QUOTA as u64 + 10;
    for number in 0..count {
        complete(&mut device, &driver.low, number, 60);
    }
    // the worker has given no buffers, so it continues to poll
    assert_eq!(driver.turn(&mut device, true), Ok(true));
    assert_eq!(
        (device.written(reg::IRQ_MASK), driver.is_polling()),
        (vec![0], true)
    );
    let pool = &mut bora_buffer::Pool::new(frames, 256);
    for _ in 0..200 {
        driver.exchange.free.push(pool.take().unwrap()).unwrap();
    }
    assert_eq!(driver.turn(&mut device, false), Ok(true));
    assert_eq!(
        driver.exchange.received.len(),
        QUOTA,
        "no more than its quota"
    );
    assert_eq!(
        (device.written(reg::IRQ_MASK), driver.is_polling()),
        (vec![], true)
    );
    // high priority is received first, although it came last
    complete(&mut device, &driver.high, 0, 99);
    assert_eq!(driver.turn(&mut device, false), Ok(true));
    let lengths = std::iter::from_fn(|| driver.exchange.received.pop());
    let lengths: Vec<usize> = lengths.map(|packet| packet.length()).collect();
    assert_eq!((lengths.len(), lengths[QUOTA]), (count as usize + 1, 99));
    let on = IRQ_RXLO | IRQ_RXHI | IRQ_COUNTED;
    assert_eq!(
        (device.written(reg::IRQ_MASK), driver.is_polling()),
        (vec![on], false)
    );
    assert_eq!(driver.turn(&mut device, false), Ok(false));
}

#[test]
fn a_card_that_sends_nothing_is_noticed() {
    let mut device = Plain::new();
    let (mut driver, frames) = start(&mut device);
    let pool = &mut bora_buffer::Pool::new(frames, 256);
    for _ in 0..2 {
        let packet = pool
            .take()
            .unwrap()
            .into_packet(&driver.exchange.region, 60)
            .unwrap();
        driver.exchange.to_send.push(packet).unwrap();
    }
    assert_eq!(driver.turn(&mut device, false), Ok(true));
    assert_eq!((driver.tx.out(), driver.exchange.sent.len()), (2, 2));
    device.now += TX_PATIENCE;
    complete(&mut device, &driver.tx, 0, 60);
    assert_eq!(
        driver.turn(&mut device, false),
        Ok(true),
        "one frame was sent just in time"
    );
    device.now += TX_PATIENCE + 1;
    assert_eq!(driver.turn(&mut device, false), Err(DriverError::Stuck));
    assert_eq!(driver.reset(&mut device), Ok(()));
    assert_eq!(driver.turn(&mut device, false), Ok(false));
    assert_eq!(driver.exchange.tally.read().dropped[Reason::TxLinkDown], 1);
    assert_eq!(driver.exchange.counters.stats().from_host, 1);
}

#[test]
fn a_card_that_does_not_answer_counts_nothing() {
    let mut device = Plain::new();
    let (mut driver, _) = start(&mut device);
    device.registers[usize::from(reg::DROP_CNT)] = 7;
    driver.read_counters(&mut device);
    let before = driver.exchange.counters.stats();
    device.registers = [u32::MAX; 64];
    driver.read_counters(&mut device);
    assert_eq!(driver.exchange.counters.stats(), before);
}

#[test]
fn a_lost_completion_is_named_and_needs_a_reset() {
    let mut device = Plain::new();
    let (mut driver, _) = start(&mut device);
    // a bus error of another kind is only counted
    device.registers[usize::from(reg::IRQ_MASKED)] = IRQ_BUS;
    assert_eq!(driver.turn(&mut device, true), Ok(false));
    device.registers[usize::from(reg::STATUS)] |= 0b101 << 4;
    let error = driver.turn(&mut device, true).unwrap_err();
    assert_eq!(error, DriverError::LostCompletions(0b101 << 4));
    let text = "completions were lost: memory refused them (low priority, transmit)";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_completion_of_another_buffer_needs_a_reset() {
    let mut device = Plain::new();
    let (mut driver, _) = start(&mut device);
    let frame = {
        // SAFETY: the region's first frame, which nobody else has.
        unsafe { bora_buffer::Frame::from_index(&driver.exchange.region, 0) }
    };
    driver.exchange.free.push(frame).unwrap();
    let word = u64::from(driver.low.buffer(5)) | 60 << 32 | 1 << 50;
    let at = driver.low.completion_address(0);
    device.set_word(at, word);
    let error = driver.turn(&mut device, true).unwrap_err();
    assert!(matches!(error, DriverError::OutOfStep(_)), "{error}");
    assert_eq!(driver.exchange.free.len(), 1, "a frame was lost");
}
