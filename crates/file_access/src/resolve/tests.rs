//! Table of path spellings: the object each text reaches, its name, and the reason if it does not resolve.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use tool::RefusalCode;
use tool::definition::PathAccess;

use crate::error::OpenError;
use crate::testing::{WorkspaceFixture, assert_passed, open_from};
use crate::unresolved::UnresolvedReason;
use crate::{ObjectKind, canonical_directory};

use ObjectKind::{Directory, File as Regular, Missing, Unreachable};

/// Checks that a text reaches this kind of object under this name, given relative to the root of the fixture.
fn check(test_fixture: &WorkspaceFixture, text: &str, access: PathAccess, kind: ObjectKind, canonical: &str) {
    let opened = test_fixture.try_open(text, access).unwrap();
    assert_eq!(opened.kind(), kind, "{text:?} {access:?} gave {opened:?}");
    assert_eq!(opened.canonical(), test_fixture.path(canonical), "{text:?} {access:?}");
    assert_eq!(opened.metadata().is_none(), matches!(kind, Missing | Unreachable), "{text:?}");
    assert_eq!(opened.unresolved_reason().is_some(), matches!(kind, Missing | Unreachable), "{text:?}");
}

fn populated() -> WorkspaceFixture {
    let test_fixture = WorkspaceFixture::new();
    test_fixture.file("ws/f.txt", "f");
    test_fixture.file("ws/sub/g.txt", "g");
    test_fixture.link("ws/to_f", "f.txt");
    test_fixture.link("ws/to_sub", "sub");
    test_fixture.link("ws/chain", "chain2");
    test_fixture.link("ws/chain2", "to_sub/g.txt");
    test_fixture.link("ws/out", "../outside");
    test_fixture.link("ws/out_absolute", test_fixture.path("outside/secret"));
    test_fixture.link("ws/loop", "loop");
    test_fixture.link("ws/ping", "pong");
    test_fixture.link("ws/pong", "ping");
    test_fixture.link("ws/dangling", "nothing");
    test_fixture.link("ws/dangling_out", "../outside/nothing");
    test_fixture.link("ws/dangling_deep", "nothing/at/all");
    test_fixture
}

#[test]
fn every_spelling_reaches_the_same_object() {
    let test_fixture = populated();
    for access in [PathAccess::Read, PathAccess::Write] {
        for (text, kind, canonical) in [
            ("f.txt", Regular, "ws/f.txt"),
            ("./f.txt", Regular, "ws/f.txt"),
            (".//f.txt", Regular, "ws/f.txt"),
            ("sub/../f.txt", Regular, "ws/f.txt"),
            ("to_f", Regular, "ws/f.txt"),
            ("chain", Regular, "ws/sub/g.txt"),
            // The kernel applies `..` to the target of a link, not to the link.
            ("out/../ws/f.txt", Regular, "ws/f.txt"),
            ("to_sub/../f.txt", Regular, "ws/f.txt"),
            ("sub", Directory, "ws/sub"),
            ("sub/", Directory, "ws/sub"),
            ("sub/.", Directory, "ws/sub"),
            ("to_sub/", Directory, "ws/sub"),
            (".", Directory, "ws"),
            ("..", Directory, ""),
            ("out/secret", Regular, "outside/secret"),
            ("out_absolute", Regular, "outside/secret"),
            ("../outside/secret", Regular, "outside/secret"),
            ("f.txt/", Unreachable, "ws/f.txt"),
            ("f.txt/.", Unreachable, "ws/f.txt"),
            ("f.txt/x", Unreachable, "ws/f.txt/x"),
            ("loop", Unreachable, "ws/loop"),
            ("loop/x", Unreachable, "ws/loop/x"),
            ("ping", Unreachable, "ws/ping"),
            ("missing", Missing, "ws/missing"),
            ("missing/", Missing, "ws/missing"),
            ("sub/missing", Missing, "ws/sub/missing"),
            ("to_sub/missing", Missing, "ws/sub/missing"),
            ("out/missing", Missing, "outside/missing"),
            ("a/b/c", Missing, "ws/a/b/c"),
            // Not `ws/f.txt`: the kernel finds no `a` to apply `..` to.
            ("a/../f.txt", Missing, "ws/a"),
            ("a/b/../../../../outside/secret", Missing, "ws/a/b"),
            ("dangling", Unreachable, "ws/nothing"),
            ("dangling_out", Unreachable, "outside/nothing"),
            ("dangling_out/x", Unreachable, "outside/nothing/x"),
            ("dangling_deep", Unreachable, "ws/nothing/at/all"),
        ] {
            check(&test_fixture, text, access, kind, canonical);
        }
    }
    let absolute = test_fixture.path("ws/sub/g.txt");
    check(&test_fixture, absolute.to_str().unwrap(), PathAccess::Read, Regular, "ws/sub/g.txt");
}

#[test]
fn the_typed_name_is_kept_beside_the_canonical_one() {
    let fixture = populated();
    let opened = fixture.read("out/../ws//to_f");
    assert_eq!(opened.as_typed().as_os_str(), fixture.path("ws/out/../ws/to_f").as_os_str());
    assert_eq!((opened.key(), opened.access()), ("path", PathAccess::Read));
}

#[test]
fn unresolved_paths_report_the_reason() {
    let fixture = populated();
    for (text, obstacle) in [
        ("missing", UnresolvedReason::Absent),
        ("a/b", UnresolvedReason::ParentMissing),
        ("f.txt/x", UnresolvedReason::NotADirectory),
        ("f.txt/", UnresolvedReason::NotADirectory),
        ("loop", UnresolvedReason::LinkLoop),
        ("ping/x", UnresolvedReason::LinkLoop),
        ("dangling", UnresolvedReason::DanglingLink),
        ("dangling/x", UnresolvedReason::DanglingLink),
        ("/proc/self/root/etc", UnresolvedReason::MagicLink),
    ] {
        assert_eq!(fixture.read(text).unresolved_reason(), Some(obstacle), "{text}");
    }
}

#[test]
fn symlink_limit_matches_the_kernel() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/l0", "end");
    let most = crate::platform::MAX_SYMLINKS;
    for number in 1..=most + 1 {
        fixture.link(&format!("ws/l{number}"), format!("l{}", number - 1));
    }
    check(&fixture, &format!("l{most}"), PathAccess::Read, Regular, "ws/l0");
    let beyond = fixture.read(&format!("l{}", most + 1));
    assert_eq!((beyond.kind(), beyond.unresolved_reason()), (Unreachable, Some(UnresolvedReason::LinkLoop)));
}

#[test]
fn symlink_target_name_is_the_same_whether_it_exists_or_not() {
    let fixture = WorkspaceFixture::new();
    fixture.link("ws/probe", "../outside/maybe/key");
    for access in [PathAccess::Read, PathAccess::Write] {
        let before = fixture.try_open("probe", access).unwrap().canonical().to_owned();
        fixture.file("outside/maybe/key", "k");
        assert_eq!(before, fixture.try_open("probe", access).unwrap().canonical());
        assert_eq!(before, fixture.path("outside/maybe/key"));
        fs::remove_dir_all(fixture.path("outside/maybe")).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn magic_links_are_never_followed() {
    let fixture = WorkspaceFixture::new();
    fixture.link("ws/root", "/proc/self/root");
    fixture.link("ws/process", "/proc/self");
    let own_root = format!("/proc/{}/root/etc", std::process::id());
    let own = format!("/proc/{}/root/etc/passwd", std::process::id());
    let held = File::open(fixture.path("outside/secret")).unwrap();
    let by_number = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&held));
    for access in [PathAccess::Read, PathAccess::Write] {
        for (text, canonical) in [
            ("/proc/self/root/etc/passwd", "/proc/self/root/etc/passwd"),
            ("/proc/self//root/./etc/passwd/", "/proc/self/root/etc/passwd"),
            (own.as_str(), own.as_str()),
            ("/proc/self/cwd/Cargo.toml", "/proc/self/cwd/Cargo.toml"),
            ("/proc/self/exe", "/proc/self/exe"),
            (by_number.as_str(), by_number.as_str()),
            ("root/etc/passwd", "/proc/self/root/etc/passwd"),
            ("process/root/etc", own_root.as_str()),
            ("/dev/fd/0", "/dev/fd/0"),
            ("/dev/stdin", "/proc/self/fd/0"),
        ] {
            let opened = fixture.try_open(text, access).unwrap();
            assert_eq!(opened.kind(), Unreachable, "{text}");
            assert_eq!(opened.unresolved_reason(), Some(UnresolvedReason::MagicLink), "{text}");
            assert_eq!(opened.canonical(), Path::new(canonical), "{text}");
            assert!(opened.read_range(0, 1).is_err(), "{text}");
        }
        for text in ["/proc/1/root", "/proc/../proc/self/root/etc/passwd"] {
            let opened = fixture.try_open(text, access).unwrap();
            assert_eq!(opened.kind(), Unreachable, "{text}");
            assert!(opened.canonical().starts_with("/proc"), "{text} {opened:?}");
        }
    }
}

#[test]
fn special_files_are_named_and_not_touched() {
    let fixture = WorkspaceFixture::new();
    let fifo = fixture.path("ws/fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let _listener = UnixListener::bind(fixture.path("ws/socket")).unwrap();
    fixture.link("ws/to_fifo", "fifo");
    for access in [PathAccess::Read, PathAccess::Write] {
        // Without a peer: a blocking open would hang here.
        check(&fixture, "fifo", access, ObjectKind::Special("fifo"), "ws/fifo");
        check(&fixture, "to_fifo", access, ObjectKind::Special("fifo"), "ws/fifo");
        check(&fixture, "socket", access, ObjectKind::Special("socket"), "ws/socket");
        let zero = fixture.try_open("/dev/zero", access).unwrap();
        assert_eq!(
            (zero.kind(), zero.canonical()),
            (ObjectKind::Special("character device"), Path::new("/dev/zero"))
        );
        assert!(zero.read_range(0, 1).unwrap_err().to_string().contains("character device, not a file"));
        assert!(zero.replace(b"x", &crate::ContentPrecondition::Anything, &fixture.recorder()).is_err());
    }
    let mut both = File::options().read(true).write(true).open(&fifo).unwrap();
    both.write_all(b"token").unwrap();
    assert!(fixture.read("fifo").read_range(0, 5).is_err());
    let mut token = [0; 5];
    both.read_exact(&mut token).unwrap();
    assert_eq!(&token, b"token", "no byte was consumed");
}

#[test]
fn facts_are_those_of_the_object() {
    let fixture = WorkspaceFixture::new();
    let file = fixture.file("ws/f", "12345");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    fs::hard_link(&file, fixture.path("outside/second_name")).unwrap();
    let opened = fixture.read("f");
    let (facts, truth) = (opened.metadata().unwrap(), fs::metadata(&file).unwrap());
    assert_eq!((facts.size, facts.links, facts.mode), (5, 2, 0o640));
    assert_eq!((facts.identity.device, facts.identity.inode), (truth.dev(), truth.ino()));
    assert_eq!(facts.modified, truth.modified().unwrap());
    assert_eq!(fixture.read("../outside/second_name").metadata().unwrap().identity, facts.identity);
}

#[cfg(target_os = "linux")]
#[test]
fn names_need_not_be_unicode() {
    let fixture = WorkspaceFixture::new();
    let odd: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff\xfe.txt");
    fs::write(fixture.path("ws").join(odd), "odd").unwrap();
    fixture.link("ws/plain", Path::new(odd));
    let opened = fixture.write("plain");
    assert_eq!(opened.canonical(), fixture.path("ws").join(odd));
    opened.replace(b"new", &crate::ContentPrecondition::Anything, &fixture.recorder()).unwrap();
    assert_eq!(fs::read(fixture.path("ws").join(odd)).unwrap(), b"new");
}

#[cfg(target_os = "linux")]
#[test]
fn deleted_suffix_in_a_real_name_is_recognised() {
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/real (deleted)", "here");
    check(&fixture, "real (deleted)", PathAccess::Read, Regular, "ws/real (deleted)");
    // The handle of a removed name, while the object exists under another name and a decoy has the name with
    // the suffix.
    let file = fixture.file("ws/gone", "x");
    fs::hard_link(&file, fixture.path("ws/other")).unwrap();
    let handle = crate::platform::open_handle(&file).unwrap();
    fs::remove_file(&file).unwrap();
    fixture.file("ws/gone (deleted)", "decoy");
    let facts = crate::platform::status(&handle).unwrap().facts;
    assert_eq!(crate::platform::path_of(&handle, &facts), Err(Errno::NOENT));
}

#[test]
fn renamed_file_has_no_write_location() {
    let fixture = WorkspaceFixture::new();
    let name = fixture.file("ws/f", "f");
    let facts = fixture.read("f").metadata().unwrap().identity;
    assert!(super::locate(&name, facts).unwrap().is_some());
    fs::rename(&name, fixture.path("ws/moved")).unwrap();
    assert!(super::locate(&name, facts).unwrap().is_none(), "nothing is there");
    fixture.link("ws/f", "moved");
    assert!(super::locate(&name, facts).unwrap().is_none(), "a link to the same object is not the object");
    fs::rename(fixture.path("ws"), fixture.path("elsewhere")).unwrap();
    fixture.link("ws", "elsewhere");
    fs::remove_file(fixture.path("elsewhere/f")).unwrap();
    fs::rename(fixture.path("elsewhere/moved"), fixture.path("elsewhere/f")).unwrap();
    assert!(super::locate(&name, facts).unwrap().is_none(), "the folder is a link now");
}

#[test]
fn paths_keep_order_and_one_bad_text_opens_nothing() {
    #[derive(Debug)]
    struct Call(Vec<crate::PathRequest>);
    impl crate::PathSource for Call {
        fn path_requests(&self) -> Vec<crate::PathRequest> {
            self.0.clone()
        }
    }
    let fixture = populated();
    let request = |key: &str, text: &str| crate::PathRequest {
        key: key.into(),
        text: text.into(),
        access: PathAccess::Read,
        base: fixture.path("ws").into(),
    };
    let opened = crate::open(Call(vec![request("from", "f.txt"), request("to", "sub")])).unwrap();
    let keys: Vec<_> = opened.paths().iter().map(|path| (path.key(), path.kind())).collect();
    assert_eq!(keys, [("from", Regular), ("to", Directory)]);
    assert_eq!(opened.call().0.len(), 2);
    for (requests, detail) in [
        (vec![request("from", "f.txt"), request("to", "a\0b")], "nul"),
        (vec![request("to", "f.txt"); 129], "too_many_paths"),
    ] {
        let error = crate::open(Call(requests)).unwrap_err();
        assert_eq!((error.key(), error.detail()), ("to", detail));
        assert_eq!(error.refusal_code(), RefusalCode::InvalidArguments);
    }
}

#[test]
fn roots_of_workspaces_are_canonical_directories() {
    let fixture = populated();
    for text in ["ws/to_sub", "ws/sub/", "ws/out/../ws/sub"] {
        assert_eq!(canonical_directory(&fixture.path(text)).unwrap(), fixture.path("ws/sub"), "{text}");
    }
    for (text, kind) in
        [("ws/f.txt", std::io::ErrorKind::NotADirectory), ("ws/missing", std::io::ErrorKind::NotFound)]
    {
        assert_eq!(canonical_directory(&fixture.path(text)).unwrap_err().kind(), kind, "{text}");
    }
    #[cfg(target_os = "linux")]
    assert!(canonical_directory(Path::new("/proc/self/root")).is_err());
}

#[test]
fn what_may_not_be_looked_at_is_named_and_unreachable() {
    if let Some(fixture) = WorkspaceFixture::from_parent() {
        for text in ["../locked/inside", "../locked/absent", "to_locked", "to_locked_file"] {
            let opened = fixture.read(text);
            assert_eq!(opened.unresolved_reason(), Some(UnresolvedReason::NotPermitted), "{text}");
        }
        check(&fixture, "../locked/inside", PathAccess::Write, Unreachable, "locked/inside");
        check(&fixture, "../locked/absent", PathAccess::Write, Unreachable, "locked/absent");
        check(&fixture, "to_locked", PathAccess::Read, Unreachable, "locked/inside");
        check(&fixture, "to_locked_file", PathAccess::Read, Unreachable, "locked");
        return;
    }
    let fixture = WorkspaceFixture::new();
    fixture.file("locked/inside", "x");
    fixture.link("ws/to_locked", "../locked/inside");
    fixture.link("ws/to_locked_file", "../locked/../ws/f");
    fs::set_permissions(fixture.path("locked"), fs::Permissions::from_mode(0o000)).unwrap();
    let test = "resolve::tests::what_may_not_be_looked_at_is_named_and_unreachable";
    let output = fixture.unprivileged_child(test);
    fs::set_permissions(fixture.path("locked"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_passed(&output);
}

#[test]
fn resource_exhaustion_is_an_error_not_a_result() {
    if let Some(fixture) = WorkspaceFixture::from_parent() {
        let few = Rlimit { current: Some(64), maximum: Some(64) };
        rustix::process::setrlimit(Resource::Nofile, few).unwrap();
        let mut held = Vec::new();
        while let Ok(file) = File::open("/dev/null") {
            held.push(file);
        }
        let (name, identity) =
            (fixture.path("ws/f.txt"), crate::opened::ObjectIdentity { device: 0, inode: 0 });
        assert_eq!(super::locate(&name, identity).unwrap_err(), Errno::MFILE);
        // Each number of free descriptors stops the resolution at another step. None may give a result.
        let mut opened = 0;
        for free in 0..8 {
            match fixture.try_open(if free % 2 == 0 { "f.txt" } else { "missing" }, PathAccess::Write) {
                Ok(path) => {
                    opened += 1;
                    assert!(matches!(path.kind(), Regular | Missing), "{path:?}");
                }
                Err(error) => {
                    assert!(matches!(error, OpenError::Exhausted { .. }), "{error}");
                    assert_eq!(error.refusal_code(), RefusalCode::ResourceExhausted);
                }
            }
            held.pop();
        }
        assert!((1..8).contains(&opened), "{opened}");
        return;
    }
    let fixture = WorkspaceFixture::new();
    fixture.file("ws/f.txt", "f");
    let test = "resolve::tests::resource_exhaustion_is_an_error_not_a_result";
    assert_passed(&fixture.run_child(&[], test, None));
}

#[test]
fn passed_exhaustion_is_still_an_error() {
    let fixture = populated();
    let request = crate::PathRequest {
        key: "path".into(),
        text: "f.txt".into(),
        access: PathAccess::Read,
        base: fixture.path("ws").into(),
    };
    let spelling = crate::request::CheckedPathText::check(&request).unwrap();
    for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM] {
        assert_eq!(super::unresolved_object(&spelling, errno, PathAccess::Read).unwrap_err(), errno);
    }
}

#[test]
fn base_replaced_by_a_link_resolves_to_its_target() {
    let fixture = WorkspaceFixture::new();
    fs::rename(fixture.path("ws"), fixture.path("old")).unwrap();
    fixture.link("ws", "outside");
    let opened = open_from(&fixture.path("ws"), "secret", PathAccess::Read).unwrap();
    assert_eq!(opened.canonical(), fixture.path("outside/secret"));
}
