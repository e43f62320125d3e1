//! Where a call may go: the floor, forbidden paths, allowed paths or workspaces, second names, sizes.

use std::path::Path;

use resources::{ObjectKind, OpenedPath, PathRequest};
use tool::{PathAccess, RefusalCode, RuleRef};

use crate::floor::FloorRule;
use crate::grounds::{Grounds, place, shown};
use crate::name::Name;
use crate::path_list::PathList;
use crate::situation::{Situation, Workspace, WorkspaceAccess, Workspaces};
use crate::standing::Standing;
use crate::tools_file::HardLinks;

/// What stands for the file of the rule that a caller stays in its workspaces.
const WORKSPACES: &str = "workspaces";
/// What stands for the file of a rule that holds until a file says otherwise.
const DEFAULT: &str = "built-in default";

/// The paths a call names, and where they start.
pub(crate) fn requests(
    standing: &Standing<'_>,
    arguments: &tool::Arguments,
    workspaces: &Workspaces,
) -> Result<Vec<PathRequest>, Grounds> {
    let mut requests = Vec::new();
    for argument in standing.definition.path_arguments() {
        for text in argument.texts(arguments) {
            let base = match workspaces.base() {
                Some(base) => base,
                None if Path::new(text).is_absolute() => Path::new("/"),
                None => return Err(no_base(text)),
            };
            let (key, text, base) = (argument.key.clone(), text.to_owned(), base.to_owned());
            requests.push(PathRequest { key, text, access: argument.access, base });
        }
    }
    Ok(requests)
}

/// What can be said of a name before anything is opened: whether it is forbidden.
pub(crate) fn admit_typed(
    standing: &Standing<'_>,
    workspaces: &Workspaces,
    request: &PathRequest,
) -> Result<(), Grounds> {
    let name = Name::lexical(&request.base, &request.text);
    refuse_forbidden(standing, &name, request)?;
    // A `..` succeeds only if the folder it leaves is there: going through one that the caller may not look into
    // would tell whether it exists.
    let look = PathRequest { access: PathAccess::Read, ..request.clone() };
    Name::left_behind(&request.base, &request.text).iter().try_for_each(|folder| {
        refuse_forbidden(standing, folder, &look)?;
        admit_place(standing, workspaces, folder, &look).map(|_| ())
    })
}

/// What can be said of what was opened. The rule that allowed it is added to `passed`.
pub(crate) fn admit_opened(
    standing: &Standing<'_>,
    situation: &Situation<'_>,
    path: &OpenedPath,
    request: &PathRequest,
    passed: &mut Vec<RuleRef>,
) -> Result<(), Grounds> {
    let typed = Name::lexical(&request.base, &request.text);
    refuse_forbidden(standing, &typed, request)?;
    let Some(name) = Name::canonical(path.canonical()) else {
        return Err(not_allowed(
            request,
            "no_canonical_name",
            &workspace_rule(),
            "name it without `..`".to_owned(),
        ));
    };
    if name != typed {
        refuse_forbidden(standing, &name, request)?;
    }
    passed.push(admit_place(standing, situation.workspaces, &name, request)?);
    refuse_second_name(standing, path, request)?;
    refuse_large_file(standing, path, request)
}

fn refuse_forbidden(standing: &Standing<'_>, name: &Name, request: &PathRequest) -> Result<(), Grounds> {
    if let Some(FloorRule { code, rule, why }) = standing.policy.floor.protects(name, request.access) {
        let hint = format!("no policy can allow this: {why}");
        return Err(Grounds::new(code, "floor", &forbidden(request), hint, &rule));
    }
    match standing.rules.and_then(|rules| rules.forbidden_paths.first_match(name)) {
        None => Ok(()),
        Some(rule) => {
            let hint = format!("{} forbids it, whatever else allows it; work elsewhere", place(rule));
            Err(Grounds::new(RefusalCode::PathForbidden, "forbidden_path", &forbidden(request), hint, rule))
        }
    }
}

fn forbidden(request: &PathRequest) -> String {
    format!("Path {} is forbidden", shown(&request.text))
}

/// The rule that lets the call be in this place.
fn admit_place(
    standing: &Standing<'_>,
    workspaces: &Workspaces,
    name: &Name,
    request: &PathRequest,
) -> Result<RuleRef, Grounds> {
    match standing.rules.and_then(|rules| rules.allowed_paths.as_ref()) {
        Some(list) => list.globs.first_match(name).cloned().ok_or_else(|| not_listed(list, name, request)),
        None => admit_workspace(workspaces, name, request),
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

fn admit_workspace(workspaces: &Workspaces, name: &Name, request: &PathRequest) -> Result<RuleRef, Grounds> {
    let here: Vec<&Workspace> =
        workspaces.iter().filter(|workspace| name.as_path().starts_with(workspace.root())).collect();
    let rule = workspace_rule();
    let suffices = |workspace: &&Workspace| match (request.access, workspace.access()) {
        (PathAccess::Read, _) | (PathAccess::Write, WorkspaceAccess::ReadWrite) => true,
        (PathAccess::Write, WorkspaceAccess::ReadOnly) => false,
    };
    if here.iter().any(suffices) {
        return Ok(rule);
    }
    if let Some(workspace) = here.first() {
        let root = workspace.root().display();
        let hint =
            format!("the workspace {root} is read-only here; a human runs `sinew workspace add {root}`");
        return Err(not_allowed(request, "read_only_workspace", &rule, hint));
    }
    let roots: Vec<String> =
        workspaces.iter().map(|workspace| workspace.root().display().to_string()).collect();
    let hint = match roots.as_slice() {
        [] => "there is no workspace; a human runs `sinew workspace add DIR`".to_owned(),
        roots => format!("work inside {}, or a human runs `sinew workspace add DIR`", roots.join(" or ")),
    };
    Err(not_allowed(request, "outside_workspaces", &rule, hint))
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

fn workspace_rule() -> RuleRef {
    RuleRef { file: WORKSPACES.to_owned(), line: 0, id: WORKSPACES.to_owned() }
}

/// A file with several names may have one that a rule forbids, and no name tells.
fn refuse_second_name(
    standing: &Standing<'_>,
    path: &OpenedPath,
    request: &PathRequest,
) -> Result<(), Grounds> {
    let choice = standing.rules.map_or(HardLinks::Refuse, |rules| rules.hard_links);
    let links = path.metadata().map_or(1, |facts| facts.links);
    if choice == HardLinks::Allow || path.kind() != ObjectKind::File || links < 2 {
        return Ok(());
    }
    let tool = standing.definition.name();
    let rule = RuleRef { file: DEFAULT.to_owned(), line: 0, id: format!("{tool}.hard_links") };
    let hint = format!(
        "the file has {links} names, and another may be forbidden; copy it, or set `hard_links: allow` for {tool} in tools.yaml"
    );
    Err(Grounds::new(RefusalCode::PathForbidden, "hardlink", &forbidden(request), hint, &rule))
}

fn refuse_large_file(
    standing: &Standing<'_>,
    path: &OpenedPath,
    request: &PathRequest,
) -> Result<(), Grounds> {
    let size = match (path.access(), path.kind(), path.metadata()) {
        (PathAccess::Read, ObjectKind::File, Some(facts)) => facts.size,
        _ => return Ok(()),
    };
    refuse_size(standing, size, || format!("File {} is too large to read", shown(&request.text)))
}

/// The text a tool is to write counts like the file it becomes.
pub(crate) fn refuse_large_content(
    standing: &Standing<'_>,
    arguments: &tool::Arguments,
) -> Result<(), Grounds> {
    let writes = standing.definition.path_arguments().iter().any(|path| path.access == PathAccess::Write);
    let content = arguments.get("content").and_then(serde_json::Value::as_str).filter(|_| writes);
    let size = content.map_or(0, |text| text.len() as u64);
    refuse_size(standing, size, || "Content is too large to write".to_owned())
}

fn refuse_size(standing: &Standing<'_>, size: u64, reason: impl Fn() -> String) -> Result<(), Grounds> {
    match standing.rules.and_then(|rules| rules.max_file_bytes.as_ref()) {
        Some((most, rule)) if size > *most => {
            let hint = format!("{size} bytes, and {} allows {most}; use a smaller part", place(rule));
            Err(Grounds::new(RefusalCode::TooLarge, "max_file_size", &reason(), hint, rule))
        }
        _ => Ok(()),
    }
}
