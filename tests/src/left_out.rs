//! Reports tests that did not run, or not whole, to `cargo xtask test`, which lists them in its summary.

use std::fs::OpenOptions;
use std::io::Write;

/// File to which `cargo xtask test` has the tests report.
const VARIABLE: &str = "SINEW_LEFT_OUT";

/// Reports that the running test, or a part of it, is left out for this reason.
pub fn left_out(reason: &str) {
    println!("LEFT OUT: {reason}");
    let Some(file) = std::env::var_os(VARIABLE) else { return };
    let thread = std::thread::current();
    let name = std::env::var("NEXTEST_TEST_NAME").ok();
    let name = name.as_deref().or_else(|| thread.name()).unwrap_or("unknown");
    let line = format!("{name}\t{}\n", reason.replace('\n', " "));
    // One write, so that lines of tests that run at the same time do not mix.
    let written =
        OpenOptions::new().append(true).open(file).and_then(|mut file| file.write_all(line.as_bytes()));
    written.expect("report a test that is left out");
}
