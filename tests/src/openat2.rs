//! Takes the system call `openat2` away, as an old kernel or the filter of a container engine does.

use std::cell::Cell;
use std::collections::BTreeMap;

use nix::errno::Errno;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

/// Number of `openat2` on every architecture.
const OPENAT2: i64 = 437;

/// Variable that selects how a run of the tests opens paths: with any value, the program under test has no
/// `openat2`. Unit tests of `file_access` also know `as_macos`. The program itself does not read it.
const VARIABLE: &str = "SINEW_TESTS_OPEN";

/// Makes `openat2` fail with this error in this thread, and in every process that it starts from now on.
pub fn take_openat2_away(error: Errno) {
    let answer = SeccompAction::Errno(error as u32);
    let architecture = std::env::consts::ARCH.try_into().expect("an architecture with seccomp");
    let rules = BTreeMap::from([(OPENAT2, Vec::new())]);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, architecture).expect("a filter");
    let program: BpfProgram = filter.try_into().expect("a filter that compiles");
    apply_filter(&program).expect("install the filter");
}

/// Takes `openat2` away if this run of the tests asks for it. A filter belongs to a thread.
pub(crate) fn take_away_if_asked() {
    thread_local!(static IS_TAKEN: Cell<bool> = const { Cell::new(false) });
    if std::env::var_os(VARIABLE).is_some() && !IS_TAKEN.replace(true) {
        take_openat2_away(Errno::ENOSYS);
    }
}
