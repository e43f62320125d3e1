//! Suggestions on synthetic records: planted waste is found, and every claim equals an independent replay.

use std::time::Instant;

use governance::files::VerdictKind;
use governance::policy_environment::{NameComparison, PathVariables, PolicyEnvironment, ProtectedFolders};
use governance::rule_trace::RuleTrace;
use governance::{Policy, RecordedCall};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tool::ToolDefinition;

use super::{
    ObservedCall, OperatorAnswer, SuggestContext, SuggestReport, Suggestion, SuggestionKind, suggest,
};
use crate::judge_tests::{TestMachine, definition, machine};

const TOOLS: [&str; 5] = ["read_file", "write_file", "run", "fetch", "remove_file"];

/// Call as it is planted in a record.
struct PlantedCall {
    tool: &'static str,
    minute: i64,
    facts: Value,
    verdict: VerdictKind,
    answer: Option<OperatorAnswer>,
}

struct PlantedRecord {
    machine: TestMachine,
    definitions: Vec<ToolDefinition>,
    calls: Vec<PlantedCall>,
}

fn start() -> Timestamp {
    "2026-06-01T00:00:00Z".parse().unwrap()
}

impl PlantedRecord {
    fn new(tools: &str) -> Self {
        let machine = machine(tools).safety("outbound_gateway: {allowed_domains: [\"*\"]}\n");
        PlantedRecord { machine, definitions: TOOLS.map(definition).to_vec(), calls: Vec::new() }
    }

    /// Adds a call; its paths start at the root of the test machine.
    fn add(&mut self, tool: &'static str, minute: i64, targets: &str, count: u32) -> &mut PlantedCall {
        let root = self.machine.root.display().to_string();
        let path = |name: &str, access: &str| {
            let full = format!("{root}/{name}");
            json!([{"key": "path", "typed": full, "canonical": full, "access": access, "kind": "missing",
                "size": null, "links": null}])
        };
        let mut facts = json!({"mode": "NORMAL", "policy": "p", "paths": [], "content_bytes": null,
            "counts": {"tool_last_hour": count, "all_last_minute": 0, "outbound_last_hour": 0}});
        match tool {
            "read_file" => facts["paths"] = path(targets, "read"),
            "write_file" => facts["paths"] = path(targets, "write"),
            "remove_file" => facts["paths"] = path(targets, "remove"),
            "run" => facts["commands"] = json!([targets.split(' ').collect::<Vec<_>>()]),
            _ => facts["hosts"] = json!([targets]),
        }
        let call = PlantedCall { tool, minute, facts, verdict: VerdictKind::Allow, answer: None };
        self.calls.push(call);
        self.calls.last_mut().unwrap()
    }

    fn ask(&mut self, tool: &'static str, minute: i64, targets: &str, answer: OperatorAnswer) {
        let call = self.add(tool, minute, targets, 0);
        (call.verdict, call.answer) = (VerdictKind::Ask, Some(answer));
    }

    fn environment(&self) -> PolicyEnvironment {
        PolicyEnvironment {
            variables: PathVariables::with_home(&self.machine.path("home")),
            protected: ProtectedFolders { folders: vec![self.machine.path("sinew")] },
            name_comparison: NameComparison::CaseSensitive,
        }
    }

    fn definition(&self, tool: &str) -> &ToolDefinition {
        self.definitions.iter().find(|known| known.name().as_str() == tool).unwrap()
    }

    fn suggest(&self) -> SuggestReport {
        let (policy, environment) = (self.machine.policy(), self.environment());
        let context = SuggestContext {
            policy: &policy,
            environment: &environment,
            workspaces: &self.machine.workspaces,
            definitions: self.definitions.iter().collect(),
            since: start(),
        };
        let observed = self.calls.iter().map(|call| ObservedCall {
            call_id: String::new(),
            time: start() + SignedDuration::from_mins(call.minute),
            definition: self.definition(call.tool),
            party: "agent".to_owned(),
            verdict: call.verdict,
            answer: call.answer,
            facts: RecordedCall::parse(&call.facts),
        });
        suggest(&context, observed)
    }

    /// Judges every call of the period, of every tool, under a policy.
    fn verdicts(&self, policy: &Policy) -> Vec<(&PlantedCall, VerdictKind)> {
        let judge = |call: &PlantedCall| {
            let facts = RecordedCall::parse(&call.facts)?;
            let (definition, workspaces) = (self.definition(call.tool), &self.machine.workspaces);
            Some(policy.replay_call(definition, &facts, workspaces, RuleTrace::disabled()).verdict)
        };
        let in_period = self.calls.iter().filter(|call| call.minute >= 0);
        in_period.filter_map(|call| Some((call, judge(call)?))).collect()
    }

    /// Counts the effect of each suggestion without the code under test: loads the new file and judges every
    /// call under both policies.
    fn check_claims(&self, suggestions: &[Suggestion]) {
        let (policy, environment) = (self.machine.policy(), self.environment());
        let now = self.verdicts(&policy);
        for suggestion in suggestions {
            let Some((file, text)) = &suggestion.change else { continue };
            let then = self.verdicts(&policy.with_user_text(*file, text, &environment).unwrap());
            check_claim(suggestion, &now, &then);
        }
    }
}

fn check_claim(
    suggestion: &Suggestion,
    now: &[(&PlantedCall, VerdictKind)],
    then: &[(&PlantedCall, VerdictKind)],
) {
    let (mut fewer, mut waived, mut stay, mut run, mut other) = (0, 0, 0, 0, 0);
    for ((call, before), (_, after)) in now.iter().zip(then) {
        match (before, after) {
            (before, after) if before == after => {}
            (VerdictKind::Ask, VerdictKind::Allow) if call.answer.is_some() => fewer += 1,
            (VerdictKind::Ask, VerdictKind::Allow) => waived += 1,
            _ => other += 1,
        }
        let was_denied = call.answer == Some(OperatorAnswer::Denied) && *before != VerdictKind::Allow;
        if was_denied && call.tool == suggestion.tool {
            if *after == VerdictKind::Allow { run += 1 } else { stay += 1 }
        }
    }
    let effect = suggestion.effect;
    assert_eq!((effect.calls, now.len()), (now.len(), then.len()), "{suggestion:#?}");
    assert_eq!((effect.questions_fewer, effect.approvals_fewer), (fewer, waived), "{suggestion:#?}");
    assert_eq!((effect.denied_stay_denied, run, other), (stay, 0, 0), "{suggestion:#?}");
}

const WASTEFUL: &str = "\
tools:
  read_file:
    allowed_paths: [$ROOT/ws/**, $ROOT/other/**]  # two folders
    rate_limit_per_hour: 100000
  write_file:
    requires_approval: true
    unattended_paths:
      - $ROOT/ws/scratch/**
      # from last year
      - $ROOT/ws/old/**
  run:
    allowed_commands: [git, ls, uv, {argv: [terraform, plan]}, kubectl]
  fetch: {allowed_domains: [\"*\"]}
";

/// Creates the record of a week with 50,000 calls and a policy with seven unnecessary rules.
fn wasteful_week() -> PlantedRecord {
    let mut week = PlantedRecord::new(WASTEFUL);
    let minute = |number: i64| number % (7 * 24 * 60);
    for number in 0..20_000 {
        let name = format!("ws/src/file{}.rs", number % 900);
        week.add("read_file", minute(number), &name, u32::try_from(number % 40).unwrap());
    }
    for number in 0..9_935 {
        week.add("write_file", minute(number), &format!("ws/scratch/{}.txt", number % 50), 0);
    }
    let hosts = ["docs.rs", "crates.io", "www.rust-lang.org", "doc.rust-lang.org"];
    for (number, host) in (0..10_000).zip(hosts.iter().cycle()) {
        week.add("fetch", minute(number), host, 0);
    }
    let commands = ["git status", "ls -l", "git diff", "uv run pytest"];
    for (number, command) in (0..10_000).zip(commands.iter().cycle()) {
        week.add("run", minute(number), command, 0);
    }
    for number in 0..41 {
        let name = format!("ws/docs/page{}.md", number % 7);
        week.ask("write_file", minute(number * 60), &name, OperatorAnswer::Granted { seconds: 2 });
    }
    for number in 0..10 {
        let granted = OperatorAnswer::Granted { seconds: 40 };
        let answer = if number < 3 { OperatorAnswer::Denied } else { granted };
        week.ask("write_file", minute(number * 60), &format!("ws/src/file{number}.rs"), answer);
    }
    for number in 0..7 {
        week.add("run", 10_100 + number * 2, "pip install ruff", 0).verdict = VerdictKind::Deny;
        week.add("run", 10_101 + number * 2, "uv pip install ruff", 0);
    }
    week.add("run", -60 * 24 * 40, "kubectl get pods", 0);
    week
}

fn find<'r>(report: &'r SuggestReport, kind: SuggestionKind, words: &str) -> &'r Suggestion {
    let mut found = report.suggestions.iter().filter(|one| one.kind == kind && one.summary.contains(words));
    let only = found.next().unwrap_or_else(|| panic!("no {kind:?} with {words}: {:#?}", report.suggestions));
    assert!(found.next().is_none(), "{kind:?} {words}");
    only
}

#[test]
fn planted_waste_of_a_week_is_found_and_proven() {
    let week = wasteful_week();
    let begun = Instant::now();
    let report = week.suggest();
    println!("{} calls: {:?}", report.calls, begun.elapsed());
    assert_eq!((report.calls, report.not_judged, report.questions), (50_000, 0, 51));
    let check = |kind, words, evidence: &[&str], line: &str| {
        let found = find(&report, kind, words);
        let shown = found.evidence.join("\n");
        evidence.iter().for_each(|one| assert!(shown.contains(one), "{one}: {shown}"));
        let text = found.change.as_ref().map(|(_, text)| text.clone()).unwrap_or_default();
        assert!(text.contains(line), "{line}\n{text}");
    };
    let root = week.machine.root.display().to_string();
    let docs = format!("unattended_paths:\n      - {root}/ws/scratch/**\n");
    check(SuggestionKind::AlwaysApproved, "/ws/docs", &["41 questions approved", "within 2 seconds"], &docs);
    check(
        SuggestionKind::UnusedRule,
        "run: 2 entries of allowed_commands",
        &["`kubectl`: last used on 2026-04-22", "`terraform plan`: not used in the record"],
        "allowed_commands: [git, ls, uv]",
    );
    check(SuggestionKind::UnusedRule, "read_file: 1 entry", &["/other/**`"], "/ws/**]  # two folders");
    check(
        SuggestionKind::UnusedRule,
        "write_file: 1 entry of unattended_paths",
        &["/ws/old/**`"],
        "# from last",
    );
    check(
        SuggestionKind::Wildcard,
        "fetch: every host is permitted, 4 were used",
        &["`docs.rs`: 2500 calls"],
        "allowed_domains: [crates.io, doc.rust-lang.org, docs.rs, www.rust-lang.org]",
    );
    check(SuggestionKind::Rate, "read_file", &["80 an hour"], "rate_limit_per_hour: 80\n");
    check(
        SuggestionKind::RepairedRefusal,
        "refused for pip, then always repeated with uv",
        &["7 refusals"],
        "",
    );
    week.check_claims(&report.suggestions);
    assert_eq!(report.suggestions.len(), 7, "{:#?}", report.suggestions);
    let quiet = find(&report, SuggestionKind::AlwaysApproved, "/ws/docs");
    assert_eq!((quiet.effect.questions_fewer, quiet.effect.denied_stay_denied), (41, 3));
    assert!(quiet.change.as_ref().unwrap().1.contains("/ws/docs/*"), "{quiet:#?}");
}

/// Small generator of pseudo-random numbers, so that a failure can be repeated.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[usize::try_from(self.below(list.len() as u64)).unwrap()]
    }

    fn some(&mut self, list: &[&str]) -> String {
        let kept: Vec<&str> = list.iter().copied().filter(|_| self.below(3) > 0).collect();
        format!("[{}]", kept.join(", "))
    }
}

const PATHS: [&str; 8] =
    ["ws/a/1", "ws/a/2", "ws/a/3", "ws/a/.env", "ws/b/1", "ws/b/2", "home/.ssh/id", "ws/b/secret/x"];

fn random_record(seed: u64) -> PlantedRecord {
    let mut numbers = Numbers(seed.wrapping_mul(7919) + 1);
    let patterns = ["$ROOT/ws/a/*", "$ROOT/ws/b/**", "$ROOT/ws/a/1", "$ROOT/other/**"];
    let forbidden = numbers.some(&["\"**/.env\"", "$ROOT/ws/b/secret", "$ROOT/ws/a/2"]);
    let approval = if numbers.below(2) == 0 { "true" } else { "false" };
    let tools = format!(
        "tools:\n  write_file:\n    requires_approval: true\n    unattended_paths: {}\n    allowed_paths: {}\n  \
         remove_file: {{requires_approval: {approval}, rate_limit_per_hour: 500}}\n  run:\n    requires_approval: \
         {approval}\n    allowed_commands: {}\n  fetch:\n    allowed_domains: {}\nforbidden_paths: {forbidden}\n",
        numbers.some(&patterns),
        numbers.some(&patterns),
        numbers.some(&["git", "{argv: [ls, [-l, -a]]}", "\"*\"", "make"]),
        numbers.some(&["\"*\"", "a.org", "\"*.b.org\""]),
    );
    let mut record = PlantedRecord::new(&tools);
    for minute in 0..200 {
        let tool = numbers.pick(&TOOLS);
        let tool = TOOLS.into_iter().find(|known| *known == tool).unwrap();
        let targets = match tool {
            "run" => numbers.pick(&["git status", "ls -l", "make", "pip install x"]),
            "fetch" => numbers.pick(&["a.org", "x.b.org", "c.net"]),
            _ => numbers.pick(&PATHS),
        };
        let granted = OperatorAnswer::Granted { seconds: numbers.below(90) };
        match numbers.below(40) {
            0 => record.ask(tool, minute, targets, OperatorAnswer::Denied),
            1 => record.ask(tool, minute, targets, OperatorAnswer::Unanswered),
            2..30 => record.ask(tool, minute, targets, granted),
            _ => drop(record.add(tool, minute, targets, 3)),
        }
    }
    record
}

/// Applies each suggestion for many random policies and records, and judges all calls again.
#[test]
fn every_claim_equals_the_replay_of_the_changed_file() {
    let mut kinds = std::collections::BTreeMap::new();
    for seed in 0..60 {
        let record = random_record(seed);
        let suggestions = record.suggest().suggestions;
        record.check_claims(&suggestions);
        for suggestion in suggestions {
            *kinds.entry(suggestion.kind).or_insert(0) += 1;
        }
    }
    assert_eq!(kinds.len(), 5, "every kind must occur: {kinds:?}");
}

#[test]
fn a_folder_with_a_refused_or_forbidden_path_is_not_generalised() {
    let check = |forbidden: &str, denied: Option<&str>, expect: &[&str], never: &str| {
        let tools =
            format!("tools:\n  write_file:\n    requires_approval: true\nforbidden_paths: {forbidden}\n");
        let mut record = PlantedRecord::new(&tools);
        for number in 0..6 {
            let name = format!("ws/a/{number}");
            record.ask("write_file", number, &name, OperatorAnswer::Granted { seconds: 1 });
        }
        if let Some(path) = denied {
            record.ask("write_file", 9, path, OperatorAnswer::Denied);
        }
        let report = record.suggest();
        let found = report.suggestions.first().unwrap_or_else(|| panic!("{forbidden} {denied:?}"));
        let text = &found.change.as_ref().unwrap().1;
        expect.iter().for_each(|one| assert!(text.contains(one), "{one}\n{text}"));
        assert!(never.is_empty() || !text.contains(never), "{text}");
    };
    check("[]", None, &["/ws/a/*"], "/ws/a/1");
    check("[$ROOT/ws/a/keys]", None, &["/ws/a/1", "/ws/a/5"], "/ws/a/*");
    check("[]", Some("ws/a/sub/x"), &["/ws/a/1", "/ws/a/5"], "/ws/a/*");
}

#[test]
fn a_tool_with_an_incomplete_record_keeps_its_rules() {
    let tools = "tools:\n  run:\n    allowed_commands: [git, kubectl]\n";
    let mut record = PlantedRecord::new(tools);
    for number in 0..60 {
        record.add("run", number, "git status", 0);
    }
    assert_eq!(record.suggest().suggestions.len(), 1, "the test must get there");
    record.add("run", 61, "kubectl", 0).facts["commands"] = json!([["[redacted:key]"]]);
    let report = record.suggest();
    assert!(report.suggestions.is_empty(), "{:#?}", report.suggestions);
    assert_eq!((report.calls, report.not_judged), (60, 1));
}

#[test]
fn forbidding_rules_are_never_suggested_for_removal() {
    let tools = "tools:\n  run:\n    allowed_commands: [git]\n    forbidden_commands: [sudo]\n  read_file:\n    \
                 forbidden_paths: [$ROOT/ws/keys]\nforbidden_paths: [\"**/.env\"]\n";
    let mut record = PlantedRecord::new(tools);
    for number in 0..60 {
        record.add("run", number, "git status", 0);
        record.add("read_file", number, "ws/a.txt", 0);
    }
    assert!(record.suggest().suggestions.is_empty(), "{:#?}", record.suggest().suggestions);
}

#[test]
fn few_calls_show_no_rate() {
    let limits = |calls: i64| {
        let mut record = PlantedRecord::new("tools:\n  read_file: {rate_limit_per_hour: 300}\n");
        for number in 0..calls {
            record.add("read_file", number, "ws/a.txt", 0);
        }
        record.suggest().suggestions.len()
    };
    assert_eq!((limits(19), limits(20)), (0, 1));
}
