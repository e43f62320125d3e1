//! Removals that must succeed, and removals that must leave everything unchanged.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tool::canonical::sha256_hex;
use tool::{CallId, Failure, FailureKind, PathAccess};

use super::*;
use crate::testing::WorkspaceFixture;
use crate::{ObjectKind, UndoLimits, UndoStore};

fn try_remove(
    world: &WorkspaceFixture,
    text: &str,
    descent: FolderRemoval,
) -> Result<RemovalSummary, AccessError> {
    let protects = RemovalGuard::from_predicate(&|path: &Path| path.ends_with("precious"));
    world.remove(text).remove(&ContentPrecondition::Anything, descent, &protects, &world.recorder())
}

/// Checks that a removal is refused and changes nothing.
fn check_refused(world: &WorkspaceFixture, text: &str, descent: FolderRemoval, words: &str) -> FailureKind {
    let before = (world.names("ws"), world.names("outside"));
    let error = try_remove(world, text, descent).unwrap_err();
    assert!(error.to_string().contains(words), "{text}: {error}");
    assert_eq!((world.names("ws"), world.names("outside")), before, "{text}");
    Failure::from(error).kind
}

#[test]
fn removing_a_link_keeps_its_target() {
    let world = WorkspaceFixture::new();
    world.file("ws/f", "content");
    world.link("ws/link", "../outside/secret");
    world.link("ws/dangling", "nowhere");
    for (text, kind) in [("f", "file"), ("link", "symlink"), ("dangling", "symlink")] {
        assert_eq!(try_remove(&world, text, FolderRemoval::Refuse).unwrap().kind, kind, "{text}");
    }
    assert_eq!(world.names("ws"), <[&str; 0]>::default());
    assert_eq!(world.content("outside/secret"), "secret");
}

#[test]
fn removal_names_the_link_not_its_target() {
    let world = WorkspaceFixture::new();
    world.link("ws/link", "../outside");
    let opened = world.remove("link");
    assert_eq!((opened.kind(), opened.canonical()), (ObjectKind::Link, world.path("ws/link").as_path()));
    // A final slash names the target folder.
    let opened = world.remove("link/");
    assert_eq!((opened.kind(), opened.canonical()), (ObjectKind::Directory, world.path("outside").as_path()));
    assert_eq!(world.write("link").canonical(), world.path("outside"), "a write follows");
}

#[test]
fn folder_is_removed_only_when_recursive() {
    let world = WorkspaceFixture::new();
    world.file("ws/d/sub/f", "12345");
    world.link("ws/d/out", "../../outside");
    assert_eq!(check_refused(&world, "d", FolderRemoval::Refuse, "is a directory"), FailureKind::WrongKind);
    let removed = try_remove(&world, "d", FolderRemoval::Recursive).unwrap();
    assert_eq!(removed, RemovalSummary { kind: "directory", entries: 4, bytes: 5 });
    assert_eq!((world.names("ws").len(), world.content("outside/secret").as_str()), (0, "secret"));
}

#[test]
fn folder_with_a_protected_entry_is_not_removed() {
    let world = WorkspaceFixture::new();
    world.file("ws/d/a", "a");
    world.file("ws/d/sub/precious", "p");
    let kind = check_refused(&world, "d", FolderRemoval::Recursive, "sub/precious` is protected");
    assert_eq!(kind, FailureKind::Conflict);
    assert_eq!((world.content("ws/d/a").as_str(), world.content("ws/d/sub/precious").as_str()), ("a", "p"));
    assert!(!world.path("undo").exists(), "nothing is kept of what did not happen");
}

#[test]
fn special_files_are_not_removed() {
    let world = WorkspaceFixture::new();
    assert!(std::process::Command::new("mkfifo").arg(world.path("ws/p")).status().unwrap().success());
    assert_eq!(check_refused(&world, "p", FolderRemoval::Recursive, "is a fifo"), FailureKind::WrongKind);
    assert_eq!(
        check_refused(&world, "none", FolderRemoval::Recursive, "does not exist"),
        FailureKind::NotFound
    );
    let root = world.try_open("/", PathAccess::Remove).unwrap();
    assert!(
        root.preview_removal(FolderRemoval::Recursive, &RemovalGuard::none()).is_err(),
        "the root has no name to take"
    );
}

#[test]
fn replaced_object_is_put_back() {
    let world = WorkspaceFixture::new();
    world.file("ws/f", "old");
    let opened = world.remove("f");
    fs::write(world.path("ws/new"), "new").unwrap();
    fs::rename(world.path("ws/new"), world.path("ws/f")).unwrap();
    let protects = RemovalGuard::none();
    let error = opened
        .remove(&ContentPrecondition::Anything, FolderRemoval::Refuse, &protects, &world.recorder())
        .unwrap_err();
    assert!(error.to_string().contains("another object is there now"), "{error}");
    assert_eq!((world.content("ws/f").as_str(), world.names("undo").len()), ("new", 0));
}

#[test]
fn unexpected_content_is_put_back() {
    let world = WorkspaceFixture::new();
    world.file("ws/f", "now");
    let remove = |content: &str| {
        let expected = ContentPrecondition::Content { sha256: sha256_hex(content.as_bytes()) };
        world.remove("f").remove(&expected, FolderRemoval::Refuse, &RemovalGuard::none(), &world.recorder())
    };
    assert!(remove("then").unwrap_err().to_string().contains("its sha256 is now"));
    assert_eq!((world.content("ws/f").as_str(), world.names("undo").len()), ("now", 0));
    remove("now").unwrap();
}

#[test]
fn object_too_large_for_undo_is_not_removed() {
    let world = WorkspaceFixture::new();
    world.file("ws/d/f", &"x".repeat(1000));
    let limits = UndoLimits { keep_bytes: 999, keep_for: std::time::Duration::from_secs(60) };
    let saving = UndoStore::at(&world.path("undo"), limits).for_call(CallId::fresh());
    let remove = |text: &str| {
        world.remove(text).remove(
            &ContentPrecondition::Anything,
            FolderRemoval::Recursive,
            &RemovalGuard::none(),
            &saving,
        )
    };
    for text in ["d", "d/f"] {
        assert_eq!(Failure::from(remove(text).unwrap_err()).kind, FailureKind::TooLarge);
    }
    assert_eq!(world.content("ws/d/f").len(), 1000);
    let none = UndoLimits { keep_bytes: 0, ..limits };
    let saving = UndoStore::at(&world.path("undo"), none).for_call(CallId::fresh());
    world
        .remove("d")
        .remove(&ContentPrecondition::Anything, FolderRemoval::Recursive, &RemovalGuard::none(), &saving)
        .unwrap();
    assert_eq!(
        (world.names("ws").len(), world.names("undo").len(), saving.recorded_changes()),
        (0, 0, 0),
        "kept nothing"
    );
}

#[test]
fn a_read_only_file_stays() {
    let world = WorkspaceFixture::from_parent().unwrap_or_else(|| {
        let world = WorkspaceFixture::new();
        let file = world.file("ws/f", "x");
        fs::set_permissions(file, fs::Permissions::from_mode(0o444)).unwrap();
        let test = "remove::tests::a_read_only_file_stays";
        crate::testing::assert_passed(&world.unprivileged_child(test));
        world
    });
    if !rustix::process::geteuid().is_root() {
        assert_eq!(
            check_refused(&world, "f", FolderRemoval::Refuse, "ermission denied"),
            FailureKind::Unreadable
        );
    }
}
