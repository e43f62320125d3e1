//! Results and errors of bounded reads.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};

use tool::{Failure, FailureKind};

use crate::testing::WorkspaceFixture;

fn check(fixture: &WorkspaceFixture, offset: u64, max: u64, bytes: &str, more: bool) {
    for taken in [false, true] {
        let file = fixture.read("f");
        assert!(!taken || file.try_prefetch() || cfg!(not(target_os = "linux")));
        let portion = file.read_range(offset, max).unwrap();
        let found = (portion.bytes.as_slice(), portion.has_more, portion.size);
        assert_eq!(found, (bytes.as_bytes(), more, 10), "{offset} {max}, prefetched: {taken}");
    }
}

#[test]
fn read_range_is_exact_and_reports_more_content() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "0123456789");
    check(&fixture, 0, 4, "0123", true);
    check(&fixture, 0, 9, "012345678", true);
    check(&fixture, 0, 10, "0123456789", false);
    check(&fixture, 0, u64::MAX, "0123456789", false);
    check(&fixture, 8, 4, "89", false);
    check(&fixture, 10, 4, "", false);
    check(&fixture, u64::MAX, 4, "", false);
    check(&fixture, 0, 0, "", true);
}

#[test]
fn huge_sparse_file_allocates_only_what_is_read() {
    let fixture = WorkspaceFixture::new();
    let size = 1 << 40;
    File::create(fixture.path("ws/sparse")).unwrap().set_len(size).unwrap();
    let portion = fixture.read("sparse").read_range(0, 1000).unwrap();
    assert_eq!((portion.bytes.len(), portion.has_more, portion.size), (1000, true, size));
    assert!(portion.bytes.capacity() <= 4096, "{}", portion.bytes.capacity());
    assert_eq!(fixture.read("sparse").read_range(size - 1, 10).unwrap().bytes, [0]);
}

#[test]
fn opened_object_is_read_even_if_its_name_changed() {
    let fixture = WorkspaceFixture::new();
    let file = fixture.file("ws/f", "inside");
    let opened = fixture.read("f");
    fs::rename(&file, fixture.path("ws/moved")).unwrap();
    fixture.link("ws/f", fixture.path("outside/secret"));
    assert_eq!(opened.read_range(0, 100).unwrap().bytes, b"inside");
    fs::remove_file(fixture.path("ws/moved")).unwrap();
    assert_eq!(opened.read_range(0, 100).unwrap().bytes, b"inside");
}

#[test]
fn readers_keep_their_own_position_and_see_what_is_added() {
    let fixture = WorkspaceFixture::new();
    let file = fixture.file("ws/f", "abc");
    let opened = fixture.read("f");
    let (mut first, mut second) = (opened.reader().unwrap(), opened.reader().unwrap());
    let mut text = String::new();
    first.by_ref().take(2).read_to_string(&mut text).unwrap();
    second.read_to_string(&mut text).unwrap();
    File::options().append(true).open(file).unwrap().write_all(b"def").unwrap();
    first.read_to_string(&mut text).unwrap();
    assert_eq!(text, "ababccdef");
}

#[test]
fn digests_are_of_the_content() {
    let fixture = WorkspaceFixture::new();
    let content = "x".repeat(200_000);
    fixture.file("ws/f", &content);
    assert_eq!(fixture.read("f").sha256().unwrap(), tool::canonical::sha256_hex(content.as_bytes()));
}

#[test]
fn only_files_are_read_and_the_failure_says_why() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "f");
    fixture.link("ws/dangling", "nothing");
    for (text, kind, words) in [
        (".", FailureKind::WrongKind, "is a directory, not a file"),
        ("missing", FailureKind::NotFound, "it does not exist"),
        ("a/b", FailureKind::NotFound, "its folder does not exist"),
        ("f/x", FailureKind::WrongKind, "is not one"),
        ("dangling", FailureKind::Unreadable, "dangling symbolic link"),
    ] {
        let failure = Failure::from(fixture.read(text).read_range(0, 1).unwrap_err());
        assert_eq!(failure.kind, kind, "{text}: {failure}");
        assert!(failure.message.contains(words), "{text}: {failure}");
    }
}

#[test]
fn file_changed_during_a_read_is_read_again_or_marked() {
    let fixture = WorkspaceFixture::new();
    let path = fixture.file("ws/f", "0");
    for (changes, expected_reads, expect) in [(0, 1, false), (1, 2, false), (2, 3, false), (9, 3, true)] {
        let file = fixture.read("f");
        let mut reads = 0;
        let result = file.read_unchanged(|| {
            let bytes = file.read_range(0, 100)?.bytes;
            if reads < changes {
                File::options().append(true).open(&path).unwrap().write_all(b"x").unwrap();
            }
            reads += 1;
            Ok::<_, crate::AccessError>(bytes)
        });
        let (bytes, is_changed) = result.unwrap();
        assert_eq!((reads, is_changed), (expected_reads, expect), "{changes} changes");
        assert!(is_changed || bytes == fs::read(&path).unwrap());
    }
}
