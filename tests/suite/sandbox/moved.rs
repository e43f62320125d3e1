//! Runs that move, lock or replace paths that the sandbox depends on: for themselves, for a concurrent run,
//! and for the daemon.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::{aside_of, home, output, rules, run};

fn set_aside(result: &Value) -> usize {
    result["output"]["sandbox"]["quarantined"].as_array().map_or(0, Vec::len)
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn parents_of_protected_paths_cannot_be_renamed() {
    let home = home("");
    let work = home.workspace();
    for folder in ["a/repo/.git", "x/sub", "plain/deep"] {
        std::fs::create_dir_all(work.join(folder)).unwrap();
    }
    home.file("a/repo/.git/config", "original");
    home.file("x/sub/file", "original");
    let inner = work.join("x/sub").display().to_string();
    home.run(&["workspace", "add", "--read-only", &inner]).must_exit(0);
    let daemon = Daemon::start_in(home);
    let code = "import os\nfor name in ['a', 'a/repo', 'x', 'x/sub', 'plain']:\n try:\n  os.rename(name, name + '2')\n  \
                print(name)\n except OSError: pass";
    let cwd = json!({"command": ["python3", "-c", code], "cwd": work});
    let tried = daemon.agent().execute("run_command", &cwd);
    assert_eq!(output(&tried), "plain\n", "{tried}");
    assert_eq!(std::fs::read_to_string(work.join("x/sub/file")).unwrap(), "original");
}

#[test]
fn forbidden_files_are_hidden_in_protected_folders_too() {
    let home = home("");
    for folder in [".vscode/deep", ".git/hooks", ".ssh", "bare/objects", "bare/refs", "bare/hooks"] {
        std::fs::create_dir_all(home.workspace().join(folder)).unwrap();
    }
    home.file("bare/HEAD", "ref: refs/heads/main");
    home.file(".vscode/settings.json", "plain");
    let secrets = [".vscode/.env", ".vscode/deep/.env", ".git/hooks/.env", "bare/hooks/.env", ".ssh/.env"];
    for name in secrets {
        home.file(name, "CANARY");
    }
    let daemon = Daemon::start_in(home);
    for name in secrets {
        let read = run(&daemon, &["cat", name]);
        assert!(read["output"]["exit_code"] != 0 && !read.to_string().contains("CANARY"), "{name}: {read}");
    }
    let read = run(&daemon, &["cat", ".vscode/settings.json"]);
    assert_eq!(output(&read), "plain", "what is only protected may be read: {read}");
}

#[test]
fn forbidden_file_is_hidden_under_its_other_hard_links() {
    let outside = Home::initialised();
    let key = outside.file("key", "CANARY");
    let home = home("");
    let tools = rules("").replace("\"**/.env\"", &format!("\"**/.env\", {:?}", key.display().to_string()));
    home.configure("governance/tools.yaml", &tools);
    let work = home.workspace();
    std::fs::create_dir_all(work.join(".env.d")).unwrap();
    for name in [".env", ".env.d/token"] {
        home.file(name, "CANARY");
    }
    home.file("plain", "plain");
    let links =
        [(work.join(".env"), "a"), (work.join(".env.d/token"), "b"), (key, "c"), (work.join("plain"), "d")];
    for (file, name) in links {
        std::fs::hard_link(file, work.join(name)).unwrap();
    }
    let daemon = Daemon::start_in(home);
    for name in ["a", "b", "c"] {
        let read = run(&daemon, &["cat", name]);
        assert!(read["output"]["exit_code"] != 0 && !read.to_string().contains("CANARY"), "{name}: {read}");
    }
    let read = run(&daemon, &["cat", "d"]);
    assert_eq!(output(&read), "plain", "a second name alone hides nothing: {read}");
    let moved = run(&daemon, &["mv", "a", "free"]);
    assert!(moved["output"]["exit_code"] != 0 && work.join("a").exists(), "{moved}");
}

#[test]
fn name_freed_by_one_run_is_still_checked_for_another() {
    let daemon = Daemon::start_in(home(""));
    let work = daemon.home().workspace();
    let first = "import os, time\nopen('.envrc', 'w').write('first')\nopen('made', 'w').close()\n\
                 while not os.path.exists('go'): time.sleep(.02)";
    let second = "import os, time\nopen('go', 'w').close()\nwhile os.path.exists('.envrc'): time.sleep(.02)\n\
                  open('.envrc', 'w').write('evil')";
    std::thread::scope(|scope| {
        let one = scope.spawn(|| run(&daemon, &["python3", "-c", first]));
        while !work.join("made").exists() {
            assert!(!one.is_finished(), "the first run is there until the second lets it go");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let other = run(&daemon, &["python3", "-c", second]);
        assert_eq!((set_aside(&one.join().unwrap()), set_aside(&other)), (1, 1), "{other}");
    });
    assert!(!work.join(".envrc").exists(), "files of the second run belong to that run");
}

#[test]
fn folder_locked_by_a_run_keeps_its_name_and_content() {
    let home = Home::initialised();
    let work = home.workspace();
    let private = work.join("vault/private");
    let forbidden = format!("forbidden_paths: [\"{}\"]", private.display());
    let tools = rules("").replace("forbidden_paths: [\"**/.env\", \"**/.env.d\"]", &forbidden);
    home.configure("governance/tools.yaml", &tools);
    std::fs::create_dir_all(&private).unwrap();
    std::fs::write(private.join("key"), "CANARY").unwrap();
    let daemon = Daemon::start_in(home);
    let made = run(&daemon, &["chmod", "0311", "vault"]);
    assert_eq!(set_aside(&made), 0, "{made}");
    assert_eq!(
        std::fs::read_to_string(private.join("key")).unwrap(),
        "CANARY",
        "under the name a rule knows"
    );
    assert_eq!(mode(&work.join("vault")), 0o311);
    let read = run(&daemon, &["cat", "vault/private/key"]);
    assert!(!read.to_string().contains("CANARY"), "{read}");

    let code = "import os\nos.mkdir('.vscode')\nos.mkdir('d')\nos.mkdir('d/.vscode')\nos.chmod('d', 0o444)\n\
                os.mkdir('e')\nopen('e/.envrc', 'w').close()\nos.chmod('e', 0o555)\nos.chmod('.', 0o311)";
    let made = run(&daemon, &["python3", "-c", code]);
    assert_eq!(set_aside(&made), 3, "{made}");
    assert!(work.exists(), "a workspace is never set aside");
    assert_eq!((mode(&work.join("d")), mode(&work.join("e"))), (0o444, 0o555), "as the program left them");
    assert!(aside_of(&work.join("e"), ".envrc").is_some());
    assert_eq!(run(&daemon, &["true"])["output"]["exit_code"], 0, "and the next run is not stopped by it");
}

#[test]
fn occupied_quarantine_names_do_not_stop_the_cleanup() {
    let daemon = Daemon::start_in(home(""));
    let code =
        "open('.envrc', 'w').close()\nfor n in range(1200): open(f'.envrc.quarantined-{n}', 'w').close()";
    let made = run(&daemon, &["python3", "-c", code]);
    assert_eq!(set_aside(&made), 1, "{made}");
    assert!(!daemon.home().workspace().join(".envrc").exists());
}

#[test]
fn folder_that_looks_like_a_git_repository_is_defused() {
    let daemon = Daemon::start_in(home(""));
    let work = daemon.home().workspace();
    std::fs::create_dir_all(work.join("src/hooks")).unwrap();
    let code = "import os\nfor d in ['objects', 'refs']: os.makedirs('src/' + d)\n\
                open('src/HEAD', 'w').write('ref: refs/heads/main\\n')\n\
                open('src/config', 'w').write('[core]\\n\\tbare = false\\n\\tworktree = ..\\n\\tfsmonitor = evil\\n')";
    let made = run(&daemon, &["python3", "-c", code]);
    assert_eq!(set_aside(&made), 1, "{made}");
    let git = std::process::Command::new("git")
        .args(["rev-parse", "--git-dir"])
        .current_dir(work.join("src"))
        .env("HOME", daemon.home().user_home())
        .env("GIT_CEILING_DIRECTORIES", daemon.home().user_home())
        .output();
    assert!(!git.unwrap().status.success());
    assert!(work.join("src/hooks").exists(), "what was there before stays");
}

#[test]
fn forbidden_system_file_is_not_shown() {
    let home = Home::initialised();
    let tools = rules("").replace("**/.env.d", "/etc/os-release");
    home.configure("governance/tools.yaml", &tools);
    let daemon = Daemon::start_in(home);
    for name in ["/etc/os-release", "/usr/lib/os-release"] {
        let read = run(&daemon, &["cat", name]);
        assert_ne!(read["output"]["exit_code"], 0, "{read}");
    }
    assert_eq!(run(&daemon, &["cat", "/etc/passwd"])["output"]["exit_code"], 0, "the rest is");
}

#[test]
fn forbidden_file_in_a_nested_workspace_is_hidden() {
    let home = home("");
    let inner = home.workspace().join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join(".env"), "TOKEN=x").unwrap();
    home.run(&["workspace", "add", &inner.display().to_string()]).must_exit(0);
    let daemon = Daemon::start_in(home);
    let listed = run(&daemon, &["ls", "inner"]);
    assert_eq!(listed["output"]["exit_code"], 0, "{listed}");
    let read = run(&daemon, &["cat", "inner/.env"]);
    assert_ne!(read["output"]["exit_code"], 0, "{read}");
}

#[test]
fn workspace_may_not_contain_folders_of_sinew() {
    let home = Home::initialised();
    for folder in [home.user_home().to_owned(), home.root(), home.root().join("state")] {
        home.run(&["workspace", "add", &folder.display().to_string()]).must_exit(2);
    }
    home.run(&["workspace", "add", "--read-only", &home.user_home().display().to_string()]).must_exit(0);
    let settings = home.root().join("config/sinew.yaml");
    let text = std::fs::read_to_string(&settings).unwrap().replace("read_only", "read_write");
    std::fs::write(&settings, text).unwrap();
    for words in [&["check"][..], &["serve"]] {
        let run = home.run(words).must_exit(7);
        let run_output = run.stdout() + &run.stderr();
        assert!(run_output.contains("belongs to Sinew"), "{words:?}: {run_output}");
    }
}

#[test]
fn stopping_daemon_cleans_up_after_its_runs() {
    let home = home("    timeout_seconds: 120\n");
    let settings = home.root().join("config/sinew.yaml");
    let text = std::fs::read_to_string(&settings).unwrap().replace("drain_seconds: 10", "drain_seconds: 0");
    std::fs::write(&settings, text).unwrap();
    let mut daemon = Daemon::start_in(home);
    let work = daemon.home().workspace();
    let mut agent = daemon.agent();
    let code = "import os, time\nopen('.envrc', 'w').close()\nopen('made', 'w').close()\ntime.sleep(60)";
    let words = json!({"command": ["python3", "-c", code]});
    let caller = std::thread::spawn(move || agent.try_execute("run_command", &words));
    while !work.join("made").exists() {
        assert!(!caller.is_finished(), "the command does not start");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    daemon.signal(Signal::SIGTERM);
    daemon.wait();
    let _ = caller.join();
    assert!(!work.join(".envrc").exists() && aside_of(&work, ".envrc").is_some());
}
