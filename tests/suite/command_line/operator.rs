//! Commands of the operator: status, counts, pages of tools, results, errors, and the life of the daemon.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use tests::{Daemon, Home, Terminal, TerminalForm};

#[test]
fn status_names_clients_mode_cause_and_pending_calls() {
    let daemon = Daemon::start();
    let home = daemon.home();
    let mut agent = daemon.agent();
    let client = json!({"name": "night-agent", "version": "1"});
    agent.request(
        "initialize",
        &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}),
    );
    home.run(&["mode", "set", "ALERT", "--reason", "odd mails"]).must_exit(0);
    home.run(&["call", "write_file", "path=a.txt", "content=x", "--async"]).must_exit(4);
    let page = home.run(&["status"]).must_exit(0).stdout();
    for part in
        ["night-agent, pid ", "odd mails", "`sinew mode set NORMAL` leaves it", "write_file /", "1 pending"]
    {
        assert!(page.contains(part), "{part} is missing: {page}");
    }
    assert!(page.contains(", 0 refused"), "a call that waits is not refused: {page}");
    drop(agent);
    tests::wait_until("a client that left is not listed", || {
        !home.run(&["status"]).stdout().contains("night-agent")
    });
}

#[test]
fn command_line_has_a_name_of_its_own() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "x");
    daemon.home().run(&["call", "read_file", "path=a.txt"]).must_exit(0);
    let record =
        daemon.home().records().into_iter().rev().find(|record| record["tool"] == "read_file").unwrap();
    assert_eq!(record["caller"]["client"], "sinew CLI", "{record}");
    let home = daemon.stop();
    home.run(&["call", "read_file", "path=a.txt"]).must_exit(0);
    let record = home.records().into_iter().rev().find(|record| record["tool"] == "read_file").unwrap();
    assert_eq!(record["caller"]["client"], "sinew CLI", "{record}");
}

#[test]
fn waiting_for_approval_is_no_refusal() {
    let daemon = Daemon::start();
    let home = daemon.home();
    home.run(&["mode", "set", "ALERT"]).must_exit(0);
    let run = home.run(&["call", "write_file", "path=a.txt", "content=x", "--async"]).must_exit(4);
    let text = run.stderr();
    assert!(text.starts_with("waiting for approval ") && text.contains("sinew approve "), "{run}");
    assert!(!text.contains("refused") && !text.contains("denied"), "{run}");
}

#[test]
fn lists_fit_one_screen() {
    let home = Home::initialised();
    let form = TerminalForm { columns: 80, rows: 400, variables: &[] };
    let (_, screen) = Terminal::run_in(&form, &home, &["tools", "list"]).wait_for_exit();
    assert!(screen.lines().count() <= 40, "{screen}");
    let reach = home.run(&["policy", "reach"]).must_exit(0).stdout();
    let rows = reach.lines().filter(|line| line.starts_with("read_file ")).count();
    assert_eq!(rows, 1, "one row for a tool: {reach}");
    let header = reach.lines().next().unwrap_or_default();
    assert!(["NORMAL", "ALERT", "LOCKDOWN"].iter().all(|mode| header.contains(mode)), "{reach}");
    assert!(home.run(&["policy", "reach", "--verbose"]).stdout().contains("workspaces"));
    let (short, long) = (home.run(&["doctor"]).stdout(), home.run(&["doctor", "--verbose"]).stdout());
    assert!(short.lines().count() < long.lines().count(), "passes are one line an area: {short}");
    assert!(short.contains(" passed") && short.contains(" found, "), "the counts are at the end: {short}");
}

#[test]
fn page_of_a_tool_shows_its_policy() {
    let home = Home::initialised();
    let page = home.run(&["tools", "show", "write_file"]).must_exit(0).stdout();
    let row = |mode: &str| page.lines().find(|line| line.starts_with(mode)).unwrap_or_default().to_owned();
    assert!(row("NORMAL").contains("write") && row("NORMAL").contains("workspaces"), "{page}");
    assert!(row("LOCKDOWN").contains("no"), "{page}");
}

#[test]
fn results_are_for_people_and_json_for_programs() {
    let home = Home::initialised();
    home.file("notes.md", "first\na needle\n");
    let shown = home.run(&["call", "search_files", "query=needle"]).must_exit(0).stdout();
    assert_eq!(shown, "notes.md\n     2: a needle\n1 match in 1 file\n");
    let metrics = home.run(&["call", "system_metrics_snapshot"]).must_exit(0).stdout();
    assert!(metrics.contains('░') && !metrics.contains('{'), "{metrics}");
    let json = home.run(&["call", "search_files", "query=needle", "--json"]).must_exit(0).json();
    assert_eq!((&json["schema_version"], &json["output"]["matches"][0]["line"]), (&json!(1), &json!(2)));
}

#[test]
fn errors_are_json_if_json_was_asked_for() {
    let home = Home::initialised();
    for (words, code, word) in [
        (["status", "--json"].as_slice(), 6, "unreachable"),
        (&["undo", "ffffffff", "--json"], 1, "failed"),
        (&["ledger", "query", "--kind", "nonsense", "--json"], 2, "usage"),
        (&["tools", "show", "nonsense", "--json"], 2, "usage"),
    ] {
        let run = home.run(words).must_exit(code);
        let error = run.json();
        assert_eq!((&error["schema_version"], &error["error"]["code"]), (&json!(1), &json!(word)), "{run}");
        assert_eq!(error["error"]["exit_code"], code, "{run}");
        assert!(error["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{run}");
    }
}

#[test]
fn mode_is_read_and_changed_without_a_daemon() {
    let home = Home::initialised();
    assert_eq!(home.run(&["mode", "get"]).must_exit(0).stdout(), "NORMAL\n");
    assert_eq!(home.run(&["lockdown"]).must_exit(0).stdout(), "NORMAL → LOCKDOWN\n");
    home.run(&["call", "write_file", "path=a.txt", "content=x"]).must_exit(3);
    let daemon = Daemon::start_in(home);
    assert_eq!(
        daemon.home().run(&["mode", "get"]).must_exit(0).stdout(),
        "LOCKDOWN\n",
        "the daemon starts in it"
    );
    let home = daemon.stop();
    assert_eq!(home.run(&["mode", "set", "RECOVERY"]).must_exit(0).stdout(), "LOCKDOWN → RECOVERY\n");
    home.run(&["mode", "set", "ALERT"]).must_exit(1);
}

#[test]
fn daemon_is_stopped_and_its_version_shown() {
    let daemon = Daemon::start();
    let version = daemon.home().run(&["version", "--json"]).must_exit(0).json();
    assert_eq!(version["version"], version["daemon"], "{version}");
    daemon.home().run(&["stop"]).must_exit(0);
    daemon.home().run(&["status"]).must_exit(6);
    let version = daemon.home().run(&["version", "--json"]).must_exit(0).json();
    assert_eq!(version["daemon"], Value::Null, "{version}");
    daemon.home().run(&["stop"]).must_exit(6);
}

#[test]
fn held_state_lock_has_an_exit_code_of_its_own() {
    let daemon = Daemon::start();
    let refused = daemon.home().run(&["serve"]).must_exit(8);
    assert!(!refused.stderr().is_empty(), "{refused}");
}

#[test]
fn session_is_opened_on_the_command_line() {
    let daemon = Daemon::start();
    let home = daemon.home();
    home.file("a.txt", "x");
    let words = ["sessions", "open", "--name", "reviewer", "--allow", "read_file", "--json"];
    let opened = home.run(&words).must_exit(0).json();
    let mut worker = tests::Client::connect(std::path::Path::new(opened["socket"].as_str().unwrap()));
    assert_eq!(worker.execute("read_file", &json!({"path": "a.txt"}))["success"], true);
    let refused = worker.execute("write_file", &json!({"path": "b.txt", "content": "x"}));
    assert_eq!(refused["success"], false, "{refused}");
    assert!(
        home.run(&["sessions", "list"]).must_exit(0).stdout().contains("reviewer"),
        "it outlives the command"
    );
    home.run(&["sessions", "close", "reviewer"]).must_exit(0);
}

#[test]
fn bug_report_has_no_secret_and_no_argument() {
    let daemon = Daemon::start();
    let home = daemon.home();
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    home.file("a.txt", secret);
    home.run(&["call", "read_file", "path=a.txt"]).must_exit(0);
    home.run(&["call", "read_file", &format!("pth={secret}")]).must_exit(3);
    home.run(&["bugreport", "--output", "report.tar.gz"]).must_exit(0);
    let file = home.workspace().join("report.tar.gz");
    let mut text = String::new();
    GzDecoder::new(std::fs::File::open(&file).unwrap()).read_to_string(&mut text).unwrap();
    for part in
        ["sinew-bugreport/doctor.json", "sinew-bugreport/status.json", "\"read_file\"", "invalid_arguments"]
    {
        assert!(text.contains(part), "{part} is missing");
    }
    assert!(!text.contains("ghp_") && !text.contains("a.txt"), "{text}");
    assert!(!text.contains(&home.user_home().display().to_string()), "the home folder is `~`");
    let listed = std::process::Command::new("tar").arg("-tzf").arg(&file).output().expect("tar");
    assert!(listed.status.success(), "{listed:?}");
    assert_eq!(String::from_utf8_lossy(&listed.stdout).lines().count(), 5);
    home.run(&["bugreport", "--output", "report.tar.gz"]).must_exit(2);
}

#[test]
fn last_lines_of_the_log_are_shown() {
    let daemon = Daemon::start();
    let all = daemon.home().run(&["logs"]).must_exit(0).stdout();
    let last = daemon.home().run(&["logs", "-n", "1"]).must_exit(0).stdout();
    assert_eq!(last.lines().count(), 1, "{last}");
    assert_eq!(all.lines().last(), last.lines().last());
}

#[test]
fn verify_has_no_live_line_in_a_pipe() {
    let home = Home::initialised();
    home.file("a.txt", "x");
    home.run(&["call", "read_file", "path=a.txt"]).must_exit(0);
    let run = home.run(&["ledger", "verify"]).must_exit(0);
    assert_eq!(run.stderr(), "", "{run}");
    assert!(run.stdout().lines().all(|line| line == line.trim_end()), "{run}");
}

#[test]
fn times_are_local() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "x");
    daemon.home().run(&["call", "read_file", "path=a.txt"]).must_exit(0);
    daemon.home().run(&["mode", "set", "ALERT"]).must_exit(0);
    let shown = |zone: &str, words: &[&str]| {
        let form = TerminalForm { columns: 120, rows: 400, variables: &[("TZ", zone), ("NO_COLOR", "1")] };
        Terminal::run_in(&form, daemon.home(), words).wait_for_exit().1
    };
    for words in [["ledger", "tail"].as_slice(), &["logs"], &["mode", "history"], &["status"]] {
        let (here, there) = (shown("UTC0", words), shown("XYZ-5:30", words));
        assert_ne!(here, there, "{words:?}: {here}");
    }
}

#[test]
fn session_and_grant_end_by_the_first_digits_of_their_id() {
    let daemon = Daemon::start();
    let home = daemon.home();
    home.run(&["sessions", "open", "--name", "reviewer", "--allow", "read_file"]).must_exit(0);
    let listed = home.run(&["sessions", "list", "--json"]).must_exit(0).json();
    let id = listed["sessions"][0]["session_id"].as_str().unwrap().to_owned();
    let closed = home.run(&["sessions", "close", &id[..8]]).must_exit(0).stdout();
    assert_eq!(closed, format!("{id} is closed\n"));
    home.run(&["mode", "set", "ALERT"]).must_exit(0);
    home.run(&["call", "write_file", "path=a.txt", "content=x", "--async"]).must_exit(4);
    let listed = home.run(&["approvals", "list", "--json"]).must_exit(0).json();
    let approval = listed["approvals"][0]["id"].as_str().unwrap();
    home.run(&["approve", approval, "--for", "10m", "--yes"]).must_exit(0);
    let grants = || home.run(&["approvals", "grants"]).must_exit(0).stdout();
    let id = grants().split_whitespace().next().unwrap_or_default().to_owned();
    home.run(&["approvals", "revoke", &id[..6]]).must_exit(0);
    assert!(!grants().contains(&id), "{}", grants());
}

#[test]
fn refused_call_shows_a_command_that_works() {
    let home = Home::initialised();
    home.file("it's a note.txt", "x\n");
    let refused = home.run(&["call", "read_file", "pth=it's a note.txt"]).must_exit(3);
    let text = refused.stderr();
    let command = text.lines().find_map(|line| line.strip_prefix("try: ")).expect("a command");
    assert_eq!(command, r"sinew call read_file 'path=it'\''s a note.txt'");
    assert_eq!(text.matches("is not an argument of read_file").count(), 1, "each problem once: {text}");
    assert!(!text.contains("`repair`") && !text.contains("/path "), "words for programs: {text}");
    let mut shell = std::process::Command::new("sh");
    let program = tests::sinew().get_program().to_owned();
    shell.args(["-c", &command.replacen("sinew", r#""$SINEW""#, 1)]).env("SINEW", program);
    shell.env("SINEW_HOME", home.root()).env("HOME", home.user_home()).current_dir(home.workspace());
    let output = shell.output().expect("a shell");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "x\n", "{output:?}");
}

#[test]
fn commands_without_a_result_say_so() {
    let home = Home::initialised();
    let logs = home.run(&["logs"]).must_exit(0);
    assert!(
        logs.stdout().is_empty() && logs.stderr().starts_with("no line matches; the log is in /"),
        "{logs}"
    );
    let missing = home.run(&["manifest", "check", "nowhere.yaml"]).must_exit(7);
    let text = missing.stdout() + &missing.stderr();
    assert!(text.contains("does not exist") && text.contains("sinew manifest new"), "{missing}");
    assert!(!text.contains("at this position"), "there is none: {missing}");
}

#[test]
fn preview_of_an_undo_claims_nothing() {
    let home = Home::initialised();
    home.run(&["call", "write_file", "path=a.txt", "content=one"]).must_exit(0);
    let preview = home.run(&["undo", "--last", "--dry-run"]).must_exit(0);
    assert!(preview.stdout().starts_with("would remove "), "{preview}");
    assert!(home.workspace().join("a.txt").exists());
    let id = home.run(&["ledger", "tail", "--json"]).stdout();
    let id = id.rsplit("\"call_id\":\"").next().unwrap_or_default()[..13].to_owned();
    let plan = home.run(&["undo", "--since", "1h", "--dry-run"]).must_exit(0).stdout();
    assert!(plan.contains(&id) && plan.lines().count() == 2, "one line a call: {plan}");
}
