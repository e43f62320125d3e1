//! Model of the path rules: names as texts, patterns matched component by component.

use super::plan::{CallPlan, PathPlan, PolicyPlan, ToolPlan};

/// Patterns and built-in denials that match one name. Computed once per call, because it is the same for
/// every policy.
pub(in super::super) struct NameMatches {
    pub(super) allowed_by: Vec<&'static str>,
    parent_of: Vec<&'static str>,
    forbidden_by: [Vec<&'static str>; 2],       // exactly, and folded
    built_in_denial: [Option<&'static str>; 2], // to read, and to write
    in_workspace: [bool; 2],
}

/// Names of one path: as typed, the folders it leaves by `..`, its target, the folders it would create, and
/// another name of the file.
pub(in super::super) struct PathNames {
    pub(super) typed: NameMatches,
    pub(super) left_folders: Vec<NameMatches>,
    pub(super) target: NameMatches,
    pub(super) missing_folders: Vec<NameMatches>,
    pub(super) other_name: Option<NameMatches>,
}

impl NameMatches {
    fn of(call: &CallPlan, name: &str, patterns: &[&'static str]) -> NameMatches {
        let forbidden = |seen: fn(&str) -> String| {
            let hit = |pattern: &&&str| {
                let pattern = seen(pattern);
                matches(&pattern, &seen(name)) || matches(&format!("{pattern}/**"), &seen(name))
            };
            patterns.iter().filter(hit).copied().collect()
        };
        let workspace = |writes: bool| {
            call.workspaces.iter().any(|(root, writable)| {
                (name == *root || name.starts_with(&format!("{root}/"))) && (!writes || *writable)
            })
        };
        NameMatches {
            allowed_by: patterns.iter().filter(|pattern| matches(pattern, name)).copied().collect(),
            parent_of: patterns.iter().filter(|pattern| is_parent(name, pattern)).copied().collect(),
            forbidden_by: [forbidden(str::to_owned), forbidden(fold)],
            built_in_denial: [built_in_denial(name, false), built_in_denial(name, true)],
            in_workspace: [workspace(false), workspace(true)],
        }
    }
}

pub(in super::super) fn path_names(call: &CallPlan, patterns: &[&'static str]) -> Vec<PathNames> {
    let of = |path: &PathPlan| {
        let typed = absolute(call, path.typed);
        let left = left_folders(&typed);
        PathNames {
            left_folders: left.iter().map(|folder| NameMatches::of(call, folder, patterns)).collect(),
            typed: NameMatches::of(call, &resolve_dots(&typed), patterns),
            target: NameMatches::of(call, &resolve_dots(path.target), patterns),
            missing_folders: missing_folders(path)
                .iter()
                .map(|folder| NameMatches::of(call, folder, patterns))
                .collect(),
            other_name: path.other_name.map(|name| NameMatches::of(call, name, patterns)),
        }
    };
    call.paths.iter().map(of).collect()
}

/// Returns the built-in denial of a name, limited to the generated names.
fn built_in_denial(name: &str, writes: bool) -> Option<&'static str> {
    let folded = fold(name);
    let parts: Vec<&str> = folded.split('/').collect();
    if folded == "/m/sinew" || folded.starts_with("/m/sinew/") {
        return Some("control_plane");
    }
    let touched = folded == "/proc/self/environ" || folded.starts_with("/proc/self/fd");
    let written = parts.contains(&".git") || parts.contains(&".ssh") || parts.contains(&".bashrc");
    (touched || (writes && written)).then_some("path_forbidden")
}

/// Returns the refusal code if a built-in denial or the entry forbids the name.
pub(super) fn forbids(
    plan: &PolicyPlan,
    entry: &ToolPlan,
    place: &NameMatches,
    writes: bool,
) -> Option<&'static str> {
    let hits = &place.forbidden_by[usize::from(plan.folds_case)];
    let hit = entry.forbidden_paths.iter().any(|pattern| hits.contains(pattern));
    place.built_in_denial[usize::from(writes)].or(hit.then_some("path_forbidden"))
}

pub(super) fn is_allowed(entry: &ToolPlan, place: &NameMatches, writes: bool) -> bool {
    match &entry.allowed_paths {
        Some(patterns) => patterns.iter().any(|pattern| place.allowed_by.contains(pattern)),
        None => place.in_workspace[usize::from(writes)],
    }
}

/// Returns true if the entry allows a folder that a write would create: listed, or above a listed path.
pub(super) fn is_creatable(entry: &ToolPlan, place: &NameMatches) -> bool {
    let is_above = |pattern: &&str| place.parent_of.contains(pattern);
    is_allowed(entry, place, true) || entry.allowed_paths.iter().flatten().any(is_above)
}

/// Returns true if a folder is above the paths that a pattern matches, before its first `**`.
fn is_parent(folder: &str, pattern: &str) -> bool {
    let all: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    let fixed = all.iter().position(|part| *part == "**").unwrap_or(all.len() - 1);
    let names: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    !names.is_empty()
        && names.len() <= fixed
        && names.iter().zip(&all).all(|(name, part)| matches_part(part, name))
}

/// Returns the missing folders directly above the target of a path.
fn missing_folders(path: &PathPlan) -> Vec<String> {
    let parts: Vec<&str> = path.target.split('/').filter(|part| !part.is_empty()).collect();
    let above = (1..parts.len()).rev().map(|end| format!("/{}", parts[..end].join("/")));
    above.take(path.missing_folders).collect()
}

fn fold(text: &str) -> String {
    text.replace("e\u{301}", "\u{e9}").to_lowercase()
}

fn absolute(call: &CallPlan, typed: &str) -> String {
    match (typed.starts_with('/'), call.workspaces.first()) {
        (false, Some((root, _))) => format!("{root}/{typed}"),
        _ => typed.to_owned(),
    }
}

/// Resolves `..` in a name lexically.
fn resolve_dots(name: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in name.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    format!("/{}", parts.join("/"))
}

/// Returns the folders that a name enters and leaves again by `..`.
fn left_folders(name: &str) -> Vec<String> {
    let parts: Vec<&str> = name.split('/').collect();
    let ups = (0..parts.len()).filter(|at| parts[*at] == "..");
    ups.map(|at| resolve_dots(&parts[..at].join("/"))).collect()
}

/// Matches a name: `*` is any part of one component, `**` any number of components, and `dir/**` includes
/// `dir`.
fn matches(pattern: &str, name: &str) -> bool {
    let parts =
        |text: &str| text.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    matches_parts(&parts(pattern), &parts(name))
}

fn matches_parts(pattern: &[String], name: &[String]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "**" => {
            (0..=name.len()).any(|taken| matches_parts(rest, &name[taken..]))
        }
        (Some((first, rest)), Some((part, others))) => {
            matches_part(first, part) && matches_parts(rest, others)
        }
        _ => false,
    }
}

fn matches_part(pattern: &str, part: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == part,
        Some((before, after)) => part.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices()
                .map(|(at, _)| at)
                .chain([rest.len()])
                .any(|at| matches_part(after, &rest[at..]))
        }),
    }
}
