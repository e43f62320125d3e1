//! A standing rule: what a human need not be asked about again for a while. It says exactly what was displayed when it
//! was made, and every input of the decision is a part of it: a call that differs in any of them is asked about.

use std::collections::BTreeMap;

use globset::GlobBuilder;
use serde::{Deserialize, Serialize};
use tool::{Caller, Mode};

use super::effect::quoted;

/// Programs that run what their arguments say: a rule for the beginning of such a command would be one for anything.
const WRAPPERS: [&str; 72] = [
    "ash",
    "awk",
    "bash",
    "bun",
    "busybox",
    "bwrap",
    "chroot",
    "chrt",
    "csh",
    "dash",
    "deno",
    "doas",
    "docker",
    "ed",
    "env",
    "expect",
    "find",
    "fish",
    "flock",
    "gawk",
    "gdb",
    "ionice",
    "ksh",
    "lua",
    "make",
    "mawk",
    "mksh",
    "nawk",
    "nice",
    "node",
    "nodejs",
    "nohup",
    "npx",
    "nsenter",
    "osascript",
    "parallel",
    "perl",
    "php",
    "pipx",
    "podman",
    "pwsh",
    "pypy",
    "python",
    "python3",
    "rsync",
    "ruby",
    "runuser",
    "script",
    "sed",
    "setpriv",
    "setsid",
    "sh",
    "ssh",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "tar",
    "taskset",
    "tclsh",
    "tcsh",
    "time",
    "timeout",
    "unshare",
    "uv",
    "uvx",
    "vi",
    "vim",
    "watch",
    "xargs",
    "zsh",
];

/// The label of a file that a command's words name.
const READS: &str = "reads";

/// Calls that are covered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rule {
    tool: String,
    definition: String,
    uid: u32,
    client: Option<String>,
    session: Option<String>,
    /// One connection in the life of one daemon; otherwise any of the same client.
    connection: Option<(String, u64)>,
    mode: Mode,
    asked_by: Vec<String>,
    bounds: String,
    /// What the tool foretold besides: the program behind a name, where it runs, what a script holds.
    facts: Vec<(String, String)>,
    subject: Subject,
}

/// What the calls are about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Subject {
    /// These paths, programs and hosts, with any other arguments.
    Reaching {
        /// By argument.
        paths: BTreeMap<String, Place>,
        command: Option<Words>,
        hosts: Vec<String>,
    },
    /// Exactly these arguments: nothing else says what the call reaches.
    Arguments { digest: String },
}

/// Where a path may lead, by its canonical name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Place {
    Exactly(String),
    Within(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Words {
    words: Vec<String>,
    /// Whether more words may follow.
    open: bool,
}

/// A call as a standing rule sees it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) tool: &'a str,
    pub(crate) definition: &'a str,
    pub(crate) caller: &'a Caller,
    /// This daemon's life.
    pub(crate) life: &'a str,
    pub(crate) mode: Mode,
    pub(crate) rules: &'a [String],
    /// Where it runs, for how long, and with which network.
    pub(crate) bounds: &'a str,
    /// What the tool foretold.
    pub(crate) facts: &'a [(String, String)],
    /// Canonical names by argument.
    pub(crate) paths: Vec<(String, String)>,
    pub(crate) commands: Vec<Vec<String>>,
    pub(crate) hosts: Vec<String>,
    pub(crate) arguments: &'a str,
}

impl Rule {
    /// The rule for calls like this one, from any connection of the same client.
    pub(crate) fn like(wanted: &Wanted<'_>) -> Result<Rule, String> {
        let mut paths: BTreeMap<String, Place> = BTreeMap::new();
        for (key, path) in &wanted.paths {
            if paths.insert(key.clone(), Place::Exactly(path.clone())).is_some() {
                return Err(format!("`{key}` names several paths: this call can only be approved once"));
            }
        }
        let command = match wanted.commands.as_slice() {
            [] => None,
            [words] => Some(Words { words: words.clone(), open: false }),
            _ => return Err("it names several commands: this call can only be approved once".to_owned()),
        };
        let nothing_named = paths.is_empty() && command.is_none() && wanted.hosts.is_empty();
        let subject = match nothing_named {
            true => Subject::Arguments { digest: wanted.arguments.to_owned() },
            false => Subject::Reaching { paths, command, hosts: wanted.hosts.clone() },
        };
        Ok(Rule {
            tool: wanted.tool.to_owned(),
            definition: wanted.definition.to_owned(),
            uid: wanted.caller.uid,
            client: wanted.caller.client.clone(),
            session: wanted.caller.session.clone(),
            connection: None,
            mode: wanted.mode,
            asked_by: wanted.rules.to_vec(),
            bounds: wanted.bounds.to_owned(),
            facts: wanted.facts.to_vec(),
            subject,
        })
    }

    /// The same for one connection in the life of one daemon.
    pub(crate) fn on(self, life: &str, connection: u64) -> Rule {
        Rule { connection: Some((life.to_owned(), connection)), ..self }
    }

    /// The same for more calls: `argument=pattern`, a glob over canonical paths, or the first words of a command. Each
    /// pattern must cover what it takes the place of.
    pub(crate) fn widened(mut self, patterns: &[String]) -> Result<Rule, String> {
        for pattern in patterns {
            let (key, value) =
                pattern.split_once('=').ok_or_else(|| format!("`{pattern}` is not `argument=pattern`"))?;
            let Subject::Reaching { paths, command, .. } = &mut self.subject else {
                return Err("this call names no path and no command".to_owned());
            };
            match (paths.get_mut(key), command.as_mut()) {
                (Some(place), _) => *place = place.widened(key, value)?,
                (None, Some(command)) if key == "command" => {
                    *command = command.opened(value)?;
                    // What further words name is not known yet.
                    self.facts.retain(|(label, _)| label != READS);
                }
                _ => return Err(format!("`{key}` is neither a path nor the command of this call")),
            }
        }
        Ok(self)
    }

    pub(crate) fn tool(&self) -> &str {
        &self.tool
    }

    /// Whether a call is covered.
    pub(crate) fn covers(&self, wanted: &Wanted<'_>) -> bool {
        let caller = wanted.caller;
        let same_party =
            (self.uid, &self.client, &self.session) == (caller.uid, &caller.client, &caller.session);
        let same_connection = self
            .connection
            .as_ref()
            .is_none_or(|(life, connection)| life == wanted.life && *connection == caller.connection);
        let same_moment = self.mode == wanted.mode
            && self.bounds == wanted.bounds
            && self.foretells(wanted)
            && wanted.rules.iter().all(|rule| self.asked_by.contains(rule));
        let same_tool = self.tool == wanted.tool && self.definition == wanted.definition;
        same_party && same_connection && same_moment && same_tool && self.subject.is_of(wanted)
    }

    /// Whether what the tool foretells is the same: all of it, but for what further words name.
    fn foretells(&self, wanted: &Wanted<'_>) -> bool {
        let is_open = matches!(&self.subject, Subject::Reaching { command: Some(words), .. } if words.open);
        let counts = |(label, _): &&(String, String)| !is_open || label != READS;
        wanted.facts.iter().filter(counts).eq(&self.facts)
    }

    /// The rule in words: all of it, and nothing else.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{} is not asked about again where", self.tool)];
        match &self.subject {
            Subject::Arguments { .. } => lines.push("  all arguments are the same".to_owned()),
            Subject::Reaching { paths, command, hosts } => {
                lines.extend(paths.iter().map(|(key, place)| match place {
                    Place::Exactly(path) => format!("  {key} is {path}"),
                    Place::Within(glob) => format!("  {key} matches {glob}"),
                }));
                if let Some(Words { words, open }) = command {
                    let more = if *open { " and any further words" } else { ", and no further words" };
                    lines.push(format!("  the command is {}{more}", serde_json::json!(words)));
                }
                lines.extend(hosts.iter().map(|host| format!("  the host is {host}")));
                lines.push("  other arguments: any".to_owned());
            }
        }
        let client = quoted(self.client.as_deref());
        let session = self.session.as_deref().map(|id| format!(", session {id}")).unwrap_or_default();
        let connection = if self.connection.is_some() { ", on this connection" } else { "" };
        lines.push(format!("for {client} (uid {}){session}{connection}", self.uid));
        lines.push(format!("in {}, asked by {}", self.mode, self.asked_by.join(", ")));
        lines.extend(self.facts.iter().map(|(label, text)| format!("{label} {text}")));
        lines.push(self.bounds.clone());
        lines
    }
}

impl Subject {
    fn is_of(&self, wanted: &Wanted<'_>) -> bool {
        match self {
            Subject::Arguments { digest } => digest == wanted.arguments,
            Subject::Reaching { paths, command, hosts } => {
                let path_is_covered =
                    |(key, path): &(String, String)| paths.get(key).is_some_and(|place| place.has(path));
                let command_is_covered = match (command, wanted.commands.as_slice()) {
                    (None, []) => true,
                    (Some(command), [words]) => command.begin(words),
                    _ => false,
                };
                wanted.paths.len() == paths.len()
                    && wanted.paths.iter().all(path_is_covered)
                    && command_is_covered
                    && wanted.hosts.iter().all(|host| hosts.contains(host))
            }
        }
    }
}

impl Place {
    fn has(&self, path: &str) -> bool {
        match self {
            Place::Exactly(exact) => exact == path,
            Place::Within(glob) => {
                let built = GlobBuilder::new(glob).literal_separator(true).backslash_escape(true).build();
                built.is_ok_and(|glob| glob.compile_matcher().is_match(path))
            }
        }
    }

    /// A glob that stays in a folder which is named in full.
    fn widened(&self, key: &str, glob: &str) -> Result<Place, String> {
        let literal = glob.split(['*', '?', '[', '{']).next().unwrap_or_default();
        let named = literal.rsplit_once('/').map_or("", |(folder, _)| folder);
        let deep = named.split('/').filter(|part| !part.is_empty()).count() >= 2;
        if !glob.starts_with('/') || !deep || glob.split('/').any(|part| part == "..") {
            return Err(format!(
                "the pattern of `{key}` must name a folder in full, such as /home/me/project/**"
            ));
        }
        let wider = Place::Within(glob.to_owned());
        match self {
            Place::Exactly(path) if wider.has(path) => Ok(wider),
            _ => Err(format!("`{glob}` does not cover the very call it is made for")),
        }
    }
}

impl Words {
    fn begin(&self, words: &[String]) -> bool {
        words.starts_with(&self.words) && (self.open || words.len() == self.words.len())
    }

    /// The first words of a command, if they decide what is run.
    fn opened(&self, value: &str) -> Result<Words, String> {
        let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
        if words == self.words {
            return Ok(self.clone());
        }
        let program = words.first().and_then(|first| first.rsplit('/').next()).unwrap_or_default().to_owned();
        let unversioned = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        if WRAPPERS.contains(&program.as_str()) || WRAPPERS.contains(&unversioned) {
            return Err(format!(
                "`{program}` runs what its arguments say: approve the whole command, or none of it"
            ));
        }
        if words.last().is_some_and(|last| last.starts_with('-')) {
            return Err("the last word is an option: what it is given could be anything".to_owned());
        }
        if words.len() < 2 {
            return Err(
                "name the program and at least one word after it: the program alone is too much".to_owned()
            );
        }
        match self.words.starts_with(&words) {
            true => Ok(Words { words, open: true }),
            false => Err(format!("`{value}` does not begin the very command it is made for")),
        }
    }
}

#[cfg(test)]
mod tests;
