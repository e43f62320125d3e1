//! Single cases of hostile behaviour, each with its required outcome.

use std::path::Path;

use serde_json::{Value, json};
use tests::{Daemon, wait_until};

use super::{home, output, run};

fn shell(daemon: &Daemon, script: &str) -> Value {
    run(daemon, &["sh", "-c", script])
}

#[test]
fn no_variable_of_the_daemon_reaches_a_program() {
    let secrets: Vec<(String, String)> =
        (0..200).map(|number| (format!("CANARY_{number}"), format!("canary-{number}-value"))).collect();
    let known = [
        "GIT_DIR",
        "BASH_ENV",
        "PYTHONPATH",
        "NODE_OPTIONS",
        "RUSTC_WRAPPER",
        "SSH_AUTH_SOCK",
        "LD_ORIGIN_PATH",
        "DYLD_INSERT_LIBRARIES",
    ];
    let mut given: Vec<(&str, &str)> = secrets.iter().map(|(name, value)| (&**name, &**value)).collect();
    given.extend(known.map(|name| (name, "canary-of-a-known-name")));
    let daemon = Daemon::start_with(home(""), &given);
    let text = output(&shell(&daemon, "env; tr '\\0' '\\n' < /proc/self/environ; cat /proc/1/environ 2>&1"));
    assert!(!text.contains("canary"), "{text}");
    let allowed = [
        "PATH",
        "HOME",
        "TMPDIR",
        "LANG",
        "TERM",
        "NO_COLOR",
        "GIT_TERMINAL_PROMPT",
        "SINEW_SANDBOX",
        "PWD",
        "_",
    ];
    for line in text.lines().filter(|line| line.contains('=')) {
        let name = line.split('=').next().unwrap_or_default();
        // These variables keep the settings of a repository from running programs.
        let of_ours = name.starts_with("GIT_CONFIG_");
        assert!(of_ours || allowed.contains(&name) || name == "OLDPWD" || name == "SHLVL", "{line}");
    }
    let result = run(&daemon, &["LD_PRELOAD=x", "true"]);
    assert_eq!(
        result["metadata"]["failure"]["kind"], "not_found",
        "no way to set one before a program: {result}"
    );
}

#[test]
fn program_is_not_taken_from_the_workspace() {
    let home = home("");
    let path = format!(".::{}:/usr/bin:/bin", home.workspace().display());
    let daemon = Daemon::start_with(home, &[("PATH", &path)]);
    for name in ["git", "true"] {
        let path = daemon.home().file(name, "#!/bin/sh\necho mine\n");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    }
    assert!(output(&run(&daemon, &["git", "--version"])).starts_with("git version"));
    assert_eq!(output(&run(&daemon, &["true"])), "");
    assert!(!output(&shell(&daemon, "git --version")).contains("mine"), "nor by what it starts");
}

/// Files that another program would run later, inside and outside of the writable folder.
#[test]
fn files_that_run_by_themselves_cannot_be_left_behind() {
    const NAMES: [&str; 10] = [
        ".bashrc",
        ".ssh/authorized_keys",
        ".config/systemd/user/x.service",
        ".config/autostart/x.desktop",
        ".git/hooks/pre-commit",
        ".git/config",
        ".git/rebase-merge/git-rebase-todo",
        ".vscode/tasks.json",
        ".mcp.json",
        ".claude/settings.json",
    ];
    let daemon = Daemon::start_in(home(""));
    let (workspace, user) = (daemon.home().workspace(), daemon.home().user_home().to_owned());
    for name in NAMES {
        for folder in [workspace.join("old"), user.clone()] {
            std::fs::create_dir_all(folder.join(name).parent().expect("a folder")).expect("a folder");
            std::fs::write(folder.join(name), "original").expect("a file");
        }
    }
    let config = daemon.home().root().join("config/governance/tools.yaml");
    let policy = std::fs::read_to_string(&config).expect("the policy");
    let code = "import os, sys\nfor path in sys.argv[1:]:\n try:\n  os.makedirs(os.path.dirname(path), exist_ok=True)\n  \
                open(path, 'w').write('evil')\n except OSError as error: print(path)";
    let (old, outside, new) = (workspace.join("old"), user, workspace.join("new"));
    let in_all = [&old, &outside, &new].into_iter().flat_map(|folder| NAMES.map(|name| folder.join(name)));
    let elsewhere = [config.clone(), config.with_file_name("new.yaml"), "/etc/cron.d/x".into()];
    let paths: Vec<String> = in_all.chain(elsewhere.clone()).map(|path| path.display().to_string()).collect();
    let words: Vec<&str> =
        ["python3", "-c", code].into_iter().chain(paths.iter().map(String::as_str)).collect();
    let result = run(&daemon, &words);
    let text = output(&result);
    // Paths outside may be in the private scratch space of a run, where it can write.
    for path in paths.iter().filter(|path| path.starts_with(&old.display().to_string())) {
        assert!(text.lines().any(|line| line == path), "{path} was not refused: {result}");
    }
    for name in NAMES {
        for folder in [&old, &outside] {
            let content = std::fs::read_to_string(folder.join(name)).expect("a file");
            assert_eq!(content, "original", "{name}");
        }
        assert!(!new.join(name).exists(), "{name}: {result}");
    }
    assert_eq!(std::fs::read_to_string(&config).expect("the policy"), policy);
    assert!(!elsewhere[1].exists());
}

#[test]
fn threads_count_towards_the_process_limit() {
    let daemon = Daemon::start_in(home("    max_processes: 16\n    timeout_seconds: 15\n"));
    let code = "import threading, time\nstarted = 0\ntry:\n for _ in range(200):\n  threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n  started += 1\nexcept RuntimeError:\n print('refused', started < 16, flush=True)\nimport os; os._exit(0)";
    assert_eq!(output(&run(&daemon, &["python3", "-c", code])), "refused True\n");
}

/// A rule that names a folder covers its content by that name. If the folder were renamed, the next call
/// could read it.
#[test]
fn folder_under_a_rule_cannot_be_renamed() {
    let home = tests::Home::initialised();
    let key = home.workspace().join("vault/inner/key");
    home.configure(
        "governance/tools.yaml",
        &super::rules("").replace("\"**/.env\"", &format!("{:?}", key.display().to_string())),
    );
    std::fs::create_dir_all(home.workspace().join("vault/inner")).expect("a folder");
    std::fs::create_dir_all(home.workspace().join("plain")).expect("a folder");
    std::fs::write(&key, "CANARY").expect("a key");
    let daemon = Daemon::start_in(home);
    let code = "import os\ndef attempt(work, *words):\n try: work(*words)\n except OSError as error: print(error.strerror)\n\
                attempt(os.rename, 'vault', 'freed')\nattempt(os.rename, 'vault/inner', 'freed')\n\
                attempt(os.rename, 'vault/inner/key', 'freed')\nattempt(os.link, 'vault/inner/key', 'freed')\n\
                open('vault/new', 'w').close()\nos.rename('vault/new', 'moved')\nos.rename('plain', 'vault/plain')";
    let text = output(&run(&daemon, &["python3", "-c", code]));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..3], ["Device or resource busy"; 3], "{text}");
    assert_eq!(lines.len(), 4, "what is pinned is worked in as ever: {text}");
    let freed = run(&daemon, &["cat", "freed/inner/key", "freed/key", "freed", "vault/inner/key"]);
    assert!(!freed.to_string().contains("CANARY"), "{freed}");
    assert!(key.exists());
}

#[test]
fn there_is_no_terminal() {
    let daemon = Daemon::start_in(home(""));
    let text =
        output(&shell(&daemon, "tty; (exec 3</dev/tty) 2>/dev/null || echo none; [ -t 0 ] || echo no input"));
    assert_eq!(text, "not a tty\nnone\nno input\n");
}

#[test]
fn exit_codes_and_signals_are_exact_and_leave_no_core() {
    let daemon = Daemon::start_in(home(""));
    for code in [0, 1, 2, 126, 127, 137, 255] {
        let result = shell(&daemon, &format!("exit {code}"));
        assert_eq!(
            (&result["output"]["end"], &result["output"]["exit_code"]),
            (&json!("exited"), &json!(code))
        );
    }
    for signal in [1, 2, 3, 4, 6, 8, 9, 11, 13, 15] {
        let result = shell(&daemon, &format!("ulimit -c unlimited 2>/dev/null; kill -{signal} $$"));
        let text = (&result["output"]["end"], &result["output"]["exit_code"]);
        assert_eq!(text, (&json!("signalled"), &json!(128 + signal)), "{result}");
    }
    let left: Vec<_> =
        std::fs::read_dir(daemon.home().workspace()).expect("the workspace").flatten().collect();
    assert!(left.iter().all(|entry| !entry.file_name().to_string_lossy().contains("core")), "{left:?}");
}

#[test]
fn missing_or_foreign_cwd_is_refused_without_a_run() {
    let daemon = Daemon::start_in(home(""));
    let workspace = daemon.home().workspace();
    std::os::unix::fs::symlink("/etc", workspace.join("elsewhere")).expect("a link");
    for folder in ["missing", "elsewhere", "/etc", ".."] {
        let result = daemon.agent().execute("run_command", &json!({"command": ["pwd"], "cwd": folder}));
        assert_eq!(result["success"], false, "{folder}: {result}");
        assert_eq!(result["output"].get("stdout"), None, "{folder}: {result}");
    }
}

/// Returns true if a process of this machine has this word in its command line.
fn runs(word: &str) -> bool {
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    let ours = std::process::id().to_string();
    let mut others = entries.filter(|entry| entry.file_name().to_string_lossy() != ours);
    let has_word = |path: &Path| {
        let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
        line.windows(word.len()).any(|part| part == word.as_bytes())
    };
    others.any(|entry| has_word(&entry.path()))
}

#[test]
fn cancelled_call_ends_with_everything_it_started() {
    let daemon = Daemon::start_in(home("    timeout_seconds: 60\n"));
    let word = format!("62.{}", std::process::id());
    let mut client = daemon.agent();
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    client.request("initialize", &hello);
    let script = format!("trap '' TERM; (setsid sleep {word} &); exec sleep {word}");
    let params = json!({"name": "run_command", "arguments": {"command": ["sh", "-c", script]}});
    let taken_back = json!({"requestId": 7, "reason": "no longer needed"});
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}),
    ] {
        client.send(format!("{message}\n").as_bytes());
    }
    wait_until("it starts", || runs(&word));
    let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": taken_back});
    client.send(format!("{message}\n").as_bytes());
    wait_until("it ends", || !runs(&word));
}
