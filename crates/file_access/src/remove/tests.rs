//! Removals that must succeed, and removals that must leave everything unchanged.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tool::canonical::sha256_hex;
use tool::definition::PathAccess;
use tool::{CallId, Failure, FailureKind};

use super::*;
use crate::testing::WorkspaceFixture;
use crate::{ObjectKind, UndoLimits, UndoStore};

fn try_remove(
    fixture: &WorkspaceFixture,
    text: &str,
    descent: FolderRemoval,
) -> Result<RemovalSummary, AccessError> {
    let protects = RemovalGuard::from_predicate(&|path: &Path| path.ends_with("precious"));
    fixture.remove(text).remove(&ContentPrecondition::Anything, descent, &protects, &fixture.recorder())
}

/// Checks that a removal is refused and changes nothing.
fn check_refused(fixture: &WorkspaceFixture, text: &str, descent: FolderRemoval, words: &str) -> FailureKind {
    let before = (fixture.names("ws"), fixture.names("outside"));
    let error = try_remove(fixture, text, descent).unwrap_err();
    assert!(error.to_string().contains(words), "{text}: {error}");
    assert_eq!((fixture.names("ws"), fixture.names("outside")), before, "{text}");
    Failure::from(error).kind
}

#[test]
fn removing_a_link_keeps_its_target() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "content");
    fixture.link("ws/link", "../outside/secret");
    fixture.link("ws/dangling", "nowhere");
    for (text, kind) in [("f", "file"), ("link", "symlink"), ("dangling", "symlink")] {
        assert_eq!(try_remove(&fixture, text, FolderRemoval::Refuse).unwrap().kind, kind, "{text}");
    }
    assert_eq!(fixture.names("ws"), <[&str; 0]>::default());
    assert_eq!(fixture.content("outside/secret"), "secret");
}

#[test]
fn removal_names_the_link_not_its_target() {
    let fixture = WorkspaceFixture::new();
    fixture.link("ws/link", "../outside");
    let opened = fixture.remove("link");
    assert_eq!((opened.kind(), opened.canonical()), (ObjectKind::Link, fixture.path("ws/link").as_path()));
    // A final slash names the target folder.
    let opened = fixture.remove("link/");
    assert_eq!(
        (opened.kind(), opened.canonical()),
        (ObjectKind::Directory, fixture.path("outside").as_path())
    );
    assert_eq!(fixture.write("link").canonical(), fixture.path("outside"), "a write follows");
}

#[test]
fn folder_is_removed_only_when_recursive() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/d/sub/f", "12345");
    fixture.link("ws/d/out", "../../outside");
    assert_eq!(check_refused(&fixture, "d", FolderRemoval::Refuse, "is a directory"), FailureKind::WrongKind);
    let removed = try_remove(&fixture, "d", FolderRemoval::Recursive).unwrap();
    assert_eq!(removed, RemovalSummary { kind: "directory", entries: 4, bytes: 5 });
    assert_eq!((fixture.names("ws").len(), fixture.content("outside/secret").as_str()), (0, "secret"));
}

#[test]
fn folder_with_a_protected_entry_is_not_removed() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/d/a", "a");
    fixture.file("ws/d/sub/precious", "p");
    let kind = check_refused(&fixture, "d", FolderRemoval::Recursive, "sub/precious` is protected");
    assert_eq!(kind, FailureKind::Conflict);
    assert_eq!(
        (fixture.content("ws/d/a").as_str(), fixture.content("ws/d/sub/precious").as_str()),
        ("a", "p")
    );
    assert!(!fixture.path("undo").exists(), "nothing is kept of what did not happen");
}

#[test]
fn special_files_are_not_removed() {
    let fixture = WorkspaceFixture::new();
    assert!(std::process::Command::new("mkfifo").arg(fixture.path("ws/p")).status().unwrap().success());
    assert_eq!(check_refused(&fixture, "p", FolderRemoval::Recursive, "is a fifo"), FailureKind::WrongKind);
    assert_eq!(
        check_refused(&fixture, "none", FolderRemoval::Recursive, "does not exist"),
        FailureKind::NotFound
    );
    let root = fixture.try_open("/", PathAccess::Remove).unwrap();
    assert!(
        root.preview_removal(FolderRemoval::Recursive, &RemovalGuard::none()).is_err(),
        "the root has no name to take"
    );
}

#[test]
fn replaced_object_is_put_back() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "old");
    let opened = fixture.remove("f");
    fs::write(fixture.path("ws/new"), "new").unwrap();
    fs::rename(fixture.path("ws/new"), fixture.path("ws/f")).unwrap();
    let protects = RemovalGuard::none();
    let error = opened
        .remove(&ContentPrecondition::Anything, FolderRemoval::Refuse, &protects, &fixture.recorder())
        .unwrap_err();
    assert!(error.to_string().contains("another object is there now"), "{error}");
    assert_eq!((fixture.content("ws/f").as_str(), fixture.names("undo").len()), ("new", 0));
}

#[test]
fn unexpected_content_is_put_back() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "now");
    let remove = |content: &str| {
        let expected = ContentPrecondition::Content { sha256: sha256_hex(content.as_bytes()) };
        fixture.remove("f").remove(
            &expected,
            FolderRemoval::Refuse,
            &RemovalGuard::none(),
            &fixture.recorder(),
        )
    };
    assert!(remove("then").unwrap_err().to_string().contains("its sha256 is now"));
    assert_eq!((fixture.content("ws/f").as_str(), fixture.names("undo").len()), ("now", 0));
    remove("now").unwrap();
}

#[test]
fn object_too_large_for_undo_is_not_removed() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/d/f", &"x".repeat(1000));
    let limits = UndoLimits { keep_bytes: 999, keep_for: std::time::Duration::from_secs(60) };
    let saving = UndoStore::at(&fixture.path("undo"), limits).for_call(CallId::fresh());
    let remove = |text: &str| {
        fixture.remove(text).remove(
            &ContentPrecondition::Anything,
            FolderRemoval::Recursive,
            &RemovalGuard::none(),
            &saving,
        )
    };
    for text in ["d", "d/f"] {
        assert_eq!(Failure::from(remove(text).unwrap_err()).kind, FailureKind::TooLarge);
    }
    assert_eq!(fixture.content("ws/d/f").len(), 1000);
    let none = UndoLimits { keep_bytes: 0, ..limits };
    let saving = UndoStore::at(&fixture.path("undo"), none).for_call(CallId::fresh());
    fixture
        .remove("d")
        .remove(&ContentPrecondition::Anything, FolderRemoval::Recursive, &RemovalGuard::none(), &saving)
        .unwrap();
    assert_eq!(
        (fixture.names("ws").len(), fixture.names("undo").len(), saving.recorded_changes()),
        (0, 0, 0),
        "kept nothing"
    );
}

#[test]
fn a_read_only_file_stays() {
    let fixture = WorkspaceFixture::from_parent().unwrap_or_else(|| {
        let fixture = WorkspaceFixture::new();
        let file = fixture.file("ws/f", "x");
        fs::set_permissions(file, fs::Permissions::from_mode(0o444)).unwrap();
        let test = "remove::tests::a_read_only_file_stays";
        crate::testing::assert_passed(&fixture.unprivileged_child(test));
        fixture
    });
    if !rustix::process::geteuid().is_root() {
        assert_eq!(
            check_refused(&fixture, "f", FolderRemoval::Refuse, "ermission denied"),
            FailureKind::Unreadable
        );
    }
}
