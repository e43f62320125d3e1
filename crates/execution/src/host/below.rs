//! Check of the directory contents that a host's tool would list. The host lists them by itself, so a single
//! forbidden path among them refuses the call. Symlinks are not followed, neither here nor by such tools.
//! Files created after the check are not covered.

use file_access::{EntryKind, Found, Next, ObjectKind, OpenedPath};
use governance::{Permit, Verdict};
use serde_json::Value;
use tool::{Refusal, RefusalCode, RuleRef, visible_line};

use crate::call::Call;
use crate::host::{HostArgument, JudgedTool};
use crate::pipeline::Deciding;

/// Maximum number of names checked below one folder. A call that would list more is refused.
const MOST_SEEN: usize = 100_000;

/// Property of a tool that lists what is below the folders it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Below {
    /// Key of the argument with a glob that filters the listed names.
    pub narrowed_by: Option<String>,
}

/// Names that a call lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shows {
    All,
    /// Names with one of these suffixes, in lower case.
    Ending(Vec<String>),
}

/// Reason why a folder must not be listed.
enum InTheWay {
    Forbidden(Option<RuleRef>),
    TooMuch,
}

impl JudgedTool {
    /// Returns the names that a call lists below its folders, from the original arguments of the host. `None`
    /// if the tool lists nothing.
    pub(super) fn shows(&self, input: &Value) -> Option<Shows> {
        let below = self.below.as_ref()?;
        let glob = below.narrowed_by.as_ref().and_then(|key| input.get(key)).and_then(Value::as_str);
        Some(glob.map_or(Shows::All, Shows::of))
    }

    /// Keys of the arguments with the folders that the tool searches: its globs if it has any, which start in
    /// its paths, else its paths.
    fn folders(&self) -> Vec<String> {
        let pattern = |argument: &HostArgument| match argument {
            HostArgument::Pattern { key, .. } => Some(key.clone()),
            HostArgument::Path { .. } => None,
        };
        let path = |argument: &HostArgument| match argument {
            HostArgument::Path { key, .. } => Some(key.clone()),
            HostArgument::Pattern { .. } => None,
        };
        let patterns: Vec<String> = self.arguments.iter().filter_map(pattern).collect();
        if patterns.is_empty() { self.arguments.iter().filter_map(path).collect() } else { patterns }
    }
}

impl Shows {
    /// Parses a filter glob. Only `*.EXT` and `*.{EXT,EXT}` after plain folders and stars narrow the listing.
    /// A host may interpret any other glob in its own way, so it counts as listing everything.
    fn of(glob: &str) -> Shows {
        let (folders, last) = glob.rsplit_once('/').unwrap_or(("", glob));
        let word = |text: &str, more: &str| {
            text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c) || more.contains(c))
        };
        let Some(ending) = last.strip_prefix("*.").filter(|_| word(folders, "*/")) else { return Shows::All };
        let choices = match ending.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(choices) => choices.split(',').collect(),
            None => vec![ending],
        };
        if choices.iter().any(|choice| choice.is_empty() || !word(choice, "")) {
            return Shows::All;
        }
        Shows::Ending(choices.iter().map(|choice| format!(".{}", choice.to_ascii_lowercase())).collect())
    }

    /// Returns true if the listing can include this entry. A directory is always included, because a suffix
    /// filters only the names inside it.
    fn includes(&self, found: &Found<'_>) -> bool {
        match self {
            Shows::All => true,
            Shows::Ending(_) if found.entry.kind == EntryKind::Directory => true,
            Shows::Ending(endings) => {
                let name = found.entry.name.to_string_lossy().to_ascii_lowercase();
                endings.iter().any(|ending| name.ends_with(ending.as_str()))
            }
        }
    }
}

/// Refuses a call that would list a forbidden path; returns any other verdict unchanged. A large tree or a
/// dead mount takes time, so the scan runs on the blocking pool, where a stuck thread can be abandoned.
pub(super) async fn refuse(
    context: Deciding<'_>,
    call: &Call,
    tool: &JudgedTool,
    (verdict, shows): (Verdict, Option<Shows>),
) -> Result<Verdict, Box<Refusal>> {
    let Some(shows) = shows.filter(|_| !matches!(verdict, Verdict::Denial(_))) else { return Ok(verdict) };
    let folders = tool.folders();
    let looking = async {
        let slot = context.openings.take(call.caller.connection).await;
        let looked = tokio::task::spawn_blocking(move || {
            let found = match &verdict {
                Verdict::Permit(permit) => first_in_the_way(permit, &folders, &shows),
                Verdict::Question(question) => first_in_the_way(question.proposed(), &folders, &shows),
                Verdict::Denial(_) => None,
            };
            drop(slot);
            (verdict, found)
        });
        looked.await.map_err(|_| failed(call))
    };
    let (verdict, found) = call.in_time(looking).await??;
    match found {
        None => Ok(verdict),
        Some((folder, in_the_way)) => Err(refusal(tool, &folder, in_the_way)),
    }
}

fn first_in_the_way(permit: &Permit, folders: &[String], shows: &Shows) -> Option<(String, InTheWay)> {
    let looked_through = |path: &&OpenedPath| {
        path.kind() == ObjectKind::Directory && folders.iter().any(|key| key == path.key())
    };
    let mut looked = permit.paths().iter().filter(looked_through);
    looked.find_map(|path| {
        Some((visible_line(&path.typed().to_string_lossy()), in_the_way(permit, path, shows)?))
    })
}

fn in_the_way(permit: &Permit, folder: &OpenedPath, shows: &Shows) -> Option<InTheWay> {
    let (mut seen, mut found) = (0, None);
    let visited = folder.visit(&mut |entry| {
        seen += 1;
        if seen > MOST_SEEN {
            found = Some(InTheWay::TooMuch);
            return Next::Stop;
        }
        let path = folder.canonical().join(entry.relative);
        if shows.includes(entry) && !permit.shows(&path) {
            found = Some(InTheWay::Forbidden(permit.hidden_by(&path)));
            return Next::Stop;
        }
        Next::Enter
    });
    match visited {
        Ok(unseen) if unseen.cut => found.or(Some(InTheWay::TooMuch)),
        Ok(_) => found,
        Err(_) => Some(InTheWay::TooMuch),
    }
}

fn refusal(tool: &JudgedTool, folder: &str, in_the_way: InTheWay) -> Box<Refusal> {
    let name = tool.definition().name().as_str();
    let narrower = match tool.below.as_ref().and_then(|below| below.narrowed_by.as_ref()) {
        Some(key) => format!("name a folder without it, or narrow `{key}` to a suffix such as `*.rs`"),
        None => "name a folder without it".to_owned(),
    };
    let hint = format!("{narrower}; Sinew's own `search_files` and `list_directory` skip forbidden paths");
    Box::new(match in_the_way {
        InTheWay::Forbidden(rule) => {
            let reason = format!(
                "Permission denied: Path {folder} contains a forbidden path, which this call would list"
            );
            let refusal = Refusal::new(name, RefusalCode::PathForbidden, reason).detail("forbidden_below");
            Refusal { rule, ..refusal.hint(hint) }
        }
        InTheWay::TooMuch => {
            let reason = format!(
                "Permission denied: Path {folder} is too large to check for forbidden paths (more than \
                 {MOST_SEEN} names, or folders that cannot be read)"
            );
            Refusal::new(name, RefusalCode::TooLarge, reason).detail("too_much_below").hint(hint)
        }
    })
}

fn failed(call: &Call) -> Box<Refusal> {
    let reason = "Sinew failed while scanning a folder";
    let refusal = Refusal::new(&call.tool_name, RefusalCode::ResourceExhausted, reason);
    Box::new(refusal.detail("internal_fault").hint("nothing was run; see the daemon log for details"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unambiguous_suffix_narrows() {
        let check = |glob: &str, expect: &[&str]| {
            let expect = match expect {
                [] => Shows::All,
                endings => Shows::Ending(endings.iter().map(|ending| (*ending).to_owned()).collect()),
            };
            assert_eq!(Shows::of(glob), expect, "{glob}");
        };
        check("*.rs", &[".rs"]);
        check("**/*.RS", &[".rs"]);
        check("src/**/*.{ts,tsx}", &[".ts", ".tsx"]);
        check("/ws/*.test.ts", &[".test.ts"]);
        for everything in [
            "",
            "*",
            "**",
            "**/*",
            "*.*",
            "*rs",
            ".env",
            "*.{rs,}",
            "*.{rs",
            "*.rs,.env",
            "*.rs .env",
            "!*.rs",
            "!a/*.rs",
            "{.env,a/*.rs}",
            "{a,.env}/*.rs",
            ".env,a/*.rs",
            "@(a|b)/*.rs",
            "a\\/*.rs",
            "*.[re]s",
            "*.r?",
            "*.{r*,b}",
            "*.",
        ] {
            check(everything, &[]);
        }
    }
}
