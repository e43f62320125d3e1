//! Creation of folders, with a file or alone: names, limits, concurrent writers and links in the path.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Barrier;

use tool::{CallId, Failure, FailureKind};

use crate::testing::WorkspaceFixture;
use crate::{AccessError, ContentPrecondition, ObjectKind, Reversal};

/// Writes a file with the folders it needs, and returns their names relative to the workspace.
fn write(world: &WorkspaceFixture, text: &str) -> Result<Vec<String>, AccessError> {
    write_as(world, text, CallId::fresh())
}

fn write_as(world: &WorkspaceFixture, text: &str, call: CallId) -> Result<Vec<String>, AccessError> {
    let saving = world.undo().for_call(call);
    let (_, made) =
        world.write(text).replace_with_folders(b"new", &ContentPrecondition::Anything, &saving)?;
    Ok(relative(world, &made))
}

fn relative(world: &WorkspaceFixture, folders: &[std::path::PathBuf]) -> Vec<String> {
    let ws = world.path("ws");
    folders.iter().map(|path| path.strip_prefix(&ws).unwrap().display().to_string()).collect()
}

#[test]
fn a_file_is_written_with_the_folders_it_needs() {
    let world = WorkspaceFixture::new();
    world.file("ws/there/f", "old");
    world.link("ws/link", "there");
    for (text, made) in [
        ("a/b/c/new", &["a", "a/b", "a/b/c"][..]),
        ("a/b/other", &[]),
        ("there/f", &[]),
        ("there/x/./y//new", &["there/x", "there/x/y"]),
        ("link/z/new", &["there/z"]),
    ] {
        assert_eq!(world.write(text).missing_folders().len(), made.len(), "{text}");
        assert_eq!(write(&world, text).unwrap(), made, "{text}");
        assert_eq!(fs::read_to_string(world.path("ws").join(text)).unwrap(), "new", "{text}");
    }
    assert_eq!(world.names("ws"), ["a", "link", "there"]);
}

#[test]
fn created_folders_have_default_permissions() {
    let world = WorkspaceFixture::new();
    write(&world, "a/b/new").unwrap();
    fs::create_dir(world.path("ws/plain")).unwrap();
    fs::write(world.path("ws/file"), "").unwrap();
    let mode = |name: &str| fs::metadata(world.path(name)).unwrap().permissions().mode();
    assert_eq!([mode("ws/a"), mode("ws/a/b")], [mode("ws/plain"); 2]);
    assert_eq!(mode("ws/a/b/new"), mode("ws/file"));
}

#[test]
fn failed_creation_is_reported_and_leaves_nothing() {
    let world = WorkspaceFixture::new();
    world.file("ws/f", "old");
    world.link("ws/dangling", "nowhere");
    let deep = |count: usize| format!("{}/new", vec!["d"; count].join("/"));
    for (text, kind) in [
        ("f/new".to_owned(), FailureKind::WrongKind),
        ("dangling/new".to_owned(), FailureKind::Unreadable),
        ("a/../new".to_owned(), FailureKind::NotFound),
        ("a/b/".to_owned(), FailureKind::WrongKind),
        (deep(33), FailureKind::NotFound),
    ] {
        let failure = Failure::from(write(&world, &text).unwrap_err());
        assert_eq!(failure.kind, kind, "{text}: {}", failure.message);
        assert_eq!(world.names("ws"), ["dangling", "f"], "{text}");
    }
    let opened = world.write("a/new");
    let expected = ContentPrecondition::Content { sha256: "0".repeat(64) };
    assert!(opened.replace_with_folders(b"new", &expected, &world.recorder()).is_err());
    assert!(opened.check_replace_with_folders(&expected).is_err());
    assert!(
        opened.replace(b"new", &ContentPrecondition::Anything, &world.recorder()).is_err(),
        "only where it is asked for"
    );
    assert!(!world.path("ws/a").exists() && !world.path("undo").exists());
    assert_eq!(write(&world, &deep(32)).unwrap().len(), 32);
}

#[test]
fn existing_folders_are_not_created_again() {
    let world = WorkspaceFixture::new();
    world.file("ws/f", "old");
    let make = |text: &str| world.write(text).create_folders(&world.recorder());
    for (text, made) in [("a/b/", &["a", "a/b"][..]), ("a/b", &[]), ("a/c", &["a/c"]), (".", &[])] {
        let foreseen = world.write(text).preview_folders().unwrap();
        assert_eq!(relative(&world, &foreseen), made, "{text}");
        assert_eq!(relative(&world, &make(text).unwrap()), made, "{text}");
    }
    assert!(matches!(make("f").unwrap_err(), AccessError::WrongKind { expected: "directory", .. }));
    assert!(make("f/x").is_err() && make("a/../../outside/x/..").is_err());
    assert_eq!(world.names("ws/a"), ["b", "c"]);
}

#[test]
fn only_real_folders_that_appeared_since_are_entered() {
    let world = WorkspaceFixture::new();
    let saving = world.recorder();
    let write = |opened: crate::OpenedPath| {
        opened.replace_with_folders(b"new", &ContentPrecondition::Anything, &saving)
    };
    let opened = world.write("a/b/c/new");
    fs::create_dir_all(world.path("ws/a/b")).unwrap();
    assert_eq!(relative(&world, &write(opened).unwrap().1), ["a/b/c"]);
    let opened = world.write("d/e/new");
    world.link("ws/d", "../outside");
    assert!(matches!(write(opened).unwrap_err(), AccessError::Conflict { .. }));
    let opened = world.write("g/h/new");
    fs::create_dir(world.path("ws/g")).unwrap();
    world.link("ws/g/h", "../../outside");
    assert!(matches!(write(opened).unwrap_err(), AccessError::Conflict { .. }));
    let opened = world.write("i/new");
    world.file("ws/i", "a file");
    assert!(matches!(write(opened).unwrap_err(), AccessError::Conflict { .. }));
    let opened = world.write("there/j/new");
    assert_eq!(opened.kind(), ObjectKind::Missing);
    assert_eq!(world.names("outside"), ["secret"]);
    assert_eq!(world.names("ws"), ["a", "d", "g", "i"]);
}

#[test]
fn moved_folder_is_not_written_to() {
    let world = WorkspaceFixture::new();
    world.file("ws/there/f", "old");
    let opened = world.write("there/a/new");
    fs::rename(world.path("ws/there"), world.path("outside/there")).unwrap();
    let error =
        opened.replace_with_folders(b"new", &ContentPrecondition::Anything, &world.recorder()).unwrap_err();
    assert!(error.to_string().contains("its folder was moved"), "{error}");
    assert_eq!(world.names("outside/there"), ["f"]);
}

#[test]
fn concurrent_writers_share_created_folders() {
    const WRITERS: usize = 8;
    let world = WorkspaceFixture::new();
    let opened = Barrier::new(WRITERS);
    let made: usize = std::thread::scope(|scope| {
        let write = |number: usize| {
            let (world, opened) = (&world, &opened);
            scope.spawn(move || {
                let file = world.write(&format!("a/b/{number}"));
                opened.wait();
                file.replace_with_folders(b"new", &ContentPrecondition::Absent, &world.recorder())
                    .unwrap()
                    .1
                    .len()
            })
        };
        let all: Vec<_> = (0..WRITERS).map(write).collect();
        all.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert_eq!((made, world.names("ws/a/b").len()), (2, WRITERS));
}

#[test]
fn undo_removes_folders_that_hold_nothing_else() {
    for (others, gone, left) in [
        (&[][..], "a", &["f"][..]),
        (&["a/x"], "a/b", &["a", "f"]),
        (&["a/b/x"], "a/b/c", &["a", "f"]),
        (&["a/b/c/x"], "a/b/c/new", &["a", "f"]),
    ] {
        let world = WorkspaceFixture::new();
        world.file("ws/f", "old");
        let call = CallId::fresh();
        write_as(&world, "a/b/c/new", call).unwrap();
        others.iter().for_each(|name| drop(world.file(&format!("ws/{name}"), "other")));
        let foreseen = world.undo().preview_revert(call).unwrap().remove(0);
        let by = CallId::fresh();
        let done = world.undo().revert(call, &world.undo().for_call(by)).unwrap().remove(0);
        assert_eq!((&done.path, done.reversal), (&world.path("ws").join(gone), Reversal::Removed));
        assert_eq!((&done.path, &done.remaining_folder), (&foreseen.path, &foreseen.remaining_folder));
        assert_eq!(done.remaining_folder, (gone != "a").then(|| world.path("ws/a")));
        assert_eq!(world.names("ws"), left);
        others.iter().for_each(|name| assert_eq!(world.content(&format!("ws/{name}")), "other"));
        assert!(!world.path("ws/a/b/c/new").exists());
        world.undo().revert(by, &world.recorder()).unwrap();
        assert_eq!(world.content("ws/a/b/c/new"), "new", "an undo can be undone");
    }
}

#[test]
fn undo_keeps_what_was_changed_since() {
    let undo = |prepare: &dyn Fn(&WorkspaceFixture), text: &str| {
        let world = WorkspaceFixture::new();
        let call = CallId::fresh();
        let saving = world.undo().for_call(call);
        match text {
            "folder" => drop(world.write("a/b").create_folders(&saving).unwrap()),
            _ => drop(write_as(&world, "a/b", call).unwrap()),
        }
        prepare(&world);
        let error = world.undo().revert(call, &world.recorder()).unwrap_err().to_string();
        assert!(world.path("ws/a").exists(), "{error}");
        error
    };
    let changed = undo(&|world| drop(world.file("ws/a/b", "mine")), "file");
    assert!(changed.contains("its sha256 is now"), "{changed}");
    let gone = undo(&|world| fs::remove_file(world.path("ws/a/b")).unwrap(), "file");
    assert!(gone.contains("it does not exist any more"), "{gone}");
    let filled = undo(&|world| drop(world.file("ws/a/b/c", "mine")), "folder");
    assert!(filled.contains("it is not empty any more"), "{filled}");
    let linked = undo(
        &|world| {
            fs::remove_dir(world.path("ws/a/b")).unwrap();
            world.link("ws/a/b", "../../outside");
        },
        "folder",
    );
    assert!(linked.contains("it is not a folder any more"), "{linked}");
}
