//! Messages between daemon and launcher.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sandbox::fuzz_launcher_messages(data));
