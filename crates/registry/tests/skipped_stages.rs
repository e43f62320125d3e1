//! Proof that no stage of the pipeline can be skipped: each case omits a stage, or mixes two calls, and must
//! not compile. `pipeline.rs` of `execution` shows that the complete pipeline compiles.
//!
//! No error may point into the standard library: with the component `rust-src` rustc prints its lines, without it does not.

#[test]
fn pipeline_without_a_stage_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/skipped_stages/without_*.rs");
    cases.compile_fail("tests/skipped_stages/forged_*.rs");
    cases.compile_fail("tests/skipped_stages/mixed_*.rs");
}
