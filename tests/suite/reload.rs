//! Changes of the configuration while the daemon runs: a tighter rule holds at once, a looser one waits for
//! acceptance, and an invalid file changes nothing.

use serde_json::{Value, json};
use tests::{Daemon, Home, wait_until};

pub(crate) const OPEN: &str = "tools:\n  read_file: {allowed_in_modes: [NORMAL]}\n";
pub(crate) const SHUT: &str =
    "tools:\n  read_file:\n    allowed_in_modes: [NORMAL]\n    forbidden_paths: [\"$HOME/work/shut/**\"]\n";

/// Home with a folder that `SHUT` forbids. Alarms are off, because a test that polls for a rule causes
/// refusals.
pub(crate) fn home(tools: &str) -> Home {
    let home = Home::initialised().without_automatic_modes();
    std::fs::create_dir(home.workspace().join("shut")).expect("a folder");
    home.file("shut/a.txt", "x");
    home.configure("governance/tools.yaml", tools);
    home
}

fn reads(daemon: &Daemon) -> bool {
    daemon.agent().execute("read_file", &json!({"path": "shut/a.txt"}))["success"] == true
}

fn reload_state(daemon: &Daemon) -> Value {
    daemon.control().request("control/status", &json!({}))["result"]["reload"].clone()
}

fn reloads(home: &Home) -> Vec<String> {
    let records = home.records();
    let reloads = records.iter().filter(|record| record["kind"] == "reload");
    reloads.map(|record| record["result"].as_str().expect("a word").to_owned()).collect()
}

#[test]
fn tighter_rules_hold_at_once_and_looser_ones_wait() {
    let daemon = Daemon::start_in(home(OPEN));
    assert!(reads(&daemon));
    daemon.home().configure("governance/tools.yaml", SHUT);
    wait_until("the tighter rule holds", || !reads(&daemon));

    daemon.home().configure("governance/tools.yaml", OPEN);
    wait_until("the looser one waits", || reload_state(&daemon)["result"] == "waiting");
    assert!(!reads(&daemon), "and does not hold");
    let shown = daemon.home().run(&["status"]).must_exit(0).stdout();
    assert!(shown.contains("sinew reload --accept"), "{shown}");
    let asked = daemon.home().run(&["reload"]).must_exit(4);
    assert!(asked.stdout().contains("loosens"), "the difference is shown: {asked}");
    assert!(!reads(&daemon), "asking is not accepting");
    let stale = daemon.control().request("control/reload", &json!({"accept": "0".repeat(64)}));
    assert_eq!(stale["result"]["result"], "waiting", "only what was shown can be accepted: {stale}");
    let accepted = daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert!(accepted.stdout().contains("loosens") && accepted.stdout().contains("applied"), "{accepted}");
    assert!(reads(&daemon));
    assert_eq!(daemon.home().run(&["reload"]).must_exit(0).stdout(), "nothing has changed\n");
    assert_eq!(reloads(&daemon.stop()), ["applied", "waiting", "applied"]);
}

/// A requirement of the guardrails is a bound like others: dropping it waits for acceptance, adding one does
/// not.
#[test]
fn dropped_guardrail_requirement_waits_for_acceptance() {
    let daemon = Daemon::start_in(home(OPEN));
    let lax = "tools:\n  read_file: {required: [path]}\n";
    daemon.home().configure("governance/guardrails.yaml", lax);
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    for (strict, row) in [
        ("read_file: {required: [path, head]}", "no longer requires `head`"),
        (
            "read_file: {required: [path], required_any: [[head, tail]]}",
            "no longer requires `head` or `tail`",
        ),
        (
            "read_file: {required: [path], min_length: {path: 20}}",
            "no longer requires at least 20 characters in `path`",
        ),
    ] {
        daemon.home().configure("governance/guardrails.yaml", &format!("tools:\n  {strict}\n"));
        daemon.home().run(&["reload"]).must_exit(0);
        assert!(!reads(&daemon), "what is demanded holds at once: {strict}");
        // This command and the file watcher race; either way the status shows what was applied.
        let reported = reload_state(&daemon)["changes"].to_string();
        assert!(reported.contains("tightens") && !reported.contains("loosens"), "{strict}: {reported}");
        for less in [lax, "tools:\n  other: {required: [x]}\n"] {
            daemon.home().configure("governance/guardrails.yaml", less);
            let asked = daemon.home().run(&["reload"]).must_exit(4);
            let shown = asked.stdout();
            let line = shown.lines().find(|line| line.contains(row)).unwrap_or_else(|| panic!("{asked}"));
            assert!(line.contains("loosens") && line.contains("guardrails.yaml line 2"), "{line}");
            assert!(!reads(&daemon), "what loosens waits: {less}");
        }
        daemon.home().configure("governance/guardrails.yaml", lax);
        daemon.home().run(&["reload", "--accept"]).must_exit(0);
        assert!(reads(&daemon));
    }
    daemon.home().configure("governance/guardrails.yaml", &format!("# Words.\n{lax}"));
    daemon.home().run(&["reload"]).must_exit(0);
    let reported = reload_state(&daemon)["changes"].to_string();
    assert!(reported.contains("neutral") && !reported.contains("loosens"), "{reported}");
}

#[test]
fn invalid_configuration_changes_nothing_and_is_located() {
    let daemon = Daemon::start_in(home(SHUT));
    assert!(!reads(&daemon));
    daemon.home().configure("governance/tools.yaml", "tools:\n  read_file:\n    alowed_in_modes: [NORMAL]\n");
    wait_until("it is rejected", || reload_state(&daemon)["result"] == "rejected");
    let reported = reload_state(&daemon)["error"].as_str().expect("why").to_owned();
    assert!(
        reported.contains("tools.yaml") && reported.contains("allowed_in_modes"),
        "with place and advice: {reported}"
    );
    let refused = daemon.home().run(&["reload"]).must_exit(7);
    assert!(refused.stderr().contains("3:") || refused.stderr().contains("line 3"), "{refused}");
    assert!(refused.stderr().contains("last valid"), "{refused}");
    assert!(!reads(&daemon), "the last good rules hold");
    assert_eq!(daemon.agent().execute("list_directory", &json!({"path": "."}))["success"], true);
    daemon.home().configure("governance/tools.yaml", SHUT);
    wait_until("all is as before", || reload_state(&daemon) == Value::Null);
    assert_eq!(reloads(&daemon.stop()), ["rejected"], "once, however often it was looked at");
}

/// A file that is truncated, empty, an alias bomb or misspelt never replaces the rules in force.
#[test]
fn no_broken_file_becomes_an_empty_policy() {
    let daemon = Daemon::start_in(home(SHUT));
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for level in 1..9 {
        let before = format!("*a{},", level - 1).repeat(9);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", before.trim_end_matches(',')));
    }
    bomb.push_str("tools: {}\n");
    for broken in [
        "",
        "# nothing\n",
        "null\n",
        "tools:\n  read_file:\n    allowed_in",
        "tools: {read_file: {}, read_file: {}}\n",
        "tools: {read_file: {}}\n\"tools\": {}\n",
        "tools: {read_file: {forbiden_paths: [/x]}}\n",
        "tools: {read_file: {forbidden_paths: /x}}\n",
        bomb.as_str(),
    ] {
        daemon.home().configure("governance/tools.yaml", broken);
        let refused = daemon.home().run(&["reload"]).must_exit(7);
        assert!(refused.stderr().contains("tools.yaml"), "{broken}: {refused}");
        assert!(!reads(&daemon), "the last good rules hold: {broken}");
    }
    let home = daemon.stop();
    let refused = home.run(&["serve"]).must_exit(7);
    assert!(refused.stderr().contains("tools.yaml"), "nor does it start with one: {refused}");
}

#[test]
fn workspaces_appear_when_accepted_and_go_at_once() {
    let daemon = Daemon::start_in(home(OPEN));
    let other = daemon.home().user_home().canonicalize().unwrap().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("b.txt"), "x").unwrap();
    let file = json!({"path": other.join("b.txt")});
    let may_read = || daemon.agent().execute("read_file", &file)["success"] == true;
    let added = daemon.home().run(&["workspace", "add", other.to_str().unwrap()]).must_exit(0);
    assert!(added.stderr().contains("sinew reload --accept"), "{added}");
    assert!(!may_read());
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert!(may_read());
    daemon.home().run(&["workspace", "remove", other.to_str().unwrap()]).must_exit(0);
    wait_until("it is gone", || !may_read());
}

/// A tightening holds although a loosening of the same change waits, and the command says which is which.
#[test]
fn tightening_holds_while_a_loosening_waits() {
    let daemon = Daemon::start_in(home(OPEN));
    let writes = || {
        let arguments = json!({"path": "new.txt", "content": "x"});
        daemon.agent().execute("write_file", &arguments)["success"] == true
    };
    let sized = |tools: &str, most: u32| format!("{tools}  write_file: {{max_file_size_mb: {most}}}\n");
    daemon.home().configure("governance/tools.yaml", &sized(OPEN, 0));
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert!(reads(&daemon) && !writes());
    daemon.home().configure("governance/tools.yaml", &sized(SHUT, 1));
    let shown = daemon.home().run(&["reload"]).must_exit(4).stdout();
    let (in_effect, waits) = shown.split_once("waits for you").expect("two parts");
    assert!(in_effect.contains("in effect now:") && in_effect.contains("forbidden path added"), "{shown}");
    assert!(waits.contains("largest file: 0 becomes 1048576"), "{shown}");
    assert!(!reads(&daemon), "what tightens holds");
    assert!(!writes(), "what loosens waits");
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert!(!reads(&daemon) && writes());
}

/// A tool of a host must run sandboxed as soon as a rule says so, also while a loosening of the same files waits.
#[test]
fn sandbox_for_a_host_tool_does_not_wait_for_a_loosening() {
    let daemon = Daemon::start_in(Home::initialised().without_automatic_modes());
    let decision = |line: &str| {
        let hook = crate::hook::run_pre_tool_use(daemon.home(), "Bash", &json!({"command": line}));
        hook.decision().to_owned()
    };
    assert_ne!(decision("ls ."), "deny");
    let tools = "tools:\n  bash: {network: off}\n  run_command: {allowed_commands: {add: [cargo]}}\n";
    daemon.home().configure_layer("governance/tools.yaml", tools);
    let shown = daemon.home().run(&["reload"]).must_exit(4).stdout();
    assert!(shown.contains("bash: it runs sandboxed"), "{shown}");
    for line in ["ls .", "git push"] {
        assert_eq!(decision(line), "deny", "{line}");
    }
}

/// A read-only workspace inside of a writable one restricts it, so removing it loosens.
#[test]
fn removed_nested_workspace_does_not_become_writable() {
    let home = Home::initialised().without_automatic_modes();
    let inner = home.workspace().join("vendor");
    std::fs::create_dir(&inner).unwrap();
    let name = inner.to_str().unwrap().to_owned();
    home.run(&["workspace", "add", &name, "--read-only"]).must_exit(0);
    let daemon = Daemon::start_in(home);
    let write = json!({"path": "vendor/a", "content": "x"});
    let writes = || daemon.agent().execute("write_file", &write)["success"] == true;
    assert!(!writes());
    let removed = daemon.home().run(&["workspace", "remove", &name]).must_exit(0);
    assert!(removed.stdout().contains("callers may read and write there"), "{removed}");
    assert!(removed.stderr().contains("sinew reload --accept"), "{removed}");
    assert!(!writes(), "what loosens waits");
    let shown = daemon.home().run(&["reload"]).must_exit(4).stdout();
    assert!(shown.contains("loosens") && shown.contains("callers may read and write in"), "{shown}");
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert!(writes());
    daemon.home().run(&["workspace", "add", &name]).must_exit(0);
    daemon.home().run(&["reload"]).must_exit(0);
    let removed = daemon.home().run(&["workspace", "remove", &name]).must_exit(0);
    assert!(removed.stdout().contains("callers may read and write there"), "{removed}");
    assert!(!removed.stderr().contains("--accept"), "the access is the same: {removed}");
}

/// `workspace remove` holds when the command has ended: with a change that waits, and for a project with a policy.
/// If the daemon cannot read the files, the command says so.
#[test]
fn removed_workspace_is_closed_when_the_command_ends() {
    let daemon = Daemon::start_in(home(OPEN));
    let other = daemon.home().user_home().canonicalize().unwrap().join("other");
    std::fs::create_dir_all(other.join(".sinew")).unwrap();
    std::fs::write(other.join("b.txt"), "x").unwrap();
    std::fs::write(other.join(".sinew/policy.yaml"), "tools: {write_file: {allowed_paths: []}}\n").unwrap();
    let (name, file) = (other.to_str().unwrap(), json!({"path": other.join("b.txt")}));
    let may_read = || daemon.agent().execute("read_file", &file)["success"] == true;
    let add = || {
        daemon.home().run(&["workspace", "add", name]).must_exit(0);
        daemon.home().run(&["reload", "--accept"]).must_exit(0);
        assert!(may_read());
    };
    add();
    daemon.home().run(&["workspace", "remove", name]).must_exit(0);
    assert!(!may_read(), "nothing waits");
    daemon.home().run(&["reload"]).must_exit(0);
    add();
    daemon.home().configure("governance/tools.yaml", "tools: {read_file: {max_file_size_mb: 900}}\n");
    daemon.home().run(&["reload"]).must_exit(4);
    daemon.home().run(&["workspace", "remove", name]).must_exit(0);
    assert!(!may_read(), "another change waits");
    daemon.home().configure("governance/tools.yaml", OPEN);
    add();
    daemon.home().configure("governance/tools.yaml", "tools: {read_file: {nonsense: 1}}\n");
    let failed = daemon.home().run(&["workspace", "remove", name]).must_exit(7);
    assert!(failed.stderr().contains("still lets callers work there"), "{failed}");
    assert!(may_read(), "the command said so");
    daemon.home().configure("governance/tools.yaml", OPEN);
    daemon.home().run(&["reload"]).must_exit(0);
    assert!(!may_read(), "as the command said");
}

/// Calls find the access to the folder that `workspace remove` states.
#[test]
fn remaining_access_to_a_removed_workspace_is_stated() {
    let home = Home::initialised();
    let outer = home.user_home().canonicalize().unwrap().join("outer");
    let inner = outer.join("inner");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::write(inner.join("b.txt"), "x").unwrap();
    let (name, file) = (inner.to_str().unwrap(), format!("path={}", inner.join("b.txt").display()));
    let read = |home: &Home| home.run(&["call", "read_file", &file]).output.status.code();
    for folder in [outer.to_str().unwrap(), name] {
        home.run(&["workspace", "add", folder]).must_exit(0);
    }
    let said = home.run(&["workspace", "remove", name]).must_exit(0).stdout();
    assert!(said.contains("callers may read and write there") && read(&home) == Some(0), "{said}");
    home.run(&["workspace", "add", name]).must_exit(0);
    home.run(&["workspace", "remove", outer.to_str().unwrap()]).must_exit(0);
    let said = home.run(&["workspace", "remove", name]).must_exit(0);
    assert!(said.stdout().contains("callers may no longer work in") && read(&home) == Some(3), "{said}");
    let here = home.run_in(&inner, &["call", "read_file", "path=b.txt"]).output.status.code();
    assert!(said.stderr().contains("may still read the folder") && here == Some(0), "{said}");
}

#[test]
fn tools_that_list_a_removed_workspace_are_named() {
    let home = Home::new();
    std::fs::create_dir_all(home.root().join("config/governance")).unwrap();
    let folder = home.user_home().canonicalize().unwrap().join("listed");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("b.txt"), "x").unwrap();
    let (name, file) = (folder.to_str().unwrap(), format!("path={}", folder.join("b.txt").display()));
    home.configure_layer(
        "governance/tools.yaml",
        &format!("tools: {{read_file: {{allowed_paths: [\"{name}/**\"]}}}}\n"),
    );
    home.run(&["workspace", "add", name]).must_exit(0);
    let read = |home: &Home| home.run(&["call", "read_file", &file]).output.status.code();
    let said = home.run(&["workspace", "remove", name]).must_exit(0).stdout();
    assert!(said.contains("still lists paths there for read_file") && read(&home) == Some(0), "{said}");
}

#[test]
fn automatic_reload_is_a_setting_that_needs_acceptance() {
    let home = home(SHUT);
    let settings = home.root().join("config/sinew.yaml");
    let asks = std::fs::read_to_string(&settings).unwrap();
    home.configure("sinew.yaml", &asks.replace("reload: ask", "reload: auto"));
    let daemon = Daemon::start_in(home);
    daemon.home().configure("governance/tools.yaml", OPEN);
    wait_until("the looser rule holds", || reads(&daemon));

    let daemon = Daemon::start_in(self::home(OPEN));
    let settings = daemon.home().root().join("config/sinew.yaml");
    let asks = std::fs::read_to_string(&settings).unwrap();
    daemon.home().configure("sinew.yaml", &asks.replace("reload: ask", "reload: auto"));
    wait_until("that is a question too", || reload_state(&daemon)["result"] == "waiting");
    daemon.home().configure("sinew.yaml", &asks.replace("drain_seconds: 10", "drain_seconds: 11"));
    wait_until("limits need a start", || reload_state(&daemon).to_string().contains("at the next start"));
}

#[test]
fn sighup_reads_the_files_and_ends_nothing() {
    let daemon = Daemon::start_in(home(OPEN));
    daemon.signal(nix::sys::signal::Signal::SIGHUP);
    wait_until("it is heard", || daemon.log().contains("SIGHUP received"));
    assert!(reads(&daemon));
}

/// However often the rules change, each call is judged by one whole policy and reports its hash.
#[test]
fn every_call_sees_one_whole_policy_and_names_it() {
    const RELOADS: usize = 12;
    // So many refusals would raise an alarm, which this test does not cover.
    let [open_rules, shut_rules] =
        [OPEN, SHUT].map(|rules| rules.replace("[NORMAL]", "[NORMAL, ALERT, DEGRADED]"));
    let home = home(&open_rules);
    let settings = home.root().join("config/sinew.yaml");
    let asks = std::fs::read_to_string(&settings).expect("settings");
    home.configure("sinew.yaml", &asks.replace("reload: ask", "reload: auto"));
    let safety = home.root().join("config/governance/safety.yaml");
    let limited = std::fs::read_to_string(&safety).expect("a file");
    let generous = limited.replace("tool_calls_per_minute: ", "tool_calls_per_minute: 1000");
    home.configure("governance/safety.yaml", &generous);
    let daemon = Daemon::start_in(home);
    let judged = |agent: &mut tests::Client| {
        let result = agent.execute("read_file", &json!({"path": "shut/a.txt"}));
        let (may, refusal) = (result["success"] == true, &result["metadata"]["refusal"]["code"]);
        assert!(may || refusal == "path_forbidden", "one or the other: {result}");
        (result["metadata"]["policy_hash"].as_str().expect("a hash").to_owned(), may)
    };
    let take = |rules: &str| {
        daemon.home().configure("governance/tools.yaml", rules);
        daemon.control().request("control/reload", &json!({}));
    };
    let (open, may) = judged(&mut daemon.agent());
    take(&shut_rules);
    let (shut, may_not) = judged(&mut daemon.agent());
    assert!(may && !may_not && open != shut);
    let over = std::sync::atomic::AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let call = || {
            let mut agent = daemon.agent();
            let mut seen = Vec::new();
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                seen.push(judged(&mut agent));
            }
            seen
        };
        let callers: Vec<_> = (0..3).map(|_| scope.spawn(call)).collect();
        (0..RELOADS).for_each(|round| take(if round % 2 == 0 { &open_rules } else { &shut_rules }));
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        callers.into_iter().flat_map(|caller| caller.join().expect("answered")).collect::<Vec<_>>()
    });
    for (hash, may) in &seen {
        assert_eq!(*may, *hash == open, "judged by {hash}, of {open} and {shut}");
        assert!([&open, &shut].contains(&hash), "half of a policy: {hash}");
    }
    assert!(seen.iter().any(|(_, may)| *may) && seen.iter().any(|(_, may)| !*may), "both were seen");
    let records = daemon.stop().records();
    let known =
        |record: &Value| record["policy_hash"].as_str().is_none_or(|hash| hash == open || hash == shut);
    assert!(records.iter().filter(|record| record["kind"] != "start").all(known), "and the record agrees");
}
