//! Policy that allows the calls of a recording: entries for the user's lists, generalised conservatively, each with the
//! calls it comes from.
//!
//! A pure function of the policy and the record. Files of one folder become `folder/*` from three files on, and never
//! where a path below was refused or is forbidden. Commands are exact, or the program and its subcommand from three
//! different commands on. Hosts are names. The recorded calls and samples of what is forbidden are judged again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use governance::files::VerdictKind;
use governance::rule_trace::RuleTrace;
use governance::rules::{EffectivePolicy, HostPattern, PathPattern, quote_yaml};
use governance::suggested_change::{EditAction, PolicyEdit, PolicyFile};
use governance::{Policy, RecordedCall};
use serde_json::json;
use tool::ToolDefinition;
use tool::definition::PathAccess;

use crate::amend::{add_commented_items, has_list, wider_edits};
use crate::seen_paths::path_patterns;
use crate::suggest::SuggestContext;

/// Different commands of one subcommand after which the subcommand is meant, not the commands.
const MIN_COMMANDS: usize = 3;
/// Calls named beside an entry.
const SHOWN_CALLS: usize = 3;

/// Call that was made during a recording.
pub struct RecordedUse<'a> {
    /// Id of the call.
    pub call_id: String,
    /// Definition by which the call is judged.
    pub definition: &'a ToolDefinition,
    /// Facts of the decision.
    pub facts: RecordedCall,
}

/// Entry of a list that recorded calls need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedEntry {
    /// Tool.
    pub tool: String,
    /// Key of the list.
    pub key: &'static str,
    /// Entry as YAML text.
    pub value: String,
    /// Calls that need it.
    pub calls: Vec<String>,
}

/// Policy that allows what was recorded.
pub struct LearnedPolicy {
    /// New text of the user's `tools.yaml`.
    pub text: String,
    /// Policy with that text.
    pub policy: Policy,
    /// Entries that were added.
    pub entries: Vec<LearnedEntry>,
    /// Recorded calls that the policy still refuses.
    pub still_refused: Vec<String>,
    /// Samples of forbidden paths that were judged, and are refused.
    pub forbidden_samples: usize,
}

/// Extent of the learned entries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Generalisation {
    Conservative,
    /// Only what was seen.
    Off,
}

/// Returns the policy that allows the recorded calls. `None` if there is nothing to add, if the user's file cannot be
/// edited line by line, or if a call that was refused meanwhile would be permitted.
pub fn learn_policy(
    context: &SuggestContext<'_>,
    uses: &[RecordedUse<'_>],
    refused: &[RecordedUse<'_>],
) -> Option<LearnedPolicy> {
    [Generalisation::Conservative, Generalisation::Off]
        .into_iter()
        .find_map(|extent| learn(context, uses, refused, extent))
}

fn learn(
    context: &SuggestContext<'_>,
    uses: &[RecordedUse<'_>],
    refused: &[RecordedUse<'_>],
    extent: Generalisation,
) -> Option<LearnedPolicy> {
    let mut by_tool: BTreeMap<&str, Vec<&RecordedUse<'_>>> = BTreeMap::new();
    for one in uses {
        by_tool.entry(one.definition.name().as_str()).or_default().push(one);
    }
    let mut entries = Vec::new();
    for (tool, uses) in &by_tool {
        let refused: Vec<&RecordedUse<'_>> =
            refused.iter().filter(|one| one.definition.name().as_str() == *tool).collect();
        entries.extend(tool_entries(context.policy, uses, &refused, extent));
    }
    let text = with_entries(context.policy, &entries)?;
    let policy = context.policy.with_user_text(PolicyFile::Tools, &text, context.environment).ok()?;
    let is_refused =
        |policy: &Policy, one: &RecordedUse<'_>| is_denied(context, policy, one.definition, &one.facts);
    // A call that was refused during the recording met a rule that stays.
    if refused.iter().any(|one| is_refused(context.policy, one) && !is_refused(&policy, one)) {
        return None;
    }
    let samples: Vec<(&ToolDefinition, RecordedCall)> = by_tool
        .values()
        .filter_map(|uses| uses.first())
        .flat_map(|one| forbidden_samples(one, &entries, context))
        .collect();
    if !samples.iter().all(|(definition, facts)| is_denied(context, &policy, definition, facts)) {
        return None;
    }
    let still_refused =
        uses.iter().filter(|one| is_refused(&policy, one)).map(|one| one.call_id.clone()).collect();
    Some(LearnedPolicy { text, policy, entries, still_refused, forbidden_samples: samples.len() })
}

fn is_denied(
    context: &SuggestContext<'_>,
    policy: &Policy,
    definition: &ToolDefinition,
    facts: &RecordedCall,
) -> bool {
    let found = policy.replay_call(definition, facts, context.workspaces, RuleTrace::disabled());
    found.verdict == VerdictKind::Deny
}

/// Returns the entries that the calls of one tool need.
fn tool_entries(
    policy: &Policy,
    uses: &[&RecordedUse<'_>],
    refused: &[&RecordedUse<'_>],
    extent: Generalisation,
) -> Vec<LearnedEntry> {
    let Some(definition) = uses.first().map(|one| one.definition) else { return Vec::new() };
    let Some(rules) = EffectivePolicy::new(policy, definition).rules else { return Vec::new() };
    let mut found: BTreeMap<(&'static str, String), BTreeSet<String>> = BTreeMap::new();
    let mut add = |key: &'static str, value: String, call: &str| {
        found.entry((key, value)).or_default().insert(call.to_owned());
    };
    if let Some(list) = &rules.allowed_paths {
        let seen = |one: &RecordedUse<'_>| -> Vec<std::path::PathBuf> {
            let paths = one.facts.paths().map(|(_, path)| path.to_owned());
            paths.filter(|path| !list.globs.matches(path)).collect()
        };
        let all: Vec<std::path::PathBuf> = uses.iter().flat_map(|one| seen(one)).collect();
        let all: BTreeSet<&Path> = all.iter().map(AsRef::as_ref).collect();
        let refused: BTreeSet<&Path> =
            refused.iter().flat_map(|one| one.facts.paths().map(|(_, path)| path)).collect();
        let patterns: BTreeSet<String> = match extent {
            Generalisation::Conservative => {
                path_patterns(policy, definition, &all, &refused).into_iter().collect()
            }
            Generalisation::Off => BTreeSet::new(),
        };
        for one in uses {
            for path in seen(one) {
                let folder = path.parent().map(|folder| format!("{}/*", PathPattern::literal(folder)));
                let pattern = folder.filter(|folder| patterns.contains(folder));
                let pattern = pattern.unwrap_or_else(|| PathPattern::literal(&path));
                add("allowed_paths", quote_yaml(&pattern), &one.call_id);
            }
        }
    }
    let commands = command_entries(definition, uses, refused, extent);
    for one in uses {
        for words in one.facts.commands().filter(|words| !rules.commands.is_listed(words)) {
            let exact = exact_rule(words);
            let value = commands.get(&exact).cloned().unwrap_or(exact);
            add("allowed_commands", value, &one.call_id);
        }
        let hosts = rules.hosts.iter().flat_map(|list| &list.hosts);
        let is_known = |host: &str| {
            hosts.clone().any(|known| known.pattern == HostPattern::Any || known.pattern.to_string() == host)
        };
        if rules.hosts.is_some() {
            for host in one.facts.hosts().filter(|host| !is_known(host)) {
                add("allowed_domains", quote_yaml(&host), &one.call_id);
            }
        }
    }
    let tool = definition.name().to_string();
    let entry = |((key, value), calls): ((&'static str, String), BTreeSet<String>)| LearnedEntry {
        tool: tool.clone(),
        key,
        value,
        calls: calls.into_iter().collect(),
    };
    found.into_iter().map(entry).collect()
}

fn exact_rule(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote_yaml(word)).collect();
    format!("{{argv: [{}], exact: true}}", words.join(", "))
}

/// Returns the rule of the subcommand for each exact rule of a subcommand with several commands, none of which was
/// refused.
fn command_entries(
    definition: &ToolDefinition,
    uses: &[&RecordedUse<'_>],
    refused: &[&RecordedUse<'_>],
    extent: Generalisation,
) -> BTreeMap<String, String> {
    let keys = ["tools", definition.name().as_str(), "allowed_commands"].map(str::to_owned).to_vec();
    // The next wider form of a rule, if it still names a subcommand.
    let subcommand = |exact: &String| {
        let action = EditAction::Add(exact.clone());
        let edit = PolicyEdit { file: PolicyFile::Tools, keys: keys.clone(), action };
        wider_edits(&edit, &|_| false).into_iter().nth(1).and_then(|wider| match wider.action {
            EditAction::Add(value) if value.starts_with("{argv:") => Some(value),
            _ => None,
        })
    };
    let rules = |list: &[&RecordedUse<'_>]| -> BTreeSet<String> {
        list.iter().flat_map(|one| one.facts.commands().map(exact_rule).collect::<Vec<_>>()).collect()
    };
    let avoided: BTreeSet<String> = rules(refused).iter().filter_map(subcommand).collect();
    let mut by_subcommand: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for exact in rules(uses) {
        if let Some(wider) = subcommand(&exact).filter(|wider| !avoided.contains(wider)) {
            by_subcommand.entry(wider).or_default().push(exact);
        }
    }
    let is_habit = |(_, commands): &(String, Vec<String>)| {
        extent == Generalisation::Conservative && commands.len() >= MIN_COMMANDS
    };
    let pairs = by_subcommand.into_iter().filter(is_habit);
    pairs.flat_map(|(wider, exact)| exact.into_iter().map(move |exact| (exact, wider.clone()))).collect()
}

/// Returns the text of the user's file with the entries, each below a comment that names its calls.
fn with_entries(policy: &Policy, entries: &[LearnedEntry]) -> Option<String> {
    let mut lists: BTreeMap<(&str, &'static str), Vec<(String, String)>> = BTreeMap::new();
    for entry in entries {
        let shown = entry.calls.iter().take(SHOWN_CALLS).cloned().collect::<Vec<_>>().join(", ");
        let more = entry.calls.len().saturating_sub(SHOWN_CALLS);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let noun = if entry.calls.len() == 1 { "call" } else { "calls" };
        let comment = format!("recorded: {noun} {shown}{more}");
        lists.entry((&entry.tool, entry.key)).or_default().push((entry.value.clone(), comment));
    }
    if lists.is_empty() {
        return None;
    }
    let text = policy.user_text(PolicyFile::Tools).unwrap_or_default().to_owned();
    lists.into_iter().try_fold(text, |text, ((tool, key), items)| {
        let keys = ["tools", tool, key].map(str::to_owned).to_vec();
        let edit = PolicyEdit {
            file: PolicyFile::Tools,
            keys: keys.clone(),
            action: EditAction::Set(String::new()),
        };
        add_commented_items(&text, &keys, has_list(policy, &edit), &items)
    })
}

/// Returns calls that name an example of each forbidden pattern, by itself and in each folder that was learned, and
/// that the present policy refuses.
fn forbidden_samples<'a>(
    one: &RecordedUse<'a>,
    entries: &[LearnedEntry],
    context: &SuggestContext<'_>,
) -> Vec<(&'a ToolDefinition, RecordedCall)> {
    let definition = one.definition;
    let Some(argument) = definition.path_arguments().first() else { return Vec::new() };
    let access = match argument.access {
        PathAccess::Read => "read",
        PathAccess::Write => "write",
        PathAccess::Remove => "remove",
    };
    let own = entries.iter().filter(|entry| {
        entry.tool == definition.name().as_str()
            && entry.key == "allowed_paths"
            && entry.value.ends_with("/*\"")
    });
    let folders: Vec<std::path::PathBuf> = own
        .filter_map(|entry| serde_json::from_str::<String>(&entry.value).ok())
        .filter_map(|pattern| Some(Path::new(&pattern).parent()?.to_owned()))
        .collect();
    let effective_policy = EffectivePolicy::new(context.policy, definition);
    let forbidden = effective_policy.forbidden_paths();
    let examples = forbidden.patterns().iter().map(|listed| listed.pattern.example_path());
    let paths = examples.flat_map(|example| {
        let name = example.file_name().map(ToOwned::to_owned);
        let inside: Vec<std::path::PathBuf> =
            folders.iter().filter_map(|folder| Some(folder.join(name.as_ref()?))).collect();
        [example].into_iter().chain(inside)
    });
    let facts = paths.filter(|path| forbidden.matches(path)).filter_map(|path| {
        RecordedCall::parse(&json!({"mode": "NORMAL",
            "counts": {"tool_last_hour": 0, "all_last_minute": 0, "outbound_last_hour": 0},
            "paths": [{"key": argument.key, "typed": path.to_str()?, "access": access, "kind": "unopened"}]}))
    });
    let refused = facts.filter(|facts| is_denied(context, context.policy, definition, facts));
    refused.map(|facts| (definition, facts)).collect()
}

#[cfg(test)]
mod tests {
    use governance::policy_environment::{
        NameComparison, PathVariables, PolicyEnvironment, ProtectedFolders,
    };
    use jiff::Timestamp;
    use serde_json::Value;

    use super::*;
    use crate::judge_tests::{definition, machine};

    const TOOLS: &str = "\
forbidden_paths: [\"**/.env\", $ROOT/ws/sub/keys]
tools:
  read_file: {allowed_paths: [$ROOT/ws/a.txt]}
  run: {allowed_commands: [ls], forbidden_commands: [{argv: [git, branch, --force]}]}
  fetch: {allowed_domains: [a.org]}
";

    /// Learns from calls (`read PATH`, `run WORDS`, `fetch HOST`) and compares the entries.
    fn check(calls: &[&str], refused: &[&str], expect: &[&str]) {
        let machine = machine(TOOLS).safety("outbound_gateway: {allowed_domains: [\"*\"]}\n");
        let definitions = ["read_file", "run", "fetch"].map(definition);
        let root = machine.root.display().to_string();
        let uses = |calls: &[&str]| -> Vec<RecordedUse<'_>> {
            let one = |(number, call): (usize, &&str)| {
                let (tool, target) = call.split_once(' ').unwrap();
                let mut facts = json!({"mode": "NORMAL", "paths": [],
                    "counts": {"tool_last_hour": 0, "all_last_minute": 0, "outbound_last_hour": 0}});
                let at = match tool {
                    "read" => {
                        facts["paths"] = json!([{"key": "path", "typed": format!("{root}/{target}"),
                            "access": "read", "kind": "unopened"}]);
                        0
                    }
                    "run" => {
                        facts["commands"] = json!([target.split(' ').collect::<Vec<_>>()]);
                        1
                    }
                    _ => {
                        facts["hosts"] = json!([target]);
                        2
                    }
                };
                let facts = RecordedCall::parse(&facts).unwrap();
                RecordedUse { call_id: number.to_string(), definition: &definitions[at], facts }
            };
            calls.iter().enumerate().map(one).collect()
        };
        let policy = machine.policy();
        let environment = PolicyEnvironment {
            variables: PathVariables::with_home(&machine.path("home")),
            protected: ProtectedFolders { folders: vec![machine.path("sinew")] },
            name_comparison: NameComparison::CaseSensitive,
        };
        let context = SuggestContext {
            policy: &policy,
            environment: &environment,
            workspaces: &machine.workspaces,
            definitions: definitions.iter().collect(),
            since: Timestamp::UNIX_EPOCH,
        };
        let learned = learn_policy(&context, &uses(calls), &uses(refused));
        let shown = |entry: &LearnedEntry| {
            format!("{} {} ({})", entry.tool, entry.value, entry.calls.join(" ")).replace(&root, "")
        };
        let found: Vec<String> = learned.iter().flat_map(|one| &one.entries).map(shown).collect();
        assert_eq!(found, expect, "{calls:?}");
        if let Some(learned) = learned {
            assert!(learned.still_refused.is_empty(), "{:?}\n{}", learned.still_refused, learned.text);
            for entry in &learned.entries {
                let mut values = learned.text.lines().filter(|line| line.contains(&entry.value));
                assert!(values.next().is_some(), "{}: {}", entry.value, learned.text);
            }
            assert_eq!(Value::from(learned.text.contains("recorded: call")), json!(true), "{}", learned.text);
        }
    }

    #[test]
    fn learned_entries_are_conservative() {
        check(&["read ws/a.txt"], &[], &[]);
        check(
            &["read ws/x", "read ws/y", "read ws/x"],
            &[],
            &["read_file /ws/x (0 2)", "read_file /ws/y (1)"],
        );
        check(&["read ws/d/1", "read ws/d/2", "read ws/d/3"], &[], &["read_file \"/ws/d/*\" (0 1 2)"]);
        let exact = ["read_file /ws/sub/1 (0)", "read_file /ws/sub/2 (1)", "read_file /ws/sub/3 (2)"];
        check(&["read ws/sub/1", "read ws/sub/2", "read ws/sub/3"], &[], &exact);
        let exact = ["read_file /ws/d/1 (0)", "read_file /ws/d/2 (1)", "read_file /ws/d/3 (2)"];
        check(&["read ws/d/1", "read ws/d/2", "read ws/d/3"], &["read ws/d/.env"], &exact);
        check(&["run git log", "run ls -l"], &[], &["run {argv: [git, log], exact: true} (0)"]);
        check(
            &["run git log a", "run git log b", "run git log c", "run git fetch"],
            &[],
            &["run {argv: [git, fetch], exact: true} (3)", "run {argv: [git, log]} (0 1 2)"],
        );
        check(
            &["run git branch a", "run git branch b", "run git branch c"],
            &["run git branch --force"],
            &[
                "run {argv: [git, branch, a], exact: true} (0)",
                "run {argv: [git, branch, b], exact: true} (1)",
                "run {argv: [git, branch, c], exact: true} (2)",
            ],
        );
        check(
            &["run python3 a.py", "run python3 b.py", "run python3 c.py"],
            &[],
            &[
                "run {argv: [python3, a.py], exact: true} (0)",
                "run {argv: [python3, b.py], exact: true} (1)",
                "run {argv: [python3, c.py], exact: true} (2)",
            ],
        );
        check(
            &["run uv run a", "run uv run b", "run uv run c"],
            &[],
            &[
                "run {argv: [uv, run, a], exact: true} (0)",
                "run {argv: [uv, run, b], exact: true} (1)",
                "run {argv: [uv, run, c], exact: true} (2)",
            ],
        );
        let hosts = ["fetch b.a.org", "fetch c.a.org", "fetch d.a.org", "fetch a.org"];
        check(&hosts, &[], &["fetch b.a.org (0)", "fetch c.a.org (1)", "fetch d.a.org (2)"]);
    }
}
