//! Parses and compiles lists of path patterns from a policy file, and warns about likely mistakes.

use std::path::PathBuf;

use strict_yaml::Located;
use tool::RuleRef;

use crate::glob::{self, ListPurpose, PathGlobs, PathGlobsBuilder};
use crate::pattern::{PathPattern, PatternError};
use crate::policy_environment::PolicyEnvironment;
use crate::problems::FileInspection;

/// List of allowed paths and its location, which denials of unlisted paths cite.
#[derive(Clone, Debug)]
pub struct PathList {
    /// Compiled patterns.
    pub globs: PathGlobs,
    /// Location in the policy file.
    pub rule: RuleRef,
    /// Folders above the listed paths, which a write to a listed path may create.
    pub parent_folders: PathGlobs,
    /// Folders listed without a wildcard, which does not cover their contents: a likely mistake.
    pub bare_folders: Vec<PathBuf>,
    /// Folders listed with all their contents.
    pub whole_folders: Vec<PathBuf>,
}

/// Permission for a pattern to match every path of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EveryPath {
    /// The entry sets `allow_every_path`.
    Allowed,
    /// Such a pattern counts as a mistake, and the policy does not load.
    Refused,
}

impl PathList {
    /// Compiles a list of allowed paths.
    pub(crate) fn compile(
        list: &Located<Vec<Located<String>>>,
        (id, every_path): (&str, EveryPath),
        environment: &PolicyEnvironment,
        inspection: &mut FileInspection<'_>,
    ) -> Option<Self> {
        if every_path == EveryPath::Refused {
            refuse_match_all(&list.value, environment, inspection);
        }
        let globs = compile(&list.value, ListPurpose::Allow, id, environment, inspection)?;
        let bare = bare_folders(&list.value, environment);
        let folders = globs.whole_folders();
        let parent_folders = match globs.parent_folders() {
            Ok(parents) => parents,
            Err(bad) => {
                inspection.error(list, &bad.message, bad.suggestion);
                return None;
            }
        };
        Some(PathList {
            globs,
            parent_folders,
            rule: inspection.rule_ref(list, id),
            bare_folders: bare,
            whole_folders: folders,
        })
    }
}

/// Compiles a list of patterns and reports each invalid one. `None` where the patterns do not compile
/// together.
pub(crate) fn compile(
    written: &[Located<String>],
    purpose: ListPurpose,
    id: &str,
    environment: &PolicyEnvironment,
    inspection: &mut FileInspection<'_>,
) -> Option<PathGlobs> {
    let written: Vec<(Located<String>, RuleRef)> =
        written.iter().map(|text| (text.clone(), inspection.rule_ref(text, id))).collect();
    compile_rules(&written, purpose, environment, inspection)
}

/// Compiles patterns that each have a rule of their own, like [`compile`].
pub(crate) fn compile_rules(
    written: &[(Located<String>, RuleRef)],
    purpose: ListPurpose,
    environment: &PolicyEnvironment,
    inspection: &mut FileInspection<'_>,
) -> Option<PathGlobs> {
    let mut builder = PathGlobsBuilder::new(purpose, environment.name_comparison);
    for (text, rule) in written {
        let added = PathPattern::parse(text, &environment.variables).and_then(|pattern| {
            builder.add(text, &pattern, rule)?;
            Ok(pattern)
        });
        match added {
            Ok(pattern) if purpose == ListPurpose::Allow => warn_about_pattern(text, &pattern, inspection),
            Ok(_) => {}
            Err(bad) => report_pattern_error(text, bad, inspection),
        }
    }
    match builder.build() {
        Ok(globs) => Some(globs),
        Err(bad) => {
            let location = written
                .first()
                .map(|(text, _)| text.clone())
                .unwrap_or_else(|| Located::without_position(String::new()));
            report_pattern_error(&location, bad, inspection);
            None
        }
    }
}

/// Parses a list of literal folder paths and reports each entry that is not one.
pub(crate) fn compile_folders(
    written: &[Located<String>],
    id: &str,
    environment: &PolicyEnvironment,
    inspection: &mut FileInspection<'_>,
) -> Vec<(PathBuf, RuleRef)> {
    let mut folders = Vec::new();
    for text in written {
        let named = PathPattern::parse(text, &environment.variables).map(|pattern| pattern.literal_path());
        match named {
            // The search path (`PATH`) separates its folders by colons.
            Ok(Some(folder)) if folder.parent().is_some() && !text.value.contains(':') => {
                folders.push((folder, inspection.rule_ref(text, id)));
            }
            Ok(_) => {
                let message = format!("`{}` is not the name of one folder", text.value);
                let suggestion = "write its absolute path, without wildcards and colons".to_owned();
                inspection.error(text, &message, Some(suggestion));
            }
            Err(bad) => report_pattern_error(text, bad, inspection),
        }
    }
    folders
}

fn refuse_match_all(
    written: &[Located<String>],
    environment: &PolicyEnvironment,
    inspection: &mut FileInspection<'_>,
) {
    for text in written {
        if PathPattern::parse(text, &environment.variables).is_ok_and(|pattern| pattern.matches_everything())
        {
            let message = format!("`{}` would allow every path of the machine", text.value);
            let suggestion =
                "list the folders that it needs, or write `allow_every_path: true` beside `allowed_paths`";
            inspection.error(text, &message, Some(suggestion.to_owned()));
        }
    }
}

fn report_pattern_error(text: &Located<String>, bad: PatternError, inspection: &mut FileInspection<'_>) {
    inspection.error(text, &bad.message, bad.suggestion);
}

fn warn_about_pattern(text: &Located<String>, pattern: &PathPattern, inspection: &mut FileInspection<'_>) {
    if pattern.matches_everything() {
        let suggestion = Some(
            "list the folders that it needs; forbidden paths and built-in denials still apply".to_owned(),
        );
        inspection.warn(text, &format!("`{}` allows every path of the machine", text.value), suggestion);
    }
    if let Some(target) = glob::ignored_link_target(pattern) {
        let message = format!(
            "`{}` goes through a symbolic link, which is not followed, so it matches nothing",
            text.value
        );
        inspection.warn(text, &message, Some(format!("write the target of the link: {}", target.display())));
    }
}

fn bare_folders(written: &[Located<String>], environment: &PolicyEnvironment) -> Vec<PathBuf> {
    let patterns = written.iter().filter_map(|text| PathPattern::parse(text, &environment.variables).ok());
    patterns.filter_map(|pattern| pattern.literal_path()).collect()
}
