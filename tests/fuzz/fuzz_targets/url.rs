//! Network targets that calls name.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| governance::fuzz_rules::fuzz_url(text));
