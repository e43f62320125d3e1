//! Differential test: the judge against the model in `model.rs`, with random policies and calls.
//!
//! `SINEW_JUDGE_CASES` sets the number of cases (default 10^6) and `SINEW_JUDGE_SEED` the first seed.
//! `SINEW_JUDGE_EXPLAINED` sets that one in so many cases is also explained (default 8, because a trace costs
//! more than a verdict). A failure names the seed of its policy.

mod dice;

use std::fmt::Write;
use std::path::PathBuf;

use file_access::PathRequest;
use serde_json::{Map, Value, json};
use strict_yaml::Document;
use tool::{Arguments, Mode, ToolDefinition};

use self::dice::{Dice, PATTERNS, call, plan};
use super::machine;
use super::model::{self, CallPlan, Names, Plan, TOOLS};
use crate::judge::{Facts, admit_typed, decide};
use crate::name::Name;
use crate::policy::Documents;
use crate::reached::{Found, Reached};
use crate::standing::Standing;
use crate::trail::{Notes, Said, Trail};
use crate::{
    Counts, FileNames, Policy, Protected, Situation, Surroundings, Variables, Workspace, WorkspaceAccess,
    Workspaces,
};

/// Returns the three policy files for a plan.
fn files(plan: &Plan) -> [String; 3] {
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
        let _ = writeln!(first, "{}}}", if rules.none_at_all { ", max_concurrent_tasks: 0" } else { "" });
    }
    let _ = writeln!(second, "tool_categories:{}", if plan.categories.is_empty() { " {}" } else { "" });
    for (name, of_risk, asks) in &plan.categories {
        let of_risk = of_risk.map(|of| format!("risk_level: {}, ", risk(of))).unwrap_or_default();
        let _ = writeln!(second, "  {name}: {{{of_risk}requires_approval_in_modes: {}}}", modes(asks));
    }
    let _ = writeln!(second, "tools:{}", if plan.tools.is_empty() { " {}" } else { "" });
    for (name, entry) in &plan.tools {
        let _ = writeln!(second, "  {name}:");
        let mut say = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                let _ = writeln!(second, "    {key}: {value}");
            }
        };
        say("category", entry.category.map(str::to_owned));
        say("allowed_in_modes", entry.allowed.as_ref().map(|list| modes(list)));
        say("requires_approval_in_modes", Some(modes(&entry.approval)));
        say("forbidden_in_modes", Some(modes(&entry.forbidden)));
        say("allowed_paths", entry.allowed_paths.as_ref().map(|list| texts(list)));
        say("allow_every_path", Some("true".to_owned()));
        say("forbidden_paths", Some(texts(&entry.forbidden_paths)));
        say("unattended_paths", (!entry.unattended.is_empty()).then(|| texts(&entry.unattended)));
        say("max_file_size_mb", entry.max_mb.map(|mb| mb.to_string()));
        say("requires_approval", Some(entry.always_asks.to_string()));
        say("requires_sandbox", entry.sandbox.then(|| "true".to_owned()));
        say("rate_limit_per_hour", entry.per_hour.map(|most| most.to_string()));
        say("hard_links", Some(if entry.links_allowed { "allow" } else { "refuse" }.to_owned()));
        say("allowed_commands", entry.allowed_commands.as_ref().map(|list| commands(list)));
        let forbidden = &entry.forbidden_commands;
        say("forbidden_commands", (!forbidden.is_empty()).then(|| commands(forbidden)));
        say("allowed_domains", entry.domains.as_ref().map(|list| texts(list)));
        say("shadow", Some(entry.shadow.to_string()));
    }
    let _ = writeln!(third, "outbound_gateway:\n  allowed_domains: {}", texts(&plan.allowed_domains));
    let _ = writeln!(third, "  blocked_domains: {}", texts(&plan.blocked_domains));
    let _ = writeln!(third, "  allow_private_addresses: {}", plan.private);
    let _ = writeln!(third, "  require_approval_for_new_domains: {}\nrate_limits:", plan.asks_abroad);
    for (mode, rules) in Mode::ALL.iter().zip(&plan.modes) {
        let most =
            rules.per_minute.map(|most| format!("tool_calls_per_minute: {most}, ")).unwrap_or_default();
        let _ = writeln!(third, "  {mode}: {{{most}outbound_calls_per_hour: {}}}", rules.out_per_hour);
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

fn policy(plan: &Plan) -> Policy {
    let [modes, tools, safety] = files(plan);
    let read = |name: &str, text: &str| Document::from_text(name, text).unwrap();
    let documents = Documents {
        modes: read("modes.yaml", &modes),
        tools: read("tools.yaml", &super::machine::whole_tools(&tools)),
        safety: read("safety.yaml", &super::machine::whole_safety(&safety)),
    };
    let around = Surroundings {
        variables: Variables::with_home("/m/home".as_ref()),
        protected: Protected { folders: vec![PathBuf::from("/m/sinew")] },
        names: if plan.folds { FileNames::CaseInsensitive } else { FileNames::CaseSensitive },
    };
    Policy::from_documents(documents, &around).unwrap_or_else(|error| panic!("{error}\n{tools}"))
}

/// Prepared call, which is judged under every policy.
struct Case {
    plan: CallPlan,
    names: Vec<Names>,
    definition: ToolDefinition,
    arguments: Arguments,
    reached: Vec<Reached>,
    workspaces: Workspaces,
}

impl Case {
    fn new(plan: CallPlan) -> Case {
        let workspace = |(root, writable): &(&str, bool)| {
            let access = if *writable { WorkspaceAccess::ReadWrite } else { WorkspaceAccess::ReadOnly };
            Workspace::supposed(root, access)
        };
        let reached = plan.paths.iter().map(|path| {
            let others = path.other_name.map(|name| vec![Name::canonical(name.as_ref()).unwrap()]);
            let file = |(size, links)| Found::File { size, links, others: others.clone() };
            let file = path.file.map_or(Found::Other, file);
            let above = std::path::Path::new(path.leads_to).ancestors().skip(1);
            let above = above.filter(|folder| folder.parent().is_some()).take(path.missing);
            Reached::recorded(path.leads_to.as_ref(), file, above.map(Name::canonical).collect(), None)
        });
        Case {
            definition: machine::definition(TOOLS[plan.tool].name),
            arguments: arguments(&plan),
            names: model::names(&plan, &PATTERNS),
            reached: reached.collect(),
            workspaces: Workspaces::new(plan.workspaces.iter().map(workspace).collect()),
            plan,
        }
    }

    /// Returns the verdict in the notation of the model.
    fn verdict(&self, policy: &Policy, mode: Mode, counts: Counts, trail: &mut Trail) -> String {
        let standing = Standing::of(policy, &self.definition);
        let situation = Situation { mode, workspaces: &self.workspaces, counts };
        let mut notes = Notes::on(trail);
        let judged = admit_typed(&standing, &situation, &self.arguments, &mut notes).and_then(|named| {
            let requests: &[PathRequest] = &named.requests;
            assert_eq!(requests.len(), self.reached.len());
            let content_bytes = self.plan.content.map(|bytes| bytes as u64);
            let (reached, errands) = (&self.reached, &named.errands);
            let facts = Facts { requests, reached, errands, content_bytes };
            decide(&standing, &situation, &facts, &mut notes)
        });
        match judged {
            Err(grounds) => {
                notes.denied(&self.definition, &grounds);
                grounds.into_refusal("").code.as_str().to_owned()
            }
            Ok(decision) if decision.asked_by.is_empty() => "permit".to_owned(),
            Ok(decision) => format!("ask {}", decision.asked_by.len()),
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
fn compare(
    cases: &[Case],
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
        let mut dice = Dice(seed);
        let plan = plan(&mut dice);
        let policy = policy(&plan);
        for case in cases {
            for mode in Mode::ALL {
                let [hour, minute, out] = [(); 3].map(|()| dice.below(4) as u32);
                let counts =
                    Counts { tool_last_hour: hour, all_last_minute: minute, outbound_last_hour: out };
                let found = case.verdict(&policy, mode, counts, &mut Trail::off());
                let expect = model::verdict(&plan, &case.plan, &case.names, mode, [hour, minute, out]);
                let shown = || {
                    let call = (&case.plan, mode, hour, minute, out);
                    format!("SINEW_JUDGE_SEED={seed}: {call:?}\n{}", files(&plan).join("\n"))
                };
                assert_eq!(found, expect, "judge and model disagree, {}", shown());
                if dice.one_in(share) {
                    let mut trail = Trail::on();
                    let explained = case.verdict(&policy, mode, counts, &mut trail);
                    assert_eq!(explained, found, "explained, {}", shown());
                    let says = |word: Said| trail.steps().iter().any(|step| step.said == word);
                    let is_question = found.starts_with("ask");
                    let is_denial = found != "permit" && !is_question;
                    assert_eq!(
                        (says(Said::Denies), says(Said::Asks)),
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
    let mut dice = Dice(first);
    let cases: Vec<Case> = (0..1000).map(|_| Case::new(call(&mut dice))).collect();
    let policies = wanted.div_ceil(cases.len() as u64 * Mode::ALL.len() as u64).max(1);
    let middle = first + policies.div_ceil(2);
    let given = std::thread::scope(|scope| {
        let other = scope.spawn(|| compare(&cases, middle..first + policies, share));
        let mut given = compare(&cases, first..middle, share);
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
