//! Ordinary programs that must work in the sandbox, and results that state the exact outcome.

use serde_json::{Value, json};
use tests::Daemon;

use super::{aside_of, home, output, run};

fn python(daemon: &Daemon, code: &str) -> Value {
    run(daemon, &["python3", "-c", code])
}

#[test]
fn command_runs_in_the_workspace_and_changes_it() {
    let daemon = Daemon::start_in(home(""));
    daemon.home().file("a.txt", "hello\n");
    let result = run(&daemon, &["cat", "a.txt"]);
    assert_eq!((&result["success"], output(&result).as_str()), (&json!(true), "hello\n"), "{result}");
    assert_eq!(result["output"]["exit_code"], 0);
    assert_eq!(result["metadata"]["sandbox"]["tier"], "full");
    assert_eq!(result["output"]["sandbox"]["program_sha256"].as_str().unwrap().len(), 64);
    assert!(result["metadata"]["usage"]["max_rss_bytes"].as_u64().unwrap() > 0, "{result}");

    run(&daemon, &["cp", "a.txt", "b.txt"]);
    assert_eq!(std::fs::read_to_string(daemon.home().workspace().join("b.txt")).unwrap(), "hello\n");

    std::fs::create_dir(daemon.home().workspace().join("sub")).unwrap();
    let there = daemon.agent().execute("run_command", &json!({"command": ["pwd"], "cwd": "sub"}));
    assert_eq!(output(&there).trim(), daemon.home().workspace().join("sub").to_str().unwrap());
}

#[test]
fn node_works_as_it_does_outside() {
    let daemon = Daemon::start_in(home(""));
    let node = run(&daemon, &["node", "-e", "require('fs').writeFileSync('n.txt', 'n'); console.log(1 + 1)"]);
    assert_eq!(output(&node), "2\n", "{node}");
    assert!(daemon.home().workspace().join("n.txt").exists());
}

/// Uses resources that are limited because all programs of a user share them: socket pairs, pipes, polls,
/// locks, watched files.
#[test]
fn processes_communicate_as_they_do_outside() {
    let daemon = Daemon::start_in(home("    network: loopback\n"));
    let in_python = "import asyncio, concurrent.futures, fcntl, multiprocessing, socket, sqlite3\n\
                     async def work():\n    child = await asyncio.create_subprocess_exec('echo', 'child', stdout=-1)\n    \
                     return (await child.communicate())[0].decode().strip()\n\
                     def main():\n    print(asyncio.run(work()))\n    \
                     with multiprocessing.Pool(2) as pool: print(pool.map(abs, [-1, -2]))\n    \
                     with concurrent.futures.ThreadPoolExecutor(4) as pool: print(list(pool.map(abs, [-3])))\n    \
                     one, other = socket.socketpair()\n    one.sendall(b'pair'); print(other.recv(9).decode())\n    \
                     sqlite3.connect('d.db').execute('create table t(x)')\n    \
                     fcntl.flock(open('locked', 'w'), fcntl.LOCK_EX)\n\
                     main()";
    let in_node = "const {fork, execSync} = require('child_process'), fs = require('fs');\n\
                   if (process.send) { process.on('message', m => { process.send(m + 1); process.disconnect() }) }\n\
                   else {\n  console.log(execSync('echo shell').toString().trim());\n  fs.watch('.').close();\n  \
                   const child = fork('n.js'); child.on('message', m => console.log('answer', m)); child.send(1) }";
    daemon.home().file("n.js", in_node);
    for network in ["loopback", "off"] {
        daemon.home().configure("governance/tools.yaml", &super::rules(&format!("    network: {network}\n")));
        daemon.home().run(&["reload", "--accept"]).must_exit(0);
        let stdout = output(&python(&daemon, in_python));
        assert_eq!(stdout, "child\n[1, 2]\n[3]\npair\n", "with network {network}");
        assert_eq!(output(&run(&daemon, &["node", "n.js"])), "shell\nanswer 2\n", "with network {network}");
        let _ = std::fs::remove_file(daemon.home().workspace().join("d.db"));
    }
}

/// A run has a private devpts: no terminal of the machine is in its list.
#[test]
fn program_can_run_at_a_terminal() {
    let daemon = Daemon::start_in(home(""));
    let code = "import os, pty\n\
                print(sorted(os.listdir('/dev/pts')))\n\
                child, terminal = pty.fork()\n\
                if child == 0:\n    \
                os.execlp('sh', 'sh', '-c', 'tty; stty size; stty cols 70; stty size; echo by name > /dev/tty; read word; echo $word')\n\
                os.write(terminal, b'typed\\n')\n\
                said = b''\n\
                try:\n    \
                while part := os.read(terminal, 4096): said += part\n\
                except OSError: pass\n\
                lines = said.decode().split()\n\
                lines.remove('typed')\n\
                print(lines, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))";
    let result = python(&daemon, code);
    let expected = "['ptmx']\n['/dev/pts/0', '0', '0', '0', '70', 'by', 'name', 'typed'] 0\n";
    assert_eq!(output(&result), expected, "{result}");
    let script = run(&daemon, &["script", "-qec", "test -t 0 && echo at a terminal", "/dev/null"]);
    assert_eq!(output(&script), "at a terminal\r\n", "{script}");
}

/// The other start methods need named sockets, which decision 58 excludes.
#[test]
fn python_starts_processes_by_fork_and_by_spawn() {
    let daemon = Daemon::start_in(home(""));
    let code = "import multiprocessing\n\
                for way in ['fork', 'spawn']:\n    \
                with multiprocessing.get_context(way).Pool(2) as pool: print(way, pool.map(abs, [-1, -2]))";
    let result = python(&daemon, code);
    assert_eq!(output(&result), "fork [1, 2]\nspawn [1, 2]\n", "{result}");
}

#[test]
fn python_and_git_work_as_they_do_outside() {
    let daemon = Daemon::start_in(home(""));
    let code = "import tempfile, subprocess, multiprocessing, sys\n\
                tempfile.TemporaryFile().write(b'x')\n\
                print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout.strip())";
    assert_eq!(output(&python(&daemon, code)), "child\n");
    let init = run(&daemon, &["git", "init", "-q", "repo"]);
    assert_eq!(init["output"]["exit_code"], 0, "{init}");
    let quarantined = init["output"]["sandbox"]["quarantined"].as_array().unwrap();
    let moved: Vec<_> = quarantined.iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert!(moved.iter().any(|path| path.ends_with("repo/.git/config")), "{moved:?}");
    assert!(!daemon.home().workspace().join("repo/.git/config").exists(), "it acts on nothing any more");
    assert!(aside_of(&daemon.home().workspace().join("repo/.git"), "config").is_some());

    // A repository that existed before can be worked in.
    let manual = std::process::Command::new("git")
        .args(["init", "-q", "known"])
        .current_dir(daemon.home().workspace())
        .env("HOME", daemon.home().user_home())
        .status();
    assert!(manual.unwrap().success());
    daemon.home().file("known/f", "x");
    let add = run(&daemon, &["git", "-C", "known", "add", "f"]);
    assert_eq!(add["output"]["exit_code"], 0, "{add}");
    let who = ["-c", "user.name=a", "-c", "user.email=a@b"];
    let commit = run(&daemon, &[&["git", "-C", "known"], &who[..], &["commit", "-qm", "x"]].concat());
    assert_eq!(commit["output"]["exit_code"], 0, "{commit}");
    assert_eq!(commit["output"]["sandbox"]["quarantined"], json!([]), "{commit}");
}

#[test]
fn protected_folder_cannot_be_moved_away() {
    let daemon = Daemon::start_in(home(""));
    let workspace = daemon.home().workspace();
    std::fs::create_dir_all(workspace.join(".git/hooks")).unwrap();
    daemon.home().file(".git/config", "original");
    std::fs::create_dir_all(workspace.join("project/.vscode")).unwrap();
    let code = "import os\nopen('.envrc', 'w').write('evil')\nfor name in ['project', '.git']:\n \
                try: os.rename(name, 'away')\n except OSError as error: print(error.strerror)";
    let result = python(&daemon, code);
    assert_eq!(output(&result), "Device or resource busy\n".repeat(2), "{result}");
    assert!(workspace.join("project/.vscode").exists() && !workspace.join(".envrc").exists(), "{result}");
    assert_eq!(std::fs::read_to_string(workspace.join(".git/config")).unwrap(), "original");
}

#[test]
fn words_reach_a_program_unchanged() {
    let daemon = Daemon::start_in(home(""));
    let words = ["; rm -rf x", "$(id)", "`id`", "a\nb", "*", "-rf", "", "é"];
    let result = run(&daemon, &[&["printf", "%s|"], &words[..]].concat());
    assert_eq!(output(&result), words.map(|word| format!("{word}|")).concat());
}

#[test]
fn every_end_of_a_program_is_distinguished() {
    let daemon = Daemon::start_in(home(""));
    let end = |result: &Value| (result["output"]["end"].clone(), result["output"]["exit_code"].clone());
    let exits = |code: &str| end(&python(&daemon, code));
    assert_eq!(exits("import sys; sys.exit(0)"), (json!("exited"), json!(0)));
    assert_eq!(exits("import sys; sys.exit(137)"), (json!("exited"), json!(137)));
    assert_eq!(exits("import os; os.kill(os.getpid(), 9)"), (json!("signalled"), json!(137)));
    assert_eq!(exits("import os; os.abort()"), (json!("signalled"), json!(134)));
    let pipe = end(&run(&daemon, &["sh", "-c", "kill -PIPE $$"]));
    assert_eq!(pipe, (json!("signalled"), json!(141)), "no signal is ignored from the start");

    let failed = |words: &[&str]| {
        let result = run(&daemon, words);
        assert_eq!(result["success"], false, "{result}");
        result["metadata"]["failure"]["kind"].as_str().unwrap().to_owned()
    };
    assert_eq!(failed(&["no-such-program"]), "not_found");
    let local = daemon.home().file("tool", "#!/bin/sh\n");
    std::fs::set_permissions(&local, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(failed(&[local.to_str().unwrap()]), "unreadable", "not by its own name");
    assert_eq!(failed(&["./tool"]), "unreadable");
    let listing = run(&daemon, &["python3", "-c", "import os; print(sorted(os.environ))"]);
    for name in ["LD_PRELOAD", "SSH_AUTH_SOCK", "SINEW_HOME"] {
        assert!(!output(&listing).contains(name), "{listing}");
    }
}

#[test]
fn command_that_policy_does_not_list_is_refused() {
    let daemon = Daemon::start();
    let result = run(&daemon, &["python3", "-c", "pass"]);
    assert_eq!(result["metadata"]["refusal"]["code"], "command_not_allowed", "{result}");
    assert_eq!(run(&daemon, &["ls"])["output"]["exit_code"], 0);
}
