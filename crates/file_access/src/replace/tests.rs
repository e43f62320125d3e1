//! Writes that must succeed, and writes that must leave everything unchanged.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Barrier;

use tool::canonical::sha256_hex;
use tool::{Failure, FailureKind};

use super::*;
use crate::testing::{UNPRIVILEGED_UID, WorkspaceFixture, assert_passed};

fn with_content(content: &str) -> ContentPrecondition {
    ContentPrecondition::Content { sha256: sha256_hex(content.as_bytes()) }
}

fn mode(fixture: &WorkspaceFixture, relative: &str) -> u32 {
    fs::metadata(fixture.path(relative)).unwrap().mode() & 0o7777
}

/// Returns a temporary file with new content.
fn filled_temporary<'a>(place: &'a EntryLocation, original: Option<&OwnedFd>) -> TemporaryFile<'a> {
    let temporary = TemporaryFile::create(place, new_temporary_name().unwrap(), original).unwrap();
    temporary.fill(&mut &b"new"[..], None, &MetadataSource::Original).unwrap().0
}

/// Checks that a write succeeds and leaves no other file behind.
fn check(fixture: &WorkspaceFixture, text: &str, expected: &ContentPrecondition, created: bool) {
    let before = fixture.names("ws").len();
    let replaced = fixture.write(text).replace(b"new", expected, &fixture.recorder()).unwrap();
    assert_eq!(replaced, WriteSummary { bytes: 3, sha256: sha256_hex(b"new"), created }, "{text}");
    assert_eq!(fixture.names("ws").len(), before + usize::from(created), "{:?}", fixture.names("ws"));
    assert_eq!(fixture.read(text).read_range(0, 100).unwrap().bytes, b"new", "{text}");
}

/// Checks that a write is refused and changes nothing.
fn check_refused(
    fixture: &WorkspaceFixture,
    text: &str,
    expected: &ContentPrecondition,
    words: &str,
) -> FailureKind {
    let look = || {
        let names = fixture.names("ws");
        names
            .into_iter()
            .map(|name| (fs::read(fixture.path("ws").join(&name)).ok(), name))
            .collect::<Vec<_>>()
    };
    let before = look();
    let error = fixture.write(text).replace(b"new", expected, &fixture.recorder()).unwrap_err();
    assert!(error.to_string().contains(words), "{text}: {error}");
    assert_eq!(look(), before, "{text}");
    Failure::from(error).kind
}

#[test]
fn precondition_decides_whether_a_write_happens() {
    let fixture = WorkspaceFixture::new();
    check(&fixture, "a", &ContentPrecondition::Absent, true);
    check(&fixture, "b", &ContentPrecondition::Anything, true);
    fixture.file("ws/f", "old");
    assert_eq!(
        check_refused(&fixture, "f", &ContentPrecondition::Absent, "already exists"),
        FailureKind::Conflict
    );
    let found = format!("its sha256 is now {}", sha256_hex(b"old"));
    assert_eq!(check_refused(&fixture, "f", &with_content("other"), &found), FailureKind::Conflict);
    assert_eq!(
        check_refused(&fixture, "missing", &with_content("old"), "does not exist"),
        FailureKind::Conflict
    );
    check(&fixture, "f", &with_content("old"), false);
    check(&fixture, "f", &ContentPrecondition::Content { sha256: sha256_hex(b"new").to_uppercase() }, false);
    check(&fixture, "f", &ContentPrecondition::Anything, false);
}

#[test]
fn only_names_in_an_existing_folder_are_written_to() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "f");
    fixture.link("ws/dangling", "nothing");
    fixture.link("ws/dangling_out", "../outside/new");
    fs::create_dir(fixture.path("ws/d")).unwrap();
    for (text, words, kind) in [
        ("d", "is a directory, not a file", FailureKind::WrongKind),
        ("new/", "directory (it ends in a slash)", FailureKind::WrongKind),
        ("a/b", "its folder does not exist", FailureKind::NotFound),
        ("a/../f", "its folder does not exist", FailureKind::NotFound),
        ("f/x", "is not one", FailureKind::WrongKind),
        ("dangling", "dangling symbolic link", FailureKind::Unreadable),
        ("dangling_out", "dangling symbolic link", FailureKind::Unreadable),
    ] {
        assert_eq!(check_refused(&fixture, text, &ContentPrecondition::Anything, words), kind, "{text}");
    }
    assert_eq!(fixture.names("outside"), ["secret"]);
    for text in ["f", "new"] {
        let error = fixture
            .read(text)
            .replace(b"new", &ContentPrecondition::Anything, &fixture.recorder())
            .unwrap_err();
        assert!(matches!(error, AccessError::NotOpenedForWriting { .. }), "{text}: {error}");
    }
}

#[test]
fn a_write_through_a_link_replaces_the_file_and_keeps_the_link() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/sub/target", "old");
    fixture.link("ws/link", "sub/target");
    check(&fixture, "link", &ContentPrecondition::Anything, false);
    assert!(fixture.path("ws/link").is_symlink());
    assert_eq!(
        (fixture.content("ws/sub/target"), fixture.names("ws/sub")),
        ("new".into(), vec!["target".to_owned()])
    );
}

#[test]
fn other_hard_link_keeps_the_old_content() {
    let fixture = WorkspaceFixture::new();
    fixture.file("outside/shared", "old");
    fs::hard_link(fixture.path("outside/shared"), fixture.path("ws/f")).unwrap();
    check(&fixture, "f", &ContentPrecondition::Anything, false);
    assert_eq!(fixture.content("outside/shared"), "old");
}

#[test]
fn permissions_are_kept_but_setuid_bits_are_not() {
    let fixture = WorkspaceFixture::new();
    for (old, new) in [(0o755, 0o755), (0o600, 0o600), (0o4755, 0o755), (0o2755, 0o755), (0o1644, 0o644)] {
        check_mode(&fixture, old, new);
    }
    let ordinary = File::create(fixture.path("ws/ordinary")).unwrap().metadata().unwrap().mode();
    fixture.write("created").replace(b"new", &ContentPrecondition::Absent, &fixture.recorder()).unwrap();
    assert_eq!(mode(&fixture, "ws/created"), ordinary & 0o7777, "a new file is like any other new file");
}

#[test]
fn root_keeps_the_mode_of_a_read_only_file() {
    if !rustix::process::geteuid().is_root() {
        return ::tests::left_out("only root replaces a read-only file");
    }
    check_mode(&WorkspaceFixture::new(), 0o444, 0o444);
}

/// Replaces a file of this mode, and checks the mode of the new one.
fn check_mode(fixture: &WorkspaceFixture, old: u32, new: u32) {
    let path = fixture.file("ws/f", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(old)).unwrap();
    fixture.write("f").replace(b"new", &ContentPrecondition::Anything, &fixture.recorder()).unwrap();
    assert_eq!(mode(fixture, "ws/f"), new, "from {old:o}");
    fs::remove_file(path).unwrap();
}

#[test]
fn the_owner_is_kept_where_we_may_give_files_away() {
    if !rustix::process::geteuid().is_root() {
        ::tests::left_out("only root gives files away");
        return;
    }
    let fixture = WorkspaceFixture::new();
    let path = fixture.file("ws/f", "old");
    std::os::unix::fs::chown(&path, Some(1234), Some(4321)).unwrap();
    fixture.write("f").replace(b"new", &ContentPrecondition::Anything, &fixture.recorder()).unwrap();
    let now = fs::metadata(path).unwrap();
    assert_eq!((now.uid(), now.gid()), (1234, 4321));
}

#[test]
fn a_group_that_cannot_be_kept_gives_nothing_to_another() {
    if let Some(fixture) = WorkspaceFixture::from_parent() {
        fixture.write("f").replace(b"new", &ContentPrecondition::Anything, &fixture.recorder()).unwrap();
        let now = fs::metadata(fixture.path("ws/f")).unwrap();
        assert_eq!((now.gid(), now.mode() & 0o7777), (UNPRIVILEGED_UID, 0o644), "was 0664 for another group");
        let error = fixture
            .write("read_only")
            .replace(b"new", &ContentPrecondition::Anything, &fixture.recorder())
            .unwrap_err();
        assert_eq!(Failure::from(error).kind, FailureKind::Unreadable);
        assert_eq!(fixture.content("ws/read_only"), "old");
        return;
    }
    if !rustix::process::geteuid().is_root() {
        ::tests::left_out("only root can become another user");
        return;
    }
    let fixture = WorkspaceFixture::new();
    fs::set_permissions(fixture.file("ws/f", "old"), fs::Permissions::from_mode(0o664)).unwrap();
    fs::set_permissions(fixture.file("ws/read_only", "old"), fs::Permissions::from_mode(0o444)).unwrap();
    let test = "replace::tests::a_group_that_cannot_be_kept_gives_nothing_to_another";
    fixture.chown_to(UNPRIVILEGED_UID);
    std::os::unix::fs::chown(fixture.path("ws/f"), Some(UNPRIVILEGED_UID), Some(4321)).unwrap();
    assert_passed(&fixture.run_child(&[], test, Some(UNPRIVILEGED_UID)));
}

/// Access control list as the kernel stores it (version 2): owner rw-, user 1234 r--, group ---, mask r--,
/// others ---.
#[cfg(target_os = "linux")]
fn access_list() -> Vec<u8> {
    let none = u32::MAX;
    let entries = [(1_u16, 6_u16, none), (2, 4, 1234), (4, 0, none), (16, 4, none), (32, 0, none)];
    let bytes = |(tag, bits, id): (u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    2_u32.to_le_bytes().into_iter().chain(entries.into_iter().flat_map(bytes)).collect()
}

#[cfg(target_os = "linux")]
fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 256];
    let length = rustix::fs::getxattr(path, name, value.as_mut_slice()).ok()?;
    Some(value[..length].to_vec())
}

#[cfg(target_os = "linux")]
#[test]
fn attributes_and_access_lists_are_kept_and_none_is_added() {
    let (list, default) = ("system.posix_acl_access", "system.posix_acl_default");
    let fixture = WorkspaceFixture::new();
    let (listed, plain) = (fixture.file("ws/listed", "old"), fixture.file("ws/plain", "old"));
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
    let set = |path: &Path, name: &str, value: &[u8]| {
        rustix::fs::setxattr(path, name, value, rustix::fs::XattrFlags::empty()).is_ok()
    };
    let is_set = set(&listed, "user.note", b"kept")
        && set(&listed, list, &access_list())
        && set(&fixture.path("ws"), default, &access_list());
    if !is_set {
        ::tests::left_out("this volume has no attributes or no access control lists");
        return;
    }
    assert_eq!(mode(&fixture, "ws/listed"), 0o640, "the mask shows as the group's bits");
    for text in ["listed", "plain"] {
        fixture.write(text).replace(b"new", &ContentPrecondition::Anything, &fixture.recorder()).unwrap();
    }
    // By the permission bits alone, the group could now read the file.
    assert_eq!((attribute(&listed, list), mode(&fixture, "ws/listed")), (Some(access_list()), 0o640));
    assert_eq!(attribute(&listed, "user.note"), Some(b"kept".to_vec()));
    // By the default list of the folder, user 1234 would have access.
    assert_eq!((attribute(&plain, list), mode(&fixture, "ws/plain")), (None, 0o644));
}

#[test]
fn file_that_appeared_since_is_not_overwritten() {
    let fixture = WorkspaceFixture::new();
    for expected in [ContentPrecondition::Absent, ContentPrecondition::Anything] {
        let opened = fixture.write("new");
        fixture.file("ws/new", "theirs");
        let error = opened.replace(b"ours", &expected, &fixture.recorder()).unwrap_err();
        assert!(matches!(error, AccessError::Exists { .. }), "{error}");
        assert_eq!(
            (fixture.content("ws/new"), fixture.names("ws")),
            ("theirs".into(), vec!["new".to_owned()])
        );
        fs::remove_file(fixture.path("ws/new")).unwrap();
        fixture.link("ws/new", fixture.path("outside/secret"));
        assert!(matches!(
            opened.replace(b"ours", &expected, &fixture.recorder()),
            Err(AccessError::Exists { .. })
        ));
        assert_eq!(fixture.content("outside/secret"), "secret");
        fs::remove_file(fixture.path("ws/new")).unwrap();
    }
}

#[test]
fn one_of_many_concurrent_creators_wins() {
    let fixture = WorkspaceFixture::new();
    let barrier = Barrier::new(8);
    let won: Vec<_> = std::thread::scope(|scope| {
        let create = |number: usize| {
            let (fixture, barrier) = (&fixture, &barrier);
            scope.spawn(move || {
                let opened = fixture.write("one");
                barrier.wait();
                opened
                    .replace(
                        format!("by {number}").as_bytes(),
                        &ContentPrecondition::Anything,
                        &fixture.recorder(),
                    )
                    .is_ok()
                    .then_some(number)
            })
        };
        let threads: Vec<_> = (0..8).map(create).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(won.len(), 1);
    assert_eq!(fixture.content("ws/one"), format!("by {}", won[0]));
    assert_eq!(fixture.names("ws"), ["one"]);
}

#[test]
fn one_of_many_writers_with_the_same_precondition_wins() {
    let fixture = WorkspaceFixture::new();
    for round in 0..20 {
        fixture.file("ws/f", "old");
        let barrier = Barrier::new(6);
        let won: Vec<_> = std::thread::scope(|scope| {
            let write = |number: usize| {
                let (fixture, barrier) = (&fixture, &barrier);
                scope.spawn(move || {
                    let opened = fixture.write("f");
                    barrier.wait();
                    opened
                        .replace(format!("by {number}").as_bytes(), &with_content("old"), &fixture.recorder())
                        .is_ok()
                        .then_some(number)
                })
            };
            let threads: Vec<_> = (0..6).map(write).collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(won.len(), 1, "round {round}: a change was lost");
        assert_eq!(fixture.content("ws/f"), format!("by {}", won[0]));
        assert_eq!(fixture.names("ws"), ["f"]);
    }
}

#[test]
fn many_writers_leave_one_whole_file() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "old");
    std::thread::scope(|scope| {
        for number in 0_u8..8 {
            let fixture = &fixture;
            scope.spawn(move || {
                for _ in 0..20 {
                    fixture
                        .write("f")
                        .replace(&[b'a' + number; 5000], &ContentPrecondition::Anything, &fixture.recorder())
                        .unwrap();
                    assert_eq!(fixture.read("f").canonical(), fixture.path("ws/f"));
                }
            });
        }
    });
    let content = fixture.content("ws/f");
    assert!(content.len() == 5000 && content.bytes().all(|byte| Some(byte) == content.bytes().next()));
    assert_eq!(fixture.names("ws"), ["f"]);
}

#[test]
fn a_name_that_no_longer_leads_to_a_file_is_left_alone() {
    let fixture = WorkspaceFixture::new();
    let path = fixture.file("ws/f", "old");
    let opened = fixture.write("f");
    fs::remove_file(&path).unwrap();
    fixture.link("ws/f", fixture.path("outside/secret"));
    assert!(
        opened
            .replace(b"new", &ContentPrecondition::Anything, &fixture.recorder())
            .unwrap_err()
            .to_string()
            .contains("not a file any more")
    );
    assert!(path.is_symlink());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    fixture.file("ws/f/inner", "x");
    assert!(
        opened
            .replace(b"new", &ContentPrecondition::Anything, &fixture.recorder())
            .unwrap_err()
            .to_string()
            .contains("not a file any more")
    );
    assert_eq!(
        (fixture.content("ws/f/inner"), fixture.content("outside/secret")),
        ("x".into(), "secret".into())
    );
    assert_eq!(fixture.names("ws"), ["f"]);
}

#[test]
fn a_folder_that_was_moved_is_not_written_to() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/d/f", "old");
    let (file, created) = (fixture.write("d/f"), fixture.write("d/new"));
    fs::rename(fixture.path("ws/d"), fixture.path("outside/d")).unwrap();
    fs::create_dir(fixture.path("ws/d")).unwrap();
    for opened in [file, created] {
        let error = opened.replace(b"new", &ContentPrecondition::Anything, &fixture.recorder()).unwrap_err();
        assert!(error.to_string().contains("its folder was moved"), "{error}");
    }
    assert_eq!((fixture.names("ws/d"), fixture.names("outside/d")), (vec![], vec!["f".to_owned()]));
    assert_eq!(fixture.content("outside/d/f"), "old");
}

#[test]
fn failed_folder_sync_reverts_the_write() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "old");
    let failed = |text: &str, taken: NameChange| {
        let opened = fixture.write(text);
        let place = opened.write_location().unwrap();
        let original = matches!(taken, NameChange::Exchanged).then_some(&place.folder);
        let temporary = filled_temporary(place, original);
        let flags = if original.is_some() { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        rename(place, &temporary, flags).unwrap();
        assert_eq!(fs::read(opened.canonical()).unwrap(), b"new");
        opened.finish_write(place, &temporary, &taken, Err(Errno::IO)).unwrap_err()
    };
    for (text, taken) in [("f", NameChange::Exchanged), ("created", NameChange::Created)] {
        let error = failed(text, taken);
        assert!(error.to_string().starts_with("syncing the folder of"), "{error}");
        assert_eq!(
            (fixture.names("ws"), fixture.content("ws/f")),
            (vec!["f".to_owned()], "old".into()),
            "{text}"
        );
    }
}

#[test]
fn content_is_compared_before_and_after_the_exchange() {
    let fixture = WorkspaceFixture::new();
    let path = fixture.file("ws/f", "old");
    let touched = || fs::metadata(&path).map(|now| (now.ino(), now.ctime(), now.ctime_nsec())).unwrap();
    let before = touched();
    assert_eq!(
        check_refused(&fixture, "f", &with_content("other"), "its sha256 is now"),
        FailureKind::Conflict
    );
    assert_eq!(touched(), before, "a conflict that can be seen is seen before anything moves");
    // A conflict found only later: the file was changed between the check and the exchange.
    let opened = fixture.write("f");
    let place = opened.write_location().unwrap();
    let temporary = filled_temporary(place, None);
    let error = {
        let saving = fixture.recorder();
        let kept = saving.before_write(place, ExistingTarget::Absent, "", "x").unwrap();
        opened.exchange_name(place, &temporary, &with_content("other"), &kept)
    }
    .unwrap_err();
    drop(temporary);
    assert!(matches!(error, AccessError::Conflict { .. }), "{error}");
    assert_eq!((fixture.content("ws/f"), fixture.names("ws")), ("old".into(), vec!["f".to_owned()]));
}

#[test]
fn revert_keeps_a_later_write_by_another_writer() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "old");
    let opened = fixture.write("f");
    let place = opened.write_location().unwrap();
    let temporary = filled_temporary(place, None);
    rename(place, &temporary, RenameFlags::EXCHANGE).unwrap();
    fixture.write("f").replace(b"theirs", &ContentPrecondition::Anything, &fixture.recorder()).unwrap();
    opened.finish_write(place, &temporary, &NameChange::Exchanged, Err(Errno::IO)).unwrap_err();
    drop(temporary);
    assert_eq!((fixture.content("ws/f"), fixture.names("ws")), ("theirs".into(), vec!["f".to_owned()]));
}

#[test]
fn revert_loses_nothing_if_the_new_file_was_moved() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "old");
    let opened = fixture.write("f");
    let place = opened.write_location().unwrap();
    let temporary = filled_temporary(place, None);
    rename(place, &temporary, RenameFlags::EXCHANGE).unwrap();
    fs::rename(fixture.path("ws/f"), fixture.path("ws/moved")).unwrap();
    fixture.file("ws/f", "theirs");
    let error = opened.finish_write(place, &temporary, &NameChange::Exchanged, Err(Errno::IO)).unwrap_err();
    let kept = temporary.conflict_name("f".as_ref());
    drop(temporary);
    assert!(kept.starts_with("f.conflict-") && error.to_string().contains(&kept), "{error}");
    assert_eq!(
        (fixture.content("ws/f"), fixture.content(&format!("ws/{kept}"))),
        ("theirs".into(), "old".into())
    );
}

#[test]
fn writers_of_one_name_are_serialised() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "old");
    let opened = fixture.write("f");
    let turn = NameLock::acquire(opened.write_location().unwrap()).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            fixture.write("f").replace(b"new", &ContentPrecondition::Anything, &fixture.recorder()).unwrap()
        });
        fixture.write("other").replace(b"other", &ContentPrecondition::Absent, &fixture.recorder()).unwrap();
        // Long enough for the writer to finish many times over, if it did not wait.
        for _ in 0..20 {
            fixture
                .write("other")
                .replace(b"other", &ContentPrecondition::Anything, &fixture.recorder())
                .unwrap();
            assert_eq!(fixture.content("ws/f"), "old");
        }
        drop(turn);
        writer.join().unwrap();
    });
    assert_eq!(fixture.content("ws/f"), "new");
}

#[cfg(target_os = "linux")]
mod faults;
