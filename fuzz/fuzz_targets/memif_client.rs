#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bora_fuzz::port::memif_client(data));
