//! Differential test: the judge against the model in `model.rs`, with random policies and calls.
//!
//! `SINEW_JUDGE_CASES` sets the number of cases (default 10^6) and `SINEW_JUDGE_SEED` the first seed.
//! `SINEW_JUDGE_EXPLAINED` sets that one in so many cases is also explained (default 8, because a trace costs
//! more than a verdict). A failure names the seed of its policy.

mod generator;

use std::fmt::Write;
use std::path::PathBuf;

use file_access::PathRequest;
use serde_json::{Map, Value, json};
use strict_yaml::Document;
use tool::{Arguments, Mode, ToolDefinition};

use self::generator::{PATH_PATTERNS, PlanRng, random_call, random_plan};
use super::fixture;
use super::model::{self, CallPlan, PathNames, PolicyPlan, TOOLS};
use crate::effective_policy::EffectivePolicy;
use crate::judge::{DecisionInput, check_typed, decide};
use crate::layers::{LayerDefault, UserFiles};
use crate::normalized_path::NormalizedPath;
use crate::policy_environment::{NameComparison, PathVariables, PolicyEnvironment, ProtectedFolders};
use crate::reached_path::{ReachedObject, ReachedPath};
use crate::rule_trace::{RuleOutcome, RuleTrace, TraceRecorder};
use crate::{Policy, RateCounts, Situation, Workspace, WorkspaceAccess, Workspaces};

/// Returns the three policy files for a plan.
fn files(plan: &PolicyPlan) -> [String; 3] {
    let risk = |risk: u8| ["low", "medium", "high"][usize::from(risk) - 1];
    let modes = |modes: &[Mode]| {
        format!("[{}]", modes.iter().map(|mode| mode.as_str()).collect::<Vec<_>>().join(", "))
    };
    let texts = |list: &[&str]| serde_json::to_string(list).unwrap();
    let commands = |list: &[&[&str]]| {
        let one = |words: &&[&str]| match words {
            [program] => serde_json::to_string(program).unwrap(),
            words => format!("{{argv: {}}}", texts(words)),
        };
        format!("[{}]", list.iter().map(one).collect::<Vec<_>>().join(", "))
    };
    let (mut first, mut second, mut third) = ("modes:\n".to_owned(), String::new(), String::new());
    for (mode, rules) in Mode::ALL.iter().zip(&plan.modes) {
        let _ = write!(first, "  {mode}: {{allowed_tool_categories: {}, ", texts(&rules.categories));
        let _ = write!(first, "require_approval_for: {}", texts(&rules.approvals));
        let _ = writeln!(first, "{}}}", if rules.allows_no_tasks { ", max_concurrent_tasks: 0" } else { "" });
    }
    let _ = writeln!(second, "tool_categories:{}", if plan.categories.is_empty() { " {}" } else { "" });
    for (name, of_risk, asks) in &plan.categories {
        let of_risk = of_risk.map(|of| format!("risk_level: {}, ", risk(of))).unwrap_or_default();
        let _ = writeln!(second, "  {name}: {{{of_risk}requires_approval_in_modes: {}}}", modes(asks));
    }
    let _ = writeln!(second, "tools:{}", if plan.tools.is_empty() { " {}" } else { "" });
    for (name, entry) in &plan.tools {
        let _ = writeln!(second, "  {name}:");
        let mut write_key = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                let _ = writeln!(second, "    {key}: {value}");
            }
        };
        write_key("category", entry.category.map(str::to_owned));
        write_key("allowed_in_modes", entry.allowed.as_ref().map(|list| modes(list)));
        write_key("requires_approval_in_modes", Some(modes(&entry.approval)));
        write_key("forbidden_in_modes", Some(modes(&entry.forbidden)));
        write_key("allowed_paths", entry.allowed_paths.as_ref().map(|list| texts(list)));
        write_key("allow_every_path", Some("true".to_owned()));
        write_key("forbidden_paths", Some(texts(&entry.forbidden_paths)));
        write_key("unattended_paths", (!entry.unattended.is_empty()).then(|| texts(&entry.unattended)));
        write_key("max_file_size_mb", entry.max_mb.map(|mb| mb.to_string()));
        write_key("requires_approval", Some(entry.requires_approval.to_string()));
        write_key("requires_sandbox", entry.sandbox.then(|| "true".to_owned()));
        write_key("rate_limit_per_hour", entry.per_hour.map(|most| most.to_string()));
        write_key("hard_links", Some(if entry.allows_hard_links { "allow" } else { "refuse" }.to_owned()));
        write_key("allowed_commands", entry.allowed_commands.as_ref().map(|list| commands(list)));
        let forbidden = &entry.forbidden_commands;
        write_key("forbidden_commands", (!forbidden.is_empty()).then(|| commands(forbidden)));
        write_key("allowed_domains", entry.domains.as_ref().map(|list| texts(list)));
        write_key("shadow", Some(entry.shadow.to_string()));
    }
    let _ = writeln!(third, "outbound_gateway:\n  allowed_domains: {}", texts(&plan.allowed_domains));
    let _ = writeln!(third, "  blocked_domains: {}", texts(&plan.blocked_domains));
    let _ = writeln!(third, "  allow_private_addresses: {}", plan.allows_private);
    let _ = writeln!(third, "  require_approval_for_new_domains: {}\nrate_limits:", plan.approval_for_hosts);
    for (mode, rules) in Mode::ALL.iter().zip(&plan.modes) {
        let most =
            rules.per_minute.map(|most| format!("tool_calls_per_minute: {most}, ")).unwrap_or_default();
        let _ = writeln!(third, "  {mode}: {{{most}outbound_calls_per_hour: {}}}", rules.outbound_per_hour);
    }
    let _ =
        writeln!(third, "human_approval:\n  rules:{}", if plan.approvals.is_empty() { " []" } else { "" });
    for (of, category, asks) in &plan.approvals {
        let of = of.map(|of| format!("risk_level: {}, ", risk(of))).unwrap_or_default();
        let category = category.map(|category| format!("category: {category}, ")).unwrap_or_default();
        let _ = writeln!(third, "    - {{{of}{category}modes: {}}}", modes(asks));
    }
    [first, second, third]
}

fn policy(plan: &PolicyPlan) -> Policy {
    let [modes, tools, safety] = files(plan);
    let read = |name: &str, text: &str| Some(Document::from_text(name, text).unwrap());
    let user = UserFiles {
        modes: read("modes.yaml", &modes),
        tools: read("tools.yaml", &super::fixture::whole_tools(&tools)),
        safety: read("safety.yaml", &super::fixture::complete_safety_file(&safety)),
    };
    let around = PolicyEnvironment {
        variables: PathVariables::with_home("/m/home".as_ref()),
        protected: ProtectedFolders { folders: vec![PathBuf::from("/m/sinew")] },
        name_comparison: if plan.folds_case {
            NameComparison::CaseInsensitive
        } else {
            NameComparison::CaseSensitive
        },
    };
    Policy::from_user_files(user, LayerDefault::Replace, &around)
        .unwrap_or_else(|error| panic!("{error}\n{tools}"))
}

/// Prepared call, which is judged under every policy.
struct JudgeCase {
    plan: CallPlan,
    names: Vec<PathNames>,
    definition: ToolDefinition,
    arguments: Arguments,
    reached: Vec<ReachedPath>,
    workspaces: Workspaces,
}

impl JudgeCase {
    fn new(plan: CallPlan) -> JudgeCase {
        let workspace = |(root, writable): &(&str, bool)| {
            let access = if *writable { WorkspaceAccess::ReadWrite } else { WorkspaceAccess::ReadOnly };
            Workspace::hypothetical(root, access)
        };
        let reached = plan.paths.iter().map(|path| {
            let others = path.other_name.map(|name| vec![NormalizedPath::canonical(name.as_ref()).unwrap()]);
            let file = |(size, links)| ReachedObject::File { size, links, others: others.clone() };
            let file = path.file.map_or(ReachedObject::Other, file);
            let above = std::path::Path::new(path.target).ancestors().skip(1);
            let above = above.filter(|folder| folder.parent().is_some()).take(path.missing_folders);
            ReachedPath::from_record(
                path.target.as_ref(),
                file,
                above.map(NormalizedPath::canonical).collect(),
                None,
            )
        });
        JudgeCase {
            definition: fixture::definition(TOOLS[plan.tool].name),
            arguments: arguments(&plan),
            names: model::path_names(&plan, &PATH_PATTERNS),
            reached: reached.collect(),
            workspaces: Workspaces::new(plan.workspaces.iter().map(workspace).collect()),
            plan,
        }
    }

    /// Returns the verdict in the notation of the model.
    fn verdict(&self, policy: &Policy, mode: Mode, counts: RateCounts, trace: &mut RuleTrace) -> String {
        let effective_policy = EffectivePolicy::new(policy, &self.definition);
        let situation = Situation { mode, workspaces: &self.workspaces, counts };
        let mut notes = TraceRecorder::new(trace);
        let judged =
            check_typed(&effective_policy, &situation, &self.arguments, &mut notes).and_then(|named| {
                let requests: &[PathRequest] = &named.path_requests;
                assert_eq!(requests.len(), self.reached.len());
                let content_bytes = self.plan.content.map(|bytes| bytes as u64);
                let (reached, targets) = (&self.reached, &named.external_targets);
                let facts = DecisionInput {
                    path_requests: requests,
                    reached_paths: reached,
                    external_targets: targets,
                    content_bytes,
                };
                decide(&effective_policy, &situation, &facts, &mut notes)
            });
        match judged {
            Err(reason) => {
                notes.record_denied(&self.definition, &reason);
                reason.into_refusal("").code.as_str().to_owned()
            }
            Ok(decision) if decision.approval_rules.is_empty() => "permit".to_owned(),
            Ok(decision) => format!("ask {}", decision.approval_rules.len()),
        }
    }
}

fn arguments(plan: &CallPlan) -> Arguments {
    let mut arguments = Map::new();
    let texts: Vec<&str> = plan.paths.iter().map(|path| path.typed).collect();
    match (TOOLS[plan.tool].name, texts.as_slice()) {
        ("read_many", texts) => drop(arguments.insert("paths".to_owned(), json!(texts))),
        ("copy_file", [from, to]) => {
            arguments.insert("from".to_owned(), json!(from));
            arguments.insert("to".to_owned(), json!(to));
        }
        (_, [path]) => drop(arguments.insert("path".to_owned(), json!(path))),
        _ => {}
    }
    let mut put =
        |key: &str, value: Option<Value>| arguments.extend(value.map(|value| (key.to_owned(), value)));
    put("argv", plan.words.map(|words| json!(words)));
    put("line", plan.line.map(|line| json!(line)));
    put("url", plan.url.map(|(url, _)| json!(url)));
    arguments
}

/// Judges every case in every mode under the policies of these seeds, and explains one in `share` cases.
/// Returns the number of times that each verdict occurred.
fn compare_with_model(
    cases: &[JudgeCase],
    seeds: std::ops::Range<u64>,
    share: usize,
) -> std::collections::BTreeMap<String, u64> {
    let mut given = std::collections::BTreeMap::new();
    let (first, all) = (seeds.start, seeds.end - seeds.start);
    for seed in seeds {
        // Progress is printed only for long runs.
        if all > 1000 && (seed - first) % (all / 100) == 0 {
            println!("policies from seed {first} on: {} of {all}, all agree", seed - first);
        }
        let mut rng = PlanRng(seed);
        let plan = random_plan(&mut rng);
        let policy = policy(&plan);
        for case in cases {
            for mode in Mode::ALL {
                let [hour, minute, out] = [(); 3].map(|()| rng.random_below(4) as u32);
                let counts =
                    RateCounts { tool_last_hour: hour, all_last_minute: minute, outbound_last_hour: out };
                let found = case.verdict(&policy, mode, counts, &mut RuleTrace::disabled());
                let expect = model::verdict(&plan, &case.plan, &case.names, mode, [hour, minute, out]);
                let shown = || {
                    let call = (&case.plan, mode, hour, minute, out);
                    format!("SINEW_JUDGE_SEED={seed}: {call:?}\n{}", files(&plan).join("\n"))
                };
                assert_eq!(found, expect, "judge and model disagree, {}", shown());
                if rng.is_one_in(share) {
                    let mut trace = RuleTrace::enabled();
                    let explained = case.verdict(&policy, mode, counts, &mut trace);
                    assert_eq!(explained, found, "explained, {}", shown());
                    let message = |word: RuleOutcome| trace.steps().iter().any(|step| step.outcome == word);
                    let is_question = found.starts_with("ask");
                    let is_denial = found != "permit" && !is_question;
                    assert_eq!(
                        (message(RuleOutcome::Denies), message(RuleOutcome::RequiresApproval)),
                        (is_denial, is_question),
                        "{}",
                        shown()
                    );
                }
                *given.entry(found).or_insert(0) += 1;
            }
        }
    }
    given
}

#[test]
fn judge_explanation_and_model_agree() {
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let wanted = number("SINEW_JUDGE_CASES", 1_000_000);
    let first = number("SINEW_JUDGE_SEED", 1);
    let share = usize::try_from(number("SINEW_JUDGE_EXPLAINED", 8)).unwrap();
    let mut rng = PlanRng(first);
    let cases: Vec<JudgeCase> = (0..1000).map(|_| JudgeCase::new(random_call(&mut rng))).collect();
    let policies = wanted.div_ceil(cases.len() as u64 * Mode::ALL.len() as u64).max(1);
    let middle = first + policies.div_ceil(2);
    let given = std::thread::scope(|scope| {
        let other = scope.spawn(|| compare_with_model(&cases, middle..first + policies, share));
        let mut given = compare_with_model(&cases, first..middle, share);
        for (verdict, times) in other.join().unwrap() {
            *given.entry(verdict).or_insert(0) += times;
        }
        given
    });
    println!("{given:?}");
    if wanted >= 1_000_000 {
        for verdict in [
            "permit",
            "ask 1",
            "ask 2",
            "mode_denied",
            "rate_limited",
            "path_forbidden",
            "path_not_allowed",
            "control_plane",
            "too_large",
            "command_not_allowed",
            "domain_not_allowed",
            "sandbox_unavailable",
        ] {
            assert!(
                given.get(verdict).is_some_and(|times| *times > 1000),
                "{verdict} is too rare: {given:?}"
            );
        }
    }
}

/// A call that two policies decide together is denied if one of them denies it, and needs the approvals of both.
#[test]
fn conjunction_of_policies_gives_the_stricter_verdict() {
    let mut rng = PlanRng(7);
    let cases: Vec<JudgeCase> = (0..300).map(|_| JudgeCase::new(random_call(&mut rng))).collect();
    let approvals = |verdict: &str| match verdict {
        "permit" => Some(0),
        verdict => verdict.strip_prefix("ask ").map(|count| count.parse::<usize>().unwrap()),
    };
    let mut seen = [0_u32; 3];
    for seed in 0..60 {
        let plans = [random_plan(&mut PlanRng(seed)), random_plan(&mut PlanRng(seed + 1000))];
        // The two policies belong to one machine.
        let plans = plans.map(|plan| PolicyPlan { folds_case: false, ..plan });
        let [own, other] = [policy(&plans[0]), policy(&plans[1])];
        let both = own.tightened_by(policy(&plans[1]));
        for (case, mode) in cases.iter().flat_map(|case| Mode::ALL.map(|mode| (case, mode))) {
            let counts = RateCounts { tool_last_hour: rng.random_below(4) as u32, ..RateCounts::default() };
            let verdict = |policy| case.verdict(policy, mode, counts, &mut RuleTrace::disabled());
            let (one, two, found) = (verdict(&own), verdict(&other), verdict(&both));
            let expect = approvals(&one).and_then(|one| Some(one + approvals(&two)?));
            assert_eq!(approvals(&found), expect, "{one} and {two} give {found}: seed {seed}");
            let kind = expect.map_or(0, |count| if count == 0 { 2 } else { 1 });
            seen[kind] += 1;
        }
    }
    assert!(seen.iter().all(|times| *times > 200), "denials, questions and permits occur: {seen:?}");
}
