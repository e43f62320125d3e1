//! Lines and JSON-RPC messages of a connection.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| server::fuzz_frames(data));
