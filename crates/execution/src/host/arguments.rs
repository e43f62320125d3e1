//! Rewrites path arguments of a host call to the paths that the host will open, before the call is judged.
//!
//! The host opens these paths itself, after the judgement. If the host could resolve a path in more than one way,
//! the call is refused.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tool::{Arguments, Refusal, RefusalCode};

use crate::host::JudgedTool;

/// Argument that contains a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostArgument {
    /// Path of a file or folder.
    Path {
        /// Key of the argument.
        key: String,
        /// Value that the host uses if the argument is absent.
        default: Option<String>,
    },
    /// Glob pattern. The tool searches the folder that precedes its first wildcard.
    Pattern {
        /// Key of the argument.
        key: String,
        /// Key of the argument that contains the start folder of the pattern.
        base_argument: Option<String>,
    },
    /// Patch whose headers contain the paths of the files that it changes.
    Patch {
        /// Key of the argument.
        key: String,
    },
}

/// Argument to which the files of a patch are added, so that the judge decides them as paths.
pub const PATCHED_FILES: &str = "patched_files";

impl JudgedTool {
    /// Replaces each path argument by the path that the host will open.
    pub(super) fn resolve_arguments(
        &self,
        mut input: Value,
        home: Option<&Path>,
    ) -> Result<Value, Box<Refusal>> {
        let Some(input_fields) = input.as_object_mut() else { return Ok(input) };
        for argument in &self.arguments {
            match argument {
                HostArgument::Path { key, default } => {
                    self.resolve_path_argument(input_fields, key, default.as_deref(), home)?
                }
                HostArgument::Pattern { key, base_argument } => {
                    self.resolve_pattern_argument(input_fields, key, base_argument.as_deref(), home)?
                }
                HostArgument::Patch { key } => self.resolve_patch_argument(input_fields, key, home)?,
            }
        }
        Ok(input)
    }

    fn resolve_path_argument(
        &self,
        input_fields: &mut Arguments,
        key: &str,
        default: Option<&str>,
        home: Option<&Path>,
    ) -> Result<(), Box<Refusal>> {
        match input_fields.get(key) {
            None | Some(Value::Null) => {
                if let Some(default) = default {
                    input_fields.insert(key.to_owned(), Value::from(default));
                }
            }
            Some(Value::String(text)) => {
                let path = self.resolve_path(key, text, home)?;
                input_fields.insert(key.to_owned(), Value::from(path));
            }
            // The schema refuses every other type.
            Some(_) => {}
        }
        Ok(())
    }

    fn resolve_pattern_argument(
        &self,
        input_fields: &mut Arguments,
        key: &str,
        base_argument: Option<&str>,
        home: Option<&Path>,
    ) -> Result<(), Box<Refusal>> {
        let Some(Value::String(text)) = input_fields.get(key) else { return Ok(()) };
        let folder = searched_folder(&self.resolve_path(key, text, home)?);
        let start = base_argument
            .and_then(|argument| input_fields.get(argument))
            .and_then(Value::as_str)
            .unwrap_or(".");
        let folder = Path::new(start).join(folder);
        input_fields.insert(key.to_owned(), Value::from(folder.to_string_lossy().into_owned()));
        Ok(())
    }

    /// Adds the files that a patch names. A patch without a file or with an unknown header is refused.
    fn resolve_patch_argument(
        &self,
        input_fields: &mut Arguments,
        key: &str,
        home: Option<&Path>,
    ) -> Result<(), Box<Refusal>> {
        let Some(Value::String(patch)) = input_fields.get(key) else { return Ok(()) };
        let files = patched_files(patch).ok_or_else(|| self.unreadable_patch(key))?;
        let files = files.into_iter().map(|file| self.resolve_path(key, file, home).map(Value::from));
        let files: Vec<Value> = files.collect::<Result<_, _>>()?;
        input_fields.insert(PATCHED_FILES.to_owned(), Value::from(files));
        Ok(())
    }

    fn unreadable_patch(&self, key: &str) -> Box<Refusal> {
        let reason = format!("Permission denied: `{key}` is not a patch whose files can be judged");
        let refusal = Refusal::new(self.definition().name().as_str(), RefusalCode::InvalidArguments, reason);
        let hint = "begin with `*** Begin Patch` and name each file by `*** Add File: `, `*** Update File: ` or \
                    `*** Delete File: `";
        Box::new(refusal.with_detail("unreadable_patch").with_hint(hint))
    }

    /// Returns the shell line of a call if the host table permits read-only lines for this tool.
    pub(super) fn command_line(&self, input: &Value) -> Option<String> {
        let argument = self.reading_lines.as_ref()?;
        input.get(argument)?.as_str().map(str::to_owned)
    }

    /// Returns the path that the host will open. A path that the host could trim or normalise is refused,
    /// because Sinew would judge one file and the host would open another.
    fn resolve_path(&self, key: &str, text: &str, home: Option<&Path>) -> Result<String, Box<Refusal>> {
        let may_be_trimmed = |c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}';
        if text.starts_with(may_be_trimmed) || text.ends_with(may_be_trimmed) {
            return Err(self.ambiguous_path(key, "begins or ends with whitespace"));
        }
        // After a symlink, the kernel resolves `..` from the target of the link. A host that normalises paths
        // resolves it from the link itself.
        if text.split('/').any(|part| part == "..") {
            return Err(self.ambiguous_path(key, "contains `..`"));
        }
        match (text.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/')), home) {
            (None, _) => Ok(text.to_owned()),
            (Some(rest), Some(home)) => Ok(format!("{}{rest}", home.display())),
            (Some(_), None) => Err(self.ambiguous_path(key, "begins with `~`, and no home folder is known")),
        }
    }

    fn ambiguous_path(&self, key: &str, problem: &str) -> Box<Refusal> {
        let reason = format!("Permission denied: `{key}` {problem}: it could name two different files");
        let refusal = Refusal::new(self.definition().name().as_str(), RefusalCode::InvalidArguments, reason);
        Box::new(
            refusal
                .with_detail("ambiguous_path")
                .with_hint("use the absolute path of the file, without surrounding whitespace"),
        )
    }
}

/// Returns the files that a patch names in its headers, or `None` if it has an unknown header or names no file.
/// Lines are trimmed in the same way as by Codex. A context line with the form of a header adds a file, so more
/// files may be judged than the patch changes.
fn patched_files(patch: &str) -> Option<Vec<&str>> {
    const FILE_HEADERS: [&str; 4] = ["Add File: ", "Update File: ", "Delete File: ", "Move to: "];
    const OTHER_HEADERS: [&str; 3] = ["Begin Patch", "End Patch", "End of File"];
    let headers = patch.lines().filter_map(|line| line.trim().strip_prefix("*** "));
    let mut files = Vec::new();
    for header in headers {
        match FILE_HEADERS.iter().find_map(|kind| header.strip_prefix(kind)) {
            Some(file) => files.push(file),
            None if OTHER_HEADERS.contains(&header) => {}
            None => return None,
        }
    }
    (!files.is_empty()).then_some(files)
}

/// Returns the folder that a glob pattern searches. If its wildcards could expand to `..` or to an absolute
/// path, the pattern could match any file, so the folder is `/`.
fn searched_folder(pattern: &str) -> PathBuf {
    let has_wildcard =
        |part: &str| part.contains(['*', '?', '[', ']', '{', '}', '(', ')', '!', '+', '@', '\\']);
    if !is_confined_glob(pattern) {
        return PathBuf::from("/");
    }
    let absolute = if pattern.starts_with('/') { "/" } else { "" };
    let parts = pattern.split('/').take_while(|part| !has_wildcard(part)).filter(|part| !part.is_empty());
    parts.fold(PathBuf::from(absolute), |folder, part| folder.join(part))
}

/// Returns true if all alternatives and character classes of a glob pattern are plain text, so that it can match
/// only files below its folder.
fn is_confined_glob(pattern: &str) -> bool {
    if pattern.contains(['\\', '(', ')']) {
        return false;
    }
    let mut rest = pattern;
    while let Some(open) = rest.find(['{', '[']) {
        let (opening, inside) = rest.split_at(open + 1);
        let is_class = opening.ends_with('[');
        let Some(close) = inside.find(if is_class { ']' } else { '}' }) else { return false };
        let (choice, after) = inside.split_at(close);
        let is_plain_text = |word: &str, other_characters: &str| {
            !word.is_empty()
                && word.chars().all(|c| c.is_ascii_alphanumeric() || other_characters.contains(c))
        };
        let is_plain = if is_class {
            is_plain_text(choice, "-_")
        } else {
            choice.split(',').all(|word| is_plain_text(word, "-_*"))
        };
        if !is_plain {
            return false;
        }
        rest = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{Category, RiskLevel, ToolSpec};

    use super::*;

    fn tool() -> JudgedTool {
        let mut spec = ToolSpec::new("find", "d", Category::READ_ONLY, RiskLevel::Low);
        spec.input_schema = Some(json!({"type": "object"}));
        let path = HostArgument::Path { key: "path".to_owned(), default: Some(".".to_owned()) };
        let pattern =
            HostArgument::Pattern { key: "pattern".to_owned(), base_argument: Some("path".to_owned()) };
        JudgedTool::new(spec.check().unwrap(), vec![path, pattern])
    }

    #[test]
    fn paths_are_resolved_as_the_host_resolves_them() {
        let resolve = |input: Value, home: Option<&str>| {
            let resolved = tool().resolve_arguments(input, home.map(Path::new));
            resolved.map_err(|refusal| refusal.detail.unwrap())
        };
        let home = Some("/h");
        let check = |input: Value, expect: Value| assert_eq!(resolve(input, home), Ok(expect));
        check(json!({}), json!({"path": "."}));
        check(json!({"path": null, "x": 1}), json!({"path": ".", "x": 1}));
        check(json!({"path": "~"}), json!({"path": "/h"}));
        check(json!({"path": "~/.ssh"}), json!({"path": "/h/.ssh"}));
        check(json!({"path": "~ada/x", "pattern": "a*"}), json!({"path": "~ada/x", "pattern": "~ada/x/"}));
        check(json!({"path": "/a", "pattern": "b/*"}), json!({"path": "/a", "pattern": "/a/b"}));
        check(json!({"path": "/a", "pattern": "~/b*"}), json!({"path": "/a", "pattern": "/h"}));
        check(json!({"path": 5, "pattern": []}), json!({"path": 5, "pattern": []}));
        check(json!("no object"), json!("no object"));
        for text in [" /etc/x", "/etc/x\n", "\u{feff}/x", "\u{a0}/x", "/x\u{85}"] {
            assert_eq!(resolve(json!({"path": text}), home), Err("ambiguous_path".to_owned()), "{text:?}");
        }
        assert_eq!(resolve(json!({"path": "~/x"}), None), Err("ambiguous_path".to_owned()));
        for text in ["/w/link/../../secret", "..", "a/..", "~/.."] {
            assert_eq!(resolve(json!({"path": text}), home), Err("ambiguous_path".to_owned()), "{text:?}");
            assert_eq!(resolve(json!({"pattern": text}), home), Err("ambiguous_path".to_owned()), "{text:?}");
        }
    }

    #[test]
    fn patch_is_judged_by_the_files_it_names() {
        let check = |patch: &str, expect: Option<&[&str]>| {
            assert_eq!(patched_files(patch).as_deref(), expect, "{patch}");
        };
        let patch = |body: &str| format!("*** Begin Patch\n{body}\n*** End Patch\n");
        check(&patch("*** Add File: a.txt\n+*** Add File: x"), Some(&["a.txt"]));
        check(
            &patch("*** Update File: a\n*** Move to: b c\n@@\n-x\n+y\n*** End of File"),
            Some(&["a", "b c"]),
        );
        check(&patch("*** Delete File: /etc/x"), Some(&["/etc/x"]));
        check(&patch("  *** Delete File: a  "), Some(&["a"]));
        check(&patch("@@\n *** Update File: b"), Some(&["b"]));
        for unknown in [&patch(""), "", "diff --git a/x b/x", &patch("*** Link File: a\n*** Add File: b")] {
            check(unknown, None);
        }
    }

    #[test]
    fn glob_is_judged_by_the_folder_it_searches() {
        let check = |pattern: &str, folder: &str| {
            assert_eq!(searched_folder(pattern), Path::new(folder), "{pattern}");
        };
        check("**/*.rs", "");
        check("src/**/*.{rs,toml}", "src");
        check("src/main.rs", "src/main.rs");
        check("/etc/*", "/etc");
        check("/etc/ssh/ssh_*", "/etc/ssh");
        check("lib[0-9]/*", "");
        check("{/etc,src}/*", "/");
        check("{src,../..}/*", "/");
        check("@(src|/etc)/*", "/");
        check("{src,~/.ssh}/*", "/");
        check("\\.\\./*", "/");
        check("[.][.]/*", "/");
        check("[+-9]tc/*", "/");
        check("{,x}.{,x}./*", "/");
        check("{,x}/etc/*", "/");
        check("{a,{b,/etc}}/*", "/");
        check("{a", "/");
    }
}
