//! Random small policies, each with a question and the universe of calls that answer it.

use governance::{WorkspaceAccess, Workspaces};
use serde_json::{Value, json};

/// Generator of pseudo-random numbers (splitmix64).
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64, part: u64) -> Self {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ part.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }

    fn is_one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Returns up to `most` texts.
    fn texts(&mut self, most: usize, mut one: impl FnMut(&mut Rng) -> String) -> Vec<String> {
        (0..self.below(most + 1)).map(|_| one(self)).collect()
    }
}

/// Tools of a policy.
pub(super) const TOOLS: [&str; 6] = ["write_file", "read_file", "copy_file", "remove_file", "run", "fetch"];

/// Returns the texts of `tools.yaml` and `safety.yaml` with these rules.
pub(super) fn files(rules: &[RandomPolicy]) -> (String, String) {
    let tools: String = rules.iter().map(|one| one.tools.as_str()).collect();
    (format!("tools:\n{tools}"), rules.iter().map(|one| one.safety.as_str()).collect())
}

/// Rules for one tool, and a question about it.
#[derive(Clone)]
pub(super) struct RandomPolicy {
    pub(super) tool: &'static str,
    pub(super) tools: String,
    pub(super) safety: String,
    pub(super) question: String,
    effect: RandomEffect,
    second_is_read_only: bool,
}

#[derive(Clone)]
enum RandomEffect {
    Paths(String),
    Command(Vec<String>),
    Host(String),
}

const COMPONENTS: [&str; 12] =
    ["a", "b", "ab", "*", "a*", "*b", "?", "??", "[ab]", "{a,b}b", "*a*", ".vscode"];
/// Component names of the universe, which the patterns can tell apart in many ways.
const NAMES: [&str; 6] = ["a", "ab", "bb", "x", "xb", ".vscode"];
const WORDS: [&str; 3] = ["a", "b", "x"];
const HOSTS: [&str; 9] =
    ["a.org", "x.a.org", "y.x.a.org", "b.a.org", "c.org", "localhost", "10.0.0.1", "x.lan", "z.net"];

impl RandomPolicy {
    /// Returns rules and a question for each tool.
    pub(super) fn of_each_tool(rng: &mut Rng) -> Vec<Self> {
        TOOLS.iter().map(|tool| Self::new(tool, rng)).collect()
    }

    fn new(tool: &'static str, rng: &mut Rng) -> Self {
        let (effect, question) = match tool {
            "run" => {
                let length = 1 + rng.below(2);
                let words: Vec<String> = (0..length).map(|_| rng.pick(&WORDS).to_owned()).collect();
                let text = format!("run {}", words.join(" "));
                (RandomEffect::Command(words), text)
            }
            "fetch" => {
                let host = rng.pick(&["a.org", "*.a.org", "*", "x.a.org", "*.x.a.org", "10.0.0.1"]);
                (RandomEffect::Host(host.to_owned()), format!("reach '{host}'"))
            }
            _ => {
                let verb = if tool == "read_file" { "read" } else { "write" };
                let folder = rng.pick(&["/w", "/w/a", "/w/ab", "/w/b/b", "/", "/v/a", "/w/.vscode"]);
                (RandomEffect::Paths(folder.to_owned()), format!("{verb} below {folder}"))
            }
        };
        let second_is_read_only = rng.is_one_in(2);
        let mut random = RandomPolicy {
            tool,
            tools: String::new(),
            safety: String::new(),
            question,
            effect,
            second_is_read_only,
        };
        random.write(rng);
        random
    }

    /// Returns another policy for the same tool and question.
    pub(super) fn variant(&self, rng: &mut Rng) -> Self {
        let mut other = self.clone();
        other.write(rng);
        other
    }

    pub(super) fn workspaces(&self) -> Workspaces {
        let second =
            if self.second_is_read_only { WorkspaceAccess::ReadOnly } else { WorkspaceAccess::ReadWrite };
        super::workspaces(&[("/w", WorkspaceAccess::ReadWrite), ("/w/a/b", second)])
    }

    fn write(&mut self, rng: &mut Rng) {
        let mut keys = vec![format!("allowed_in_modes: {}", rng.pick(&["[NORMAL]", "[NORMAL, ALERT]"]))];
        if rng.is_one_in(3) {
            keys.push("requires_approval_in_modes: [ALERT]".to_owned());
        }
        if rng.is_one_in(8) {
            keys.push("rate_limit_per_hour: 0".to_owned());
        }
        self.safety = String::new();
        match self.effect {
            RandomEffect::Paths(_) => write_path_keys(rng, &mut keys),
            RandomEffect::Command(_) => {
                keys.push(format!("allowed_commands: [{}]", rng.texts(4, command_entry).join(", ")));
                keys.push(format!("forbidden_commands: [{}]", rng.texts(3, command_entry).join(", ")));
            }
            RandomEffect::Host(_) => {
                let hosts = |rng: &mut Rng, most| rng.texts(most, host_entry).join(", ");
                if rng.is_one_in(2) {
                    keys.push(format!("allowed_domains: [{}]", hosts(rng, 3)));
                }
                let (allowed, blocked) = (hosts(rng, 3), hosts(rng, 2));
                let private = rng.is_one_in(2);
                self.safety = format!(
                    "outbound_gateway: {{allowed_domains: [{allowed}], blocked_domains: [{blocked}], allow_private_addresses: {private}}}\n"
                );
            }
        }
        self.tools = format!("  {}: {{{}}}\n", self.tool, keys.join(", "));
    }

    /// Returns the calls in question, in a small universe.
    pub(super) fn universe(&self) -> Box<dyn Iterator<Item = Value> + '_> {
        match &self.effect {
            RandomEffect::Paths(folder) => {
                let prefix = format!("{}/", folder.trim_end_matches('/'));
                let is_inside = move |path: &String| path == folder || path.starts_with(&prefix);
                Box::new(paths().into_iter().filter(is_inside).map(|path| match self.tool {
                    "copy_file" => json!({"to": path}),
                    _ => json!({"path": path}),
                }))
            }
            RandomEffect::Command(words) => {
                let one = || WORDS.iter().map(|word| vec![(*word).to_owned()]);
                let longer = |list: Vec<Vec<String>>| -> Vec<Vec<String>> {
                    let grown =
                        list.iter().flat_map(|start| one().map(move |word| [start.clone(), word].concat()));
                    grown.collect()
                };
                let (first, second) = (one().collect::<Vec<_>>(), longer(one().collect()));
                let third = longer(second.clone());
                let all = [first, second, third].concat();
                let commands = all.into_iter().filter(|command| command.starts_with(words));
                Box::new(commands.map(|command| json!({"argv": command})))
            }
            RandomEffect::Host(pattern) => {
                let is_asked = move |host: &&&str| match pattern.strip_prefix("*.") {
                    Some(name) => host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')),
                    None => pattern == "*" || pattern == **host,
                };
                Box::new(HOSTS.iter().filter(is_asked).map(|host| json!({"url": format!("https://{host}/")})))
            }
        }
    }
}

fn write_path_keys(rng: &mut Rng, keys: &mut Vec<String>) {
    if rng.is_one_in(2) {
        keys.push("allow_every_path: true".to_owned());
        keys.push(format!("allowed_paths: [{}]", rng.texts(3, path_pattern).join(", ")));
    }
    keys.push(format!("forbidden_paths: [{}]", rng.texts(4, path_pattern).join(", ")));
    if rng.is_one_in(3) {
        keys.push("requires_approval: true".to_owned());
    }
    keys.push(format!("unattended_paths: [{}]", rng.texts(2, path_pattern).join(", ")));
}

fn path_pattern(rng: &mut Rng) -> String {
    let start = rng.pick(&["/w", "/w", "/w", "/*", "**", "/v"]);
    let mut text = start.to_owned();
    for _ in 0..1 + rng.below(2) {
        text.push('/');
        text.push_str(rng.pick(&COMPONENTS));
    }
    if rng.is_one_in(3) {
        text.push_str("/**");
    }
    format!("{text:?}")
}

fn command_entry(rng: &mut Rng) -> String {
    if rng.is_one_in(6) {
        return "\"*\"".to_owned();
    }
    let words: Vec<String> =
        (0..1 + rng.below(3)).map(|_| rng.pick(&["a", "b", "[a, b]", "c"]).to_owned()).collect();
    format!("{{argv: [{}], exact: {}}}", words.join(", "), rng.is_one_in(3))
}

fn host_entry(rng: &mut Rng) -> String {
    format!(
        "{:?}",
        rng.pick(&["a.org", "*.a.org", "*", "x.a.org", "*.x.a.org", "c.org", "10.0.0.1", "*.lan"])
    )
}

/// Returns `/`, `/w`, `/v` and everything below them, two levels deep.
fn paths() -> Vec<String> {
    let mut all = vec!["/".to_owned()];
    for root in ["/w", "/v"] {
        all.push(root.to_owned());
        for first in NAMES {
            all.push(format!("{root}/{first}"));
            all.extend(NAMES.iter().map(|second| format!("{root}/{first}/{second}")));
        }
    }
    all
}
