//! Systems without `openat2`: an old kernel, or a container engine whose filter does not know the call. The
//! daemon opens paths in another way there, with the same guarantees.

use std::os::unix::fs::symlink;

use nix::errno::Errno;
use serde_json::json;
use tests::{Daemon, take_openat2_away};

use crate::sandbox;

/// Runs a test in a thread whose children have no `openat2`, for each error that stands for it.
fn without_openat2(test: fn()) {
    for error in [Errno::ENOSYS, Errno::EPERM] {
        let thread = std::thread::spawn(move || {
            take_openat2_away(error);
            // The filter must hold, or the test would pass by the ordinary way.
            let how =
                (rustix::fs::OFlags::PATH, rustix::fs::Mode::empty(), rustix::fs::ResolveFlags::empty());
            let refused = rustix::fs::openat2(rustix::fs::CWD, "/", how.0, how.1, how.2).unwrap_err();
            assert_eq!(refused.raw_os_error(), error as i32);
            test();
        });
        thread.join().expect("the test passes");
    }
}

#[test]
fn daemon_works_without_openat2() {
    without_openat2(|| {
        let daemon = Daemon::start();
        let workspace = daemon.home().workspace();
        std::fs::create_dir(workspace.join("sub")).unwrap();
        symlink("sub", workspace.join("to_sub")).unwrap();
        let outside = workspace.with_file_name("outside.txt");
        std::fs::write(&outside, "outside").unwrap();
        symlink(&outside, workspace.join("to_outside")).unwrap();
        let mut agent = daemon.agent();
        let mut call = |tool: &str, arguments| agent.execute(tool, &arguments);
        let written = call("write_file", json!({"path": "to_sub/f.txt", "content": "text"}));
        assert_eq!(written["success"], true, "{written}");
        assert_eq!(std::fs::read_to_string(workspace.join("sub/f.txt")).unwrap(), "text");
        let read = call("read_file", json!({"path": "sub/f.txt"}));
        assert_eq!(read["output"]["content"], "text", "{read}");
        for path in ["to_outside", "/proc/self/environ", "/proc/self/root/etc/passwd", "/dev/stdin"] {
            let refused = call("read_file", json!({"path": path}));
            assert_eq!(refused["success"], false, "{path}: {refused}");
        }
        let removed = call("delete_file", json!({"path": "sub/f.txt"}));
        assert!(!workspace.join("sub/f.txt").exists(), "{removed}");
    });
}

#[test]
fn commands_are_sandboxed_without_openat2() {
    without_openat2(|| {
        let daemon = Daemon::start_in(sandbox::home(""));
        std::fs::write(daemon.home().workspace().join(".env"), "secret").unwrap();
        let words = ["sh", "-c", "echo made > made.txt; cat .env || echo refused"];
        let result = daemon.agent().execute("run_command", &json!({"command": words}));
        assert_eq!(result["output"]["sandbox"]["tier"], "full", "{result}");
        assert_eq!(result["output"]["stdout"], "refused\n", "{result}");
        assert_eq!(std::fs::read_to_string(daemon.home().workspace().join("made.txt")).unwrap(), "made\n");
    });
}
