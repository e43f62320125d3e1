//! Creation of folders, with a file or alone: names, limits, concurrent writers and links in the path.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Barrier;

use tool::{CallId, Failure, FailureKind};

use crate::testing::WorkspaceFixture;
use crate::{AccessError, ContentPrecondition, ObjectKind, Reversal};

/// Writes a file with the folders it needs, and returns their names relative to the workspace.
fn write(fixture: &WorkspaceFixture, text: &str) -> Result<Vec<String>, AccessError> {
    write_as(fixture, text, CallId::fresh())
}

fn write_as(fixture: &WorkspaceFixture, text: &str, call: CallId) -> Result<Vec<String>, AccessError> {
    let saving = fixture.undo().for_call(call);
    let (_, made) =
        fixture.write(text).replace_with_folders(b"new", &ContentPrecondition::Anything, &saving)?;
    Ok(relative(fixture, &made))
}

fn relative(fixture: &WorkspaceFixture, folders: &[std::path::PathBuf]) -> Vec<String> {
    let ws = fixture.path("ws");
    folders.iter().map(|path| path.strip_prefix(&ws).unwrap().display().to_string()).collect()
}

#[test]
fn a_file_is_written_with_the_folders_it_needs() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/there/f", "old");
    fixture.link("ws/link", "there");
    for (text, made) in [
        ("a/b/c/new", &["a", "a/b", "a/b/c"][..]),
        ("a/b/other", &[]),
        ("there/f", &[]),
        ("there/x/./y//new", &["there/x", "there/x/y"]),
        ("link/z/new", &["there/z"]),
    ] {
        assert_eq!(fixture.write(text).missing_folders().len(), made.len(), "{text}");
        assert_eq!(write(&fixture, text).unwrap(), made, "{text}");
        assert_eq!(fs::read_to_string(fixture.path("ws").join(text)).unwrap(), "new", "{text}");
    }
    assert_eq!(fixture.names("ws"), ["a", "link", "there"]);
}

#[test]
fn created_folders_have_default_permissions() {
    let fixture = WorkspaceFixture::new();
    write(&fixture, "a/b/new").unwrap();
    fs::create_dir(fixture.path("ws/plain")).unwrap();
    fs::write(fixture.path("ws/file"), "").unwrap();
    let mode = |name: &str| fs::metadata(fixture.path(name)).unwrap().permissions().mode();
    assert_eq!([mode("ws/a"), mode("ws/a/b")], [mode("ws/plain"); 2]);
    assert_eq!(mode("ws/a/b/new"), mode("ws/file"));
}

#[test]
fn failed_creation_is_reported_and_leaves_nothing() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "old");
    fixture.link("ws/dangling", "nowhere");
    let deep = |count: usize| format!("{}/new", vec!["d"; count].join("/"));
    for (text, kind) in [
        ("f/new".to_owned(), FailureKind::WrongKind),
        ("dangling/new".to_owned(), FailureKind::Unreadable),
        ("a/../new".to_owned(), FailureKind::NotFound),
        ("a/b/".to_owned(), FailureKind::WrongKind),
        (deep(33), FailureKind::NotFound),
    ] {
        let failure = Failure::from(write(&fixture, &text).unwrap_err());
        assert_eq!(failure.kind, kind, "{text}: {}", failure.message);
        assert_eq!(fixture.names("ws"), ["dangling", "f"], "{text}");
    }
    let opened = fixture.write("a/new");
    let expected = ContentPrecondition::Content { sha256: "0".repeat(64) };
    assert!(opened.replace_with_folders(b"new", &expected, &fixture.recorder()).is_err());
    assert!(opened.check_replace_with_folders(&expected).is_err());
    assert!(
        opened.replace(b"new", &ContentPrecondition::Anything, &fixture.recorder()).is_err(),
        "only where it is asked for"
    );
    assert!(!fixture.path("ws/a").exists() && !fixture.path("undo").exists());
    assert_eq!(write(&fixture, &deep(32)).unwrap().len(), 32);
}

#[test]
fn existing_folders_are_not_created_again() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "old");
    let make = |text: &str| fixture.write(text).create_folders(&fixture.recorder());
    for (text, made) in [("a/b/", &["a", "a/b"][..]), ("a/b", &[]), ("a/c", &["a/c"]), (".", &[])] {
        let preview = fixture.write(text).preview_folders().unwrap();
        assert_eq!(relative(&fixture, &preview), made, "{text}");
        assert_eq!(relative(&fixture, &make(text).unwrap()), made, "{text}");
    }
    assert!(matches!(make("f").unwrap_err(), AccessError::WrongKind { expected: "directory", .. }));
    assert!(make("f/x").is_err() && make("a/../../outside/x/..").is_err());
    assert_eq!(fixture.names("ws/a"), ["b", "c"]);
}

#[test]
fn only_real_folders_that_appeared_since_are_entered() {
    let fixture = WorkspaceFixture::new();
    let saving = fixture.recorder();
    let write = |opened: crate::OpenedPath| {
        opened.replace_with_folders(b"new", &ContentPrecondition::Anything, &saving)
    };
    let opened = fixture.write("a/b/c/new");
    fs::create_dir_all(fixture.path("ws/a/b")).unwrap();
    assert_eq!(relative(&fixture, &write(opened).unwrap().1), ["a/b/c"]);
    let opened = fixture.write("d/e/new");
    fixture.link("ws/d", "../outside");
    assert!(matches!(write(opened).unwrap_err(), AccessError::Conflict { .. }));
    let opened = fixture.write("g/h/new");
    fs::create_dir(fixture.path("ws/g")).unwrap();
    fixture.link("ws/g/h", "../../outside");
    assert!(matches!(write(opened).unwrap_err(), AccessError::Conflict { .. }));
    let opened = fixture.write("i/new");
    fixture.file("ws/i", "a file");
    assert!(matches!(write(opened).unwrap_err(), AccessError::Conflict { .. }));
    let opened = fixture.write("there/j/new");
    assert_eq!(opened.kind(), ObjectKind::Missing);
    assert_eq!(fixture.names("outside"), ["secret"]);
    assert_eq!(fixture.names("ws"), ["a", "d", "g", "i"]);
}

#[test]
fn moved_folder_is_not_written_to() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/there/f", "old");
    let opened = fixture.write("there/a/new");
    fs::rename(fixture.path("ws/there"), fixture.path("outside/there")).unwrap();
    let error =
        opened.replace_with_folders(b"new", &ContentPrecondition::Anything, &fixture.recorder()).unwrap_err();
    assert!(error.to_string().contains("its folder was moved"), "{error}");
    assert_eq!(fixture.names("outside/there"), ["f"]);
}

#[test]
fn concurrent_writers_share_created_folders() {
    const WRITERS: usize = 8;
    let fixture = WorkspaceFixture::new();
    let opened = Barrier::new(WRITERS);
    let made: usize = std::thread::scope(|scope| {
        let write = |number: usize| {
            let (fixture, opened) = (&fixture, &opened);
            scope.spawn(move || {
                let file = fixture.write(&format!("a/b/{number}"));
                opened.wait();
                file.replace_with_folders(b"new", &ContentPrecondition::Absent, &fixture.recorder())
                    .unwrap()
                    .1
                    .len()
            })
        };
        let all: Vec<_> = (0..WRITERS).map(write).collect();
        all.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert_eq!((made, fixture.names("ws/a/b").len()), (2, WRITERS));
}

#[test]
fn undo_removes_folders_that_hold_nothing_else() {
    for (others, gone, left) in [
        (&[][..], "a", &["f"][..]),
        (&["a/x"], "a/b", &["a", "f"]),
        (&["a/b/x"], "a/b/c", &["a", "f"]),
        (&["a/b/c/x"], "a/b/c/new", &["a", "f"]),
    ] {
        let fixture = WorkspaceFixture::new();
        fixture.file("ws/f", "old");
        let call = CallId::fresh();
        write_as(&fixture, "a/b/c/new", call).unwrap();
        others.iter().for_each(|name| drop(fixture.file(&format!("ws/{name}"), "other")));
        let preview = fixture.undo().preview_revert(call).unwrap().remove(0);
        let by = CallId::fresh();
        let done = fixture.undo().revert(call, &fixture.undo().for_call(by)).unwrap().remove(0);
        assert_eq!((&done.path, done.reversal), (&fixture.path("ws").join(gone), Reversal::Removed));
        assert_eq!((&done.path, &done.remaining_folder), (&preview.path, &preview.remaining_folder));
        assert_eq!(done.remaining_folder, (gone != "a").then(|| fixture.path("ws/a")));
        assert_eq!(fixture.names("ws"), left);
        others.iter().for_each(|name| assert_eq!(fixture.content(&format!("ws/{name}")), "other"));
        assert!(!fixture.path("ws/a/b/c/new").exists());
        fixture.undo().revert(by, &fixture.recorder()).unwrap();
        assert_eq!(fixture.content("ws/a/b/c/new"), "new", "an undo can be undone");
    }
}

#[test]
fn undo_keeps_what_was_changed_since() {
    let undo = |prepare: &dyn Fn(&WorkspaceFixture), text: &str| {
        let fixture = WorkspaceFixture::new();
        let call = CallId::fresh();
        let saving = fixture.undo().for_call(call);
        match text {
            "folder" => drop(fixture.write("a/b").create_folders(&saving).unwrap()),
            _ => drop(write_as(&fixture, "a/b", call).unwrap()),
        }
        prepare(&fixture);
        let error = fixture.undo().revert(call, &fixture.recorder()).unwrap_err().to_string();
        assert!(fixture.path("ws/a").exists(), "{error}");
        error
    };
    let changed = undo(&|fixture| drop(fixture.file("ws/a/b", "mine")), "file");
    assert!(changed.contains("its sha256 is now"), "{changed}");
    let gone = undo(&|fixture| fs::remove_file(fixture.path("ws/a/b")).unwrap(), "file");
    assert!(gone.contains("it does not exist any more"), "{gone}");
    let filled = undo(&|fixture| drop(fixture.file("ws/a/b/c", "mine")), "folder");
    assert!(filled.contains("it is not empty any more"), "{filled}");
    let linked = undo(
        &|fixture| {
            fs::remove_dir(fixture.path("ws/a/b")).unwrap();
            fixture.link("ws/a/b", "../../outside");
        },
        "folder",
    );
    assert!(linked.contains("it is not a folder any more"), "{linked}");
}
