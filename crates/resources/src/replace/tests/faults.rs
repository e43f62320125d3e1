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
            let error = world.write(text).replace(&[b'x'; 100_000], &Expected::Anything).unwrap_err();
            assert_eq!(Failure::from(error).kind, FailureKind::ResourceExhausted, "{text}");
            assert_eq!((world.content("ws/f"), world.names("ws")), ("old".into(), vec!["f".to_owned()]));
        }
        world.write("f").replace(&[b'x'; 10_000], &Expected::Anything).unwrap();
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
    // The tracer counts for each thread, and the harness of the tests writes too: these are past its number.
    let mut nowhere = fs::File::options().write(true).open("/dev/null").unwrap();
    let _ = (0..4).filter(|_| nowhere.write(b"x").is_ok()).count();
    // From here on a fault is one of the write: the log tells by a name that is looked up and not there.
    let _ = fs::metadata("/resources-test-begins");
    let written = opened.replace(b"new", &Expected::Anything);
    std::process::exit(if written.is_ok() { 40 } else { 41 });
}

/// Runs the write under a tracer that lets the nth call of one kind fail, until the write makes no nth call.
/// Says how many faults the write has met.
fn check(call: &str, fault: &str, text: &str) -> usize {
    let mut met = 0;
    for nth in 1..200 {
        let world = World::new();
        world.file("ws/f", "old");
        let (output, log) = traced(&world, &format!("inject={call}:{fault}:when={nth}"), call, text);
        let within = log.split_once("resources-test-begins").is_some_and(|(_, rest)| is_struck(rest));
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
        let names = world.names("ws");
        let is_litter = |name: &String| name.starts_with(".sinew-tmp-");
        // Only who is killed, or cannot remove it, leaves a temporary behind.
        let may_stay = fault == KILLED || call == "unlinkat";
        assert!(may_stay || !names.iter().any(is_litter), "{call} {fault} {nth}: {names:?}\n{log}");
        if !within && (met > 0 || !is_struck(&log)) {
            return met;
        }
        met += usize::from(within);
    }
    panic!("{call} {fault}: never ran out of calls to fail");
}

fn is_struck(log: &str) -> bool {
    log.contains("(INJECTED)") || log.contains("killed by SIGKILL")
}

fn traced(world: &World, inject: &str, call: &str, text: &str) -> (Output, String) {
    let (log, text) = (world.path("trace"), format!("RESOURCES_TEST_TEXT={text}"));
    // The marker is a look at a name; which call that is differs between machines.
    let trace = format!("trace={call},statx,?stat,?newfstatat");
    let log_name = log.to_str().unwrap();
    let tracer = ["env", &text, "strace", "-f", "-qq", "-o", log_name, "-e", &trace, "-e", inject];
    let output = world.child(&tracer, "replace::tests::faults::one_write", None);
    (output, fs::read_to_string(log).unwrap())
}

const KILLED: &str = "signal=KILL";

#[test]
fn every_failing_call_leaves_old_or_new_and_says_which() {
    if !Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no strace to inject faults with");
        return;
    }
    for (call, fault, overwriting, creating) in [
        ("openat", "error=EMFILE", 1, 1),
        ("write", "error=ENOSPC", 1, 1),
        ("flistxattr", "error=EIO", 1, 0),
        ("fchmod", "error=EPERM", 1, 0),
        ("fsync", "error=EIO", 2, 2),
        ("renameat2", "error=EROFS", 1, 1),
        // A volume that can neither exchange names nor promise not to overwrite.
        ("renameat2", "error=EINVAL", 1, 1),
        ("unlinkat", "error=EIO", 1, 1),
        ("write", KILLED, 1, 1),
        ("fsync", KILLED, 2, 2),
        ("renameat2", KILLED, 1, 1),
        ("unlinkat", KILLED, 1, 1),
    ] {
        assert!(check(call, fault, "f") >= overwriting, "{call} {fault} while overwriting");
        assert!(check(call, fault, "created") >= creating, "{call} {fault} while creating");
    }
}
