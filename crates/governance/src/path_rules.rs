//! Where a call may go: the floor, forbidden paths, allowed paths or workspaces, second names, sizes.

use std::borrow::Cow;
use std::path::Path;
use std::sync::LazyLock;

use resources::PathRequest;
use tool::{PathAccess, RefusalCode, RuleRef};

use crate::floor::FloorRule;
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

/// What stands for the file of the rule that a caller stays in its workspaces.
const WORKSPACES: &str = "workspaces";
/// What stands for the file of a rule that holds until a file says otherwise.
const DEFAULT: &str = "built-in default";

/// What is judged of a path. Beyond what any system opens, so that opening tells who is only a little over.
const LONGEST_TEXT: usize = 8 * 1024;
/// How many folders a path may leave again by `..`: each is judged.
const MOST_DETOURS: usize = 64;

/// The paths a call names, and where they start.
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

/// Judging a text takes as long as it is, times the folders it leaves: one that leads nowhere, or takes every detour, is not
/// worth the time of everybody else.
fn refuse_endless(text: &str) -> Result<(), Grounds> {
    let too_large = |detail: &str, hint: String| {
        let rule = RuleRef { file: DEFAULT.into(), line: 0, id: "paths".into() };
        let reason = format!("Path {} is too long to be judged", shown(text));
        Err(Grounds::new(RefusalCode::TooLarge, detail, &reason, hint, &rule))
    };
    if text.len() > LONGEST_TEXT {
        return too_large(
            "path_too_long",
            format!("no system knows paths of more than {LONGEST_TEXT} bytes"),
        );
    }
    if detours(Path::new(text)) > MOST_DETOURS {
        return too_large("too_many_detours", "write the path without `..`".to_owned());
    }
    Ok(())
}

/// What can be said of a name before anything is opened: whether it is forbidden.
pub(crate) fn admit_typed(
    standing: &Standing<'_>,
    workspaces: &Workspaces,
    request: &PathRequest,
    notes: &mut Notes<'_>,
) -> Result<(), Grounds> {
    let name = Name::lexical(request);
    refuse_forbidden(standing, &name, request, notes)?;
    // A `..` succeeds only if the folder it leaves is there: going through one that the caller may not look into
    // would tell whether it exists.
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

/// What can be said of a name by its letters alone, once more.
pub(crate) fn refuse_typed(
    standing: &Standing<'_>,
    request: &PathRequest,
    notes: &mut Notes<'_>,
) -> Result<(), Grounds> {
    refuse_forbidden(standing, &Name::lexical(request), request, notes)
}

/// What can be said of what was reached. The rule that allows it is noted.
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
    admit_folders(standing, situation, reached, request, notes)?;
    refuse_second_name(standing, reached, request, notes)?;
    refuse_large_file(standing, reached, request, notes)
}

/// A folder that would be made on the way is written like what the call names.
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
    let Some(rules) = standing.rules else { return Ok(()) };
    let found = rules.forbidden_paths.find(name);
    notes.skips(rules.forbidden_paths.before(found));
    match found {
        None => Ok(()),
        Some(Written { rule, text, .. }) => {
            notes.offers(|| text.clone());
            let hint = format!("{} forbids it, whatever else allows it; work elsewhere", place(rule));
            Err(Grounds::new(RefusalCode::PathForbidden, "forbidden_path", &forbidden(request), hint, rule))
        }
    }
}

fn forbidden(request: &PathRequest) -> String {
    format!("Path {} is forbidden", shown(&request.text))
}

/// The rule that lets the call be in this place, and what it states.
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
            format!("{} lists {folder} alone; `{folder}/**` would cover what is in it", place(&list.rule))
        }
        None => format!(
            "{} lists where this tool may go; add a pattern there, or work elsewhere",
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
    // With one workspace, as a rule, nothing is counted.
    if let Some(workspace) = here.reduce(deeper) {
        let root = spelt(workspace.root());
        return match (request.access, workspace.access()) {
            (PathAccess::Read, _) | (PathAccess::Write | PathAccess::Remove, WorkspaceAccess::ReadWrite) => {
                Ok((rule, root))
            }
            (PathAccess::Write | PathAccess::Remove, WorkspaceAccess::ReadOnly) => {
                let hint = format!(
                    "the workspace {root} is read-only here; a human runs `sinew workspace add {root}`"
                );
                Err(not_allowed(request, "read_only_workspace", &rule, hint))
            }
        };
    }
    let roots: Vec<String> =
        workspaces.iter().map(|workspace| workspace.root().display().to_string()).collect();
    let hint = match roots.as_slice() {
        [] => "there is no workspace; a human runs `sinew workspace add DIR`".to_owned(),
        roots => format!("work inside {}, or a human runs `sinew workspace add DIR`", roots.join(" or ")),
    };
    Err(not_allowed(request, "outside_workspaces", &rule, hint))
}

/// The deepest decides: a folder that is named for itself within another is meant otherwise than the rest of it.
fn deeper<'s>(one: &'s Workspace, other: &'s Workspace) -> &'s Workspace {
    let depth = |workspace: &Workspace| {
        let narrow = workspace.access() == WorkspaceAccess::ReadOnly;
        (workspace.root().components().count(), narrow)
    };
    if depth(one) > depth(other) { one } else { other }
}

/// A workspace is where a caller works; it does not go with the work.
fn refuse_root(workspaces: &Workspaces, name: &Name, request: &PathRequest) -> Result<(), Grounds> {
    let holds_root = || workspaces.iter().any(|workspace| workspace.root().starts_with(name.as_path()));
    if request.access == PathAccess::Remove && holds_root() {
        let hint = "it is a workspace, or holds one; name what is to go in it".to_owned();
        return Err(not_allowed(request, "workspace_root", &workspace_rule(), hint));
    }
    Ok(())
}

fn no_name(request: &PathRequest) -> Grounds {
    not_allowed(request, "no_canonical_name", &workspace_rule(), "name it without `..`".to_owned())
}

fn no_base(text: &str) -> Grounds {
    let hint =
        "a relative path starts in a workspace, and there is none; a human runs `sinew workspace add DIR`";
    let reason = format!("Path {} not in allowed paths", shown(text));
    Grounds::new(RefusalCode::PathNotAllowed, "no_workspace", &reason, hint.to_owned(), &workspace_rule())
}

fn not_allowed(request: &PathRequest, detail: &str, rule: &RuleRef, hint: String) -> Grounds {
    let reason = format!("Path {} not in allowed paths", shown(&request.text));
    Grounds::new(RefusalCode::PathNotAllowed, detail, &reason, hint, rule)
}

/// Most calls are let in by it, and name it in their records.
fn workspace_rule() -> RuleRef {
    static RULE: LazyLock<RuleRef> =
        LazyLock::new(|| RuleRef { file: WORKSPACES.into(), line: 0, id: WORKSPACES.into() });
    RULE.clone()
}

/// A file with several names may have one that a rule forbids. Those that were found are judged like the one that was
/// typed; where some were not found, the worst is taken for true.
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
        "the file has {links} names, and {why}; copy it, or set `hard_links: allow` for {tool} in tools.yaml"
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

/// The text a tool is to write counts like the file it becomes.
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

/// The bytes a call brings with it to write.
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
        let hint = format!("{size} bytes, and {} allows {most}; use a smaller part", place(rule));
        return Err(Grounds::new(RefusalCode::TooLarge, "max_file_size", &reason(), hint, rule));
    }
    notes.holds(rule, || format!("{most} bytes"), asked);
    Ok(())
}
