//! Generator of random policies and calls. It combines few paths, commands and hosts, so that rules often
//! match calls.

use tool::Mode;

use super::model::{self, CallPlan, HostZone, ModePlan, PathPlan, PolicyPlan, TOOLS, ToolPlan, UrlCase};

/// Pseudo-random number generator (splitmix64). The same seed gives the same sequence on every machine.
pub(super) struct PlanRng(pub(super) u64);

impl PlanRng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn random_below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Returns true with probability 1 / `count`.
    pub(super) fn is_one_in(&mut self, count: usize) -> bool {
        self.random_below(count) == 0
    }

    fn random_item<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.random_below(items.len())]
    }

    /// Returns a random subset in the original order, each item with probability `tenths` / 10.
    fn random_subset<T: Copy>(&mut self, items: &[T], tenths: usize) -> Vec<T> {
        items.iter().copied().filter(|_| self.random_below(10) < tenths).collect()
    }

    /// Returns a generated value with probability 1 / `count`, otherwise `None`.
    fn random_option<T>(&mut self, count: usize, generate: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.is_one_in(count).then(|| generate(self))
    }
}

const CATEGORIES: [&str; 4] = ["read_only", "system_write", "network", "self_check"];
pub(super) const PATH_PATTERNS: [&str; 14] = [
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
const PATHS: [&str; 27] = [
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
    "/m/ws/a.txt/x",
    "/m/ws/abc/d/e",
    "/m/ws/.bashrc/x",
];
const REQUESTED_PATHS: [&str; 10] = [
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
const ARGV_CASES: [&[&str]; 20] = [
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
    &["git", "push"],
    &["/usr/bin/git", "push", "-f"],
    &["git", "push", "-vf"],
    &["git", "push", "origin", "-f"],
    &["git-push", "-f"],
    &["git", "add", "sudo", "git", "x"],
    &["python3"],
    &["python3.11", "x"],
    &["./python"],
];
const COMMAND_LINES: [&str; 5] = ["ls -a", "ls; id", "git diff x", "", "sudo ls"];
const ALLOWED_COMMANDS: [&[&str]; 6] = [&["ls"], &["git", "status"], &["git"], &["*"], &["env"], &["sudoku"]];
const FORBIDDEN_COMMANDS: [&[&str]; 6] =
    [&["sudo"], &["git", "push"], &["ls"], &["git", "push", "-f"], &["python"], &["python3"]];
const HOSTS: [&str; 7] =
    ["*", "example.org", "*.example.org", "a.example.org", "127.0.0.1", "org", "*.onion"];
const URLS: [UrlCase; 17] = [
    ("https://example.org/x", Ok(("example.org", HostZone::Public))),
    ("https://A.Example.ORG./x", Ok(("a.example.org", HostZone::Public))),
    ("https://b.a.example.org:81", Ok(("b.a.example.org", HostZone::Public))),
    ("https://notexample.org", Ok(("notexample.org", HostZone::Public))),
    ("https://example.org.evil.net", Ok(("example.org.evil.net", HostZone::Public))),
    ("http://x.onion", Ok(("x.onion", HostZone::Public))),
    ("http://2130706433/", Ok(("127.0.0.1", HostZone::Private))),
    ("http://127.1", Ok(("127.0.0.1", HostZone::Private))),
    ("http://[::1]/", Ok(("[::1]", HostZone::Private))),
    ("http://localhost./", Ok(("localhost", HostZone::Private))),
    ("http://169.254.169.254/", Ok(("169.254.169.254", HostZone::AlwaysBlocked))),
    ("http://[::ffff:a9fe:1]/", Ok(("169.254.0.1", HostZone::AlwaysBlocked))),
    ("http://[fe80::1]/", Ok(("[fe80::1]", HostZone::AlwaysBlocked))),
    ("http://8.8.8.8", Ok(("8.8.8.8", HostZone::Public))),
    ("ftp://example.org", Err("domain_not_allowed")),
    ("https://u@example.org", Err("domain_not_allowed")),
    ("example.org", Err("invalid_arguments")),
];
const WORKSPACES: [&[(&str, bool)]; 4] =
    [&[("/m/ws", true)], &[("/m/ro", false), ("/m/ws", true)], &[], &[("/m/ws", false), ("/m/ws/sub", true)]];

pub(super) fn random_plan(rng: &mut PlanRng) -> PolicyPlan {
    let random_mode = |rng: &mut PlanRng| ModePlan {
        allows_no_tasks: rng.is_one_in(30),
        categories: rng.random_option(4, |rng| rng.random_subset(&CATEGORIES, 7)).unwrap_or_default(),
        approvals: {
            let approval_scopes = [
                "high_risk_tools",
                "any_write_operation",
                "network",
                "all_actions",
                "read_only",
                "write_file",
            ];
            rng.random_option(3, |rng| rng.random_subset(&approval_scopes, 3)).unwrap_or_default()
        },
        per_minute: rng.random_option(6, |rng| rng.random_below(5) as u32),
        outbound_per_hour: if rng.is_one_in(3) { rng.random_below(5) as u32 } else { 9 },
    };
    let random_category_rule = |rng: &mut PlanRng, name| {
        (name, rng.random_option(3, |rng| 1 + rng.random_below(3) as u8), random_modes(rng, 2))
    };
    let random_approval_rule = |rng: &mut PlanRng| {
        let risk = rng.random_option(2, |rng| 1 + rng.random_below(3) as u8);
        let category = rng.random_option(2, |rng| rng.random_item(&CATEGORIES));
        // A rule must have a risk level or a category.
        let risk = risk.or(if category.is_none() { Some(3) } else { None });
        (risk, category, random_modes(rng, 3))
    };
    PolicyPlan {
        folds_case: rng.is_one_in(2),
        modes: (0..5).map(|_| random_mode(rng)).collect(),
        categories: rng
            .random_subset(&CATEGORIES, 3)
            .into_iter()
            .map(|name| random_category_rule(rng, name))
            .collect(),
        approvals: (0..rng.random_below(3)).map(|_| random_approval_rule(rng)).collect(),
        tools: random_tool_entries(rng),
        allowed_domains: if rng.is_one_in(3) { rng.random_subset(&HOSTS, 4) } else { vec!["*"] },
        blocked_domains: rng.random_option(2, |rng| rng.random_subset(&HOSTS[1..], 2)).unwrap_or_default(),
        allows_private: rng.is_one_in(3),
        approval_for_hosts: rng.is_one_in(5),
    }
}

fn random_tool_entries(rng: &mut PlanRng) -> Vec<(&'static str, ToolPlan)> {
    let mut entries = Vec::new();
    for tool in &TOOLS {
        if !rng.is_one_in(4) {
            entries.push((tool.name, random_tool_entry(rng, tool)));
        }
    }
    entries
}

fn random_modes(rng: &mut PlanRng, tenths: usize) -> Vec<Mode> {
    rng.random_subset(&Mode::ALL, tenths)
}

fn random_tool_entry(rng: &mut PlanRng, tool: &model::ToolTraits) -> ToolPlan {
    // Rules for commands and hosts apply to few tools, so all other tools rarely get such a rule.
    let rarity = |applies: bool| if applies { 2 } else { 60 };
    ToolPlan {
        category: rng.random_option(5, |rng| rng.random_item(&CATEGORIES)),
        allowed: rng.random_option(3, |rng| random_modes(rng, 8)),
        approval: rng.random_option(3, |rng| random_modes(rng, 3)).unwrap_or_default(),
        forbidden: rng.random_option(4, |rng| random_modes(rng, 3)).unwrap_or_default(),
        allowed_paths: rng.random_option(3, |rng| rng.random_subset(&PATH_PATTERNS, 3)),
        forbidden_paths: rng.random_subset(&PATH_PATTERNS[..10], 1),
        unattended: rng.random_option(4, |rng| rng.random_subset(&PATH_PATTERNS, 4)).unwrap_or_default(),
        max_mb: rng.random_option(3, |rng| rng.random_below(2) as u32),
        requires_approval: rng.is_one_in(12),
        sandbox: rng.is_one_in(25),
        per_hour: rng.random_option(6, |rng| rng.random_below(5) as u32),
        allows_hard_links: rng.is_one_in(3),
        allowed_commands: rng
            .random_option(rarity(tool.takes_commands), |rng| rng.random_subset(&ALLOWED_COMMANDS, 4)),
        forbidden_commands: if rng.is_one_in(rarity(tool.takes_commands)) {
            rng.random_subset(&FORBIDDEN_COMMANDS, 3)
        } else {
            Vec::new()
        },
        domains: rng.random_option(rarity(tool.is_outbound), |rng| rng.random_subset(&HOSTS, 4)),
        shadow: rng.is_one_in(15),
    }
}

pub(super) fn random_call(rng: &mut PlanRng) -> CallPlan {
    let tool = if rng.is_one_in(30) { 6 } else { rng.random_below(6) };
    let workspaces = rng.random_item(&WORKSPACES);
    let random_path = |rng: &mut PlanRng, writes: bool| {
        let target = if rng.is_one_in(2) { rng.random_item(&PATHS[..5]) } else { rng.random_item(&PATHS) };
        // Usually a path is its own target. A path that leads through a symlink has another target.
        let requested = if rng.is_one_in(3) { rng.random_item(&REQUESTED_PATHS) } else { target };
        let target = if requested == target || rng.is_one_in(2) { target } else { "/m/ws/a.txt" };
        let file = rng.random_option(2, |rng| {
            ([5, 1 << 20, (1 << 20) + 1][rng.random_below(3)], 1 + u64::from(rng.is_one_in(4)))
        });
        let hard_link = rng.random_option(2, |rng| rng.random_item(&PATHS));
        // Only a call that writes a new file can create missing parent folders.
        let missing_folders =
            if writes && file.is_none() && rng.is_one_in(2) { 1 + rng.random_below(2) } else { 0 };
        PathPlan { typed: requested, target, writes, file, other_name: hard_link, missing_folders }
    };
    let paths = match TOOLS[tool].name {
        "read_file" => vec![random_path(rng, false)],
        "read_many" => (0..rng.random_below(4)).map(|_| random_path(rng, false)).collect(),
        "write_file" => vec![random_path(rng, true)],
        "copy_file" => vec![random_path(rng, false), random_path(rng, true)],
        _ => Vec::new(),
    };
    let is_tool = |name: &str| TOOLS[tool].name == name;
    CallPlan {
        tool,
        paths,
        content: is_tool("write_file").then(|| [0, 1 << 20, (1 << 20) + 1][rng.random_below(3)]),
        words: if is_tool("run") { rng.random_option(2, |rng| rng.random_item(&ARGV_CASES)) } else { None },
        line: if is_tool("run") { rng.random_option(2, |rng| rng.random_item(&COMMAND_LINES)) } else { None },
        url: if is_tool("fetch") { rng.random_option(1, |rng| rng.random_item(&URLS)) } else { None },
        workspaces,
    }
}
