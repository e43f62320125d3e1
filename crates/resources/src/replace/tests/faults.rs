//! A full disk, and every system call of a write failing in turn.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Output};

use tool::{Failure, FailureKind};

use crate::Expected;
use crate::testing::World;

#[test]
fn a_full_disk_leaves_the_old_content_and_no_litter() {
    let world = World::new();
    let mount = |arguments: &[&str]| {
        let status = Command::new("mount").args(arguments).arg(world.path("ws")).output();
        status.is_ok_and(|output| output.status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"]) {
        eprintln!("skipped: mounting is not permitted here");
        return;
    }
    let result = std::panic::catch_unwind(|| {
        world.file("ws/f", "old");
        for text in ["f", "new"] {
            let error = world
                .write(text)
                .replace(&[b'x'; 100_000], &Expected::Anything, &world.saving())
                .unwrap_err();
            assert_eq!(Failure::from(error).kind, FailureKind::ResourceExhausted, "{text}");
            assert_eq!((world.content("ws/f"), world.names("ws")), ("old".into(), vec!["f".to_owned()]));
        }
        world.write("f").replace(&[b'x'; 10_000], &Expected::Anything, &world.saving()).unwrap();
    });
    assert!(Command::new("umount").arg(world.path("ws")).status().unwrap().success());
    result.unwrap();
}

/// The child's part: one write, whose end it tells by its exit code.
#[test]
fn one_write() {
    let Some(world) = World::of_parent() else { return };
    let text = std::env::var("RESOURCES_TEST_TEXT").unwrap();
    let opened = world.write(&text);
    // The tracer counts for each thread, and the harness of the tests opens and writes too: these are past its number.
    for _ in 0..PAST_THE_HARNESS {
        let _ = fs::File::options().write(true).open("/dev/null").map(|mut nowhere| nowhere.write(b"x"));
    }
    // From here on a fault is one of the write: the log tells by a name that is looked up and not there.
    let _ = fs::metadata("/resources-test-begins");
    let written = opened.replace(b"new", &Expected::Anything, &world.saving());
    std::process::exit(if written.is_ok() { 40 } else { 41 });
}

/// Runs the write under a tracer that lets the nth call of one kind fail, until the write makes no nth call.
/// Says how many faults the write has met.
fn check(call: &str, fault: &str, text: &str) -> usize {
    let mut met = 0;
    let first = if ["openat", "write"].contains(&call) { PAST_THE_HARNESS } else { 1 };
    for nth in first..first + 100 {
        let world = World::new();
        world.file("ws/f", "old");
        let (output, log) = traced(&world, &format!("inject={call}:{fault}:when={nth}"), call, text);
        // Who was killed says nothing, and the tracer does not always.
        let killed = fault == KILLED && !matches!(output.status.code(), Some(40 | 41));
        let begun = log.split_once("resources-test-begins");
        let within = begun.is_some_and(|(_, rest)| killed || is_struck(rest));
        let content = fs::read_to_string(world.path("ws").join(text)).ok();
        let old = (text == "f").then(|| "old".to_owned());
        let new = Some("new".to_owned());
        match output.status.code() {
            Some(40) => assert_eq!(content, new, "{call} {fault} {nth} {text}: said that it wrote\n{log}"),
            Some(41) => assert_eq!(content, old, "{call} {fault} {nth} {text}: said that it did not\n{log}"),
            _ if fault == KILLED => {
                assert!(content == old || content == new, "{call} {nth} {text}: {content:?}")
            }
            // The test harness itself met the fault before the write began.
            _ if !within => continue,
            other => panic!("{call} {fault} {nth}: ended with {other:?}\n{log}"),
        }
        check_restart(&world, text, content.as_deref(), &format!("{call} {fault} {nth} {text}\n{log}"));
        let names = world.names("ws");
        let is_litter = |name: &String| name.starts_with(".sinew-tmp-");
        assert!(!names.iter().any(is_litter), "{call} {fault} {nth}: {names:?}\n{log}");
        // Another thread of the harness was struck before the write began: that says nothing of the write.
        let struck_elsewhere = !within && (killed || (met == 0 && is_struck(&log)));
        if !within && !struck_elsewhere {
            return met;
        }
        met += usize::from(within);
    }
    panic!("{call} {fault}: never ran out of calls to fail");
}

/// A start puts everything in order: what was written can be taken back, and of what was not nothing is left.
fn check_restart(world: &World, text: &str, content: Option<&str>, context: &str) {
    let store = world.undo();
    store.settle().unwrap();
    let is_new = content == Some("new");
    let kept: Vec<String> = if world.path("undo").exists() { world.names("undo") } else { Vec::new() };
    let records = kept.iter().filter(|name| name.ends_with(".json")).count();
    let copies = usize::from(is_new && text == "f");
    assert_eq!(
        (records, kept.len()),
        (usize::from(is_new), usize::from(is_new) + copies),
        "{kept:?} {context}"
    );
    let Some(id) = kept.first().and_then(|name| name.get(..36)) else { return };
    store.revert(id.parse().unwrap(), &world.saving()).unwrap();
    let now = fs::read_to_string(world.path("ws").join(text)).ok();
    assert_eq!(now, (text == "f").then(|| "old".to_owned()), "{context}");
}

fn is_struck(log: &str) -> bool {
    log.contains("(INJECTED)") || log.contains("killed by SIGKILL")
}

fn traced(world: &World, inject: &str, call: &str, text: &str) -> (Output, String) {
    let (log, text) = (world.path("trace"), format!("RESOURCES_TEST_TEXT={text}"));
    // The marker is a look at a name; which call that is differs between machines.
    let trace = format!("trace={call},statx,?stat,?newfstatat");
    let log_name = log.to_str().unwrap();
    // Cargo's search path makes the loader open a name in each of its folders, more often than the test does.
    let clean = ["env", "-u", "LD_LIBRARY_PATH", &text];
    let tracer = [&clean[..], &["strace", "-f", "-qq", "-o", log_name, "-e", &trace, "-e", inject]].concat();
    let output = world.child(&tracer, "replace::tests::faults::one_write", None);
    (output, fs::read_to_string(log).unwrap())
}

/// Calls of one kind that the test makes before those that count. No other thread makes as many.
const PAST_THE_HARNESS: usize = 60;

const KILLED: &str = "signal=KILL";

/// Each call in turn, while overwriting and while creating, at least so often.
fn check_all(cases: &[(&str, &str, usize, usize)]) {
    if !Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no strace to inject faults with");
        return;
    }
    for (call, fault, overwriting, creating) in cases {
        for (text, least) in [("f", *overwriting), ("created", *creating)] {
            let met = check(call, fault, text);
            assert!(met >= least, "{call} {fault} {text}: struck {met} times of {least}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_made_or_filled_leaves_old_or_new() {
    check_all(&[
        ("openat", "error=EMFILE", 4, 3),
        ("openat", "error=EROFS", 4, 3),
        ("write", "error=ENOSPC", 2, 2),
        ("write", "error=EDQUOT", 2, 2),
        ("write", "error=EFBIG", 2, 2),
    ]);
}

#[test]
fn what_cannot_be_dressed_or_synced_leaves_old_or_new() {
    check_all(&[
        ("flistxattr", "error=EIO", 1, 0),
        ("fchmod", "error=EPERM", 2, 0),
        ("fsync", "error=EIO", 5, 4),
        ("fsync", "error=ENOSPC", 5, 4),
    ]);
}

#[test]
fn a_name_that_cannot_be_taken_leaves_old_or_new() {
    check_all(&[
        ("renameat2", "error=EROFS", 1, 1),
        ("renameat2", "error=EIO", 1, 1),
        // A volume that can neither exchange names nor promise not to overwrite.
        ("renameat2", "error=EINVAL", 1, 1),
        ("unlinkat", "error=EIO", 1, 0),
    ]);
}

#[test]
fn who_is_killed_while_making_a_file_leaves_old_or_new_and_no_litter() {
    check_all(&[
        ("mkdirat,mkdir", KILLED, 1, 1),
        ("openat", KILLED, 4, 3),
        ("write", KILLED, 2, 2),
        ("fchmod", KILLED, 2, 0),
    ]);
}

#[test]
fn who_is_killed_while_giving_it_its_name_leaves_old_or_new_and_no_litter() {
    check_all(&[
        ("fsync", KILLED, 5, 4),
        ("renameat2", KILLED, 1, 1),
        ("renameat", KILLED, 1, 1),
        ("unlinkat", KILLED, 1, 0),
    ]);
}
