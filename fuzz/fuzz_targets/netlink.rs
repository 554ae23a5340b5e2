#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bora_kernel::decode(data, |_| {});
});
