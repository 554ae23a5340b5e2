#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = bora_fuzz::wire::ethernet(data);
});
