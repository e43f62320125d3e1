//! Check of the directory contents that a host's tool would list. The host lists them by itself, so a single
//! forbidden path among them refuses the call. Symlinks are not followed, neither here nor by such tools.
//! Files created after the check are not covered.

use file_access::{EntryKind, ObjectKind, OpenedPath, TreeEntry, VisitAction};
use governance::{Permit, Verdict};
use serde_json::Value;
use tool::text::escape_invisible_line;
use tool::{Refusal, RefusalCode, RuleRef};

use crate::call::PipelineCall;
use crate::host::{HostArgument, JudgedTool};
use crate::slots::{CallLength, FairSlots};

/// Maximum number of names checked below one folder. A call that would list more is refused.
const MAX_SCANNED_NAMES: usize = 100_000;

/// Property of a tool that lists what is below the folders it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecursiveListing {
    /// Key of the argument with a glob that filters the listed names.
    pub filter_argument: Option<String>,
}

/// Names that a call lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListedNames {
    All,
    /// Names with one of these suffixes, in lower case.
    WithSuffix(Vec<String>),
}

/// Reason why a folder must not be listed.
enum ListingObstacle {
    Forbidden(Option<RuleRef>),
    TooLarge,
}

impl JudgedTool {
    /// Returns the names that a call lists below its folders, from the original arguments of the host. `None`
    /// if the tool lists nothing.
    pub(super) fn listed_names(&self, input: &Value) -> Option<ListedNames> {
        let below = self.listing.as_ref()?;
        let glob = below.filter_argument.as_ref().and_then(|key| input.get(key)).and_then(Value::as_str);
        Some(glob.map_or(ListedNames::All, ListedNames::from_glob))
    }

    /// Keys of the arguments with the folders that the tool searches: its globs if it has any, which start in
    /// its paths, else its paths.
    fn searched_arguments(&self) -> Vec<String> {
        let pattern = |argument: &HostArgument| match argument {
            HostArgument::Pattern { key, .. } => Some(key.clone()),
            HostArgument::Path { .. } | HostArgument::Patch { .. } => None,
        };
        let path = |argument: &HostArgument| match argument {
            HostArgument::Path { key, .. } => Some(key.clone()),
            HostArgument::Pattern { .. } | HostArgument::Patch { .. } => None,
        };
        let patterns: Vec<String> = self.arguments.iter().filter_map(pattern).collect();
        if patterns.is_empty() { self.arguments.iter().filter_map(path).collect() } else { patterns }
    }
}

impl ListedNames {
    /// Parses a filter glob. Only `*.EXT` and `*.{EXT,EXT}` after plain folders and stars narrow the listing.
    /// A host may interpret any other glob in its own way, so it counts as listing everything.
    fn from_glob(glob: &str) -> ListedNames {
        let (folders, last) = glob.rsplit_once('/').unwrap_or(("", glob));
        let word = |text: &str, more: &str| {
            text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c) || more.contains(c))
        };
        let Some(ending) = last.strip_prefix("*.").filter(|_| word(folders, "*/")) else {
            return ListedNames::All;
        };
        let choices = match ending.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(choices) => choices.split(',').collect(),
            None => vec![ending],
        };
        if choices.iter().any(|choice| choice.is_empty() || !word(choice, "")) {
            return ListedNames::All;
        }
        ListedNames::WithSuffix(
            choices.iter().map(|choice| format!(".{}", choice.to_ascii_lowercase())).collect(),
        )
    }

    /// Returns true if the listing can include this entry. A directory is always included, because a suffix
    /// filters only the names inside it.
    fn includes(&self, found: &TreeEntry<'_>) -> bool {
        match self {
            ListedNames::All => true,
            ListedNames::WithSuffix(_) if found.entry.kind == EntryKind::Directory => true,
            ListedNames::WithSuffix(endings) => {
                let name = found.entry.name.to_string_lossy().to_ascii_lowercase();
                endings.iter().any(|ending| name.ends_with(ending.as_str()))
            }
        }
    }
}

/// Refuses a call that would list a forbidden path; returns any other verdict unchanged.
pub(super) async fn refuse_forbidden_contents(
    opening_slots: &FairSlots,
    call: &PipelineCall,
    tool: &JudgedTool,
    (verdict, shows): (Verdict, Option<ListedNames>),
) -> Result<Verdict, Box<Refusal>> {
    let Some(shows) = shows.filter(|_| !matches!(verdict, Verdict::Denial(_))) else { return Ok(verdict) };
    let folders = tool.searched_arguments();
    let scan = move |verdict: &Verdict| match verdict {
        Verdict::Permit(permit) => first_obstacle(permit, &folders, &shows),
        Verdict::ApprovalRequired(question) => first_obstacle(question.permit(), &folders, &shows),
        Verdict::Denial(_) => None,
    };
    match scan_folders(opening_slots, call, verdict, scan).await? {
        (verdict, None) => Ok(verdict),
        (_, Some((folder, in_the_way))) => Err(refusal(tool, &folder, in_the_way)),
    }
}

/// Returns `Some` if everything below the permitted paths may be listed.
pub(super) async fn permit_listing(
    opening_slots: &FairSlots,
    call: &PipelineCall,
    permit: Permit,
) -> Option<Permit> {
    let scan = |permit: &Permit| {
        let folders: Vec<String> = permit.paths().iter().map(|path| path.key().to_owned()).collect();
        first_obstacle(permit, &folders, &ListedNames::All)
    };
    let (permit, obstacle) = scan_folders(opening_slots, call, permit, scan).await.ok()?;
    obstacle.is_none().then_some(permit)
}

/// Runs a scan on the blocking pool: a large tree or a dead mount takes time, and there a stuck thread can be
/// abandoned.
async fn scan_folders<T: Send + 'static>(
    opening_slots: &FairSlots,
    call: &PipelineCall,
    judged: T,
    scan: impl FnOnce(&T) -> Option<(String, ListingObstacle)> + Send + 'static,
) -> Result<(T, Option<(String, ListingObstacle)>), Box<Refusal>> {
    let scanned = async {
        let slot = opening_slots.acquire(&call.caller_key, CallLength::Short).await;
        let scan_task = tokio::task::spawn_blocking(move || {
            let found = scan(&judged);
            drop(slot);
            (judged, found)
        });
        scan_task.await.map_err(|_| scan_failed(call))
    };
    call.within_deadline(scanned).await?
}

fn first_obstacle(
    permit: &Permit,
    folders: &[String],
    shows: &ListedNames,
) -> Option<(String, ListingObstacle)> {
    let is_scanned = |path: &&OpenedPath| {
        path.kind() == ObjectKind::Directory && folders.iter().any(|key| key == path.key())
    };
    let mut scanned_folders = permit.paths().iter().filter(is_scanned);
    scanned_folders.find_map(|path| {
        Some((
            escape_invisible_line(&path.as_typed().to_string_lossy()),
            obstacle_below(permit, path, shows)?,
        ))
    })
}

fn obstacle_below(permit: &Permit, folder: &OpenedPath, shows: &ListedNames) -> Option<ListingObstacle> {
    let (mut seen, mut found) = (0, None);
    let visited = folder.visit(&mut |entry| {
        seen += 1;
        if seen > MAX_SCANNED_NAMES {
            found = Some(ListingObstacle::TooLarge);
            return VisitAction::Stop;
        }
        let path = folder.canonical().join(entry.relative);
        if shows.includes(entry) && !permit.is_visible(&path) {
            found = Some(ListingObstacle::Forbidden(permit.hidden_by(&path)));
            return VisitAction::Stop;
        }
        VisitAction::Enter
    });
    match visited {
        Ok(unseen) if unseen.truncated => found.or(Some(ListingObstacle::TooLarge)),
        Ok(_) => found,
        Err(_) => Some(ListingObstacle::TooLarge),
    }
}

fn refusal(tool: &JudgedTool, folder: &str, in_the_way: ListingObstacle) -> Box<Refusal> {
    let name = tool.definition().name().as_str();
    let narrower = match tool.listing.as_ref().and_then(|below| below.filter_argument.as_ref()) {
        Some(key) => format!(
            "use a folder that contains no forbidden path, or narrow `{key}` to a suffix such as `*.rs`"
        ),
        None => "name a folder without it".to_owned(),
    };
    let hint = format!("{narrower}; Sinew's own `search_files` and `list_directory` skip forbidden paths");
    Box::new(match in_the_way {
        ListingObstacle::Forbidden(rule) => {
            let reason = format!(
                "Permission denied: Path {folder} contains a forbidden path, which this call would list"
            );
            let refusal =
                Refusal::new(name, RefusalCode::PathForbidden, reason).with_detail("forbidden_below");
            Refusal { rule, ..refusal.with_hint(hint) }
        }
        ListingObstacle::TooLarge => {
            let reason = format!(
                "Permission denied: Path {folder} is too large to check for forbidden paths (more than \
                 {MAX_SCANNED_NAMES} names, or folders that cannot be read)"
            );
            Refusal::new(name, RefusalCode::TooLarge, reason).with_detail("too_much_below").with_hint(hint)
        }
    })
}

fn scan_failed(call: &PipelineCall) -> Box<Refusal> {
    let reason = "Sinew failed while scanning a folder";
    let refusal = Refusal::new(&call.tool_name, RefusalCode::ResourceExhausted, reason);
    Box::new(
        refusal.with_detail("internal_fault").with_hint("nothing was run; see the daemon log for details"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unambiguous_suffix_narrows() {
        let check = |glob: &str, expect: &[&str]| {
            let expect = match expect {
                [] => ListedNames::All,
                endings => {
                    ListedNames::WithSuffix(endings.iter().map(|ending| (*ending).to_owned()).collect())
                }
            };
            assert_eq!(ListedNames::from_glob(glob), expect, "{glob}");
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
