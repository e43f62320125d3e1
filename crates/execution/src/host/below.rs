//! What lies below a folder that a host's tool looks through. The host shows all of it by itself, so one forbidden name
//! among it refuses the call. Links are not followed, here or by such tools; what is made later is not seen.

use governance::{Permit, Verdict};
use resources::{EntryKind, Found, Next, ObjectKind, OpenedPath};
use serde_json::Value;
use tool::{Refusal, RefusalCode, RuleRef, visible_line};

use crate::call::Call;
use crate::host::{HostArgument, JudgedTool};
use crate::pipeline::Deciding;

/// Names that are looked at below one folder. Past them nobody can say that none is forbidden.
const MOST_SEEN: usize = 100_000;

/// A tool that shows what is below the folders it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Below {
    /// The argument with a glob that says which names it shows.
    pub narrowed_by: Option<String>,
}

/// Which names a tool shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shows {
    All,
    /// Those with one of these endings, in lower case.
    Ending(Vec<String>),
}

/// What is in the way.
enum InTheWay {
    Forbidden(Option<RuleRef>),
    TooMuch,
}

impl JudgedTool {
    /// Which names below its folders a call shows, where the tool shows any; from the arguments as the host gave them.
    pub(super) fn shows(&self, input: &Value) -> Option<Shows> {
        let below = self.below.as_ref()?;
        let glob = below.narrowed_by.as_ref().and_then(|key| input.get(key)).and_then(Value::as_str);
        Some(glob.map_or(Shows::All, Shows::of))
    }

    /// The arguments with the folders it looks through: those of its globs, which start where its paths say.
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
    /// Certain of a glob that ends in `*.EXT` or `*.{EXT,EXT}` behind plain folders and stars. A host may cut or combine
    /// any other in ways of its own, and is taken to show everything.
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

    /// Whether something of this name can be among it. What is in a folder has names of its own.
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

/// Refuses a call that would show something forbidden; gives back every other verdict. A large tree or a dead mount takes
/// its time, so it is looked through on a thread that can be left behind.
pub(super) async fn refuse(
    deciding: Deciding<'_>,
    call: &Call,
    tool: &JudgedTool,
    (verdict, shows): (Verdict, Option<Shows>),
) -> Result<Verdict, Box<Refusal>> {
    let Some(shows) = shows.filter(|_| !matches!(verdict, Verdict::Denial(_))) else { return Ok(verdict) };
    let folders = tool.folders();
    let looking = async {
        let place = deciding.openings.take(call.caller.connection).await;
        let looked = tokio::task::spawn_blocking(move || {
            let found = match &verdict {
                Verdict::Permit(permit) => first_in_the_way(permit, &folders, &shows),
                Verdict::Question(question) => first_in_the_way(question.proposed(), &folders, &shows),
                Verdict::Denial(_) => None,
            };
            drop(place);
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
        Some(key) => format!("name a folder without it, or narrow `{key}` to an ending such as `*.rs`"),
        None => "name a folder without it".to_owned(),
    };
    let hint =
        format!("{narrower}; Sinew's own `search_files` and `list_directory` leave it out by themselves");
    Box::new(match in_the_way {
        InTheWay::Forbidden(rule) => {
            let reason = format!(
                "Permission denied: Path {folder} holds something that is forbidden, and this would show it"
            );
            let refusal = Refusal::new(name, RefusalCode::PathForbidden, reason).detail("forbidden_below");
            Refusal { rule, ..refusal.hint(hint) }
        }
        InTheWay::TooMuch => {
            let reason = format!(
                "Permission denied: Path {folder} holds too much to say that nothing forbidden is in it (more than \
                 {MOST_SEEN} names, or folders that cannot be looked through)"
            );
            Refusal::new(name, RefusalCode::TooLarge, reason).detail("too_much_below").hint(hint)
        }
    })
}

fn failed(call: &Call) -> Box<Refusal> {
    let reason = "Sinew failed while looking through a folder";
    let refusal = Refusal::new(&call.tool_name, RefusalCode::ResourceExhausted, reason);
    Box::new(refusal.detail("internal_fault").hint("nothing was run; the log has the place"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_certain_ending_narrows() {
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
