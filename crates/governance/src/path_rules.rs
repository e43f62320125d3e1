//! Path rules of a call: built-in denials, forbidden paths, allowed paths or workspaces, hard links, sizes.

use std::borrow::Cow;
use std::path::Path;
use std::sync::LazyLock;

use file_access::PathRequest;
use tool::definition::PathAccess;
use tool::git::GitEntry;
use tool::{RefusalCode, RuleRef};

use crate::built_in_denials::{self, BuiltInDenial};
use crate::denial_reason::{DenialReason, display_text, rule_location};
use crate::effective_policy::EffectivePolicy;
use crate::glob::ListedPattern;
use crate::normalized_path::{NormalizedPath, count_parent_parts, path_text};
use crate::path_list::PathList;
use crate::pattern::PathPattern;
use crate::reached_path::{ReachedObject, ReachedPath};
use crate::rule_trace::TraceRecorder;
use crate::situation::{Situation, WorkspaceAccess, Workspaces, deeper_workspace};
use crate::suggested_change;
use crate::tool_rules::MEBIBYTE;
use crate::tools_file::HardLinks;

/// File name in the rule that restricts a caller to its workspaces.
const WORKSPACE_RULE_FILE: &str = "workspaces";
/// File name in a rule that applies until a policy file overrides it.
const DEFAULT_RULE_FILE: &str = "built-in default";

/// Longest path text that is judged. Longer than any system can open, so that a path slightly over the
/// system's limit still gets the error of the open stage.
const MAX_PATH_TEXT_BYTES: usize = 8 * 1024;
/// Maximum number of `..` parts, because each folder left by `..` is judged.
const MAX_PARENT_PARTS: usize = 64;

/// Returns the paths that a call names, each with the folder that relative paths start in.
pub(crate) fn path_requests(
    effective_policy: &EffectivePolicy<'_>,
    arguments: &tool::Arguments,
    workspaces: &Workspaces,
) -> Result<Vec<PathRequest>, DenialReason> {
    let mut requests = Vec::new();
    for argument in effective_policy.definition.path_arguments() {
        for text in argument.texts(arguments) {
            refuse_long_path(text)?;
            let base = match workspaces.shared_base() {
                Some(base) => base,
                None if Path::new(text).is_absolute() => Path::new("/").into(),
                None => return Err(no_base_folder(text)),
            };
            let (key, text) = (argument.key.clone(), text.into());
            requests.push(PathRequest { key, text, access: argument.access, base });
        }
    }
    Ok(requests)
}

/// Refuses texts whose judgement would be too expensive: the cost grows with the length times the number of
/// `..` parts, and other calls would wait.
fn refuse_long_path(text: &str) -> Result<(), DenialReason> {
    let too_large = |detail: &str, hint: String| {
        let rule = RuleRef { file: DEFAULT_RULE_FILE.into(), line: 0, id: "paths".into() };
        let reason = format!("Path {} is too long to be judged", display_text(text));
        Err(DenialReason::new(RefusalCode::TooLarge, detail, &reason, hint, &rule))
    };
    if text.len() > MAX_PATH_TEXT_BYTES {
        return too_large("path_too_long", format!("a path may have at most {MAX_PATH_TEXT_BYTES} bytes"));
    }
    if count_parent_parts(Path::new(text)) > MAX_PARENT_PARTS {
        return too_large("too_many_detours", "write the path without `..`".to_owned());
    }
    Ok(())
}

/// Refuses a path that is forbidden as typed, before anything is opened.
pub(crate) fn admit_typed(
    effective_policy: &EffectivePolicy<'_>,
    workspaces: &Workspaces,
    request: &PathRequest,
    notes: &mut TraceRecorder<'_>,
) -> Result<(), DenialReason> {
    let name = NormalizedPath::lexical(request);
    refuse_forbidden(effective_policy, &name, request, notes)?;
    // `..` succeeds only if the folder it leaves exists. Following it through a folder that the caller may
    // not read would reveal whether that folder exists.
    let folders_left = NormalizedPath::folders_left(request);
    if folders_left.is_empty() {
        return Ok(());
    }
    let read_request = PathRequest { access: PathAccess::Read, ..request.clone() };
    folders_left.iter().try_for_each(|folder| {
        refuse_forbidden(effective_policy, folder, &read_request, notes)?;
        let (rule, states) = admit_location(effective_policy, workspaces, folder, &read_request, notes)?;
        notes.record_satisfied(&rule, || states.to_string(), || folder.to_string());
        Ok(())
    })
}

/// Repeats the lexical check of `admit_typed` in the judge stage.
pub(crate) fn refuse_typed(
    effective_policy: &EffectivePolicy<'_>,
    request: &PathRequest,
    notes: &mut TraceRecorder<'_>,
) -> Result<(), DenialReason> {
    refuse_forbidden(effective_policy, &NormalizedPath::lexical(request), request, notes)
}

/// Judges the path that was reached, and records the rule that allows it.
pub(crate) fn admit_reached(
    effective_policy: &EffectivePolicy<'_>,
    situation: &Situation<'_>,
    reached: &ReachedPath,
    request: &PathRequest,
    notes: &mut TraceRecorder<'_>,
) -> Result<(), DenialReason> {
    let Some(name) = &reached.name else { return Err(no_canonical_name(request)) };
    if *name != NormalizedPath::lexical(request) {
        refuse_forbidden(effective_policy, name, request, notes)?;
    }
    let (rule, states) = admit_location(effective_policy, situation.workspaces, name, request, notes)?;
    refuse_workspace_root(situation.workspaces, name, request)?;
    notes.record_passed(rule, || states.to_string(), || name.to_string());
    refuse_git_entry(reached, request)?;
    admit_folders(effective_policy, situation, reached, request, notes)?;
    refuse_hard_links(effective_policy, reached, request, notes)?;
    refuse_large_file(effective_policy, reached, request, notes)
}

/// Denies a change that belongs to a git directory or would make one, whatever the directory is called. Judged after the
/// place: outside of what the caller may change, the answer would tell which entries are there.
fn refuse_git_entry(reached: &ReachedPath, request: &PathRequest) -> Result<(), DenialReason> {
    let why = match reached.git_entry.filter(|_| request.access.is_modifying()) {
        None => return Ok(()),
        Some(GitEntry::Existing) => "its directory is a git repository, and git acts on this entry",
        Some(GitEntry::Completing) => "with this entry its directory would be a git repository",
    };
    let hint = format!("no policy can allow this: {why}; use another name, or another directory");
    let rule = built_in_denials::rule_ref("git");
    Err(DenialReason::new(
        RefusalCode::PathForbidden,
        "git_directory",
        &forbidden_reason(request),
        hint,
        &rule,
    ))
}

/// Judges the folders that a write would create like the path that the call names. A folder above a listed
/// path is allowed, so that a pattern applies before its folder exists.
fn admit_folders(
    effective_policy: &EffectivePolicy<'_>,
    situation: &Situation<'_>,
    reached: &ReachedPath,
    request: &PathRequest,
    notes: &mut TraceRecorder<'_>,
) -> Result<(), DenialReason> {
    for folder in &reached.missing_folders {
        let Some(name) = folder else { return Err(no_canonical_name(request)) };
        refuse_forbidden(effective_policy, name, request, notes)?;
        let list = effective_policy.rules.and_then(|rules| rules.allowed_paths.as_ref());
        if let Some(ListedPattern { rule, text, .. }) = list.and_then(|list| list.parent_folders.find(name)) {
            notes.record_satisfied(rule, || text.clone(), || name.to_string());
            continue;
        }
        let (rule, states) = admit_location(effective_policy, situation.workspaces, name, request, notes)?;
        notes.record_satisfied(&rule, || states.to_string(), || name.to_string());
    }
    Ok(())
}

fn refuse_forbidden(
    effective_policy: &EffectivePolicy<'_>,
    name: &NormalizedPath,
    request: &PathRequest,
    notes: &mut TraceRecorder<'_>,
) -> Result<(), DenialReason> {
    let built_in_denials = &effective_policy.policy.built_in_denials;
    let protected = built_in_denials.find_tool_denial(name, request.access);
    notes.set_value(|| name.to_string());
    if notes.is_enabled() {
        let before =
            built_in_denials.rules_before(request.access, protected.as_ref().map(|denial| &denial.rule));
        notes.record_skipped(before.iter().map(|(rule, why)| (rule, why.clone())));
    }
    if let Some(BuiltInDenial { code, rule, reason: why }) = protected {
        let hint = format!("no policy can allow this: {why}");
        return Err(DenialReason::new(code, "built_in", &forbidden_reason(request), hint, &rule));
    }
    let forbidden_paths = effective_policy.forbidden_paths();
    let found = forbidden_paths.find(name);
    notes.record_skipped(forbidden_paths.patterns_before(found));
    match found {
        None => Ok(()),
        Some(ListedPattern { rule, text, .. }) => {
            notes.set_yaml(|| text.clone());
            let hint = format!(
                "{} forbids it and overrides every rule that allows it; use another path",
                rule_location(rule)
            );
            Err(DenialReason::new(
                RefusalCode::PathForbidden,
                "forbidden_path",
                &forbidden_reason(request),
                hint,
                rule,
            ))
        }
    }
}

fn forbidden_reason(request: &PathRequest) -> String {
    format!("Path {} is forbidden", display_text(&request.text))
}

/// Returns the rule that allows this location, and the text of that rule.
fn admit_location<'s>(
    effective_policy: &'s EffectivePolicy<'_>,
    workspaces: &'s Workspaces,
    name: &NormalizedPath,
    request: &PathRequest,
    notes: &mut TraceRecorder<'_>,
) -> Result<(RuleRef, Cow<'s, str>), DenialReason> {
    notes.set_value(|| name.to_string());
    notes.set_yaml(|| suggested_change::quote_yaml(&PathPattern::literal(name.as_path())));
    let Some(list) = effective_policy.rules.and_then(|rules| rules.allowed_paths.as_ref()) else {
        return admit_workspace(workspaces, name, request);
    };
    let found = list.globs.find(name);
    notes.record_skipped(list.globs.patterns_before(found));
    match found {
        Some(ListedPattern { rule, text, .. }) => Ok((rule.clone(), Cow::Borrowed(text))),
        None => Err(not_listed(list, name, request)),
    }
}

fn not_listed(list: &PathList, name: &NormalizedPath, request: &PathRequest) -> DenialReason {
    let bare = list.bare_folders.iter().find(|folder| name.as_path().starts_with(folder));
    let hint = match bare {
        Some(folder) => {
            let folder = folder.display();
            format!(
                "{} lists {folder} without its contents; `{folder}/**` would include them",
                rule_location(&list.rule)
            )
        }
        None => format!(
            "{} lists the paths that this tool may access; add a pattern there, or use another path",
            rule_location(&list.rule)
        ),
    };
    not_allowed(request, "not_listed", &list.rule, hint)
}

fn admit_workspace<'s>(
    workspaces: &'s Workspaces,
    name: &NormalizedPath,
    request: &PathRequest,
) -> Result<(RuleRef, Cow<'s, str>), DenialReason> {
    let here = workspaces.iter().filter(|workspace| name.is_in(workspace.root()));
    let rule = workspace_rule();
    // `reduce` does not call `deeper_workspace` for a single workspace, which is the usual case.
    if let Some(workspace) = here.reduce(deeper_workspace) {
        let root = path_text(workspace.root());
        return match (request.access, workspace.access()) {
            (PathAccess::Read, _) | (PathAccess::Write | PathAccess::Remove, WorkspaceAccess::ReadWrite) => {
                Ok((rule, root))
            }
            (PathAccess::Write | PathAccess::Remove, WorkspaceAccess::ReadOnly) => {
                let command =
                    suggested_change::workspace_command(workspace.root(), WorkspaceAccess::ReadWrite);
                let hint = format!("the workspace {root} is read-only; the operator can run `{command}`");
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

/// Refuses the removal of a workspace root or of a folder that contains one.
fn refuse_workspace_root(
    workspaces: &Workspaces,
    name: &NormalizedPath,
    request: &PathRequest,
) -> Result<(), DenialReason> {
    let holds_root = || workspaces.iter().any(|workspace| workspace.root().starts_with(name.as_path()));
    if request.access == PathAccess::Remove && holds_root() {
        let hint = "it is a workspace or contains one; name the entries to remove inside it".to_owned();
        return Err(not_allowed(request, "workspace_root", &workspace_rule(), hint));
    }
    Ok(())
}

fn no_canonical_name(request: &PathRequest) -> DenialReason {
    not_allowed(request, "no_canonical_name", &workspace_rule(), "write the path without `..`".to_owned())
}

fn no_base_folder(text: &str) -> DenialReason {
    let hint = "a relative path needs a workspace, and there is none; the operator can run `sinew workspace add DIR`";
    let reason = format!("Path {} not in allowed paths", display_text(text));
    DenialReason::new(
        RefusalCode::PathNotAllowed,
        "no_workspace",
        &reason,
        hint.to_owned(),
        &workspace_rule(),
    )
}

fn not_allowed(request: &PathRequest, detail: &str, rule: &RuleRef, hint: String) -> DenialReason {
    let reason = format!("Path {} not in allowed paths", display_text(&request.text));
    DenialReason::new(RefusalCode::PathNotAllowed, detail, &reason, hint, rule)
}

/// Returns the workspace rule. Most calls are allowed by it and record it, so it is built once.
fn workspace_rule() -> RuleRef {
    static RULE: LazyLock<RuleRef> = LazyLock::new(|| RuleRef {
        file: WORKSPACE_RULE_FILE.into(),
        line: 0,
        id: WORKSPACE_RULE_FILE.into(),
    });
    RULE.clone()
}

/// Refuses a file with several hard links if one of its other names is forbidden. If the other names are not
/// all known, the file is refused as well.
fn refuse_hard_links(
    effective_policy: &EffectivePolicy<'_>,
    reached: &ReachedPath,
    request: &PathRequest,
    notes: &mut TraceRecorder<'_>,
) -> Result<(), DenialReason> {
    let choice = effective_policy.hard_links();
    let (links, others) = match &reached.object {
        ReachedObject::File { links, others, .. } if *links > 1 && choice == HardLinks::Refuse => {
            (links, others)
        }
        ReachedObject::File { .. } | ReachedObject::Other => return Ok(()),
    };
    let tool = effective_policy.definition.name();
    let rule = RuleRef { file: DEFAULT_RULE_FILE.into(), line: 0, id: format!("{tool}.hard_links").into() };
    let forbidden_name = |name: &NormalizedPath, notes: &mut TraceRecorder<'_>| {
        refuse_forbidden(effective_policy, name, request, notes).is_err()
    };
    let why = match others {
        Some(names) if !names.iter().any(|name| forbidden_name(name, notes)) => return Ok(()),
        Some(_) => "one of them is forbidden",
        None => "another may be forbidden",
    };
    notes.set_value(|| request.text.to_string());
    let hint = format!(
        "the file has {links} hard links, and {why}; copy it, or set `hard_links: allow` for {tool} in tools.yaml"
    );
    Err(DenialReason::new(RefusalCode::PathForbidden, "hardlink", &forbidden_reason(request), hint, &rule))
}

fn refuse_large_file(
    effective_policy: &EffectivePolicy<'_>,
    reached: &ReachedPath,
    request: &PathRequest,
    notes: &mut TraceRecorder<'_>,
) -> Result<(), DenialReason> {
    let size = match (request.access, &reached.object) {
        (PathAccess::Read, ReachedObject::File { size, .. }) => *size,
        _ => return Ok(()),
    };
    refuse_size(
        effective_policy,
        size,
        || format!("File {} is too large to read", display_text(&request.text)),
        notes,
    )
}

/// Applies the file size limit to the content that a tool would write.
pub(crate) fn refuse_large_content(
    effective_policy: &EffectivePolicy<'_>,
    content_bytes: Option<u64>,
    notes: &mut TraceRecorder<'_>,
) -> Result<(), DenialReason> {
    let writes = effective_policy.definition.path_arguments().iter().any(|path| path.access.is_modifying());
    match content_bytes.filter(|_| writes) {
        Some(size) => {
            refuse_size(effective_policy, size, || "Content is too large to write".to_owned(), notes)
        }
        None => Ok(()),
    }
}

/// Returns the size of the content that a call would write.
pub(crate) fn content_bytes(arguments: &tool::Arguments) -> Option<u64> {
    arguments.get("content").and_then(serde_json::Value::as_str).map(|text| text.len() as u64)
}

fn refuse_size(
    effective_policy: &EffectivePolicy<'_>,
    size: u64,
    reason: impl Fn() -> String,
    notes: &mut TraceRecorder<'_>,
) -> Result<(), DenialReason> {
    let Some((most, rule)) = effective_policy.rules.and_then(|rules| rules.max_file_bytes.as_ref()) else {
        return Ok(());
    };
    let value = || format!("{size} bytes");
    notes.set_value(value);
    notes.set_yaml(|| size.div_ceil(MEBIBYTE).to_string());
    if size > *most {
        let hint =
            format!("it has {size} bytes and {} allows {most}; use a smaller part", rule_location(rule));
        return Err(DenialReason::new(RefusalCode::TooLarge, "max_file_size", &reason(), hint, rule));
    }
    notes.record_satisfied(rule, || format!("{most} bytes"), value);
    Ok(())
}
