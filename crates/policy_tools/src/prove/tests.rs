//! Tests of the prover: against exhaustive judgement on small random policies, and on stated examples.

mod random_policy;

use std::path::Path;
use std::sync::{Arc, LazyLock};

use governance::dry_run::dry_run_verdict;
use governance::files::VerdictKind;
use governance::policy_environment::{NameComparison, PathVariables, PolicyEnvironment, ProtectedFolders};
use governance::suggested_change::PolicyFile;
use governance::{Policy, RateCounts, Situation, Workspace, WorkspaceAccess, Workspaces};
use guardrail::ValidCall;
use serde_json::{Value, json};
use tool::{Category, Mode, RiskLevel, ToolDefinition, ToolSpec};

use self::random_policy::{RandomPolicy, Rng, files};
use super::calls::ToolCalls;
use super::*;
use crate::compare::PolicyEffect;
use crate::judge_tests::{self, complete_safety_file, whole_tools};

fn environment() -> PolicyEnvironment {
    PolicyEnvironment {
        variables: PathVariables::with_home(Path::new("/h")),
        protected: ProtectedFolders { folders: vec!["/h/.sinew".into()] },
        name_comparison: NameComparison::CaseSensitive,
    }
}

/// Builds a policy that replaces the built-in one.
fn policy(tools: &str, safety: &str) -> Policy {
    static EMPTY: LazyLock<Policy> = LazyLock::new(|| {
        let environment = environment();
        let texts = [
            (PolicyFile::Modes, "extends: none\nmodes: {NORMAL: {}}\n".to_owned()),
            (PolicyFile::Tools, format!("extends: none\n{}", whole_tools("tools: {}\n"))),
        ];
        texts.iter().fold(Policy::embedded(&environment).unwrap(), |policy, (file, text)| {
            policy.with_user_text(*file, text, &environment).unwrap()
        })
    });
    let environment = environment();
    let with = |policy: &Policy, file, text: String| {
        policy
            .with_user_text(file, &format!("extends: none\n{text}"), &environment)
            .unwrap_or_else(|error| panic!("{error}\n{text}"))
    };
    let changed = with(&EMPTY, PolicyFile::Tools, whole_tools(tools));
    match safety {
        "" => changed,
        safety => with(&changed, PolicyFile::Safety, complete_safety_file(safety)),
    }
}

fn workspaces(list: &[(&str, WorkspaceAccess)]) -> Workspaces {
    Workspaces::new(list.iter().map(|(root, access)| Workspace::hypothetical(root, *access)).collect())
}

fn one_workspace() -> Workspaces {
    workspaces(&[("/w", WorkspaceAccess::ReadWrite)])
}

fn question(text: &str) -> Question {
    Question::parse(&[text.to_owned()], Path::new("/"), &environment().variables)
        .unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

fn definitions(names: &[&str]) -> Vec<Arc<ToolDefinition>> {
    names.iter().map(|name| Arc::new(judge_tests::definition(name))).collect()
}

/// Creates a sandboxed tool that starts programs, which the shared fixture does not have.
fn sandboxed_runner() -> Arc<ToolDefinition> {
    let mut spec = ToolSpec::new("runner", "a test tool", Category::SYSTEM_WRITE, RiskLevel::High);
    let argv = json!({"type": "array", "format": "command", "items": {"type": "string"}});
    spec.input_schema = Some(json!({"type": "object", "properties": {"argv": argv}, "required": ["argv"]}));
    spec.requires_sandbox = true;
    Arc::new(spec.check().unwrap())
}

fn answer(policy: &Policy, folders: &Workspaces, tools: &[Arc<ToolDefinition>], text: &str) -> Proof {
    let context = ProofContext { policy, definitions: tools, workspaces: folders, services: &[] };
    prove(&context, &question(text))
}

/// Checks the witnesses: tool, mode, verdict and arguments of each.
#[track_caller]
fn check(tools: &str, text: &str, expect: &[&str]) {
    let policy = policy(tools, "outbound_gateway: {allowed_domains: [\"*\"]}\n");
    let definitions = definitions(&["read_file", "write_file", "remove_file", "run", "fetch", "search"]);
    let proof = answer(&policy, &one_workspace(), &definitions, text);
    assert_eq!(proof.undecided, [], "{text}");
    let shown: Vec<String> = proof.witnesses.iter().map(shown).collect();
    assert_eq!(shown, expect, "{text}\n{tools}");
}

fn shown(witness: &Witness) -> String {
    let effect = witness.effect.as_ref().map(|effect| format!(" ({effect})")).unwrap_or_default();
    format!("{} {} {} {}{effect}", witness.verdict, witness.tool, witness.mode, witness.arguments)
}

#[test]
fn paths_that_only_one_name_can_take_are_found() {
    let tools = |write: &str| {
        format!(
            "tools:\n  write_file: {{allowed_in_modes: [NORMAL], {write}}}\n  remove_file: {{allowed_in_modes: []}}\n"
        )
    };
    let plain = r#"allow write_file NORMAL {"path":"/w/src"}"#;
    check(&tools("allowed_paths: [/w/src/**]"), "write below /w", &[plain]);
    check(&tools("allowed_paths: [/w/src/**]"), "write below /w/docs", &[]);
    check(
        &tools("allowed_paths: [\"/w/[ab]\"], forbidden_paths: [/w/a]"),
        "write below /w",
        &[r#"allow write_file NORMAL {"path":"/w/b"}"#],
    );
    check(&tools("allowed_paths: [\"/w/[ab]\"], forbidden_paths: [/w/a, \"/*/b\"]"), "write below /w", &[]);
    // Everything below a forbidden name is forbidden too.
    check(&tools("allowed_paths: [\"/w/**\"], forbidden_paths: [\"**/x*\"]"), "write below /w/xa/b", &[]);
    check(&tools("allowed_paths: [\"/w/**\"]"), "write below /w/.git", &[]);
    check(
        &tools("allowed_paths: [\"/w/**\"]"),
        "write below '/w/**/*.pem'",
        &[r#"allow write_file NORMAL {"path":"/w/.pem"}"#],
    );
    check(&tools("allowed_paths: [\"/w/**\"]"), "write below '/**/.ssh'", &[]);
    check(&tools(""), "write below /h/.sinew", &[]);
}

#[test]
fn approvals_and_unattended_paths_are_told_apart() {
    let tools = "tools:\n  write_file: {allowed_in_modes: [NORMAL], requires_approval: true, unattended_paths: [/w/s/**]}\n  remove_file: {allowed_in_modes: []}\n";
    let (ask, allow) =
        (r#"ask write_file NORMAL {"path":"/w"}"#, r#"allow write_file NORMAL {"path":"/w/s"}"#);
    check(tools, "write below /w", &[allow]);
    check(tools, "write below /w with human", &[ask]);
    check(tools, "write below /w without human", &[allow]);
    check(tools, "write below /w/other without human", &[]);
    check(tools, "write below /w in alert", &[]);
    check(tools, "write below /w by run", &[]);
}

#[test]
fn commands_beside_forbidden_ones_are_found() {
    let tools = "tools:\n  run: {allowed_in_modes: [NORMAL], allowed_commands: [ls, {argv: [git, [push, log]]}], forbidden_commands: [{argv: [git, push]}]}\n";
    check(tools, "run git", &[r#"allow run NORMAL {"argv":["git","log"]}"#]);
    check(tools, "run git push", &[]);
    check(tools, "run ls -l", &[r#"allow run NORMAL {"argv":["ls","-l"]}"#]);
    check(tools, "run rm", &[]);
    let any = "tools:\n  run: {allowed_in_modes: [NORMAL], allowed_commands: [\"*\"], forbidden_commands: [rm, {argv: [ls], exact: true}]}\n";
    check(any, "run rm", &[]);
    check(any, "run ls", &[r#"allow run NORMAL {"argv":["ls","x"]}"#]);
    let exact = "tools:\n  run: {allowed_in_modes: [NORMAL], allowed_commands: [{argv: [python3, --version], exact: true}]}\n";
    check(exact, "run python3 --version x", &[]);
    check(exact, "run python3", &[r#"allow run NORMAL {"argv":["python3","--version"]}"#]);
}

#[test]
fn hosts_beside_blocked_ones_are_found() {
    let tools = "tools:\n  fetch: {allowed_in_modes: [NORMAL], allowed_domains: [a.org, \"*.b.org\"]}\n  search: {allowed_in_modes: []}\n";
    check(tools, "reach a.org", &[r#"allow fetch NORMAL {"url":"https://a.org/"}"#]);
    check(tools, "reach b.org", &[]);
    check(tools, "reach '*.b.org'", &[r#"allow fetch NORMAL {"url":"https://x.b.org/"}"#]);
    check(tools, "reach 127.0.0.1", &[]);
    check(tools, "reach '*.c.org'", &[]);
}

#[test]
fn programs_count_with_what_their_sandbox_opens() {
    let tools = "tools:\n  runner: {allowed_in_modes: [NORMAL], allowed_commands: [make], forbidden_paths: [/w/keys]}\n";
    let policy = policy(tools, "").with_isolation(Some(governance::files::Isolation::Full));
    let folders = workspaces(&[("/w", WorkspaceAccess::ReadWrite), ("/r", WorkspaceAccess::ReadOnly)]);
    let ask = |text: &str| {
        let proof = answer(&policy, &folders, &[sandboxed_runner()], text);
        assert_eq!(proof.undecided, [], "{text}");
        proof.witnesses.iter().map(shown).collect::<Vec<_>>()
    };
    let makes =
        |effect: &str| vec![format!(r#"allow runner NORMAL {{"argv":["make"]}} (its program may {effect})"#)];
    assert_eq!(ask("write below /w/src"), makes("change /w/src"));
    assert_eq!(ask("read below /etc"), makes("read /etc"));
    assert_eq!(ask("read /r/x"), makes("read /r/x"));
    for none in [
        "write below /r",
        "write below /etc",
        "read below /w/keys",
        "write below /w/.vscode",
        "read below /h",
    ] {
        assert_eq!(ask(none), Vec::<String>::new(), "{none}");
    }
    assert_eq!(ask("reach a.org"), Vec::<String>::new());
}

/// Returns the seed and the number of policies for a test: a few, or the number that `cargo xtask soak` requests.
fn rounds(few: u64) -> (u64, u64) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    (number("SINEW_PROVE_SEED").unwrap_or(1), number("SINEW_PROVE_POLICIES").unwrap_or(few))
}

/// Returns a tool of the random policies with its compiled schema.
fn tool_calls(tool: &str) -> &'static ToolCalls {
    static ALL: LazyLock<Vec<ToolCalls>> = LazyLock::new(|| {
        random_policy::TOOLS.iter().map(|tool| ToolCalls::new(&definitions(&[tool])[0]).unwrap()).collect()
    });
    ALL.iter().find(|known| known.definition.name().as_str() == tool).unwrap()
}

/// Returns the call with these arguments.
fn call_of(tool: &str, arguments: &Value) -> ValidCall {
    tool_calls(tool).check(arguments.as_object().unwrap().clone()).unwrap()
}

/// Judges a call as the prover assumes it.
fn judged(policy: &Policy, folders: &Workspaces, mode: Mode, call: &ValidCall) -> VerdictKind {
    let folders = folders.with_base(Some(Path::new("/")));
    let situation = Situation { mode, workspaces: &folders, counts: RateCounts::default() };
    dry_run_verdict(policy, &situation, call)
}

/// Checks a random question: the prover finds a witness in a mode if exhaustive judgement finds one in a small
/// universe, and the judge confirms each witness. Returns the number of witnesses and of proofs of absence.
fn check_question(policy: &Policy, random: &RandomPolicy, context: &str) -> (u64, u64) {
    let (tool, folders, text) = (random.tool, random.workspaces(), &random.question);
    let universe: Vec<ValidCall> = random.universe().map(|call| call_of(tool, &call)).collect();
    let proof = answer(policy, &folders, &[Arc::clone(&tool_calls(tool).definition)], text);
    assert_eq!(proof.undecided, [], "{context}: {text}");
    for witness in &proof.witnesses {
        let verdict = judged(policy, &folders, witness.mode, &call_of(tool, &witness.arguments));
        assert_eq!(verdict, witness.verdict, "{context}: {text}\n{witness:?}");
    }
    let (mut found, mut none) = (0, 0);
    for mode in [Mode::Normal, Mode::Alert] {
        let verdicts = universe.iter().map(|call| (judged(policy, &folders, mode, call), call.arguments()));
        let possible = verdicts.filter(|(verdict, _)| *verdict != VerdictKind::Deny);
        let best = possible.max_by_key(|(verdict, _)| *verdict == VerdictKind::Allow);
        let proven = proof.witnesses.iter().find(|witness| witness.mode == mode);
        match (best, proven) {
            (None, None) => none += 1,
            (None, Some(_)) => found += 1,
            (Some((verdict, call)), proven) => {
                let proven = proven.unwrap_or_else(|| panic!("{context}: {text}\nmissed {call:?} in {mode}"));
                let is_as_good = proven.verdict == verdict || proven.verdict == VerdictKind::Allow;
                assert!(is_as_good, "{context}: {text}\n{call:?} in {mode}: {verdict}, but {proven:?}");
                found += 1;
            }
        }
    }
    (found, none)
}

#[test]
fn prover_equals_exhaustive_judgement() {
    let (seed, count) = rounds(1_000);
    let (mut found, mut none) = (0, 0);
    for number in 0..count.div_ceil(6) {
        let all = RandomPolicy::of_each_tool(&mut Rng::new(seed, number));
        let (tools, safety) = files(&all);
        let policy = policy(&tools, &safety);
        for random in &all {
            let context = format!("seed {seed}, policy {number}\n{tools}{safety}");
            let (more, less) = check_question(&policy, random, &context);
            (found, none) = (found + more, none + less);
        }
    }
    assert!(found > count / 2 && none > count / 2, "{found} witnesses, {none} proofs of absence");
}

/// Checks the differences of two random policies: each has a call that the judge decides as stated, exhaustive
/// judgement finds no other, and the comparison of rules, by which a reload is accepted, reports a loosening for each
/// call that becomes possible. Returns the number of loosenings and of other changes.
fn check_pair((before, after): (&Policy, &Policy), random: &RandomPolicy, context: &str) -> (u64, u64) {
    let (tool, folders) = (random.tool, random.workspaces());
    let rank = |verdict| match verdict {
        VerdictKind::Deny => 0,
        VerdictKind::Ask => 1,
        VerdictKind::Allow => 2,
    };
    let universe: Vec<ValidCall> = random.universe().map(|call| call_of(tool, &call)).collect();
    let diff = diff_policies((before, after), &[Arc::clone(&tool_calls(tool).definition)], &folders);
    assert_eq!(diff.undecided, [], "{context}");
    let (mut loosened, mut tightened) = (0, 0);
    for change in &diff.changes {
        let call = call_of(tool, &change.arguments);
        let verdict = |policy| judged(policy, &folders, change.mode, &call);
        let (old, new) = (verdict(before), verdict(after));
        let stated = (change.before.clone(), change.after.clone());
        assert_eq!((old.to_string(), new.to_string()), stated, "{context}");
        let has = |effect| diff.differences.iter().any(|one| one.effect == effect);
        match change.effect {
            PolicyEffect::Loosens => {
                assert!(rank(new) > rank(old) && has(PolicyEffect::Loosens), "{context}\n{change:?}");
                loosened += 1;
            }
            PolicyEffect::Tightens | PolicyEffect::Neutral => {
                assert!(rank(new) < rank(old) && !diff.differences.is_empty(), "{context}\n{change:?}");
                tightened += 1;
            }
        }
    }
    for mode in [Mode::Normal, Mode::Alert] {
        for call in &universe {
            let verdict = |policy| judged(policy, &folders, mode, call).to_string();
            let (old, new) = (verdict(before), verdict(after));
            let is_known =
                |one: &VerdictChange| one.mode == mode && (&one.before, &one.after) == (&old, &new);
            assert!(
                old == new || diff.changes.iter().any(is_known),
                "{context}\nmissed {:?} in {mode}",
                call.arguments()
            );
        }
    }
    (loosened, tightened)
}

#[test]
fn diff_agrees_with_judge_and_rule_comparison() {
    let (seed, count) = rounds(200);
    let (mut loosened, mut tightened) = (0, 0);
    for number in 0..count.div_ceil(6) {
        let mut rng = Rng::new(seed ^ 0x5eed, number);
        let all = RandomPolicy::of_each_tool(&mut rng);
        let others: Vec<RandomPolicy> = all.iter().map(|one| one.variant(&mut rng)).collect();
        let ((tools, safety), (other_tools, other_safety)) = (files(&all), files(&others));
        let (before, after) = (policy(&tools, &safety), policy(&other_tools, &other_safety));
        for random in &all {
            let context = format!("seed {seed}, pair {number}\n{tools}{safety}\n{other_tools}{other_safety}");
            let (more, less) = check_pair((&before, &after), random, &context);
            (loosened, tightened) = (loosened + more, tightened + less);
        }
    }
    assert!(loosened > count / 8 && tightened > count / 8, "{loosened} {tightened}");
}
