#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    for frame in bora_mirror::message::Frames::new(data).flatten() {
        let _ = bora_mirror::message::decode(&frame);
    }
});
