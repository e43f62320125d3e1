//! Network targets that calls name.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| governance::fuzz_url(text));
