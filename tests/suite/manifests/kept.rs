//! Pooled MCP servers: for which caller, for how long, and in which sandbox a server is reused.

use serde_json::{Value, json};
use tests::{Client, Daemon, Home, wait_until};

use super::mcp::home;

fn look(client: &mut Client, path: &str) -> Value {
    let looked = client.execute("fake.look", &json!({"path": path}));
    assert_eq!(looked["success"], true, "{looked}");
    looked["output"].clone()
}

/// Number of processes of this home's server. The path of its script is unique.
#[cfg(target_os = "linux")]
fn servers(home: &Home) -> usize {
    let script = home.workspace().join("server.py").display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok());
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    // The launcher has the same words in its order, but not on its command line.
    lines.filter(|line| String::from_utf8_lossy(line).contains(&script)).count()
}

/// A file is hidden by a mount on its inode; a new file of that name has no such mount.
#[test]
fn pooled_server_does_not_see_a_replaced_hidden_file() {
    let home = home("", "");
    let rules = "{allowed_in_modes: [NORMAL], forbidden_paths: [\"$HOME/work/.env*\"]}";
    home.configure("governance/tools.yaml", &format!("tools:\n  fake.look: {rules}\n"));
    let secret = home.file(".env", "KEY=one").display().to_string();
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    let first = look(&mut agent, &secret);
    assert_eq!(first["content"].as_str().unwrap_or_default(), "", "{first}");
    assert_eq!(look(&mut agent, &secret)["born"], first["born"], "it is kept");
    let mut before = first["born"].clone();
    // An editor saves by renaming a new file over the old one. The second rename can reuse the first inode
    // number.
    for text in ["KEY=two", "KEY=three"] {
        let draft = daemon.home().file("draft", text);
        std::fs::rename(draft, &secret).unwrap();
        let now = look(&mut agent, &secret);
        assert_ne!(now["born"], before, "another process, in its own sandbox: {now}");
        assert_eq!(now["content"].as_str().unwrap_or_default(), "", "{now}");
        before = now["born"].clone();
    }
    daemon.home().file(".env.local", "KEY=four");
    let more = daemon.home().workspace().join(".env.local").display().to_string();
    let now = look(&mut agent, &more);
    assert_eq!(now["content"].as_str().unwrap_or_default(), "", "what came to be: {now}");
}

/// Client that opened a session, its worker, and the id of the session.
fn session(daemon: &Daemon) -> (Client, Client, Value) {
    let mut orchestrator = daemon.agent();
    let terms = json!({"allowlist": ["fake.look"], "hop_budget": 9});
    let session = orchestrator.request("sinew/session.open", &terms)["result"].clone();
    let worker = Client::connect(session["socket"].as_str().unwrap().as_ref());
    (orchestrator, worker, session["session_id"].clone())
}

#[test]
fn pooled_server_serves_one_caller_only() {
    let daemon = Daemon::start_in(home("", ""));
    let (mut orchestrator, mut worker, _) = session(&daemon);
    let (its, ours) = (look(&mut worker, "/nowhere"), look(&mut orchestrator, "/nowhere"));
    assert_ne!(its["born"], ours["born"], "each has its own");
    assert_eq!(look(&mut worker, "/nowhere")["born"], its["born"]);
    assert_eq!(look(&mut orchestrator, "/nowhere")["born"], ours["born"]);
}

/// The test does not wait for the idle timer: the process ends because the daemon releases it.
#[cfg(target_os = "linux")]
#[test]
fn pooled_server_ends_with_session_mode_and_daemon() {
    let daemon = Daemon::start_in(home("", ""));
    let (mut orchestrator, mut worker, session) = session(&daemon);
    let ours = look(&mut orchestrator, "/nowhere");
    look(&mut worker, "/nowhere");
    assert_eq!(servers(daemon.home()), 2);
    let closed = orchestrator.request("sinew/session.close", &json!({"session_id": session}));
    assert!(closed.get("error").is_none(), "{closed}");
    wait_until("the worker's server is gone", || servers(daemon.home()) == 1);
    assert_eq!(look(&mut orchestrator, "/nowhere")["born"], ours["born"], "the other is not");
    daemon.home().run(&["mode", "set", "LOCKDOWN"]).must_exit(0);
    wait_until("nothing is kept in LOCKDOWN", || servers(daemon.home()) == 0);
    for mode in ["RECOVERY", "NORMAL"] {
        daemon.home().run(&["mode", "set", mode]).must_exit(0);
    }
    look(&mut orchestrator, "/nowhere");
    assert_eq!(servers(daemon.home()), 1);
    let home = daemon.stop();
    wait_until("nothing outlives the daemon", || servers(&home) == 0);
}
