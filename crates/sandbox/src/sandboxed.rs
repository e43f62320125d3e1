//! Test program: the sources of this crate again, built so that single sandbox layers can be disabled in a
//! launcher. The argument for that exists only in this program; the product cannot disable a layer.
//!
//! The tests are in `tests/sandboxed/`.

#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    missing_docs,
    reason = "most exports of the crate are not used here"
)]
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "tests")]

mod check;
mod cleanup;
mod error;
mod launch;
mod layers;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(target_os = "macos", test))]
mod macos;
mod output;
mod prepare;
mod report;
mod sandbox;
mod scan;

// The backend of this platform runs a launcher and builds the sandbox with the means of its operating system.
#[cfg(target_os = "linux")]
use linux as backend;
#[cfg(target_os = "macos")]
use macos as backend;

#[cfg(target_os = "linux")]
#[path = "../tests/sandboxed/access_table.rs"]
mod access_table;
#[cfg(target_os = "linux")]
#[path = "../tests/sandboxed/controls.rs"]
mod controls;
#[cfg(target_os = "linux")]
#[path = "../tests/sandboxed/groups.rs"]
mod delegated_cgroup;
#[cfg(target_os = "linux")]
#[path = "../tests/sandboxed/ends.rs"]
mod ends;
#[cfg(target_os = "linux")]
#[path = "../tests/sandboxed/hops.rs"]
mod hops;
#[cfg(target_os = "linux")]
#[path = "../tests/sandboxed/pools.rs"]
mod pools;
#[cfg(target_os = "linux")]
#[path = "../tests/sandboxed/storms.rs"]
mod storms;
#[cfg(target_os = "linux")]
#[path = "../tests/sandboxed/timeouts.rs"]
mod timeouts;
#[path = "../tests/sandboxed/workers.rs"]
mod workers;

use std::process::ExitCode;

// Same exports as the crate.
pub use launch::launcher::{ProcessRole, enter};
pub use sandbox::Sandbox;

fn main() -> ExitCode {
    match enter() {
        ProcessRole::Launcher(code) => return code,
        ProcessRole::Worker(task) => return workers::serve(&task),
        ProcessRole::Program => {}
    }
    #[cfg(target_os = "linux")]
    delegated_cgroup::delegate();
    tests::drop_root_permanently();
    #[cfg(target_os = "linux")]
    let trials = [
        access_table::trials(),
        controls::trials(),
        ends::trials(),
        delegated_cgroup::trials(),
        hops::trials(),
        pools::trials(),
        storms::trials(),
        timeouts::trials(),
        workers::trials(),
    ];
    // The other backends have no layers that can be disabled one by one.
    #[cfg(not(target_os = "linux"))]
    let trials = [workers::trials()];
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials.into_iter().flatten().collect())
        .exit_code()
}

/// Runs a future on a single-threaded runtime.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, work)
}
