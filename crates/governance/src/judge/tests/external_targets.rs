//! Commands and hosts of a call, checked by the whole judge. The rules alone are tested in their own modules.

use serde_json::{Value, json};
use tool::{Mode, RefusalCode};

use super::fixture::{NO_TOOL_ENTRIES, machine, valid_call};
use crate::files::{Isolation, NetworkAccess};
use crate::rules::Confinement;
use crate::{HostLocation, RateCounts, Situation, Verdict, precheck};

const RUN: &str = "tools:
  run:
    allowed_commands: [ls, {argv: [git, status]}]
    forbidden_commands:
      - sudo
";

#[test]
fn listed_commands_pass_and_forbidden_takes_precedence() {
    let argv = |words: &[&str]| json!({"argv": words});
    machine(RUN).expect("run", &argv(&["ls", "; rm -rf x"]), "permit").decided_by(
        "tools.yaml",
        3,
        "run.allowed_commands",
    );
    machine(RUN)
        .expect("run", &argv(&["git", "push"]), "command_not_allowed not_listed")
        .has_reason("Permission denied: Command git push is not allowed")
        .decided_by("tools.yaml", 3, "run.allowed_commands");
    machine(RUN)
        .expect("run", &argv(&["/bin/sudo", "ls"]), "command_not_allowed forbidden_command")
        .has_reason("Permission denied: Command /bin/sudo ls is forbidden")
        .decided_by("tools.yaml", 5, "run.forbidden_commands");
    machine(RUN).expect("run", &json!({"line": "ls -l"}), "permit");
    machine(RUN).expect("run", &json!({"line": "ls; id"}), "command_not_allowed needs_a_shell");
    machine(RUN).expect("run", &json!({"line": "ls", "argv": ["id"]}), "command_not_allowed not_listed");
    machine(RUN).expect("run", &argv(&[]), "command_not_allowed no_program");
    machine(NO_TOOL_ENTRIES)
        .expect("run", &argv(&["ls"]), "command_not_allowed not_listed")
        .has_hint("needs `allowed_commands`");
    machine(NO_TOOL_ENTRIES).expect("run", &json!({}), "permit");
}

const SAFETY: &str = "outbound_gateway:
  allowed_domains: [\"*\"]
  blocked_domains: [\"*.onion\"]
  max_response_kb: 2
rate_limits:
  LOCKDOWN: {outbound_calls_per_hour: 0}
";

#[test]
fn hosts_must_pass_the_gateway_and_the_tools_own_list() {
    let open = || machine("tools: {fetch: {network: full}}\n").safety(SAFETY);
    let url = |text: &str| json!({"url": text});
    open().expect("fetch", &url("https://example.org/x"), "permit").decided_by(
        "safety.yaml",
        2,
        "outbound_gateway.allowed_domains",
    );
    open()
        .expect("fetch", &url("http://x.onion/"), "domain_not_allowed blocked_domain")
        .has_reason("Permission denied: Host x.onion is not allowed")
        .decided_by("safety.yaml", 3, "outbound_gateway.blocked_domains");
    open().expect("fetch", &url("http://2130706433/"), "domain_not_allowed private_address");
    open().expect(
        "fetch",
        &json!({"urls": ["https://a.org", "http://127.1"]}),
        "domain_not_allowed private_address",
    );
    let own = machine("tools:\n  fetch:\n    allowed_domains: [github.com]\n").safety(SAFETY);
    own.expect("fetch", &url("https://github.com/a"), "permit");
    own.expect("fetch", &url("https://github.com.evil.org/"), "domain_not_allowed not_listed").decided_by(
        "tools.yaml",
        3,
        "fetch.allowed_domains",
    );
    machine(NO_TOOL_ENTRIES).expect("fetch", &url("https://example.org"), "domain_not_allowed not_listed");
    let free = "modes: {LOCKDOWN: {}}\n";
    let none = open().modes(free).mode(Mode::Lockdown).expect(
        "search",
        &json!({"query": "x"}),
        "rate_limited outbound_per_hour",
    );
    assert!(!none.decided_by("safety.yaml", 6, "rate_limits.LOCKDOWN.outbound_calls_per_hour").retryable);
    let asks = format!("{SAFETY}\n").replace("  max_", "  require_approval_for_new_domains: true\n  max_");
    machine(NO_TOOL_ENTRIES).safety(&asks).expect("search", &json!({"query": "x"}), "ask").decided_by(
        "safety.yaml",
        4,
        "outbound_gateway.require_approval_for_new_domains",
    );
    machine(NO_TOOL_ENTRIES).safety(&asks).read("a.txt", "permit");
}

#[test]
fn address_is_blocked_in_every_notation() {
    let blocked = "outbound_gateway:\n  allowed_domains: [\"*\"]\n  blocked_domains: [93.184.216.34]\n";
    for host in ["93.184.216.34", "[::ffff:93.184.216.34]", "[64:ff9b::93.184.216.34]", "1572395042"] {
        let url = json!({"url": format!("http://{host}/")});
        machine(NO_TOOL_ENTRIES).safety(blocked).expect("fetch", &url, "domain_not_allowed blocked_domain");
    }
}

#[test]
fn denied_command_or_host_opens_no_path() {
    let machine = machine(RUN).safety(SAFETY);
    let policy = machine.policy();
    let situation =
        Situation { mode: Mode::Normal, workspaces: &machine.workspaces, counts: RateCounts::default() };
    let prechecked = |tool: &str, arguments: Value| {
        let denial = precheck(&policy, &situation, valid_call(tool, arguments)).map(|_| ()).unwrap_err();
        denial.refusal().code
    };
    assert_eq!(prechecked("run", json!({"argv": ["rm"]})), RefusalCode::CommandNotAllowed);
    assert_eq!(prechecked("fetch", json!({"url": "http://x.onion"})), RefusalCode::DomainNotAllowed);
}

#[test]
fn declared_access_counts_regardless_of_category() {
    let writes = "modes: {NORMAL: {require_approval_for: [any_write_operation]}}\n";
    let open = |tools: &str| machine(tools).modes(writes).safety(SAFETY);
    open(NO_TOOL_ENTRIES).expect("note", &json!({"path": "new.txt"}), "ask");
    open("tools: {probe: {allowed_commands: [ls]}}\n").expect("probe", &json!({"line": "ls"}), "ask");
    open(NO_TOOL_ENTRIES).expect("peek", &json!({"url": "https://a.org"}), "permit");
    open(NO_TOOL_ENTRIES).read("a.txt", "permit");
    open(NO_TOOL_ENTRIES).write("a.txt", "ask");
    open(NO_TOOL_ENTRIES).expect(
        "peek",
        &json!({"url": "https://x.onion"}),
        "domain_not_allowed blocked_domain",
    );
}

#[test]
fn rule_that_cannot_apply_to_a_tool_refuses_its_calls() {
    let about_commands = machine("tools: {fetch: {allowed_commands: [ls]}}\n").safety(SAFETY);
    about_commands
        .expect("fetch", &json!({"url": "https://a.org"}), "command_not_allowed not_judged")
        .has_hint("no argument of `fetch` is a command");
    let about_hosts = machine("tools: {run: {allowed_commands: [ls], allowed_domains: [a.org]}}\n");
    about_hosts
        .expect("run", &json!({"argv": ["ls"]}), "domain_not_allowed not_judged")
        .has_hint("no argument of `run` is an address");
}

#[test]
fn approval_for_new_domains_can_be_switched_off() {
    let asks = |flag: bool| {
        let line = format!("  require_approval_for_new_domains: {flag}\n  max_");
        machine(NO_TOOL_ENTRIES).safety(&SAFETY.replace("  max_", &line))
    };
    asks(true).expect("search", &json!({"query": "x"}), "ask");
    asks(false).expect("search", &json!({"query": "x"}), "permit");
}

#[test]
fn category_with_gateway_counts_as_outbound() {
    let tools = "tool_categories: {research: {requires_outbound_gateway: GATE}}
tools: {read_file: {category: research}}
";
    let safety = "rate_limits: {NORMAL: {outbound_calls_per_hour: 0}}\n";
    let of = |gate: &str| machine(&tools.replace("GATE", gate)).safety(safety);
    of("true").read("a.txt", "rate_limited outbound_per_hour");
    of("false").read("a.txt", "permit");
}

#[test]
fn approval_is_required_by_risk_and_category() {
    let rules = "human_approval: {rules: [{category: network, modes: [NORMAL]}, {risk_level: high, modes: [NORMAL]}]}\n";
    let asks = || machine("tools: {run: {allowed_commands: [ls]}}\n").safety(&format!("{SAFETY}{rules}"));
    asks().expect("search", &json!({"query": "x"}), "ask");
    asks().write("a.txt", "ask");
    asks().read("a.txt", "permit");
    asks().expect("run", &json!({"argv": ["ls"]}), "permit");
    let both = "human_approval: {rules: [{category: network, risk_level: high, modes: [NORMAL]}]}\n";
    let both = machine(NO_TOOL_ENTRIES).safety(&format!("{SAFETY}{both}"));
    both.expect("search", &json!({"query": "x"}), "permit");
    both.write("a.txt", "permit");
}

#[test]
fn permit_checks_every_further_hop() {
    let machine = machine("tools: {fetch: {network: loopback, memory_mb: 5, allowed_domains: [a.org]}}\n")
        .safety(SAFETY);
    let verdict = machine.verdict(valid_call("fetch", json!({"url": "https://a.org"})));
    let Verdict::Permit(permit) = verdict else { panic!("{verdict:?}") };
    permit.may_reach("https://a.org/next").unwrap();
    for (url, detail) in [
        ("https://b.org", "not_listed"),
        ("http://169.254.169.254", "private_address"),
        ("file:///x", "scheme"),
    ] {
        let denial = permit.may_reach(url).unwrap_err();
        assert_eq!(denial.refusal().detail.as_deref(), Some(detail), "{url}");
    }
    permit.may_connect("1.1.1.1".parse().unwrap(), HostLocation::Public).unwrap();
    permit.may_connect("::ffff:10.0.0.1".parse().unwrap(), HostLocation::Public).unwrap_err();
    permit.may_connect("::ffff:10.0.0.1".parse().unwrap(), HostLocation::Local).unwrap();
    for closed in ["169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "fe80::1"] {
        permit.may_connect(closed.parse().unwrap(), HostLocation::Local).unwrap_err();
    }
    assert_eq!(permit.max_response_bytes(), Some(2048));
    let expect = Confinement {
        min_isolation: Isolation::Full,
        network: NetworkAccess::Loopback,
        memory_mb: Some(5),
        max_processes: None,
        cpu_seconds: None,
    };
    assert_eq!(permit.confinement(), expect);
    assert_eq!(permit.facts()["hosts"], json!(["a.org"]));
    let verdict = machine.verdict(valid_call("read_file", json!({"path": "a.txt"})));
    let Verdict::Permit(permit) = verdict else { panic!("{verdict:?}") };
    let home = permit.may_reach("https://a.org").unwrap_err();
    assert_eq!(home.refusal().detail.as_deref(), Some("no_network_access"));
    assert_eq!((permit.confinement().network, &permit.facts()["hosts"]), (NetworkAccess::Off, &Value::Null));
}
