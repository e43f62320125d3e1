//! Changes interrupted at every step: the process is killed, or a system call fails, at each call that
//! touches the disk. The steps come from a trace of the change, so that steps added later are covered too.

mod change;
mod order;
mod tracer;

use change::TestedChange;
use tracer::{TracedRun, can_trace, run_traced};

use crate::testing::WorkspaceFixture;

/// Fault injected into the nth call of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InjectedFault {
    Killed,
    Error(&'static str),
}

impl InjectedFault {
    fn to_strace_option(self) -> String {
        match self {
            InjectedFault::Killed => "signal=KILL".to_owned(),
            InjectedFault::Error(name) => format!("error={name}"),
        }
    }
}

/// Number of calls that may or may not be counted, because they happen before the tracer starts counting.
const SLACK: usize = 1;

/// Injects the fault into each call of these kinds, one at a time. An empty list means every call that
/// touches the disk.
fn sweep(change: TestedChange, fault: InjectedFault, kinds: &[&str]) {
    if !can_trace() {
        return;
    }
    let (before, after) = change.states();
    let plain = run_traced(&change.prepare(), change, None);
    assert_eq!(plain.code, Some(0), "{change:?}: {}", plain.log);
    let steps = plain.disk_calls();
    let swept = steps.iter().filter(|(call, _)| kinds.is_empty() || kinds.contains(&call.as_str()));
    let mut met = 0;
    for (call, count) in swept.clone() {
        for nth in 1..=plain.count(call) + SLACK {
            let fixture = change.prepare();
            let ran = run_traced(
                &fixture,
                change,
                Some(&format!("{call}:{}:when={nth}", fault.to_strace_option())),
            );
            let what = format!("{change:?} {call} {fault:?} {nth}");
            check_end(&fixture, &ran, fault, [&before, &after], &what);
            check_restart(&fixture, change, [&before, &after], &what);
            met += usize::from(ran.hit_fault());
        }
        assert!(*count > 0);
    }
    let least: usize = swept.map(|(_, count)| count).sum();
    assert!(met >= least && least > 0, "{change:?} {fault:?}: struck {met} times of {least}");
}

/// Checks that the workspace is in the old or the new state, and in the one that the child reported.
fn check_end(
    fixture: &WorkspaceFixture,
    ran: &TracedRun,
    fault: InjectedFault,
    [before, after]: [&change::WorkspaceState; 2],
    what: &str,
) {
    let now = change::workspace_state(fixture);
    match ran.code {
        Some(0) => assert_eq!(&now, after, "{what}: reported success\n{}", ran.log),
        Some(1) => assert_eq!(&now, before, "{what}: reported failure\n{}", ran.log),
        None if fault == InjectedFault::Killed => {
            assert!(&now == before || &now == after, "{what}: {now:?}\n{}", ran.log)
        }
        other => panic!("{what}: ended with {other:?}\n{}", ran.log),
    }
}

/// Checks that recovery changes nothing in the workspace and leaves no temporary name, and that the change
/// can then be undone or made.
fn check_restart(
    fixture: &WorkspaceFixture,
    change: TestedChange,
    [before, after]: [&change::WorkspaceState; 2],
    what: &str,
) {
    let now = change::workspace_state(fixture);
    fixture.undo().recover().unwrap();
    assert_eq!(change::workspace_state(fixture), now, "{what}: recovery changes nothing");
    let is_litter = |name: &String| name.starts_with(".sinew-tmp-");
    assert!(!fixture.names("ws").iter().any(is_litter), "{what}: {:?}", fixture.names("ws"));
    let kept = if fixture.path("undo").exists() { fixture.names("undo") } else { Vec::new() };
    let has = |name: &str, ending: &str| kept.contains(&format!("{name}.{ending}"));
    for name in &kept {
        let known = name.strip_suffix(".before").is_none_or(|key| has(key, "json"));
        assert!(known && !name.ends_with(".pending"), "{what}: {kept:?}");
    }
    let (done, other) = match (&now == after, change.is_undo()) {
        (true, true) => return,
        (true, false) => (change.undo(fixture), before),
        (false, _) => (change.apply(fixture), after),
    };
    assert!(done.is_ok(), "{what}: {done:?}, {kept:?}");
    assert_eq!(&change::workspace_state(fixture), other, "{what}: after recovery");
}

/// Makes one change in the child process and reports the result by the exit code.
#[test]
fn one_change() {
    let Some(fixture) = WorkspaceFixture::from_parent() else { return };
    let change = TestedChange::from_parent();
    tracer::wait_for_tracer();
    let made = tracer::with_markers(|| change.apply(&fixture));
    std::process::exit(i32::from(made.is_err()));
}

/// Tests of one change: killed at every step, with a full disk and an I/O error at every step, and its sync
/// order.
macro_rules! sweep_tests {
    ($($name:ident: $change:ident;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn kill_at_any_step_leaves_old_or_new_state() {
                sweep(TestedChange::$change, InjectedFault::Killed, &[]);
            }

            #[test]
            fn full_disk_at_any_step_leaves_the_reported_state() {
                sweep(TestedChange::$change, InjectedFault::Error("ENOSPC"), &[]);
            }

            #[test]
            fn io_error_at_any_step_leaves_the_reported_state() {
                sweep(TestedChange::$change, InjectedFault::Error("EIO"), &[]);
            }

            #[test]
            fn sync_order_survives_a_power_cut() {
                order::check(TestedChange::$change);
            }
        }
    )*};
}

sweep_tests! {
    overwriting: Overwrite;
    creating: Create;
    removing_a_file: RemoveFile;
    removing_a_folder: RemoveFolder;
    removing_a_link: RemoveLink;
    undoing_a_write: UndoOverwrite;
    undoing_a_creation: UndoCreate;
    undoing_a_removal: UndoRemoval;
    undoing_a_links_removal: UndoLinkRemoval;
    creating_in_folders_that_are_made: CreateBelow;
    making_folders: MakeFolders;
    undoing_a_creation_with_its_folders: UndoCreateBelow;
    undoing_folders: UndoMakeFolders;
    undoing_what_is_alone_in_its_folders: UndoPartOfThem;
}

#[test]
fn other_errors_leave_the_old_or_new_state() {
    for change in [TestedChange::Overwrite, TestedChange::Create] {
        sweep(change, InjectedFault::Error("EMFILE"), &["openat"]);
        sweep(change, InjectedFault::Error("EROFS"), &["openat", "renameat2"]);
        sweep(change, InjectedFault::Error("EDQUOT"), &["write"]);
        sweep(change, InjectedFault::Error("EFBIG"), &["write"]);
        // A volume that supports neither exchanging names nor refusing to overwrite.
        sweep(change, InjectedFault::Error("EINVAL"), &["renameat2"]);
    }
    for change in [TestedChange::CreateBelow, TestedChange::MakeFolders] {
        sweep(change, InjectedFault::Error("EROFS"), &["mkdirat", "renameat2"]);
        sweep(change, InjectedFault::Error("EDQUOT"), &["mkdirat"]);
        sweep(change, InjectedFault::Error("EINVAL"), &["renameat2"]);
    }
    // The undo store is on another volume.
    for change in [
        TestedChange::RemoveFile,
        TestedChange::RemoveFolder,
        TestedChange::UndoRemoval,
        TestedChange::UndoCreateBelow,
    ] {
        sweep(change, InjectedFault::Error("EXDEV"), &["renameat2"]);
    }
}
