//! A host's arguments in the terms of our rules: what it would open, written out before it is judged.
//!
//! The host opens by itself, later and by name, so every reading of a name that the host may have must be the one
//! that is judged. Where there are several, the call is refused.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tool::{Arguments, Refusal, RefusalCode};

use crate::host::JudgedTool;

/// An argument that names something on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostArgument {
    /// A file or folder.
    Path {
        /// Its key.
        key: String,
        /// What the host takes where it is absent.
        default: Option<String>,
    },
    /// A glob: the folder in front of its first wildcard is what is looked through.
    Pattern {
        /// Its key.
        key: String,
        /// The argument with the folder it starts in.
        below: Option<String>,
    },
}

impl JudgedTool {
    /// The arguments with every name as the host will read it.
    pub(super) fn spelt_out(&self, mut input: Value, home: Option<&Path>) -> Result<Value, Box<Refusal>> {
        let Some(given) = input.as_object_mut() else { return Ok(input) };
        for argument in &self.arguments {
            match argument {
                HostArgument::Path { key, default } => {
                    self.spell_path(given, key, default.as_deref(), home)?
                }
                HostArgument::Pattern { key, below } => {
                    self.spell_pattern(given, key, below.as_deref(), home)?
                }
            }
        }
        Ok(input)
    }

    fn spell_path(
        &self,
        given: &mut Arguments,
        key: &str,
        default: Option<&str>,
        home: Option<&Path>,
    ) -> Result<(), Box<Refusal>> {
        match given.get(key) {
            None | Some(Value::Null) => {
                if let Some(default) = default {
                    given.insert(key.to_owned(), Value::from(default));
                }
            }
            Some(Value::String(text)) => {
                let path = self.one_reading(key, text, home)?;
                given.insert(key.to_owned(), Value::from(path));
            }
            // Of any other type, which the schema refuses.
            Some(_) => {}
        }
        Ok(())
    }

    fn spell_pattern(
        &self,
        given: &mut Arguments,
        key: &str,
        below: Option<&str>,
        home: Option<&Path>,
    ) -> Result<(), Box<Refusal>> {
        let Some(Value::String(text)) = given.get(key) else { return Ok(()) };
        let folder = folder_of(&self.one_reading(key, text, home)?);
        let start = below.and_then(|below| given.get(below)).and_then(Value::as_str).unwrap_or(".");
        let folder = Path::new(start).join(folder);
        given.insert(key.to_owned(), Value::from(folder.to_string_lossy().into_owned()));
        Ok(())
    }

    /// A name that hosts trim would be judged as one file and opened as another.
    fn one_reading(&self, key: &str, text: &str, home: Option<&Path>) -> Result<String, Box<Refusal>> {
        let trimmed = |c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}';
        if text.starts_with(trimmed) || text.ends_with(trimmed) {
            let reason =
                format!("Permission denied: `{key}` begins or ends with a space, and could mean two files");
            let refusal =
                Refusal::new(self.definition.name().as_str(), RefusalCode::InvalidArguments, reason);
            return Err(Box::new(refusal.detail("ambiguous_path").hint("name the file without it")));
        }
        Ok(match (text.strip_prefix('~'), home) {
            (Some(""), Some(home)) => home.to_string_lossy().into_owned(),
            (Some(rest), Some(home)) if rest.starts_with('/') => format!("{}{rest}", home.display()),
            _ => text.to_owned(),
        })
    }
}

/// The folder a glob looks through. One that could climb out of it, or name others inside braces, could look
/// anywhere, and is judged as if it did.
fn folder_of(pattern: &str) -> PathBuf {
    let is_wild = |part: &str| part.contains(['*', '?', '[', ']', '{', '}', '(', ')', '!', '+', '@', '\\']);
    let literal: PathBuf = {
        let absolute = if pattern.starts_with('/') { "/" } else { "" };
        let parts = pattern.split('/').take_while(|part| !is_wild(part)).filter(|part| !part.is_empty());
        parts.fold(PathBuf::from(absolute), |folder, part| folder.join(part))
    };
    let mut rest = pattern.split('/').skip_while(|part| !is_wild(part));
    let climbs = rest.clone().any(|part| part.contains(".."));
    let braces = rest.next().is_some() && pattern.contains(['{', '(', '\\']) && names_places(pattern);
    if climbs || braces { PathBuf::from("/") } else { literal }
}

/// Whether a choice in a glob has a `/` or a `~` at its start: it may lead anywhere.
fn names_places(pattern: &str) -> bool {
    ['{', '(', ',', '|'].into_iter().any(|before| {
        ['/', '~', '\\', '.'].into_iter().any(|start| pattern.contains(&format!("{before}{start}")[..]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glob_is_judged_by_the_folder_it_looks_through() {
        let check = |pattern: &str, folder: &str| {
            assert_eq!(folder_of(pattern), Path::new(folder), "{pattern}");
        };
        check("**/*.rs", "");
        check("src/**/*.{rs,toml}", "src");
        check("src/main.rs", "src/main.rs");
        check("/etc/*", "/etc");
        check("/etc/ssh/ssh_*", "/etc/ssh");
        check("../*/x", "..");
        check("a/*/../../../etc/*", "/");
        check("{/etc,src}/*", "/");
        check("{src,../..}/*", "/");
        check("@(src|/etc)/*", "/");
        check("{src,~/.ssh}/*", "/");
    }
}
