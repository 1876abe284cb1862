#![no_main]

#[allow(dead_code)]
#[path = "../../tests/robust/bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::line(bytes));
