//! Generator of random policies and calls. It uses a small vocabulary, so that rules often match calls.

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

    pub(super) fn below(&mut self, most: usize) -> usize {
        (self.next() % most as u64) as usize
    }

    /// Returns true with probability 1 / `times`.
    pub(super) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Returns a random subset in the original order, each item with probability `in_ten` / 10.
    fn subset<T: Copy>(&mut self, from: &[T], in_ten: usize) -> Vec<T> {
        from.iter().copied().filter(|_| self.below(10) < in_ten).collect()
    }

    fn maybe<T>(&mut self, times: usize, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.one_in(times).then(|| make(self))
    }
}

const CATEGORIES: [&str; 4] = ["read_only", "system_write", "network", "self_check"];
pub(super) const PATTERNS: [&str; 14] = [
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
const NAMES: [&str; 27] = [
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
const WORDS: [&[&str]; 20] = [
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
const LINES: [&str; 5] = ["ls -a", "ls; id", "git diff x", "", "sudo ls"];
const COMMANDS: [&[&str]; 6] = [&["ls"], &["git", "status"], &["git"], &["*"], &["env"], &["sudoku"]];
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
    let mode = |rng: &mut PlanRng| ModePlan {
        allows_no_tasks: rng.one_in(30),
        categories: rng.maybe(4, |rng| rng.subset(&CATEGORIES, 7)).unwrap_or_default(),
        approvals: {
            let words = [
                "high_risk_tools",
                "any_write_operation",
                "network",
                "all_actions",
                "read_only",
                "write_file",
            ];
            rng.maybe(3, |rng| rng.subset(&words, 3)).unwrap_or_default()
        },
        per_minute: rng.maybe(6, |rng| rng.below(5) as u32),
        outbound_per_hour: if rng.one_in(3) { rng.below(5) as u32 } else { 9 },
    };
    let of_category =
        |rng: &mut PlanRng, name| (name, rng.maybe(3, |rng| 1 + rng.below(3) as u8), some_modes(rng, 2));
    let approval = |rng: &mut PlanRng| {
        let risk = rng.maybe(2, |rng| 1 + rng.below(3) as u8);
        let category = rng.maybe(2, |rng| rng.pick(&CATEGORIES));
        // A rule must have a risk level or a category.
        let risk = risk.or(if category.is_none() { Some(3) } else { None });
        (risk, category, some_modes(rng, 3))
    };
    PolicyPlan {
        folds_case: rng.one_in(2),
        modes: (0..5).map(|_| mode(rng)).collect(),
        categories: rng.subset(&CATEGORIES, 3).into_iter().map(|name| of_category(rng, name)).collect(),
        approvals: (0..rng.below(3)).map(|_| approval(rng)).collect(),
        tools: random_entries(rng),
        allowed_domains: if rng.one_in(3) { rng.subset(&HOSTS, 4) } else { vec!["*"] },
        blocked_domains: rng.maybe(2, |rng| rng.subset(&HOSTS[1..], 2)).unwrap_or_default(),
        allows_private: rng.one_in(3),
        approval_for_hosts: rng.one_in(5),
    }
}

fn random_entries(rng: &mut PlanRng) -> Vec<(&'static str, ToolPlan)> {
    let mut entries = Vec::new();
    for tool in &TOOLS {
        if !rng.one_in(4) {
            entries.push((tool.name, random_entry(rng, tool)));
        }
    }
    entries
}

fn some_modes(rng: &mut PlanRng, in_ten: usize) -> Vec<Mode> {
    rng.subset(&Mode::ALL, in_ten)
}

fn random_entry(rng: &mut PlanRng, tool: &model::ToolTraits) -> ToolPlan {
    // Rules about commands and hosts apply to few tools, so the other tools get them rarely.
    let odd = |fits: bool| if fits { 2 } else { 60 };
    ToolPlan {
        category: rng.maybe(5, |rng| rng.pick(&CATEGORIES)),
        allowed: rng.maybe(3, |rng| some_modes(rng, 8)),
        approval: rng.maybe(3, |rng| some_modes(rng, 3)).unwrap_or_default(),
        forbidden: rng.maybe(4, |rng| some_modes(rng, 3)).unwrap_or_default(),
        allowed_paths: rng.maybe(3, |rng| rng.subset(&PATTERNS, 3)),
        forbidden_paths: rng.subset(&PATTERNS[..10], 1),
        unattended: rng.maybe(4, |rng| rng.subset(&PATTERNS, 4)).unwrap_or_default(),
        max_mb: rng.maybe(3, |rng| rng.below(2) as u32),
        requires_approval: rng.one_in(12),
        sandbox: rng.one_in(25),
        per_hour: rng.maybe(6, |rng| rng.below(5) as u32),
        allows_hard_links: rng.one_in(3),
        allowed_commands: rng.maybe(odd(tool.takes_commands), |rng| rng.subset(&COMMANDS, 4)),
        forbidden_commands: if rng.one_in(odd(tool.takes_commands)) {
            rng.subset(&FORBIDDEN_COMMANDS, 3)
        } else {
            Vec::new()
        },
        domains: rng.maybe(odd(tool.is_outbound), |rng| rng.subset(&HOSTS, 4)),
        shadow: rng.one_in(15),
    }
}

pub(super) fn random_call(rng: &mut PlanRng) -> CallPlan {
    let tool = if rng.one_in(30) { 6 } else { rng.below(6) };
    let workspaces = rng.pick(&WORKSPACES);
    let path = |rng: &mut PlanRng, writes: bool| {
        let leads_to = if rng.one_in(2) { rng.pick(&NAMES[..5]) } else { rng.pick(&NAMES) };
        // Usually a name is its own target; with a link it is not.
        let typed = if rng.one_in(3) { rng.pick(&TYPED) } else { leads_to };
        let leads_to = if typed == leads_to || rng.one_in(2) { leads_to } else { "/m/ws/a.txt" };
        let file =
            rng.maybe(2, |rng| ([5, 1 << 20, (1 << 20) + 1][rng.below(3)], 1 + u64::from(rng.one_in(4))));
        let other_name = rng.maybe(2, |rng| rng.pick(&NAMES));
        // Folders can be missing only above a file that does not exist and is to be written.
        let missing = if writes && file.is_none() && rng.one_in(2) { 1 + rng.below(2) } else { 0 };
        PathPlan { typed, target: leads_to, writes, file, other_name, missing_folders: missing }
    };
    let paths = match TOOLS[tool].name {
        "read_file" => vec![path(rng, false)],
        "read_many" => (0..rng.below(4)).map(|_| path(rng, false)).collect(),
        "write_file" => vec![path(rng, true)],
        "copy_file" => vec![path(rng, false), path(rng, true)],
        _ => Vec::new(),
    };
    let is = |name: &str| TOOLS[tool].name == name;
    CallPlan {
        tool,
        paths,
        content: is("write_file").then(|| [0, 1 << 20, (1 << 20) + 1][rng.below(3)]),
        words: if is("run") { rng.maybe(2, |rng| rng.pick(&WORDS)) } else { None },
        line: if is("run") { rng.maybe(2, |rng| rng.pick(&LINES)) } else { None },
        url: if is("fetch") { rng.maybe(1, |rng| rng.pick(&URLS)) } else { None },
        workspaces,
    }
}
