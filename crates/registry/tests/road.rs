//! Proof that the road has no side doors: each case leaves a stage out, or mixes two calls, and must not compile. That the whole road does compile is what `pipeline.rs` of `execution` shows.

#[test]
fn a_road_with_a_stage_left_out_does_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/road/without_*.rs");
    cases.compile_fail("tests/road/forged_*.rs");
    cases.compile_fail("tests/road/mixed_*.rs");
}
