//! Path patterns of policy files.

#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| governance::fuzz_rules::fuzz_patterns(text));
