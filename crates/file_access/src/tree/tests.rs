//! Tests of visiting and copying directory trees, and of a race that replaces folders by symlinks during a removal.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::*;
use crate::testing::{WorkspaceFixture, assert_passed};

fn visited_names(fixture: &WorkspaceFixture, max_entries: usize) -> (Vec<String>, SkippedEntries) {
    let mut names = Vec::new();
    let skipped = fixture.read(".").visit(&mut |found| {
        names.push(format!("{}:{}", found.depth, found.relative.display()));
        if names.len() == max_entries { VisitAction::Stop } else { VisitAction::Enter }
    });
    (names, skipped.unwrap())
}

#[test]
fn entries_are_visited_in_order_and_links_not_followed() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/b/two", "2");
    fixture.file("ws/b/deep/one", "1");
    fixture.file("ws/a", "a");
    fixture.link("ws/c", "../outside");
    let (names, skipped) = visited_names(&fixture, 100);
    assert_eq!(names, ["1:a", "1:b", "2:b/deep", "3:b/deep/one", "2:b/two", "1:c"]);
    assert_eq!(skipped, SkippedEntries::default());
    assert_eq!(visited_names(&fixture, 2).0, ["1:a", "1:b"]);
}

#[test]
fn exceeding_the_depth_limit_is_reported() {
    let fixture = WorkspaceFixture::new();
    let deep: PathBuf = std::iter::repeat_n("d", MAX_DEPTH + 1).collect();
    fs::create_dir_all(fixture.path("ws").join(deep)).unwrap();
    let (names, skipped) = visited_names(&fixture, 10_000);
    assert_eq!((names.len(), skipped.truncated), (MAX_DEPTH, true));
}

#[test]
fn a_folder_that_may_not_be_looked_into_is_named() {
    let fixture = WorkspaceFixture::from_parent().unwrap_or_else(|| {
        let fixture = WorkspaceFixture::new();
        fixture.file("ws/shut/inner", "x");
        fixture.file("ws/z", "x");
        fs::set_permissions(fixture.path("ws/shut"), fs::Permissions::from_mode(0o000)).unwrap();
        let test = "tree::tests::a_folder_that_may_not_be_looked_into_is_named";
        assert_passed(&fixture.unprivileged_child(test));
        fixture
    });
    if rustix::process::geteuid().is_root() {
        return;
    }
    let (names, skipped) = visited_names(&fixture, 100);
    assert_eq!(names, ["1:shut", "1:z"]);
    assert_eq!(skipped.unreadable, [PathBuf::from("shut")]);
}

#[test]
fn only_a_regular_file_is_read() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "content");
    let status = std::process::Command::new("mkfifo").arg(fixture.path("ws/p")).status().unwrap();
    assert!(status.success());
    let mut read = Vec::new();
    fixture
        .read(".")
        .visit(&mut |found| {
            read.push(found.reader().map(|reader| io::read_to_string(reader).unwrap()).ok());
            VisitAction::Enter
        })
        .unwrap();
    assert_eq!(read, [Some("content".to_owned()), None]);
}

#[test]
fn a_copy_has_files_folders_links_and_permissions() {
    let fixture = WorkspaceFixture::new();
    let file = fixture.file("ws/t/sub/f", "content");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(fixture.path("ws/t/sub"), fs::Permissions::from_mode(0o750)).unwrap();
    fixture.link("ws/t/link", "sub/f");
    let ws = open_folder(&File::open(fixture.path(".")).unwrap().into(), "ws".as_ref()).unwrap();
    copy_tree(&ws, "t".as_ref(), &ws, "new".as_ref()).unwrap();
    assert_eq!(fixture.content("ws/new/sub/f"), "content");
    let mode = |name: &str| fs::metadata(fixture.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("ws/new/sub/f"), mode("ws/new/sub")), (0o640, 0o750));
    assert_eq!(fs::read_link(fixture.path("ws/new/link")).unwrap().as_os_str(), "sub/f");
    let status = std::process::Command::new("mkfifo").arg(fixture.path("ws/t/p")).status().unwrap();
    assert!(status.success());
    let error = copy_tree(&ws, "t".as_ref(), &ws, "another".as_ref()).unwrap_err().to_string();
    assert!(error.contains("`p` in it is a fifo"), "{error}");
}

/// Minimum number of exchanges while trees are removed.
const EXCHANGES: u64 = 12_000;

#[test]
fn folder_swapped_for_a_link_during_removal_is_safe() {
    let fixture = WorkspaceFixture::new();
    fixture.file("outside/a/b", "kept");
    fixture.file("outside/c/b", "kept");
    let ws = open_folder(&File::open(fixture.path(".")).unwrap().into(), "ws".as_ref()).unwrap();
    let (exchanges, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let deadline = Instant::now() + Duration::from_secs(60);
    let removed = std::thread::scope(|scope| {
        scope.spawn(|| {
            let (inner, swap) = (fixture.path("ws/tree/inner"), fixture.path("ws/swap"));
            while !over.load(SeqCst) {
                let done = renameat_with(CWD, &inner, CWD, &swap, RenameFlags::EXCHANGE).is_ok();
                exchanges.fetch_add(u64::from(done), SeqCst);
            }
        });
        let mut removed = 0;
        while exchanges.load(SeqCst) < EXCHANGES && Instant::now() < deadline {
            let _ = remove_tree(&ws, &OsString::from("swap"));
            for name in ["ws/tree/inner/a", "ws/tree/inner/c"] {
                let _ = fs::create_dir_all(fixture.path(name));
            }
            let _ = std::os::unix::fs::symlink("../../outside", fixture.path("ws/swap"));
            removed += u64::from(remove_tree(&ws, &OsString::from("tree")).is_ok());
        }
        over.store(true, SeqCst);
        removed
    });
    assert!(exchanges.into_inner() >= EXCHANGES && removed > 0, "the racer must not have won every time");
    for name in ["outside/a/b", "outside/c/b"] {
        assert_eq!(fixture.content(name), "kept");
    }
    assert_eq!(fixture.names("outside"), ["a", "c", "secret"]);
}
