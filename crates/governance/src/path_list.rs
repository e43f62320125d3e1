//! A list of path patterns in a file: parsed, compiled, and looked at for what is probably not meant.

use std::path::PathBuf;

use document::Located;
use tool::RuleRef;

use crate::glob::{self, PathGlobs, PathGlobsBuilder, Purpose};
use crate::pattern::{BadPattern, Pattern};
use crate::problems::Inspection;
use crate::surroundings::Surroundings;

/// A list of patterns and the line it stands on, for names that match none.
#[derive(Debug)]
pub(crate) struct PathList {
    pub(crate) globs: PathGlobs,
    pub(crate) rule: RuleRef,
    /// Folders that are listed by name alone, which covers nothing inside them: a likely slip.
    pub(crate) bare: Vec<PathBuf>,
    /// Folders that are listed with everything in them.
    pub(crate) folders: Vec<PathBuf>,
}

/// Whether a pattern may stand for every path of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EveryPath {
    /// Somebody wrote down that it is meant.
    Meant,
    /// It is taken for a slip, and does not load.
    Refused,
}

impl PathList {
    /// A list of allowed paths.
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

/// Compiles a list of patterns, reporting each that cannot be read. `None` where they do not compile together.
pub(crate) fn compile(
    written: &[Located<String>],
    purpose: Purpose,
    id: &str,
    around: &Surroundings,
    inspection: &mut Inspection<'_>,
) -> Option<PathGlobs> {
    let mut builder = PathGlobsBuilder::new(purpose, around.names);
    for text in written {
        let rule = inspection.rule(text, id);
        let added = Pattern::parse(text, &around.variables).and_then(|pattern| {
            builder.add(text, &pattern, &rule)?;
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
            let place = written.first().cloned().unwrap_or_else(|| Located::nowhere(String::new()));
            report(&place, bad, inspection);
            None
        }
    }
}

/// Reads a list of folders that are meant as they are written, reporting each that is none.
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
            // A search path separates its folders by colons.
            Ok(Some(folder)) if folder.parent().is_some() && !text.value.contains(':') => {
                folders.push((folder, inspection.rule(text, id)));
            }
            Ok(_) => {
                let message = format!("`{}` is not the name of one folder", text.value);
                let way_out = "write its whole path, without wildcards and colons".to_owned();
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
                "name the folders that are meant, or write `allow_every_path: true` beside `allowed_paths`";
            inspection.error(text, &message, Some(way_out.to_owned()));
        }
    }
}

fn report(text: &Located<String>, bad: BadPattern, inspection: &mut Inspection<'_>) {
    inspection.error(text, &bad.message, bad.suggestion);
}

fn warn_of_pattern(text: &Located<String>, pattern: &Pattern, inspection: &mut Inspection<'_>) {
    if pattern.covers_everything() {
        let suggestion =
            Some("name the folders that are meant; forbidden paths and the floor still hold".to_owned());
        inspection.warn(text, &format!("`{}` allows every path of the machine", text.value), suggestion);
    }
    if let Some(target) = glob::ignored_link(pattern) {
        let message =
            format!("`{}` passes a symbolic link, which is not followed, and matches nothing", text.value);
        inspection.warn(text, &message, Some(format!("write the folder it leads to: {}", target.display())));
    }
}

fn bare_folders(written: &[Located<String>], around: &Surroundings) -> Vec<PathBuf> {
    let patterns = written.iter().filter_map(|text| Pattern::parse(text, &around.variables).ok());
    patterns.filter_map(|pattern| pattern.plain_name()).collect()
}
