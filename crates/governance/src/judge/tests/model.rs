//! A second judge, written from the documents and not from the code: plain texts, plain loops, nothing compiled.
//!
//! It knows only what the differential test deals out, and is slow and obvious on purpose.

use tool::Mode;

/// What a tool's definition says, for the tools of the differential test.
pub(super) struct ToolFacts {
    pub(super) name: &'static str,
    pub(super) category: &'static str,
    pub(super) risk: u8, // 1 low, 2 medium, 3 high
    pub(super) writes: bool,
    pub(super) goes_out: bool,
    pub(super) takes_commands: bool,
}

pub(super) const TOOLS: [ToolFacts; 7] = [
    facts("read_file", "read_only", 1, false, false, false),
    facts("read_many", "read_only", 1, false, false, false),
    facts("write_file", "system_write", 3, true, false, false),
    facts("copy_file", "system_write", 2, true, false, false),
    facts("run", "system_write", 2, false, false, true),
    facts("fetch", "network", 2, false, true, false),
    facts("confined", "read_only", 1, false, false, false),
];

const fn facts(
    name: &'static str,
    category: &'static str,
    risk: u8,
    writes: bool,
    goes_out: bool,
    takes_commands: bool,
) -> ToolFacts {
    ToolFacts { name, category, risk, writes, goes_out, takes_commands }
}

/// A policy as it was dealt.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) folds: bool,
    pub(super) modes: Vec<ModePlan>, // in the order of Mode::ALL
    pub(super) categories: Vec<(&'static str, Option<u8>, Vec<Mode>)>,
    pub(super) approvals: Vec<(Option<u8>, Option<&'static str>, Vec<Mode>)>,
    pub(super) tools: Vec<(&'static str, ToolPlan)>,
    pub(super) allowed_domains: Vec<&'static str>,
    pub(super) blocked_domains: Vec<&'static str>,
    pub(super) private: bool,
    pub(super) asks_abroad: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ModePlan {
    pub(super) none_at_all: bool,
    pub(super) categories: Vec<&'static str>,
    pub(super) approvals: Vec<&'static str>,
    pub(super) per_minute: Option<u32>,
    pub(super) out_per_hour: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ToolPlan {
    pub(super) category: Option<&'static str>,
    pub(super) allowed: Option<Vec<Mode>>,
    pub(super) approval: Vec<Mode>,
    pub(super) forbidden: Vec<Mode>,
    pub(super) allowed_paths: Option<Vec<&'static str>>,
    pub(super) forbidden_paths: Vec<&'static str>,
    pub(super) unattended: Vec<&'static str>,
    pub(super) max_mb: Option<u32>,
    pub(super) always_asks: bool,
    pub(super) sandbox: bool,
    pub(super) per_hour: Option<u32>,
    pub(super) links_allowed: bool,
    pub(super) allowed_commands: Option<Vec<&'static [&'static str]>>,
    pub(super) forbidden_commands: Vec<&'static [&'static str]>,
    pub(super) domains: Option<Vec<&'static str>>,
    pub(super) shadow: bool,
}

/// A path of a call: as typed from the root, what it leads to, and what is there.
#[derive(Clone, Debug)]
pub(super) struct PathPlan {
    pub(super) typed: &'static str,
    pub(super) leads_to: &'static str,
    pub(super) writes: bool,
    pub(super) file: Option<(u64, u64)>,         // size and names
    pub(super) other_name: Option<&'static str>, // where it has several, and was found
}

/// An address, and its host and whether that is private, if it is of any use.
pub(super) type Url = (&'static str, Result<(&'static str, bool), ()>);

/// A call as it was dealt.
#[derive(Clone, Debug)]
pub(super) struct CallPlan {
    pub(super) tool: usize,
    pub(super) paths: Vec<PathPlan>,
    pub(super) content: Option<usize>,
    pub(super) words: Option<&'static [&'static str]>,
    pub(super) line: Option<&'static str>,
    pub(super) url: Option<Url>,
    pub(super) workspaces: &'static [(&'static str, bool)], // root, and whether it may be written
}

/// What patterns and the floor say of one name. Looked up once for each call: it is the same under every policy.
pub(super) struct Place {
    allowed_by: Vec<&'static str>,
    forbidden_by: [Vec<&'static str>; 2], // exactly, and folded
    floor: [Option<&'static str>; 2],     // to read, and to write
    workspace: [bool; 2],
}

/// The names of one path: as typed, the folders it leaves by `..`, and what it leads to.
pub(super) struct Names {
    typed: Place,
    left: Vec<Place>,
    leads_to: Place,
    other: Option<Place>,
}

impl Place {
    fn of(call: &CallPlan, name: &str, patterns: &[&'static str]) -> Place {
        let forbidden = |seen: fn(&str) -> String| {
            let hit = |pattern: &&&str| {
                let pattern = seen(pattern);
                matches(&pattern, &seen(name)) || matches(&format!("{pattern}/**"), &seen(name))
            };
            patterns.iter().filter(hit).copied().collect()
        };
        let workspace = |writes: bool| {
            call.workspaces.iter().any(|(root, writable)| {
                (name == *root || name.starts_with(&format!("{root}/"))) && (!writes || *writable)
            })
        };
        Place {
            allowed_by: patterns.iter().filter(|pattern| matches(pattern, name)).copied().collect(),
            forbidden_by: [forbidden(str::to_owned), forbidden(fold)],
            floor: [floor(name, false), floor(name, true)],
            workspace: [workspace(false), workspace(true)],
        }
    }
}

pub(super) fn names(call: &CallPlan, patterns: &[&'static str]) -> Vec<Names> {
    let of = |path: &PathPlan| {
        let typed = from_root(call, path.typed);
        let left = left_behind(&typed);
        Names {
            left: left.iter().map(|folder| Place::of(call, folder, patterns)).collect(),
            typed: Place::of(call, &flat(&typed), patterns),
            leads_to: Place::of(call, &flat(path.leads_to), patterns),
            other: path.other_name.map(|name| Place::of(call, name, patterns)),
        }
    };
    call.paths.iter().map(of).collect()
}

/// The verdict: `permit`, `ask N`, or the code of the denial.
pub(super) fn verdict(plan: &Plan, call: &CallPlan, names: &[Names], mode: Mode, counts: [u32; 3]) -> String {
    let tool = &TOOLS[call.tool];
    let silent = ToolPlan::default();
    let stated = plan.tools.iter().find(|(name, _)| *name == tool.name).map_or(&silent, |(_, entry)| entry);
    // Rules in shadow deny nothing; the rest of the entry holds.
    let shadow =
        ToolPlan { approval: stated.approval.clone(), sandbox: stated.sandbox, ..ToolPlan::default() };
    let denying = if stated.shadow { &shadow } else { stated };
    let category = stated.category.unwrap_or(tool.category);
    match denies(plan, call, names, tool, stated, denying, category, (mode, counts)) {
        Some(code) => code.to_owned(),
        None => match asks(plan, tool, stated, category, mode, is_unattended(stated, names)) {
            0 => "permit".to_owned(),
            rules => format!("ask {rules}"),
        },
    }
}

#[allow(clippy::too_many_arguments)] // everything there is to know, by name
fn denies(
    plan: &Plan,
    call: &CallPlan,
    names: &[Names],
    tool: &ToolFacts,
    stated: &ToolPlan,
    entry: &ToolPlan,
    category: &str,
    (mode, [hour, minute, out]): (Mode, [u32; 3]),
) -> Option<&'static str> {
    let here = &plan.modes[Mode::ALL.iter().position(|other| *other == mode).unwrap()];
    let listed = entry.allowed.as_ref().is_none_or(|modes| modes.contains(&mode));
    if entry.forbidden.contains(&mode) || (!entry.approval.contains(&mode) && !listed) {
        return Some("mode_denied");
    }
    if here.none_at_all || (!here.categories.is_empty() && !here.categories.contains(&category)) {
        return Some("mode_denied");
    }
    if entry.sandbox || tool.name == "confined" {
        return Some("sandbox_unavailable");
    }
    let command_rules = stated.allowed_commands.is_some() || !stated.forbidden_commands.is_empty();
    if command_rules && !tool.takes_commands {
        return Some("command_not_allowed");
    }
    let goes_out = tool.goes_out || category == "network";
    if stated.domains.is_some() && !goes_out {
        return Some("domain_not_allowed");
    }
    if entry.per_hour.is_some_and(|most| hour >= most) || here.per_minute.is_some_and(|most| minute >= most) {
        return Some("rate_limited");
    }
    if goes_out && out >= here.out_per_hour {
        return Some("rate_limited");
    }
    if refuses_commands(call, stated, entry) {
        return Some("command_not_allowed");
    }
    if goes_out && refuses_host(plan, call, entry) {
        return Some("domain_not_allowed");
    }
    if call.paths.iter().any(|path| !path.typed.starts_with('/')) && call.workspaces.is_empty() {
        return Some("path_not_allowed");
    }
    for (path, names) in call.paths.iter().zip(names) {
        let code = forbids(plan, entry, &names.typed, path.writes).or_else(|| {
            names.left.iter().find_map(|folder| {
                forbids(plan, entry, folder, false)
                    .or((!may_be_in(entry, folder, false)).then_some("path_not_allowed"))
            })
        });
        if code.is_some() {
            return code;
        }
    }
    for (path, names) in call.paths.iter().zip(names) {
        let code = forbids(plan, entry, &names.leads_to, path.writes);
        if code.is_some() {
            return code;
        }
        if !may_be_in(entry, &names.leads_to, path.writes) {
            return Some("path_not_allowed");
        }
        let harmless = |other: &Place| forbids(plan, entry, other, path.writes).is_none();
        let several = path.file.is_some_and(|(_, names)| names > 1);
        if several && !entry.links_allowed && !names.other.as_ref().is_some_and(harmless) {
            return Some("path_forbidden");
        }
        let most = entry.max_mb.map(|mb| u64::from(mb) * 1024 * 1024);
        if !path.writes && path.file.is_some_and(|(size, _)| most.is_some_and(|most| size > most)) {
            return Some("too_large");
        }
    }
    let most = entry.max_mb.map(|mb| mb as usize * 1024 * 1024);
    let too_much = call.content.is_some_and(|bytes| most.is_some_and(|most| bytes > most));
    (tool.writes && too_much).then_some("too_large")
}

/// Whether every path leads where the entry wants nobody asked. A call without paths leads nowhere.
fn is_unattended(entry: &ToolPlan, names: &[Names]) -> bool {
    let listed =
        |names: &Names| entry.unattended.iter().any(|pattern| names.leads_to.allowed_by.contains(pattern));
    !names.is_empty() && names.iter().all(listed)
}

fn asks(
    plan: &Plan,
    tool: &ToolFacts,
    entry: &ToolPlan,
    category: &str,
    mode: Mode,
    unattended: bool,
) -> usize {
    let of_category = plan.categories.iter().find(|(name, ..)| *name == category);
    let risk = of_category.and_then(|(_, risk, _)| *risk).unwrap_or(0).max(tool.risk);
    let here = &plan.modes[Mode::ALL.iter().position(|other| *other == mode).unwrap()];
    let by_mode = here.approvals.iter().filter(|word| match **word {
        "high_risk_tools" => risk == 3,
        "any_write_operation" => tool.writes || tool.takes_commands || category == "system_write",
        "network" => tool.goes_out || category == "network",
        "all_actions" => true,
        other => other == category || other == tool.name,
    });
    let by_safety = plan.approvals.iter().filter(|(wanted, of, modes)| {
        modes.contains(&mode)
            && wanted.is_none_or(|wanted| wanted == risk)
            && of.is_none_or(|of| of == category)
    });
    let abroad = plan.asks_abroad && (tool.goes_out || category == "network");
    let in_tools = usize::from(entry.always_asks)
        + usize::from(entry.approval.contains(&mode))
        + usize::from(of_category.is_some_and(|(_, _, modes)| modes.contains(&mode)));
    (if unattended { 0 } else { in_tools }) + by_mode.count() + by_safety.count() + usize::from(abroad)
}

fn refuses_commands(call: &CallPlan, stated: &ToolPlan, entry: &ToolPlan) -> bool {
    let line: Option<Vec<&str>> = call.line.map(|line| line.split_whitespace().collect());
    let for_a_shell = call.line.is_some_and(|line| line.contains([';', '*', '$']));
    let mut commands = call.words.map(<[&str]>::to_vec).into_iter().chain(line);
    for_a_shell || commands.any(|words| refuses_command(&words, stated, entry))
}

fn refuses_command(words: &[&str], stated: &ToolPlan, entry: &ToolPlan) -> bool {
    let Some(program) = words.first() else { return true };
    if stated.shadow {
        return false;
    }
    let starter =
        ["env", "sh", "sudo"].contains(&base(program)) || (*program == "git" && words.contains(&"-c"));
    let starts = if starter { words.len() } else { 1 };
    let whole: Vec<Vec<&str>> = (0..starts).map(|at| words[at..].to_vec()).collect();
    let mut tails = whole.clone();
    if starter {
        let parts = words.iter().flat_map(|word| word.split([' ', ';', '=', '!']));
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        tails.extend((0..parts.len()).map(|at| parts[at..].to_vec()));
    }
    let forbidden = |rule: &&[&str]| {
        let said = tails.iter().any(|tail| {
            let mut rest = tail[1..].iter();
            base(tail[0]) == rule[0] && rule[1..].iter().all(|wanted| rest.any(|word| word == wanted))
        });
        let of_git = rule[0] == "git" && rule.len() > 1;
        said || (of_git && whole.iter().any(|tail| base(tail[0]) == "git" && gives_an_alias(tail)))
    };
    let allowed = |rule: &&[&str]| **rule == ["*"] || words.starts_with(rule);
    entry.forbidden_commands.iter().any(forbidden)
        || !entry.allowed_commands.as_ref().is_some_and(|rules| rules.iter().any(allowed))
}

/// Whether git is given a command that it does not know itself, of those that are dealt.
fn gives_an_alias(tail: &[&str]) -> bool {
    let mut words = tail[1..].iter();
    while let Some(word) = words.next() {
        match *word {
            "-c" | "-C" => drop(words.next()),
            "-p" => {}
            command => return !["status", "push", "diff"].contains(&command),
        }
    }
    false
}

fn base(program: &str) -> &str {
    program.rsplit('/').next().unwrap()
}

fn refuses_host(plan: &Plan, call: &CallPlan, entry: &ToolPlan) -> bool {
    let Some((_, target)) = call.url else { return false };
    let Ok((host, private)) = target else { return true };
    let below = |name: &str| host.ends_with(&format!(".{name}"));
    let allows = |rule: &&str| match rule.strip_prefix("*.") {
        Some(name) => below(name),
        None => *rule == "*" || *rule == host,
    };
    let blocks = |rule: &&str| {
        let name = rule.trim_start_matches("*.");
        *rule == "*" || name == host || below(name)
    };
    plan.blocked_domains.iter().any(blocks)
        || (private && !plan.private)
        || !entry.domains.as_ref().is_none_or(|rules| rules.iter().any(allows))
        || !plan.allowed_domains.iter().any(allows)
}

/// What no file can allow, of the little that is dealt here.
fn floor(name: &str, writes: bool) -> Option<&'static str> {
    let folded = fold(name);
    let parts: Vec<&str> = folded.split('/').collect();
    if folded == "/m/sinew" || folded.starts_with("/m/sinew/") {
        return Some("control_plane");
    }
    let touched = folded == "/proc/self/environ" || folded.starts_with("/proc/self/fd");
    let written = parts.contains(&".git") || parts.contains(&".ssh") || parts.contains(&".bashrc");
    (touched || (writes && written)).then_some("path_forbidden")
}

/// Forbidden by the floor or by the entry.
fn forbids(plan: &Plan, entry: &ToolPlan, place: &Place, writes: bool) -> Option<&'static str> {
    let hits = &place.forbidden_by[usize::from(plan.folds)];
    let hit = entry.forbidden_paths.iter().any(|pattern| hits.contains(pattern));
    place.floor[usize::from(writes)].or(hit.then_some("path_forbidden"))
}

fn may_be_in(entry: &ToolPlan, place: &Place, writes: bool) -> bool {
    match &entry.allowed_paths {
        Some(patterns) => patterns.iter().any(|pattern| place.allowed_by.contains(pattern)),
        None => place.workspace[usize::from(writes)],
    }
}

fn fold(text: &str) -> String {
    text.replace("e\u{301}", "\u{e9}").to_lowercase()
}

fn from_root(call: &CallPlan, typed: &str) -> String {
    match (typed.starts_with('/'), call.workspaces.first()) {
        (false, Some((root, _))) => format!("{root}/{typed}"),
        _ => typed.to_owned(),
    }
}

/// The name with `..` taken out, letter by letter.
fn flat(name: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in name.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    format!("/{}", parts.join("/"))
}

/// The folders that are entered and left again.
fn left_behind(name: &str) -> Vec<String> {
    let parts: Vec<&str> = name.split('/').collect();
    let ups = (0..parts.len()).filter(|at| parts[*at] == "..");
    ups.map(|at| flat(&parts[..at].join("/"))).collect()
}

/// `*` is any part of one name, `**` any number of names, `dir/**` also `dir`.
fn matches(pattern: &str, name: &str) -> bool {
    let parts =
        |text: &str| text.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    matches_parts(&parts(pattern), &parts(name))
}

fn matches_parts(pattern: &[String], name: &[String]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "**" => {
            (0..=name.len()).any(|taken| matches_parts(rest, &name[taken..]))
        }
        (Some((first, rest)), Some((part, others))) => {
            matches_part(first, part) && matches_parts(rest, others)
        }
        _ => false,
    }
}

fn matches_part(pattern: &str, part: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == part,
        Some((before, after)) => part.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices()
                .map(|(at, _)| at)
                .chain([rest.len()])
                .any(|at| matches_part(after, &rest[at..]))
        }),
    }
}
