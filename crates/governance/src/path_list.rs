//! Parses and compiles lists of path patterns from a policy file, and warns about likely mistakes.

use std::path::PathBuf;

use strict_yaml::Located;
use tool::RuleRef;

use crate::glob::{self, PathGlobs, PathGlobsBuilder, Purpose};
use crate::pattern::{BadPattern, Pattern};
use crate::problems::Inspection;
use crate::surroundings::Surroundings;

/// List of allowed paths and its location, which denials of unlisted paths cite.
#[derive(Debug)]
pub struct PathList {
    /// Compiled patterns.
    pub globs: PathGlobs,
    /// Location in the policy file.
    pub rule: RuleRef,
    /// Folders listed without a wildcard, which does not cover their contents: a likely mistake.
    pub bare: Vec<PathBuf>,
    /// Folders listed with all their contents.
    pub folders: Vec<PathBuf>,
}

/// Permission for a pattern to match every path of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EveryPath {
    /// The entry sets `allow_every_path`.
    Meant,
    /// Such a pattern counts as a mistake, and the policy does not load.
    Refused,
}

impl PathList {
    /// Compiles a list of allowed paths.
    pub(crate) fn compile(
        list: &Located<Vec<Located<String>>>,
        (id, every_path): (&str, EveryPath),
        around: &Surroundings,
        inspection: &mut Inspection<'_>,
    ) -> Option<Self> {
        if every_path == EveryPath::Refused {
            refuse_everything(&list.value, around, inspection);
        }
        let globs = compile(&list.value, Purpose::Allow, id, around, inspection)?;
        let bare = bare_folders(&list.value, around);
        let folders = globs.whole_folders();
        Some(PathList { globs, rule: inspection.rule(list, id), bare, folders })
    }
}

/// Compiles a list of patterns and reports each invalid one. `None` where the patterns do not compile
/// together.
pub(crate) fn compile(
    written: &[Located<String>],
    purpose: Purpose,
    id: &str,
    around: &Surroundings,
    inspection: &mut Inspection<'_>,
) -> Option<PathGlobs> {
    let written: Vec<(Located<String>, RuleRef)> =
        written.iter().map(|text| (text.clone(), inspection.rule(text, id))).collect();
    compile_rules(&written, purpose, around, inspection)
}

/// Compiles patterns that each have a rule of their own, like [`compile`].
pub(crate) fn compile_rules(
    written: &[(Located<String>, RuleRef)],
    purpose: Purpose,
    around: &Surroundings,
    inspection: &mut Inspection<'_>,
) -> Option<PathGlobs> {
    let mut builder = PathGlobsBuilder::new(purpose, around.names);
    for (text, rule) in written {
        let added = Pattern::parse(text, &around.variables).and_then(|pattern| {
            builder.add(text, &pattern, rule)?;
            Ok(pattern)
        });
        match added {
            Ok(pattern) if purpose == Purpose::Allow => warn_of_pattern(text, &pattern, inspection),
            Ok(_) => {}
            Err(bad) => report(text, bad, inspection),
        }
    }
    match builder.build() {
        Ok(globs) => Some(globs),
        Err(bad) => {
            let place = written
                .first()
                .map(|(text, _)| text.clone())
                .unwrap_or_else(|| Located::nowhere(String::new()));
            report(&place, bad, inspection);
            None
        }
    }
}

/// Parses a list of literal folder paths and reports each entry that is not one.
pub(crate) fn folders(
    written: &[Located<String>],
    id: &str,
    around: &Surroundings,
    inspection: &mut Inspection<'_>,
) -> Vec<(PathBuf, RuleRef)> {
    let mut folders = Vec::new();
    for text in written {
        let named = Pattern::parse(text, &around.variables).map(|pattern| pattern.plain_name());
        match named {
            // The search path (`PATH`) separates its folders by colons.
            Ok(Some(folder)) if folder.parent().is_some() && !text.value.contains(':') => {
                folders.push((folder, inspection.rule(text, id)));
            }
            Ok(_) => {
                let message = format!("`{}` is not the name of one folder", text.value);
                let way_out = "write its absolute path, without wildcards and colons".to_owned();
                inspection.error(text, &message, Some(way_out));
            }
            Err(bad) => report(text, bad, inspection),
        }
    }
    folders
}

fn refuse_everything(written: &[Located<String>], around: &Surroundings, inspection: &mut Inspection<'_>) {
    for text in written {
        if Pattern::parse(text, &around.variables).is_ok_and(|pattern| pattern.covers_everything()) {
            let message = format!("`{}` would allow every path of the machine", text.value);
            let way_out =
                "list the folders that it needs, or write `allow_every_path: true` beside `allowed_paths`";
            inspection.error(text, &message, Some(way_out.to_owned()));
        }
    }
}

fn report(text: &Located<String>, bad: BadPattern, inspection: &mut Inspection<'_>) {
    inspection.error(text, &bad.message, bad.suggestion);
}

fn warn_of_pattern(text: &Located<String>, pattern: &Pattern, inspection: &mut Inspection<'_>) {
    if pattern.covers_everything() {
        let suggestion = Some(
            "list the folders that it needs; forbidden paths and built-in denials still apply".to_owned(),
        );
        inspection.warn(text, &format!("`{}` allows every path of the machine", text.value), suggestion);
    }
    if let Some(target) = glob::ignored_link(pattern) {
        let message = format!(
            "`{}` goes through a symbolic link, which is not followed, so it matches nothing",
            text.value
        );
        inspection.warn(text, &message, Some(format!("write the target of the link: {}", target.display())));
    }
}

fn bare_folders(written: &[Located<String>], around: &Surroundings) -> Vec<PathBuf> {
    let patterns = written.iter().filter_map(|text| Pattern::parse(text, &around.variables).ok());
    patterns.filter_map(|pattern| pattern.plain_name()).collect()
}
