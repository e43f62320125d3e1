//! The judge against the model of `model.rs`, over random policies and calls. `SINEW_JUDGE_CASES` sets how many
//! (10^6 if it is not set), `SINEW_JUDGE_SEED` where the dice begin; a disagreement names the seed of its policy.

use std::fmt::Write;
use std::path::PathBuf;

use document::Document;
use resources::PathRequest;
use serde_json::{Map, Value, json};
use tool::{Arguments, Mode, ToolDefinition};

use super::machine;
use super::model::{self, CallPlan, ModePlan, Names, PathPlan, Plan, TOOLS, ToolPlan, Url};
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

/// A small generator of good enough numbers (splitmix64): the same seed deals the same cards everywhere.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most as u64) as usize
    }

    /// Once in so many throws.
    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Some of them, in their order, each with this chance in ten.
    fn some<T: Copy>(&mut self, from: &[T], in_ten: usize) -> Vec<T> {
        from.iter().copied().filter(|_| self.below(10) < in_ten).collect()
    }

    fn maybe<T>(&mut self, times: usize, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.one_in(times).then(|| make(self))
    }
}

const CATEGORIES: [&str; 4] = ["read_only", "system_write", "network", "self_check"];
const PATTERNS: [&str; 14] = [
    "/m/ws",
    "/m/ws/**",
    "/m/ws/*",
    "/m/ws/*.txt",
    "/m/ws/sub",
    "/m/ws/sub/**",
    "/m/**/secret",
    "**/.env",
    "/m/ro/**",
    "/m/other/*/b",
    "/**",
    "/m/ws/a*c",
    "/m/WS/**",
    "/m/ws/caf\u{e9}",
];
const NAMES: [&str; 24] = [
    "/m/ws",
    "/m/ws/a.txt",
    "/m/ws/sub",
    "/m/ws/sub/b",
    "/m/ws/sub/deep/secret",
    "/m/ws/.env",
    "/m/ws/.ENV",
    "/m/ws/.env/x",
    "/m/ws-evil/x",
    "/m/ro/a",
    "/m/other/x/b",
    "/m/other/x/y/b",
    "/m/other",
    "/m/ws/abc",
    "/m/ws/a.b/c",
    "/m/sinew/state",
    "/m/Sinew",
    "/m/ws/.git/config",
    "/m/ws/.GIT",
    "/m/ws/.bashrc",
    "/proc/self/environ",
    "/",
    "/m/ws/cafe\u{301}",
    "/m/ws/CAF\u{c9}",
];
const TYPED: [&str; 10] = [
    "a.txt",
    "sub/b",
    "sub/../a.txt",
    "../ro/a",
    "/m/ws/sub/../../other/x/b",
    "/m/ws/./a.txt",
    "/m//ws/a.txt",
    ".env",
    "/m/ro/../ws/a.txt",
    "nothing/../../sinew/x",
];
const WORDS: [&[&str]; 11] = [
    &["ls", "-l"],
    &["git", "status"],
    &["git", "-C", "x", "push"],
    &["/bin/sudo", "ls"],
    &["env", "A=1", "sudo"],
    &["sh", "-c", "true;sudo x"],
    &[],
    &["git"],
    &["./ls"],
    &["env", "git", "push"],
    &["sudoku"],
];
const LINES: [&str; 5] = ["ls -a", "ls; id", "git diff x", "", "sudo ls"];
const COMMANDS: [&[&str]; 6] = [&["ls"], &["git", "status"], &["git"], &["*"], &["env"], &["sudoku"]];
const NO_COMMANDS: [&[&str]; 3] = [&["sudo"], &["git", "push"], &["ls"]];
const HOSTS: [&str; 7] =
    ["*", "example.org", "*.example.org", "a.example.org", "127.0.0.1", "org", "*.onion"];
const URLS: [Url; 14] = [
    ("https://example.org/x", Ok(("example.org", false))),
    ("https://A.Example.ORG./x", Ok(("a.example.org", false))),
    ("https://b.a.example.org:81", Ok(("b.a.example.org", false))),
    ("https://notexample.org", Ok(("notexample.org", false))),
    ("https://example.org.evil.net", Ok(("example.org.evil.net", false))),
    ("http://x.onion", Ok(("x.onion", false))),
    ("http://2130706433/", Ok(("127.0.0.1", true))),
    ("http://127.1", Ok(("127.0.0.1", true))),
    ("http://[::1]/", Ok(("[::1]", true))),
    ("http://localhost./", Ok(("localhost", true))),
    ("http://8.8.8.8", Ok(("8.8.8.8", false))),
    ("ftp://example.org", Err(())),
    ("https://u@example.org", Err(())),
    ("example.org", Err(())),
];
const WORKSPACES: [&[(&str, bool)]; 4] =
    [&[("/m/ws", true)], &[("/m/ro", false), ("/m/ws", true)], &[], &[("/m/ws", false), ("/m/ws/sub", true)]];

fn plan(dice: &mut Dice) -> Plan {
    let mode = |dice: &mut Dice| ModePlan {
        none_at_all: dice.one_in(30),
        categories: dice.maybe(4, |dice| dice.some(&CATEGORIES, 7)).unwrap_or_default(),
        approvals: {
            let words = [
                "high_risk_tools",
                "any_write_operation",
                "network",
                "all_actions",
                "read_only",
                "write_file",
            ];
            dice.maybe(3, |dice| dice.some(&words, 3)).unwrap_or_default()
        },
        per_minute: dice.maybe(6, |dice| dice.below(5) as u32),
        out_per_hour: if dice.one_in(3) { dice.below(5) as u32 } else { 9 },
    };
    let of_category =
        |dice: &mut Dice, name| (name, dice.maybe(3, |dice| 1 + dice.below(3) as u8), some_modes(dice, 2));
    let approval = |dice: &mut Dice| {
        let risk = dice.maybe(2, |dice| 1 + dice.below(3) as u8);
        let category = dice.maybe(2, |dice| dice.pick(&CATEGORIES));
        // A rule must name one of the two.
        let risk = risk.or(if category.is_none() { Some(3) } else { None });
        (risk, category, some_modes(dice, 3))
    };
    Plan {
        folds: dice.one_in(2),
        modes: (0..5).map(|_| mode(dice)).collect(),
        categories: dice.some(&CATEGORIES, 3).into_iter().map(|name| of_category(dice, name)).collect(),
        approvals: (0..dice.below(3)).map(|_| approval(dice)).collect(),
        tools: entries(dice),
        allowed_domains: if dice.one_in(3) { dice.some(&HOSTS, 4) } else { vec!["*"] },
        blocked_domains: dice.maybe(2, |dice| dice.some(&HOSTS[1..], 2)).unwrap_or_default(),
        private: dice.one_in(3),
        asks_abroad: dice.one_in(5),
    }
}

fn entries(dice: &mut Dice) -> Vec<(&'static str, ToolPlan)> {
    let mut entries = Vec::new();
    for tool in &TOOLS {
        if !dice.one_in(4) {
            entries.push((tool.name, entry(dice, tool)));
        }
    }
    entries
}

fn some_modes(dice: &mut Dice, in_ten: usize) -> Vec<Mode> {
    dice.some(&Mode::ALL, in_ten)
}

fn entry(dice: &mut Dice, tool: &model::ToolFacts) -> ToolPlan {
    // Rules about commands and hosts bind few tools; for the others they are worth a try now and then.
    let odd = |fits: bool| if fits { 2 } else { 60 };
    ToolPlan {
        category: dice.maybe(5, |dice| dice.pick(&CATEGORIES)),
        allowed: dice.maybe(3, |dice| some_modes(dice, 8)),
        approval: dice.maybe(3, |dice| some_modes(dice, 3)).unwrap_or_default(),
        forbidden: dice.maybe(4, |dice| some_modes(dice, 3)).unwrap_or_default(),
        allowed_paths: dice.maybe(3, |dice| dice.some(&PATTERNS, 3)),
        forbidden_paths: dice.some(&PATTERNS[..10], 1),
        unattended: dice.maybe(4, |dice| dice.some(&PATTERNS, 4)).unwrap_or_default(),
        max_mb: dice.maybe(3, |dice| dice.below(2) as u32),
        always_asks: dice.one_in(12),
        sandbox: dice.one_in(25),
        per_hour: dice.maybe(6, |dice| dice.below(5) as u32),
        links_allowed: dice.one_in(3),
        allowed_commands: dice.maybe(odd(tool.takes_commands), |dice| dice.some(&COMMANDS, 4)),
        forbidden_commands: if dice.one_in(odd(tool.takes_commands)) {
            dice.some(&NO_COMMANDS, 3)
        } else {
            Vec::new()
        },
        domains: dice.maybe(odd(tool.goes_out), |dice| dice.some(&HOSTS, 4)),
        shadow: dice.one_in(15),
    }
}

fn call(dice: &mut Dice) -> CallPlan {
    let tool = if dice.one_in(30) { 6 } else { dice.below(6) };
    let workspaces = dice.pick(&WORKSPACES);
    let path = |dice: &mut Dice, writes: bool| {
        let leads_to = if dice.one_in(2) { dice.pick(&NAMES[..5]) } else { dice.pick(&NAMES) };
        // Usually a name leads where it says; a link leads anywhere.
        let typed = if dice.one_in(3) { dice.pick(&TYPED) } else { leads_to };
        let leads_to = if typed == leads_to || dice.one_in(2) { leads_to } else { "/m/ws/a.txt" };
        let file =
            dice.maybe(2, |dice| ([5, 1 << 20, (1 << 20) + 1][dice.below(3)], 1 + u64::from(dice.one_in(4))));
        let other_name = dice.maybe(2, |dice| dice.pick(&NAMES));
        PathPlan { typed, leads_to, writes, file, other_name }
    };
    let paths = match TOOLS[tool].name {
        "read_file" => vec![path(dice, false)],
        "read_many" => (0..dice.below(4)).map(|_| path(dice, false)).collect(),
        "write_file" => vec![path(dice, true)],
        "copy_file" => vec![path(dice, false), path(dice, true)],
        _ => Vec::new(),
    };
    let is = |name: &str| TOOLS[tool].name == name;
    CallPlan {
        tool,
        paths,
        content: is("write_file").then(|| [0, 1 << 20, (1 << 20) + 1][dice.below(3)]),
        words: if is("run") { dice.maybe(2, |dice| dice.pick(&WORDS)) } else { None },
        line: if is("run") { dice.maybe(2, |dice| dice.pick(&LINES)) } else { None },
        url: if is("fetch") { dice.maybe(1, |dice| dice.pick(&URLS)) } else { None },
        workspaces,
    }
}

/// The files that say what a plan says.
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
        tools: read("tools.yaml", &tools),
        safety: read("safety.yaml", &super::machine::whole_safety(&safety)),
    };
    let around = Surroundings {
        variables: Variables::with_home("/m/home".as_ref()),
        protected: Protected { folders: vec![PathBuf::from("/m/sinew")] },
        names: if plan.folds { FileNames::CaseInsensitive } else { FileNames::CaseSensitive },
    };
    Policy::from_documents(documents, &around).unwrap_or_else(|error| panic!("{error}\n{tools}"))
}

/// A call, ready to be judged as often as there are policies.
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
            Reached::recorded(path.leads_to.as_ref(), file)
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

    /// The verdict in the model's words.
    fn verdict(&self, policy: &Policy, mode: Mode, counts: Counts, trail: &mut Trail) -> String {
        let standing = Standing::of(policy, &self.definition);
        let situation = Situation { mode, workspaces: &self.workspaces, counts };
        let mut notes = Notes::on(trail);
        let judged = admit_typed(&standing, &situation, &self.arguments, &mut notes).and_then(|named| {
            let requests: &[PathRequest] = &named.requests;
            assert_eq!(requests.len(), self.reached.len());
            let content_bytes = self.plan.content.map(|bytes| bytes as u64);
            let facts = Facts { requests, reached: &self.reached, errands: &named.errands, content_bytes };
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

/// Judges every case in every mode under policies from this seed on; gives how often each verdict was given.
fn compare(cases: &[Case], seeds: std::ops::Range<u64>) -> std::collections::BTreeMap<String, u64> {
    let mut given = std::collections::BTreeMap::new();
    let (first, all) = (seeds.start, seeds.end - seeds.start);
    for seed in seeds {
        // Only a long run is worth a line now and then.
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
                // The trail is dear; one in 64 is enough to see that it tells the same story.
                if dice.one_in(64) {
                    let mut trail = Trail::on();
                    assert_eq!(
                        case.verdict(&policy, mode, counts, &mut trail),
                        found,
                        "explained, {}",
                        shown()
                    );
                    let last = trail.steps().iter().any(|step| step.said == Said::Denies);
                    let asks = trail.steps().iter().filter(|step| step.said == Said::Asks).count();
                    assert_eq!(last, found != "permit" && !found.starts_with("ask"), "{}", shown());
                    assert_eq!(asks > 0, found.starts_with("ask"), "{}", shown());
                }
                *given.entry(found).or_insert(0) += 1;
            }
        }
    }
    given
}

#[test]
fn t030_t045_t073_judge_explanation_and_model_agree() {
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let wanted = number("SINEW_JUDGE_CASES", 1_000_000);
    let first = number("SINEW_JUDGE_SEED", 1);
    let mut dice = Dice(first);
    let cases: Vec<Case> = (0..1000).map(|_| Case::new(call(&mut dice))).collect();
    let policies = wanted.div_ceil(cases.len() as u64 * Mode::ALL.len() as u64).max(1);
    let middle = first + policies.div_ceil(2);
    let given = std::thread::scope(|scope| {
        let other = scope.spawn(|| compare(&cases, middle..first + policies));
        let mut given = compare(&cases, first..middle);
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
