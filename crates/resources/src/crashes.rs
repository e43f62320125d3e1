//! Changes that are cut short at every step: the process killed, or a system call failing, wherever a change touches the
//! disk. The steps are counted in a trace of the change itself, so that one that is added later is swept as well.

mod change;
mod order;
mod tracer;

use change::Change;
use tracer::{Ran, can_trace, traced};

use crate::testing::World;

/// What the nth call of a kind meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Killed,
    Error(&'static str),
}

impl Fault {
    fn injected(self) -> String {
        match self {
            Fault::Killed => "signal=KILL".to_owned(),
            Fault::Error(name) => format!("error={name}"),
        }
    }
}

/// A call that was made before the tracer began to count may be counted or not.
const SLACK: usize = 1;

/// Lets each call of these kinds meet a fault, one at a time; no kinds means all that touch the disk.
fn sweep(change: Change, fault: Fault, kinds: &[&str]) {
    if !can_trace() {
        return;
    }
    let (before, after) = change.ends();
    let plain = traced(&change.prepared(), change, None);
    assert_eq!(plain.code, Some(0), "{change:?}: {}", plain.log);
    let steps = plain.steps();
    let swept = steps.iter().filter(|(call, _)| kinds.is_empty() || kinds.contains(&call.as_str()));
    let mut met = 0;
    for (call, count) in swept.clone() {
        for nth in 1..=plain.count(call) + SLACK {
            let world = change.prepared();
            let ran = traced(&world, change, Some(&format!("{call}:{}:when={nth}", fault.injected())));
            let what = format!("{change:?} {call} {fault:?} {nth}");
            check_end(&world, &ran, fault, [&before, &after], &what);
            check_restart(&world, change, [&before, &after], &what);
            met += usize::from(ran.was_struck());
        }
        assert!(*count > 0);
    }
    let least: usize = swept.map(|(_, count)| count).sum();
    assert!(met >= least && least > 0, "{change:?} {fault:?}: struck {met} times of {least}");
}

/// Old or new, and as it was said.
fn check_end(world: &World, ran: &Ran, fault: Fault, [before, after]: [&change::State; 2], what: &str) {
    let now = change::state(world);
    match ran.code {
        Some(0) => assert_eq!(&now, after, "{what}: said that it was done\n{}", ran.log),
        Some(1) => assert_eq!(&now, before, "{what}: said that it was not\n{}", ran.log),
        None if fault == Fault::Killed => {
            assert!(&now == before || &now == after, "{what}: {now:?}\n{}", ran.log)
        }
        other => panic!("{what}: ended with {other:?}\n{}", ran.log),
    }
}

/// A start changes nothing and leaves no litter; what was done can be taken back, and what was not can be done.
fn check_restart(world: &World, change: Change, [before, after]: [&change::State; 2], what: &str) {
    let now = change::state(world);
    world.undo().settle().unwrap();
    assert_eq!(change::state(world), now, "{what}: a start changes nothing");
    let is_litter = |name: &String| name.starts_with(".sinew-tmp-");
    assert!(!world.names("ws").iter().any(is_litter), "{what}: {:?}", world.names("ws"));
    let kept = if world.path("undo").exists() { world.names("undo") } else { Vec::new() };
    let has = |name: &str, ending: &str| kept.contains(&format!("{name}.{ending}"));
    for name in &kept {
        let known = name.strip_suffix(".before").is_none_or(|key| has(key, "json"));
        assert!(known && !name.ends_with(".pending"), "{what}: {kept:?}");
    }
    let (done, other) = match (&now == after, change.is_undo()) {
        (true, true) => return,
        (true, false) => (change.take_back(world), before),
        (false, _) => (change.make(world), after),
    };
    assert!(done.is_ok(), "{what}: {done:?}, {kept:?}");
    assert_eq!(&change::state(world), other, "{what}: on the second try");
}

/// The child's part: one change, whose end it tells by its exit code.
#[test]
fn one_change() {
    let Some(world) = World::of_parent() else { return };
    let change = Change::of_parent();
    tracer::wait_for_tracer();
    let made = tracer::marked(|| change.make(&world));
    std::process::exit(i32::from(made.is_err()));
}

/// Each change, killed at every step, and with the disk full and broken at every step.
macro_rules! swept {
    ($($name:ident: $change:ident;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn killed_at_any_step_leaves_old_or_new_and_no_litter() {
                sweep(Change::$change, Fault::Killed, &[]);
            }

            #[test]
            fn on_a_full_disk_at_any_step_leaves_old_or_new_and_says_which() {
                sweep(Change::$change, Fault::Error("ENOSPC"), &[]);
            }

            #[test]
            fn on_a_broken_disk_at_any_step_leaves_old_or_new_and_says_which() {
                sweep(Change::$change, Fault::Error("EIO"), &[]);
            }

            #[test]
            fn is_on_the_disk_in_an_order_that_survives_a_power_cut() {
                order::check(Change::$change);
            }
        }
    )*};
}

swept! {
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
fn whatever_else_a_volume_answers_leaves_old_or_new() {
    for change in [Change::Overwrite, Change::Create] {
        sweep(change, Fault::Error("EMFILE"), &["openat"]);
        sweep(change, Fault::Error("EROFS"), &["openat", "renameat2"]);
        sweep(change, Fault::Error("EDQUOT"), &["write"]);
        sweep(change, Fault::Error("EFBIG"), &["write"]);
        // A volume that can neither exchange names nor promise not to overwrite.
        sweep(change, Fault::Error("EINVAL"), &["renameat2"]);
    }
    for change in [Change::CreateBelow, Change::MakeFolders] {
        sweep(change, Fault::Error("EROFS"), &["mkdirat", "renameat2"]);
        sweep(change, Fault::Error("EDQUOT"), &["mkdirat"]);
        sweep(change, Fault::Error("EINVAL"), &["renameat2"]);
    }
    // What is kept goes to another volume, and comes back from one.
    for change in [Change::RemoveFile, Change::RemoveFolder, Change::UndoRemoval, Change::UndoCreateBelow] {
        sweep(change, Fault::Error("EXDEV"), &["renameat2"]);
    }
}
