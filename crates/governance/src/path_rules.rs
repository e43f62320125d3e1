//! Path rules of a call: built-in denials, forbidden paths, allowed paths or workspaces, hard links, sizes.

use std::borrow::Cow;
use std::path::Path;
use std::sync::LazyLock;

use file_access::PathRequest;
use tool::{GitEntry, PathAccess, RefusalCode, RuleRef};

use crate::floor::{self, FloorRule};
use crate::glob::Written;
use crate::grounds::{Grounds, place, shown};
use crate::name::{Name, detours, spelt};
use crate::path_list::PathList;
use crate::pattern::Pattern;
use crate::reached::{Found, Reached};
use crate::remedy;
use crate::situation::{Situation, Workspace, WorkspaceAccess, Workspaces};
use crate::standing::Standing;
use crate::tool_rules::MEBIBYTE;
use crate::tools_file::HardLinks;
use crate::trail::Notes;

/// File name in the rule that restricts a caller to its workspaces.
const WORKSPACES: &str = "workspaces";
/// File name in a rule that applies until a policy file overrides it.
const DEFAULT: &str = "built-in default";

/// Longest path text that is judged. Longer than any system can open, so that a path slightly over the
/// system's limit still gets the error of the open stage.
const LONGEST_TEXT: usize = 8 * 1024;
/// Maximum number of `..` parts, because each folder left by `..` is judged.
const MOST_DETOURS: usize = 64;

/// Returns the paths that a call names, each with the folder that relative paths start in.
pub(crate) fn requests(
    standing: &Standing<'_>,
    arguments: &tool::Arguments,
    workspaces: &Workspaces,
) -> Result<Vec<PathRequest>, Grounds> {
    let mut requests = Vec::new();
    for argument in standing.definition.path_arguments() {
        for text in argument.texts(arguments) {
            refuse_endless(text)?;
            let base = match workspaces.shared_base() {
                Some(base) => base,
                None if Path::new(text).is_absolute() => Path::new("/").into(),
                None => return Err(no_base(text)),
            };
            let (key, text) = (argument.key.as_str().into(), text.into());
            requests.push(PathRequest { key, text, access: argument.access, base });
        }
    }
    Ok(requests)
}

/// Refuses texts whose judgement would be too expensive: the cost grows with the length times the number of
/// `..` parts, and other calls would wait.
fn refuse_endless(text: &str) -> Result<(), Grounds> {
    let too_large = |detail: &str, hint: String| {
        let rule = RuleRef { file: DEFAULT.into(), line: 0, id: "paths".into() };
        let reason = format!("Path {} is too long to be judged", shown(text));
        Err(Grounds::new(RefusalCode::TooLarge, detail, &reason, hint, &rule))
    };
    if text.len() > LONGEST_TEXT {
        return too_large("path_too_long", format!("a path may have at most {LONGEST_TEXT} bytes"));
    }
    if detours(Path::new(text)) > MOST_DETOURS {
        return too_large("too_many_detours", "write the path without `..`".to_owned());
    }
    Ok(())
}

/// Refuses a path that is forbidden as typed, before anything is opened.
pub(crate) fn admit_typed(
    standing: &Standing<'_>,
    workspaces: &Workspaces,
    request: &PathRequest,
    notes: &mut Notes<'_>,
) -> Result<(), Grounds> {
    let name = Name::lexical(request);
    refuse_forbidden(standing, &name, request, notes)?;
    // `..` succeeds only if the folder it leaves exists. Following it through a folder that the caller may
    // not read would reveal whether that folder exists.
    let left = Name::left_behind(request);
    if left.is_empty() {
        return Ok(());
    }
    let look = PathRequest { access: PathAccess::Read, ..request.clone() };
    left.iter().try_for_each(|folder| {
        refuse_forbidden(standing, folder, &look, notes)?;
        let (rule, states) = admit_place(standing, workspaces, folder, &look, notes)?;
        notes.holds(&rule, || states.to_string(), || folder.to_string());
        Ok(())
    })
}

/// Repeats the lexical check of `admit_typed` in the judge stage.
pub(crate) fn refuse_typed(
    standing: &Standing<'_>,
    request: &PathRequest,
    notes: &mut Notes<'_>,
) -> Result<(), Grounds> {
    refuse_forbidden(standing, &Name::lexical(request), request, notes)
}

/// Judges the path that was reached, and records the rule that allows it.
pub(crate) fn admit_reached(
    standing: &Standing<'_>,
    situation: &Situation<'_>,
    reached: &Reached,
    request: &PathRequest,
    notes: &mut Notes<'_>,
) -> Result<(), Grounds> {
    let Some(name) = &reached.name else { return Err(no_name(request)) };
    if *name != Name::lexical(request) {
        refuse_forbidden(standing, name, request, notes)?;
    }
    let (rule, states) = admit_place(standing, situation.workspaces, name, request, notes)?;
    refuse_root(situation.workspaces, name, request)?;
    notes.passes(rule, || states.to_string(), || name.to_string());
    refuse_git_entry(reached, request)?;
    admit_folders(standing, situation, reached, request, notes)?;
    refuse_second_name(standing, reached, request, notes)?;
    refuse_large_file(standing, reached, request, notes)
}

/// Denies a change that belongs to a git directory or would make one, whatever the directory is called. Judged after the
/// place: outside of what the caller may change, the answer would tell which entries are there.
fn refuse_git_entry(reached: &Reached, request: &PathRequest) -> Result<(), Grounds> {
    let why = match reached.git_entry.filter(|_| request.access.changes()) {
        None => return Ok(()),
        Some(GitEntry::Existing) => "its directory is a git repository, and git acts on this entry",
        Some(GitEntry::Completing) => "with this entry its directory would be a git repository",
    };
    let hint = format!("no policy can allow this: {why}; use another name, or another directory");
    let rule = floor::rule("git");
    Err(Grounds::new(RefusalCode::PathForbidden, "git_directory", &forbidden(request), hint, &rule))
}

/// Judges the folders that a write would create like the path that the call names.
fn admit_folders(
    standing: &Standing<'_>,
    situation: &Situation<'_>,
    reached: &Reached,
    request: &PathRequest,
    notes: &mut Notes<'_>,
) -> Result<(), Grounds> {
    for folder in &reached.missing_folders {
        let Some(name) = folder else { return Err(no_name(request)) };
        refuse_forbidden(standing, name, request, notes)?;
        let (rule, states) = admit_place(standing, situation.workspaces, name, request, notes)?;
        notes.holds(&rule, || states.to_string(), || name.to_string());
    }
    Ok(())
}

fn refuse_forbidden(
    standing: &Standing<'_>,
    name: &Name,
    request: &PathRequest,
    notes: &mut Notes<'_>,
) -> Result<(), Grounds> {
    let floor = &standing.policy.floor;
    let protected = floor.protects(name, request.access);
    notes.asks(|| name.to_string());
    if notes.are_read() {
        let before = floor.before(request.access, protected.as_ref().map(|floor| &floor.rule));
        notes.skips(before.iter().map(|(rule, why)| (rule, why.clone())));
    }
    if let Some(FloorRule { code, rule, why }) = protected {
        let hint = format!("no policy can allow this: {why}");
        return Err(Grounds::new(code, "floor", &forbidden(request), hint, &rule));
    }
    let forbidden_paths = standing.forbidden_paths();
    let found = forbidden_paths.find(name);
    notes.skips(forbidden_paths.before(found));
    match found {
        None => Ok(()),
        Some(Written { rule, text, .. }) => {
            notes.offers(|| text.clone());
            let hint = format!(
                "{} forbids it and overrides every rule that allows it; use another path",
                place(rule)
            );
            Err(Grounds::new(RefusalCode::PathForbidden, "forbidden_path", &forbidden(request), hint, rule))
        }
    }
}

fn forbidden(request: &PathRequest) -> String {
    format!("Path {} is forbidden", shown(&request.text))
}

/// Returns the rule that allows this location, and the text of that rule.
fn admit_place<'s>(
    standing: &'s Standing<'_>,
    workspaces: &'s Workspaces,
    name: &Name,
    request: &PathRequest,
    notes: &mut Notes<'_>,
) -> Result<(RuleRef, Cow<'s, str>), Grounds> {
    notes.asks(|| name.to_string());
    notes.offers(|| remedy::quoted(&Pattern::literal(name.as_path())));
    let Some(list) = standing.rules.and_then(|rules| rules.allowed_paths.as_ref()) else {
        return admit_workspace(workspaces, name, request);
    };
    let found = list.globs.find(name);
    notes.skips(list.globs.before(found));
    match found {
        Some(Written { rule, text, .. }) => Ok((rule.clone(), Cow::Borrowed(text))),
        None => Err(not_listed(list, name, request)),
    }
}

fn not_listed(list: &PathList, name: &Name, request: &PathRequest) -> Grounds {
    let bare = list.bare.iter().find(|folder| name.as_path().starts_with(folder));
    let hint = match bare {
        Some(folder) => {
            let folder = folder.display();
            format!(
                "{} lists {folder} without its contents; `{folder}/**` would include them",
                place(&list.rule)
            )
        }
        None => format!(
            "{} lists the paths that this tool may access; add a pattern there, or use another path",
            place(&list.rule)
        ),
    };
    not_allowed(request, "not_listed", &list.rule, hint)
}

fn admit_workspace<'s>(
    workspaces: &'s Workspaces,
    name: &Name,
    request: &PathRequest,
) -> Result<(RuleRef, Cow<'s, str>), Grounds> {
    let here = workspaces.iter().filter(|workspace| name.is_in(workspace.root()));
    let rule = workspace_rule();
    // `reduce` does not call `deeper_workspace` for a single workspace, which is the usual case.
    if let Some(workspace) = here.reduce(deeper) {
        let root = spelt(workspace.root());
        return match (request.access, workspace.access()) {
            (PathAccess::Read, _) | (PathAccess::Write | PathAccess::Remove, WorkspaceAccess::ReadWrite) => {
                Ok((rule, root))
            }
            (PathAccess::Write | PathAccess::Remove, WorkspaceAccess::ReadOnly) => {
                let hint = format!(
                    "the workspace {root} is read-only; the operator can run `sinew workspace add {root}`"
                );
                Err(not_allowed(request, "read_only_workspace", &rule, hint))
            }
        };
    }
    let roots: Vec<String> =
        workspaces.iter().map(|workspace| workspace.root().display().to_string()).collect();
    let hint = match roots.as_slice() {
        [] => "no workspace is configured; the operator can run `sinew workspace add DIR`".to_owned(),
        roots => format!(
            "use a path inside {}, or ask the operator to run `sinew workspace add DIR`",
            roots.join(" or ")
        ),
    };
    Err(not_allowed(request, "outside_workspaces", &rule, hint))
}

/// Returns the deeper workspace, because a nested workspace overrides the one around it. Of two at the same
/// root the read-only one wins.
fn deeper<'s>(one: &'s Workspace, other: &'s Workspace) -> &'s Workspace {
    let depth = |workspace: &Workspace| {
        let narrow = workspace.access() == WorkspaceAccess::ReadOnly;
        (workspace.root().components().count(), narrow)
    };
    if depth(one) > depth(other) { one } else { other }
}

/// Refuses the removal of a workspace root or of a folder that contains one.
fn refuse_root(workspaces: &Workspaces, name: &Name, request: &PathRequest) -> Result<(), Grounds> {
    let holds_root = || workspaces.iter().any(|workspace| workspace.root().starts_with(name.as_path()));
    if request.access == PathAccess::Remove && holds_root() {
        let hint = "it is a workspace or contains one; name the entries to remove inside it".to_owned();
        return Err(not_allowed(request, "workspace_root", &workspace_rule(), hint));
    }
    Ok(())
}

fn no_name(request: &PathRequest) -> Grounds {
    not_allowed(request, "no_canonical_name", &workspace_rule(), "write the path without `..`".to_owned())
}

fn no_base(text: &str) -> Grounds {
    let hint = "a relative path needs a workspace, and there is none; the operator can run `sinew workspace add DIR`";
    let reason = format!("Path {} not in allowed paths", shown(text));
    Grounds::new(RefusalCode::PathNotAllowed, "no_workspace", &reason, hint.to_owned(), &workspace_rule())
}

fn not_allowed(request: &PathRequest, detail: &str, rule: &RuleRef, hint: String) -> Grounds {
    let reason = format!("Path {} not in allowed paths", shown(&request.text));
    Grounds::new(RefusalCode::PathNotAllowed, detail, &reason, hint, rule)
}

/// Returns the workspace rule. Most calls are allowed by it and record it, so it is built once.
fn workspace_rule() -> RuleRef {
    static RULE: LazyLock<RuleRef> =
        LazyLock::new(|| RuleRef { file: WORKSPACES.into(), line: 0, id: WORKSPACES.into() });
    RULE.clone()
}

/// Refuses a file with several hard links if one of its other names is forbidden. If the other names are not
/// all known, the file is refused as well.
fn refuse_second_name(
    standing: &Standing<'_>,
    reached: &Reached,
    request: &PathRequest,
    notes: &mut Notes<'_>,
) -> Result<(), Grounds> {
    let choice = standing.hard_links();
    let (links, others) = match &reached.found {
        Found::File { links, others, .. } if *links > 1 && choice == HardLinks::Refuse => (links, others),
        Found::File { .. } | Found::Other => return Ok(()),
    };
    let tool = standing.definition.name();
    let rule = RuleRef { file: DEFAULT.into(), line: 0, id: format!("{tool}.hard_links").into() };
    let forbidden_name =
        |name: &Name, notes: &mut Notes<'_>| refuse_forbidden(standing, name, request, notes).is_err();
    let why = match others {
        Some(names) if !names.iter().any(|name| forbidden_name(name, notes)) => return Ok(()),
        Some(_) => "one of them is forbidden",
        None => "another may be forbidden",
    };
    notes.asks(|| request.text.to_string());
    let hint = format!(
        "the file has {links} hard links, and {why}; copy it, or set `hard_links: allow` for {tool} in tools.yaml"
    );
    Err(Grounds::new(RefusalCode::PathForbidden, "hardlink", &forbidden(request), hint, &rule))
}

fn refuse_large_file(
    standing: &Standing<'_>,
    reached: &Reached,
    request: &PathRequest,
    notes: &mut Notes<'_>,
) -> Result<(), Grounds> {
    let size = match (request.access, &reached.found) {
        (PathAccess::Read, Found::File { size, .. }) => *size,
        _ => return Ok(()),
    };
    refuse_size(standing, size, || format!("File {} is too large to read", shown(&request.text)), notes)
}

/// Applies the file size limit to the content that a tool would write.
pub(crate) fn refuse_large_content(
    standing: &Standing<'_>,
    content_bytes: Option<u64>,
    notes: &mut Notes<'_>,
) -> Result<(), Grounds> {
    let writes = standing.definition.path_arguments().iter().any(|path| path.access.changes());
    match content_bytes.filter(|_| writes) {
        Some(size) => refuse_size(standing, size, || "Content is too large to write".to_owned(), notes),
        None => Ok(()),
    }
}

/// Returns the size of the content that a call would write.
pub(crate) fn content_bytes(arguments: &tool::Arguments) -> Option<u64> {
    arguments.get("content").and_then(serde_json::Value::as_str).map(|text| text.len() as u64)
}

fn refuse_size(
    standing: &Standing<'_>,
    size: u64,
    reason: impl Fn() -> String,
    notes: &mut Notes<'_>,
) -> Result<(), Grounds> {
    let Some((most, rule)) = standing.rules.and_then(|rules| rules.max_file_bytes.as_ref()) else {
        return Ok(());
    };
    let asked = || format!("{size} bytes");
    notes.asks(asked);
    notes.offers(|| size.div_ceil(MEBIBYTE).to_string());
    if size > *most {
        let hint = format!("it has {size} bytes and {} allows {most}; use a smaller part", place(rule));
        return Err(Grounds::new(RefusalCode::TooLarge, "max_file_size", &reason(), hint, rule));
    }
    notes.holds(rule, || format!("{most} bytes"), asked);
    Ok(())
}
