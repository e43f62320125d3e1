//! `sinew uninstall`: shows its list first, removes hooks before everything else, and leaves files of others alone.

use std::path::Path;

use tests::{Daemon, Home, SinewRun, sinew};

/// Runs `sinew` in a home with the default layout of Linux, below the home folder of a user.
fn run(user: &Path, words: &[&str]) -> SinewRun {
    let mut command = sinew();
    command.args(words).env("HOME", user).current_dir(user).stdin(std::process::Stdio::null());
    SinewRun { arguments: words.join(" "), output: command.output().expect("run sinew") }
}

/// Paths below a folder.
fn listing(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).expect("a folder") {
            let entry = entry.expect("an entry");
            found.push(entry.path().display().to_string());
            if entry.file_type().expect("its type").is_dir() {
                open.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
    std::fs::write(path, text).expect("write");
}

#[test]
fn purge_leaves_the_home_folder_as_it_was() {
    let home = Home::new();
    let user = home.user_home();
    put(&user.join(".claude/settings.json"), "{\n  \"model\": \"x\"\n}\n");
    put(&user.join(".config/other/file"), "other");
    let (before, settings) =
        (listing(user), std::fs::read(user.join(".claude/settings.json")).expect("settings"));
    for words in [
        &["init"][..],
        &["hook", "install", "claude-code"],
        &["hook", "install", "codex"],
        &["call", "list_directory", "path=."],
    ] {
        run(user, words);
    }
    put(&user.join(".local/share/zsh/site-functions/_sinew"), "completion");
    put(&user.join(".config/systemd/user/sinew.service"), "unit");
    let with = listing(user);
    assert!(with.len() > before.len() + 8, "{with:?}");

    let dry = run(user, &["uninstall", "--purge", "--dry-run"]).must_exit(0);
    for part in [
        ".claude/settings.json",
        ".codex/hooks.json",
        "sinew.service",
        "_sinew",
        ".config/sinew",
        "state/sinew",
    ] {
        assert!(dry.stdout().contains(part), "{part}: {dry}");
    }
    assert!(run(user, &["uninstall", "--purge"]).must_exit(2).stderr().contains("nothing was removed"));
    assert_eq!(listing(user), with, "nothing was removed");

    let kept = run(user, &["uninstall", "--yes"]).must_exit(0);
    assert!(kept.stdout().contains("kept: configuration in"), "{kept}");
    assert!(
        user.join(".config/sinew/sinew.yaml").exists() && user.join(".local/state/sinew/ledger").exists()
    );
    assert_eq!(std::fs::read(user.join(".claude/settings.json")).expect("settings"), settings);
    assert!(!user.join(".codex").exists() && !user.join(".config/systemd").exists());

    run(user, &["uninstall", "--purge", "--yes"]).must_exit(0);
    assert_eq!(listing(user), before);
    assert!(
        run(user, &["uninstall", "--purge", "--yes"]).must_exit(0).stdout().contains("nothing to remove")
    );
}

#[test]
fn uninstall_stops_the_daemon_after_its_calls() {
    let mut daemon = Daemon::start();
    let run = daemon.home().run(&["uninstall", "--yes"]).must_exit(0);
    assert!(run.stdout().contains("daemon") && run.stdout().contains(&daemon.pid().to_string()), "{run}");
    assert!(daemon.wait().success(), "an orderly stop");
    assert!(!daemon.home().root().join("run").exists(), "the sockets are gone");
    assert!(daemon.home().root().join("state/ledger").exists());
}

#[test]
fn settings_that_cannot_be_read_stop_everything() {
    let home = Home::new();
    let user = home.user_home();
    run(user, &["init"]).must_exit(0);
    put(&user.join(".claude/settings.json"), "{ not json");
    let before = listing(user);
    let failed = run(user, &["uninstall", "--purge", "--yes"]);
    assert!(!failed.output.status.success() && failed.stderr().contains(".claude/settings.json"), "{failed}");
    assert_eq!(listing(user), before, "a hook could be in it, so nothing was removed");
}

#[test]
fn purge_of_a_home_around_the_files_of_the_user_is_refused() {
    let home = Home::new();
    let user = home.user_home();
    put(&user.join("config/mine"), "mine");
    let mut command = sinew();
    command
        .args(["uninstall", "--purge", "--yes"])
        .env("HOME", user)
        .env("SINEW_HOME", user)
        .current_dir(user);
    let output = command.output().expect("run sinew");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("contains your home folder"), "{output:?}");
    assert!(user.join("config/mine").exists());
}
