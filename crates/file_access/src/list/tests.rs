//! Listings of directories with every kind of entry.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::testing::{WorkspaceFixture, assert_passed};

fn names(listing: &FolderListing) -> Vec<String> {
    listing.entries.iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect()
}

#[test]
fn entries_are_shown_in_order_and_nothing_is_followed() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/b.txt", "12345");
    fixture.file("ws/a/inner", "x");
    fixture.link("ws/link", "../outside/secret");
    fixture.link("ws/dangling", "nothing");
    let _listener = std::os::unix::net::UnixListener::bind(fixture.path("ws/socket")).unwrap();
    let listing = fixture.read(".").list(10).unwrap();
    let kinds: Vec<_> = listing.entries.iter().map(|entry| entry.kind.clone()).collect();
    assert_eq!(names(&listing), ["a", "b.txt", "dangling", "link", "socket"]);
    assert_eq!(
        kinds,
        [
            EntryKind::Directory,
            EntryKind::File,
            EntryKind::Symlink("nothing".into()),
            EntryKind::Symlink("../outside/secret".into()),
            EntryKind::Special("socket"),
        ]
    );
    assert_eq!((listing.total, listing.truncated), (5, false));
    let file = &listing.entries[1];
    let truth = fs::metadata(fixture.path("ws/b.txt")).unwrap();
    assert_eq!((file.size, file.modified), (Some(5), Some(truth.modified().unwrap())));
}

#[test]
fn scans_in_parts_find_every_entry_once() {
    let fixture = WorkspaceFixture::new();
    let all: std::collections::BTreeSet<String> = (0..500).map(|number| format!("f{number:03}")).collect();
    all.iter().for_each(|name| drop(fixture.file(&format!("ws/{name}"), "12")));
    let folder = fixture.read(".");
    let (mut found, mut position) = (Vec::new(), 0);
    loop {
        let mut scan = folder.scan(position).unwrap();
        let before = found.len();
        while found.len() < before + 7
            && let Some(name) = scan.next_name().unwrap()
        {
            assert_eq!(scan.entry(name.clone()).unwrap().size, Some(2));
            found.push(name.into_string().unwrap());
        }
        position = scan.position();
        if found.len() == before {
            break;
        }
        // A file that was listed and then deleted must not displace the others.
        if before == 0 && cfg!(target_os = "linux") {
            fs::remove_file(fixture.path(&format!("ws/{}", found[0]))).unwrap();
        }
    }
    assert_eq!((found.len(), found.into_iter().collect()), (500, all));
    assert!(fixture.read("f499").scan(0).is_err(), "a file is no directory");
}

#[test]
fn long_listing_is_truncated_and_marked() {
    let fixture = WorkspaceFixture::new();
    for number in (0..50).rev() {
        fixture.file(&format!("ws/f{number:02}"), "");
    }
    for (most, first, cut) in [(3, vec!["f00", "f01", "f02"], true), (0, vec![], true)] {
        let listing = fixture.read(".").list(most).unwrap();
        assert_eq!(
            (names(&listing), listing.total, listing.truncated),
            (first.iter().map(|s| s.to_string()).collect(), 50, cut)
        );
    }
    let whole = fixture.read(".").list(50).unwrap();
    assert_eq!((whole.entries.len(), whole.truncated), (50, false));
}

#[cfg(target_os = "linux")]
#[test]
fn names_keep_their_bytes() {
    let fixture = WorkspaceFixture::new();
    let odd: &OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff\n");
    fs::write(fixture.path("ws").join(odd), "").unwrap();
    assert_eq!(fixture.read(".").list(10).unwrap().entries[0].name, odd);
}

#[test]
fn the_directory_that_was_opened_is_listed() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/d/mine", "");
    let opened = fixture.read("d");
    fs::rename(fixture.path("ws/d"), fixture.path("ws/moved")).unwrap();
    fixture.link("ws/d", fixture.path("outside"));
    assert_eq!(names(&opened.list(10).unwrap()), ["mine"]);
}

#[test]
fn only_directories_are_listed() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f", "");
    let error = fixture.read("f").list(10).unwrap_err();
    assert!(error.to_string().ends_with("is a file, not a directory"), "{error}");
    assert!(fixture.read("missing").list(10).unwrap_err().to_string().ends_with("it does not exist"));
}

#[test]
fn entries_that_may_not_be_looked_at_are_reported_as_such() {
    if let Some(fixture) = WorkspaceFixture::from_parent() {
        let listing = fixture.read("dim").list(10).unwrap();
        let entry =
            DirectoryEntry { name: "f".into(), kind: EntryKind::Unreadable, size: None, modified: None };
        assert_eq!(listing.entries, [entry]);
        return;
    }
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/dim/f", "");
    // Names may be read, but nothing below may be reached.
    fs::set_permissions(fixture.path("ws/dim"), fs::Permissions::from_mode(0o400)).unwrap();
    let test = "list::tests::entries_that_may_not_be_looked_at_are_reported_as_such";
    let output = fixture.unprivileged_child(test);
    fs::set_permissions(fixture.path("ws/dim"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_passed(&output);
}
