//! Loading of a manifest: a manifest or an error, and every diagnostic has a place in the text.

#![no_main]

use strict_yaml::Document;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(document) = Document::from_text("tool.yaml", text) else { return };
    let (manifest, diagnostics) = manifest::load(&document, &|_| Ok(()));
    assert!(manifest.is_some() || !diagnostics.is_empty(), "refused without a reason");
});
