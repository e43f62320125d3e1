//! Undone changes, changes that can no longer be undone, and the contents of the store.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tool::{Failure, FailureKind};

use super::recovery::RecoveryReport;
use super::*;
use crate::testing::WorkspaceFixture;
use crate::{AccessError, ContentPrecondition, FolderRemoval, RemovalGuard};

/// Writes a file as a new call.
fn write(fixture: &WorkspaceFixture, text: &str, content: &str) -> CallId {
    let call = CallId::fresh();
    let saving = fixture.undo().for_call(call);
    fixture.write(text).replace(content.as_bytes(), &ContentPrecondition::Anything, &saving).unwrap();
    assert_eq!(saving.recorded_changes(), 1);
    call
}

fn remove(fixture: &WorkspaceFixture, text: &str) -> CallId {
    let call = CallId::fresh();
    let saving = fixture.undo().for_call(call);
    let protects = RemovalGuard::none();
    fixture
        .remove(text)
        .remove(&ContentPrecondition::Anything, FolderRemoval::Recursive, &protects, &saving)
        .unwrap();
    call
}

fn undo(fixture: &WorkspaceFixture, call: CallId) -> Result<Vec<RevertedChange>, AccessError> {
    fixture.undo().revert(call, &fixture.recorder())
}

fn check_refused(fixture: &WorkspaceFixture, call: CallId, words: &str) {
    let kept = fixture.names("undo");
    for refused in [fixture.undo().preview_revert(call), undo(fixture, call)] {
        let error = refused.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(Failure::from(error).kind, FailureKind::Conflict);
    }
    assert_eq!(fixture.names("undo"), kept, "it can be tried again");
}

fn mode(fixture: &WorkspaceFixture, name: &str) -> u32 {
    fs::metadata(fixture.path(name)).unwrap().permissions().mode() & 0o777
}

#[test]
fn undo_restores_content_permissions_and_attributes() {
    let fixture = WorkspaceFixture::new();
    let path = fixture.file("ws/f", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let attribute =
        |value: &[u8]| rustix::fs::setxattr(&path, "user.tag", value, rustix::fs::XattrFlags::empty());
    let has_attributes = attribute(b"before").is_ok();
    let call = write(&fixture, "f", "new");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    if has_attributes {
        attribute(b"after").unwrap();
    }
    let shown = fixture.undo().preview_revert(call).unwrap();
    let expect = "@@ -1 +1 @@\n-new\n\\ No newline at end of file\n+old\n\\ No newline at end of file\n";
    assert!(shown[0].diff.as_ref().unwrap().text.ends_with(expect), "{shown:?}");
    assert_eq!(
        (fixture.content("ws/f").as_str(), shown[0].reversal),
        ("new", Reversal::Restored),
        "a rehearsal"
    );
    assert_eq!(undo(&fixture, call).unwrap()[0].path, path);
    assert_eq!((fixture.content("ws/f").as_str(), mode(&fixture, "ws/f")), ("old", 0o640));
    if has_attributes {
        let mut value = [0; 6];
        assert_eq!(rustix::fs::getxattr(&path, "user.tag", &mut value), Ok(6));
        assert_eq!(&value, b"before");
    }
    assert_eq!(fixture.names("ws"), ["f"]);
}

#[test]
fn saved_states_are_private() {
    let fixture = WorkspaceFixture::new();
    let path = fixture.file("ws/f", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    write(&fixture, "f", "new");
    assert_eq!(mode(&fixture, "undo"), 0o700);
    for name in fixture.names("undo") {
        assert_eq!(mode(&fixture, &format!("undo/{name}")), 0o600, "{name}");
    }
    fs::set_permissions(fixture.path("undo"), fs::Permissions::from_mode(0o755)).unwrap();
    let error = fixture
        .write("f")
        .replace(b"newer", &ContentPrecondition::Anything, &fixture.recorder())
        .unwrap_err();
    assert!(error.to_string().contains("accessible to other users"), "{error}");
    assert_eq!(fixture.content("ws/f"), "new");
}

#[test]
fn undo_removes_created_and_restores_removed_entries() {
    let fixture = WorkspaceFixture::new();
    let created = write(&fixture, "new", "created");
    undo(&fixture, created).unwrap();
    assert_eq!(fixture.names("ws"), <[&str; 0]>::default());
    let file = fixture.file("ws/f", "file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
    fixture.file("ws/d/sub/inner", "inner");
    fixture.link("ws/link", "d/sub");
    for (text, how) in [("f", Reversal::PutBack), ("d", Reversal::PutBack), ("link", Reversal::PutBack)] {
        let call = remove(&fixture, text);
        assert!(!fixture.names("ws").contains(&text.to_owned()));
        assert_eq!(undo(&fixture, call).unwrap()[0].reversal, how, "{text}");
        let again = undo(&fixture, call).unwrap_err();
        assert_eq!(Failure::from(again).kind, FailureKind::NotFound, "only once");
    }
    assert_eq!((fixture.content("ws/f").as_str(), mode(&fixture, "ws/f")), ("file", 0o604));
    assert_eq!(fixture.content("ws/d/sub/inner"), "inner");
    assert_eq!(fs::read_link(fixture.path("ws/link")).unwrap().as_os_str(), "d/sub");
}

#[test]
fn an_undo_can_be_undone() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "old");
    let call = write(&fixture, "f", "new");
    let by = CallId::fresh();
    fixture.undo().revert(call, &fixture.undo().for_call(by)).unwrap();
    assert_eq!(fixture.content("ws/f"), "old");
    undo(&fixture, by).unwrap();
    assert_eq!(fixture.content("ws/f"), "new");
}

#[test]
fn undo_refuses_what_has_changed_since() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "old");
    let changed = write(&fixture, "f", "new");
    fs::write(fixture.path("ws/f"), "newer").unwrap();
    check_refused(&fixture, changed, "has changed: its sha256 is now");
    fs::remove_file(fixture.path("ws/f")).unwrap();
    check_refused(&fixture, changed, "does not exist any more");
    fs::create_dir(fixture.path("ws/f")).unwrap();
    check_refused(&fixture, changed, "is not a file any more");
    let created = write(&fixture, "c", "created");
    fs::write(fixture.path("ws/c"), "edited").unwrap();
    check_refused(&fixture, created, "has changed");
    fixture.file("ws/gone", "x");
    let removed = remove(&fixture, "gone");
    fixture.file("ws/gone", "another");
    check_refused(&fixture, removed, "something else has its name now");
    assert_eq!(fixture.content("ws/gone"), "another");
    // A folder replaced by a link is not the folder that was judged.
    fixture.file("ws/sub/f", "x");
    let call = write(&fixture, "sub/f", "y");
    fs::rename(fixture.path("ws/sub"), fixture.path("ws/moved")).unwrap();
    fixture.link("ws/sub", "moved");
    let error = undo(&fixture, call).unwrap_err();
    assert!(error.to_string().contains("its folder does not exist"), "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn removed_object_changed_since_is_not_restored() {
    let check = |text: &str, meddle: &dyn Fn(&WorkspaceFixture)| {
        let fixture = WorkspaceFixture::new();
        fixture.file("ws/d/sub/inner", "inner");
        fixture.file("ws/f", "file");
        fs::hard_link(fixture.path("ws/f"), fixture.path("ws/twin")).unwrap();
        // A process that has a folder open can still write into it, whatever its name is by now.
        let inside = fixture.path("held");
        let handle = fs::File::open(fixture.path("ws/d/sub")).unwrap();
        std::os::unix::fs::symlink(
            format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&handle)),
            inside,
        )
        .unwrap();
        let call = remove(&fixture, text);
        assert!(fixture.undo().preview_revert(call).is_ok(), "{text}: as it went");
        meddle(&fixture);
        check_refused(&fixture, call, "was changed after it was removed");
        assert!(!fixture.names("ws").contains(&text.to_owned()), "{text}");
    };
    check("d", &|fixture| {
        fs::create_dir_all(fixture.path("held/.git/hooks")).unwrap();
        fs::write(fixture.path("held/.git/hooks/pre-commit"), "evil").unwrap();
    });
    check("d", &|fixture| fs::write(fixture.path("held/inner"), "INNER").unwrap());
    check("d", &|fixture| fs::remove_file(fixture.path("held/inner")).unwrap());
    check("d", &|fixture| std::os::unix::fs::symlink("/", fixture.path("held/link")).unwrap());
    let bits = fs::Permissions::from_mode(0o755);
    check("d", &|fixture| fs::set_permissions(fixture.path("held/inner"), bits.clone()).unwrap());
    check("f", &|fixture| fs::write(fixture.path("ws/twin"), "FILE").unwrap());
}

#[test]
fn change_beyond_the_seal_limit_is_found_by_its_times() {
    let fixture = WorkspaceFixture::new();
    let large = fs::File::create(fixture.file("ws/d/a", "")).unwrap();
    large.set_len(65 << 20).unwrap();
    let store = UndoStore::at(
        &fixture.path("undo"),
        UndoLimits { keep_bytes: 1 << 30, keep_for: Duration::from_secs(3600) },
    );
    let call = CallId::fresh();
    let removing = fixture.remove("d");
    removing
        .remove(
            &ContentPrecondition::Anything,
            FolderRemoval::Recursive,
            &RemovalGuard::none(),
            &store.for_call(call),
        )
        .unwrap();
    assert!(store.preview_revert(call).is_ok());
    std::os::unix::fs::FileExt::write_at(&large, b"x", 7).unwrap();
    large.set_modified(std::time::UNIX_EPOCH).unwrap();
    let error = store.revert(call, &store.for_call(CallId::fresh())).unwrap_err();
    assert!(error.to_string().contains("was changed after it was removed"), "{error}");
}

#[test]
fn last_change_of_a_call_is_undone_first() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "one");
    let call = CallId::fresh();
    let saving = fixture.undo().for_call(call);
    for content in ["two", "three"] {
        fixture.write("f").replace(content.as_bytes(), &ContentPrecondition::Anything, &saving).unwrap();
    }
    // The check before the undo finds the first change overwritten by the second, so nothing is touched.
    check_refused(&fixture, call, "its sha256 is now");
    let (other, saving) = (CallId::fresh(), fixture.undo());
    let saving = saving.for_call(other);
    for name in ["a", "b"] {
        fixture.write(name).replace(b"x", &ContentPrecondition::Absent, &saving).unwrap();
    }
    assert_eq!(undo(&fixture, other).unwrap().len(), 2);
    assert_eq!(fixture.names("ws"), ["f"]);
}

thread_local! {
    /// Clock of the test, in milliseconds.
    static NOW: std::cell::Cell<u64> = const { std::cell::Cell::new(1_000_000_000_000) };
}

/// Returns a slightly later time with each call.
fn now() -> u64 {
    NOW.set(NOW.get() + 1);
    NOW.get()
}

const DAY: u64 = 24 * 60 * 60 * 1000;

/// Returns a store that uses the clock of the test.
fn store(fixture: &WorkspaceFixture, keep_bytes: u64, keep_for: u64) -> Arc<UndoStore> {
    let limits = UndoLimits { keep_bytes, keep_for: Duration::from_millis(keep_for) };
    Arc::new(UndoStore { path: fixture.path("undo"), limits, now })
}

/// Replaces a file of this size.
fn change(
    fixture: &WorkspaceFixture,
    store: &Arc<UndoStore>,
    name: &str,
    bytes: usize,
) -> Result<CallId, AccessError> {
    fixture.file(&format!("ws/{name}"), &"x".repeat(bytes));
    let call = CallId::fresh();
    fixture.write(name).replace(b"new", &ContentPrecondition::Anything, &store.for_call(call))?;
    Ok(call)
}

#[test]
fn oldest_states_are_pruned_by_size_and_age() {
    let fixture = WorkspaceFixture::new();
    let small = store(&fixture, 250, 9 * DAY);
    let calls: Vec<CallId> = (0..4)
        .map(|number| {
            NOW.set(NOW.get() + DAY);
            change(&fixture, &small, &format!("f{number}"), 100).unwrap()
        })
        .collect();
    let kept: Vec<bool> = calls.iter().map(|call| small.preview_revert(*call).is_ok()).collect();
    assert_eq!(kept, [false, false, true, true]);
    assert_eq!(fixture.names("undo").len(), 4, "two records and two copies");
    store(&fixture, 250, 0).recover().unwrap();
    assert_eq!(fixture.names("undo").len(), 0, "too old");
    let error = change(&fixture, &small, "large", 251).unwrap_err();
    assert!(error.to_string().contains("has 251 bytes, more than the 250"), "{error}");
    assert_eq!((Failure::from(error).kind, fixture.names("undo").len()), (FailureKind::TooLarge, 0));
    let none = store(&fixture, 0, DAY).for_call(CallId::fresh());
    fixture.write("large").replace(b"new", &ContentPrecondition::Anything, &none).unwrap();
    assert_eq!(
        (fixture.content("ws/large").as_str(), fixture.names("undo").len(), none.recorded_changes()),
        ("new", 0, 0)
    );
}

#[test]
fn states_of_the_last_day_are_not_pruned() {
    let fixture = WorkspaceFixture::new();
    let small = store(&fixture, 250, 9 * DAY);
    let calls = [change(&fixture, &small, "a", 100).unwrap(), change(&fixture, &small, "b", 100).unwrap()];
    let refused = change(&fixture, &small, "c", 100).unwrap_err();
    assert!(refused.to_string().contains("of which changes of the last day use 200"), "{refused}");
    assert_eq!((fixture.content("ws/c").len(), fixture.names("undo").len()), (100, 4), "nothing was changed");
    let removed = fixture.remove("c").remove(
        &ContentPrecondition::Anything,
        FolderRemoval::Recursive,
        &RemovalGuard::none(),
        &small.for_call(CallId::fresh()),
    );
    assert!(matches!(removed, Err(AccessError::TooLargeForUndo { in_use: 200, .. })), "{removed:?}");
    // A small state fits, and the refused one is not counted.
    change(&fixture, &small, "d", 50).unwrap();
    // An undo by the operator ignores the quota.
    small.revert(calls[0], &small.for_undo(CallId::fresh())).unwrap();
    assert_eq!(fixture.content("ws/a").len(), 100);
    assert!(small.preview_revert(calls[1]).is_ok());
    NOW.set(NOW.get() + DAY + 1);
    change(&fixture, &small, "c", 200).unwrap();
    assert!(small.preview_revert(calls[1]).is_err(), "a day later it makes room");
}

#[test]
fn sparse_file_uses_no_undo_quota_when_moved() {
    let fixture = WorkspaceFixture::new();
    let small = store(&fixture, 1 << 20, 9 * DAY);
    let first = change(&fixture, &small, "a", 100).unwrap();
    let hole = fs::File::create(fixture.path("ws/hole")).unwrap();
    hole.set_len(1 << 30).unwrap();
    let (call, protects) = (CallId::fresh(), RemovalGuard::none());
    let removed = fixture.remove("hole").remove(
        &ContentPrecondition::Anything,
        FolderRemoval::Refuse,
        &protects,
        &small.for_call(call),
    );
    assert_eq!(removed.unwrap().bytes, 1 << 30);
    assert!(small.preview_revert(first).is_ok() && small.preview_revert(call).is_ok());
    // A copy would not be sparse.
    small.revert(call, &small.for_undo(CallId::fresh())).unwrap();
    let replaced = fixture.write("hole").replace(
        b"new",
        &ContentPrecondition::Anything,
        &small.for_call(CallId::fresh()),
    );
    assert!(matches!(replaced, Err(AccessError::TooLargeForUndo { .. })), "{replaced:?}");
    assert!(small.preview_revert(first).is_ok());
}

#[test]
fn recovery_removes_orphaned_store_entries() {
    let fixture = WorkspaceFixture::new();
    assert_eq!(fixture.undo().recover().unwrap(), RecoveryReport::default(), "no folder, nothing to do");
    fixture.file("ws/f", "old");
    let call = write(&fixture, "f", "new");
    let orphan = CallId::fresh();
    fs::write(fixture.path("undo").join(format!("{orphan}-0.before")), "x").unwrap();
    fs::write(fixture.path("undo").join(format!("{orphan}-1.pending")), "{\"call_id\"").unwrap();
    assert_eq!(fixture.undo().recover().unwrap(), RecoveryReport::default());
    assert_eq!(fixture.names("undo").len(), 2);
    undo(&fixture, call).unwrap();
    assert_eq!(fixture.content("ws/f"), "old");
}

#[test]
fn records_of_another_version_are_left_alone() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "the only copy");
    let call = remove(&fixture, "f");
    let at = |ending: &str| fixture.path("undo").join(format!("{call}-0.{ending}"));
    let of_ours = fs::read_to_string(at("json")).unwrap();
    fs::write(at("pending"), of_ours.replace("\"moved\"", "\"carried_off\"")).unwrap();
    fs::remove_file(at("json")).unwrap();
    assert_eq!(fixture.undo().recover().unwrap().deferred, [at("pending")]);
    assert_eq!(fs::read_to_string(at("before")).unwrap(), "the only copy");
}

#[test]
fn unreachable_folder_is_deferred_to_the_next_start() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/sub/f", "old");
    let call = write(&fixture, "sub/f", "new");
    let (done, pending) = (format!("{call}-0.json"), format!("{call}-0.pending"));
    fs::rename(fixture.path("undo").join(done), fixture.path("undo").join(pending)).unwrap();
    fs::rename(fixture.path("ws/sub"), fixture.path("ws/away")).unwrap();
    assert_eq!(fixture.undo().recover().unwrap().deferred, [fixture.path("ws/sub/f")]);
    fs::rename(fixture.path("ws/away"), fixture.path("ws/sub")).unwrap();
    assert_eq!(fixture.undo().recover().unwrap().completed, [fixture.path("ws/sub/f")]);
    undo(&fixture, call).unwrap();
    assert_eq!(fixture.content("ws/sub/f"), "old");
}

/// With the store on another volume, removed objects are copied, and copied back by an undo.
#[test]
fn store_on_another_volume_keeps_copies() {
    let fixture = WorkspaceFixture::new();
    fs::create_dir(fixture.path("undo")).unwrap();
    let mount = |words: &[&str]| {
        let output = std::process::Command::new("mount").args(words).arg(fixture.path("undo")).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs"]) {
        ::tests::left_out("mounting is not permitted here");
        return;
    }
    let result = std::panic::catch_unwind(|| {
        let file = fixture.file("ws/f", "file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o604)).unwrap();
        fixture.file("ws/d/sub/inner", "inner");
        for text in ["f", "d"] {
            let call = remove(&fixture, text);
            assert!(!fixture.names("ws").contains(&text.to_owned()), "{:?}", fixture.names("ws"));
            undo(&fixture, call).unwrap();
        }
        assert_eq!((fixture.content("ws/f").as_str(), mode(&fixture, "ws/f")), ("file", 0o604));
        assert_eq!(fixture.content("ws/d/sub/inner"), "inner");
        assert_eq!(
            (fixture.names("ws"), fixture.names("undo").len()),
            (vec!["d".to_owned(), "f".to_owned()], 0)
        );
        fixture.file("ws/large", &"x".repeat(5 << 20));
        let protects = RemovalGuard::none();
        let removed = fixture.remove("large").remove(
            &ContentPrecondition::Anything,
            FolderRemoval::Refuse,
            &protects,
            &fixture.recorder(),
        );
        assert_eq!(Failure::from(removed.unwrap_err()).kind, FailureKind::ResourceExhausted);
        assert_eq!((fixture.content("ws/large").len(), fixture.names("undo").len()), (5 << 20, 0));
    });
    assert!(std::process::Command::new("umount").arg(fixture.path("undo")).status().unwrap().success());
    result.unwrap();
}
