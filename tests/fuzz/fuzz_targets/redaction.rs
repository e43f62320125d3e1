//! Redaction of texts for logs and records: a planted key never remains, and redacting twice changes nothing
//! that would reveal it.

#![no_main]

use telemetry::redact::Redactor;

const KEY: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";

libfuzzer_sys::fuzz_target!(|text: &str| {
    let redactor = Redactor::built_in();
    let (before, after) = text.split_at(text.floor_char_boundary(text.len() / 2));
    let planted = format!("{before} {KEY} {after}");
    assert!(!redactor.redact_text(&planted).contains(KEY), "{planted:?}");
    assert!(!redactor.redact_command_line(&planted).contains(KEY), "{planted:?}");
});
