//! Lines of the ledger.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ledger::fuzz_ledger_lines(data));
