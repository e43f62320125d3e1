//! A full disk. `crashes` injects errors into each system call of a change.

use std::process::Command;

use tool::{Failure, FailureKind};

use crate::ContentPrecondition;
use crate::testing::WorkspaceFixture;

#[test]
fn full_disk_leaves_old_content_and_no_temporary_file() {
    let fixture = WorkspaceFixture::new();
    let mount = |arguments: &[&str]| {
        let status = Command::new("mount").args(arguments).arg(fixture.path("ws")).output();
        status.is_ok_and(|output| output.status.success())
    };
    if !mount(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"]) {
        ::tests::left_out("mounting is not permitted here");
        return;
    }
    let result = std::panic::catch_unwind(|| {
        fixture.file("ws/f", "old");
        for text in ["f", "new"] {
            let error = fixture
                .write(text)
                .replace(&[b'x'; 100_000], &ContentPrecondition::Anything, &fixture.recorder())
                .unwrap_err();
            assert_eq!(Failure::from(error).kind, FailureKind::ResourceExhausted, "{text}");
            assert_eq!((fixture.content("ws/f"), fixture.names("ws")), ("old".into(), vec!["f".to_owned()]));
        }
        fixture
            .write("f")
            .replace(&[b'x'; 10_000], &ContentPrecondition::Anything, &fixture.recorder())
            .unwrap();
    });
    assert!(Command::new("umount").arg(fixture.path("ws")).status().unwrap().success());
    result.unwrap();
}
