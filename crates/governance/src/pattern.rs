//! Checked path pattern with its variables expanded: absolute and unambiguous.

mod possible_names;

use std::path::{Component, Path, PathBuf};

use tool::text::nearest_word;

use self::possible_names::{MAX_NAME_BYTES, PossibleNames};
use crate::glob::ListPurpose;
use crate::policy_environment::PathVariables;

/// Pattern that can be compiled: starts with `/`, has only parts that can match a name, and uses `**` only as
/// a whole part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    text: String,
}

/// Error in a pattern, and a suggestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternError {
    /// Description of the error.
    pub message: String,
    /// Suggested correction.
    pub suggestion: Option<String>,
}

impl PathPattern {
    /// Expands and checks the text from a policy file.
    pub(crate) fn parse(written: &str, variables: &PathVariables) -> Result<Self, PatternError> {
        if written.trim().is_empty() {
            return Err(PatternError {
                message: "a pattern is empty".to_owned(),
                suggestion: Some("remove it".to_owned()),
            });
        }
        let expanded = expand_pattern(written, variables)?;
        // A leading `**/` matches anywhere on the machine.
        let anchored = match expanded.as_str() {
            "**" => "/**".to_owned(),
            text if text.starts_with("**/") => format!("/{text}"),
            text => text.to_owned(),
        };
        let trimmed = if anchored.len() > 1 { anchored.trim_end_matches('/') } else { anchored.as_str() };
        let text = if trimmed.is_empty() { "/" } else { trimmed };
        check_shape(written, text)?;
        // Consecutive `**` parts match the same as one.
        let mut parts: Vec<&str> = text.split('/').collect();
        parts.dedup_by(|part, before| *part == "**" && *before == "**");
        Ok(PathPattern { text: parts.join("/") })
    }

    /// Returns the text that matches this path only when written in a policy file.
    pub fn literal(name: &Path) -> String {
        escape_literal(&name.to_string_lossy()).replace('$', "[$]")
    }

    /// Returns the texts to compile so that `dir/**` also matches `dir`.
    pub(crate) fn texts_with_folder(&self) -> Vec<String> {
        let mut texts = vec![self.text.clone()];
        if let Some(folder) = self.text.strip_suffix("/**") {
            texts.push(if folder.is_empty() { "/".to_owned() } else { folder.to_owned() });
        }
        texts
    }

    /// Returns the texts to compile so that the pattern also matches everything below: a rule that forbids a
    /// folder also forbids its contents.
    pub(crate) fn texts_with_descendants(&self) -> Vec<String> {
        let mut texts = self.texts_with_folder();
        texts.extend(descendants_pattern(&self.text));
        texts
    }

    /// Returns the patterns of the folders above the matched paths, up to the first `**`. They exist if a
    /// matched path does.
    pub(crate) fn parent_patterns(&self) -> Vec<PathPattern> {
        let parts: Vec<&str> = self.text.split('/').take_while(|part| *part != "**").collect();
        let is_whole = parts.len() == self.text.split('/').count();
        let folders = if is_whole { parts.len().saturating_sub(1) } else { parts.len() };
        let prefix = |length: usize| parts.get(..length).map(|parts| PathPattern { text: parts.join("/") });
        (2..=folders).filter_map(prefix).collect()
    }

    /// Returns the path if the pattern has no wildcards.
    pub(crate) fn literal_path(&self) -> Option<PathBuf> {
        (!has_wildcard(&self.text)).then(|| PathBuf::from(&self.text))
    }

    /// Returns true if the pattern matches the whole machine.
    pub(crate) fn matches_everything(&self) -> bool {
        matches!(self.text.as_str(), "/**" | "/" | "/**/*")
    }

    /// Returns true if this pattern certainly matches everything that `other` matches. The check is lexical,
    /// so `false` proves nothing.
    pub fn covers(&self, other: &PathPattern, purpose: ListPurpose) -> bool {
        let (wide, narrow) = (self.text.as_str(), other.text.as_str());
        let below = |folder: &str| narrow == folder || narrow.starts_with(&format!("{folder}/"));
        let name = wide.strip_prefix("/**/").filter(|name| !name.contains('/') && !has_wildcard(name));
        let anywhere = |name: &str| match purpose {
            ListPurpose::Allow => narrow.ends_with(&format!("/{name}")),
            ListPurpose::Forbid => format!("{narrow}/").contains(&format!("/{name}/")),
        };
        // In a list of allowed paths `/` is the root folder alone, and `/**/*` is everything but the root folder.
        let is_everything = match purpose {
            ListPurpose::Forbid => self.matches_everything(),
            ListPurpose::Allow => wide == "/**" || (wide == "/**/*" && !matches!(narrow, "/" | "/**" | "/*")),
        };
        is_everything
            || wide == narrow
            || wide.strip_suffix("/**").is_some_and(|folder| !has_wildcard(folder) && below(folder))
            || (purpose == ListPurpose::Forbid && below(wide))
            || name.is_some_and(anywhere)
    }

    /// Returns a path that the pattern may match: each wildcard replaced by a letter, each choice by its
    /// first option.
    pub fn example_path(&self) -> PathBuf {
        let (mut name, mut chars) = (String::new(), self.text.chars());
        while let Some(c) = chars.next() {
            match c {
                '*' | '?' => name.push('x'),
                '[' => {
                    name.extend(chars.next());
                    chars.by_ref().find(|c| *c == ']');
                }
                '{' => {
                    let choices: String = chars.by_ref().take_while(|c| *c != '}').collect();
                    name.extend(choices.split(',').next());
                }
                '\\' => name.extend(chars.next()),
                c => name.push(c),
            }
        }
        PathBuf::from(name)
    }

    /// Returns the path before the first wildcard, and the rest.
    pub fn literal_prefix(&self) -> (PathBuf, &str) {
        let mut end = self.text.len();
        let mut start = 0;
        for part in self.text.split('/') {
            if has_wildcard(part) {
                end = start;
                break;
            }
            start += part.len() + 1;
        }
        let (literal, rest) = self.text.split_at(end.min(self.text.len()));
        (PathBuf::from(if literal.is_empty() { "/" } else { literal }), rest)
    }

    /// Returns the pattern below another folder.
    pub(crate) fn with_base(&self, folder: &Path, rest: &str) -> PathPattern {
        let folder = escape_literal(&folder.to_string_lossy());
        let text = format!("{}/{}", folder.trim_end_matches('/'), rest.trim_start_matches('/'));
        PathPattern { text: if text.len() > 1 { text.trim_end_matches('/').to_owned() } else { text } }
    }
}

impl std::fmt::Display for PathPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the pattern for everything below the matched paths, unless the pattern already ends in `/**`.
/// Applies with wildcards too: `.env.*` can match a folder as well as `.env`.
pub(crate) fn descendants_pattern(text: &str) -> Option<String> {
    let is_tree = text.ends_with("/**");
    (!is_tree).then(|| format!("{}/**", text.trim_end_matches('/')))
}

/// Escapes a path so that the pattern matches it alone. A backslash is escaped separately, because `globset`
/// would read it as the start of an escape.
fn escape_literal(name: &str) -> String {
    globset::escape(name).replace('\\', "[\\]")
}

/// Returns true if a part contains pattern syntax.
pub(crate) fn has_wildcard(part: &str) -> bool {
    part.contains(['*', '?', '[', '{', '\\'])
}

fn check_shape(written: &str, text: &str) -> Result<(), PatternError> {
    let bad = |message: String, suggestion: &str| {
        Err(PatternError { message, suggestion: Some(suggestion.to_owned()) })
    };
    if !text.starts_with('/') {
        return bad(
            format!("the pattern `{written}` is not absolute"),
            "start it with `/`, `$HOME/`, `~/`, or `**/` for anywhere",
        );
    }
    if text.contains('\0') {
        return bad(format!("the pattern `{}` contains a NUL", written.escape_debug()), "remove it");
    }
    if brace_spans_parts(text) {
        return bad(format!("`{{…}}` in `{written}` spans a `/`"), "write one pattern for each choice");
    }
    let classes = char_classes(text);
    if let Some(CharClass { text: whole, .. }) = classes.iter().find(|class| !class.text.is_ascii()) {
        let message = format!("`{whole}` in `{written}` has letters that are not ASCII");
        return bad(message, "write the choices between braces, such as `{é,è}`");
    }
    if let Some(CharClass { text: class, .. }) = classes.iter().find(|class| class.matches_slash()) {
        let message =
            format!("`{class}` in `{written}` also matches `/`, so it would match paths in subfolders");
        return bad(
            message,
            "list the allowed characters, such as `[a-z0-9]`; `?` matches any one character",
        );
    }
    for part in text.split('/').skip(1).filter(|_| text != "/") {
        match part {
            "" => {
                return bad(format!("the pattern `{written}` has an empty part (`//`)"), "remove one slash");
            }
            "." | ".." => {
                let message =
                    format!("the pattern `{written}` has a `{part}` part, which no canonical path contains");
                return bad(message, "write the folder it leads to");
            }
            part if part != "**" && part.contains("**") => {
                let message = format!("`{part}` in `{written}` has `**` beside other characters");
                return bad(message, "`**` stands alone between slashes; `*` is any part of a name");
            }
            part => check_names(written, part)?,
        }
    }
    Ok(())
}

/// Refuses a part that can match no name.
fn check_names(written: &str, part: &str) -> Result<(), PatternError> {
    let (message, suggestion) = match PossibleNames::of(part).shortest() {
        Some(bytes) if bytes <= MAX_NAME_BYTES => return Ok(()),
        Some(bytes) => (
            format!("a part of the pattern has at least {bytes} bytes; no name is so long"),
            format!("names have at most {MAX_NAME_BYTES} bytes"),
        ),
        None => (
            format!(
                "`{part}` in `{written}` matches only `.`, `..` or an empty part, which no path contains"
            ),
            "write the name of a file or folder".to_owned(),
        ),
    };
    Err(PatternError { message, suggestion: Some(suggestion) })
}

/// Character class: `[ab]`.
struct CharClass<'p> {
    text: &'p str,
    /// Characters between the brackets, without the negation sign.
    members: &'p str,
    excludes: bool,
}

impl CharClass<'_> {
    /// Returns true if the class matches `/`: it is negated, has a range across `/`, or lists it.
    fn matches_slash(&self) -> bool {
        let members: Vec<char> = self.members.chars().collect();
        let spans = |three: &[char]| matches!(three, [low, '-', high] if (*low..=*high).contains(&'/'));
        self.excludes || members.windows(3).any(spans) || members.contains(&'/')
    }
}

fn char_classes(text: &str) -> Vec<CharClass<'_>> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(behind) = take_class_or_escape(rest, &mut found) {
        rest = behind;
    }
    found
}

/// Takes the next class, unless an escape comes first, and returns the rest of the text.
fn take_class_or_escape<'p>(text: &'p str, found: &mut Vec<CharClass<'p>>) -> Option<&'p str> {
    let here = text.get(text.find(['[', '\\'])?..)?;
    if let Some(escaped) = here.strip_prefix('\\') {
        return escaped.get(escaped.chars().next()?.len_utf8()..);
    }
    let inside = here.get(1..)?;
    let body = inside.strip_prefix(['!', '^']).unwrap_or(inside);
    // A `]` in first position is a literal.
    let first = body.chars().next()?.len_utf8();
    let end = first + body.get(first..)?.find(']')?;
    let (whole, behind) = here.split_at_checked(1 + inside.len() - body.len() + end + 1)?;
    found.push(CharClass { text: whole, members: body.get(..end)?, excludes: body.len() < inside.len() });
    Some(behind)
}

fn brace_spans_parts(text: &str) -> bool {
    text.split('/').any(|part| part.matches('{').count() != part.matches('}').count())
}

/// Expands the variables of a literal path.
pub(crate) fn expand_literal(written: &str, variables: &PathVariables) -> Result<String, PatternError> {
    expand_with(written, |name| {
        variable_value(name, variables).map(|value| value.to_string_lossy().into_owned())
    })
}

/// Expands the variables of a pattern and escapes their values: a `[` in the home folder's name is a literal.
fn expand_pattern(written: &str, variables: &PathVariables) -> Result<String, PatternError> {
    expand_with(written, |name| {
        variable_value(name, variables).map(|value| escape_literal(&value.to_string_lossy()))
    })
}

/// Expands `~` and `$NAME`. A `$` that starts no name is a literal; `[$]` is always a literal.
fn expand_with(
    written: &str,
    value: impl Fn(&str) -> Result<String, PatternError>,
) -> Result<String, PatternError> {
    let home_form = written == "~" || written.starts_with("~/");
    if !home_form && written.starts_with('~') {
        let message = format!("`{written}` names the home folder of another user, which is not expanded");
        return Err(PatternError { message, suggestion: Some("write the absolute path".to_owned()) });
    }
    let mut out = String::new();
    let mut rest = written;
    if home_form {
        out.push_str(&value("HOME")?);
        rest = written.get(1..).unwrap_or_default();
    }
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let (name, remaining) = variable_name(after);
        if name.is_empty() {
            out.push('$');
        } else {
            out.push_str(&value(name)?);
        }
        rest = remaining;
    }
    out.push_str(rest);
    Ok(out)
}

/// Returns the variable name at the start of a text, with or without braces, and the rest.
fn variable_name(text: &str) -> (&str, &str) {
    let braced = text.strip_prefix('{').and_then(|inner| inner.split_once('}'));
    if let Some(split) = braced {
        return split;
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return ("", text);
    }
    text.split_at(text.find(|c| !is_word(c)).unwrap_or(text.len()))
}

fn variable_value(name: &str, variables: &PathVariables) -> Result<PathBuf, PatternError> {
    match variables.get(name) {
        Some(value) => Ok(without_current_dir(value)),
        None => {
            let message = format!("unknown variable `${name}`");
            let suggestion = match nearest_word(name, variables.names()) {
                Some(near) => format!("did you mean `${near}`?"),
                None => {
                    "`$HOME`, `~` and `$XDG_*` are expanded, where they are set to absolute paths".to_owned()
                }
            };
            Err(PatternError { message, suggestion: Some(suggestion) })
        }
    }
}

fn without_current_dir(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(written: &str) -> PathPattern {
        let environment =
            [("HOME", "/home/a[b]"), ("XDG_CONFIG_HOME", "/cfg"), ("XDG_RUNTIME_DIR", "relative")];
        let variables =
            PathVariables::from_environment(environment.map(|(n, v)| (n.to_owned(), v.to_owned())));
        PathPattern::parse(written, &variables).unwrap_or_else(|bad| panic!("{written}: {bad:?}"))
    }

    #[test]
    fn variables_are_expanded_and_escaped() {
        for (written, expect) in [
            ("$HOME/x", "/home/a[[]b[]]/x"),
            ("~/x/**", "/home/a[[]b[]]/x/**"),
            ("~", "/home/a[[]b[]]"),
            ("${HOME}/x", "/home/a[[]b[]]/x"),
            ("$XDG_CONFIG_HOME/x", "/cfg/x"),
            ("$XDG_STATE_HOME", "/home/a[[]b[]]/.local/state"),
            ("/a/$", "/a/$"),
            ("/a/$1", "/a/$1"),
            ("/a/b~", "/a/b~"),
            ("/a/", "/a"),
            ("/", "/"),
            ("**", "/**"),
            ("**/.env", "/**/.env"),
        ] {
            assert_eq!(parse(written).text, expect, "{written}");
        }
        let unset = PathVariables::default();
        for written in ["$HOME/x", "~/x", "$XDG_CONFIG_HOME/x"] {
            assert!(PathPattern::parse(written, &unset).is_err(), "{written}");
        }
        let relative = PathVariables::from_environment([("HOME".to_owned(), "home".to_owned())]);
        assert!(PathPattern::parse("$HOME/x", &relative).is_err(), "a relative value is no value");
    }

    #[test]
    fn pattern_that_can_never_match_is_an_error() {
        let long = format!("/a/{}", "x".repeat(256));
        let wide = format!("/a/{}*", "?".repeat(256));
        for written in [
            long.as_str(),
            wide.as_str(),
            "/a/{}/b",
            "/a/{,}",
            "/a/./b",
            "/a/../b",
            "/a//b",
            r"/a/\./b",
            r"/a/.\.",
            "/a/[.]/b",
            "/a/{.,..}",
        ] {
            assert!(PathPattern::parse(written, &PathVariables::default()).is_err(), "{written}");
        }
        let longest = long.replacen('x', "", 1);
        for written in [longest.as_str(), "/a/{b,}c", "/a/{b,c}", r"/a/\.b", "/a/{.,..,b}"] {
            assert!(PathPattern::parse(written, &PathVariables::default()).is_ok(), "{written}");
        }
    }

    #[test]
    fn literal_pattern_matches_its_own_path() {
        for name in ["/h/x", r"/h\x/y", r"/a\*b", "/a[b]/{c}", r"/\\/?"] {
            let is_match =
                |text: &str, path: &str| globset::Glob::new(text).unwrap().compile_matcher().is_match(path);
            assert!(is_match(&PathPattern::literal(Path::new(name)), name), "{name}");
        }
    }

    #[test]
    fn pattern_matches_its_example() {
        for (written, expect) in [
            ("/a/b", "/a/b"),
            ("/a/**", "/a/xx"),
            ("**/.env.*", "/xx/.env.x"),
            ("/a/{id_rsa,id_dsa}?", "/a/id_rsax"),
            ("~/[bc]", "/home/a[b]/b"),
        ] {
            let pattern = parse(written);
            assert_eq!(pattern.example_path(), Path::new(expect), "{written}");
            let glob = globset::Glob::new(&pattern.text).unwrap().compile_matcher();
            assert!(glob.is_match(pattern.example_path()), "{written}");
        }
    }

    #[test]
    fn literal_prefix_ends_at_the_first_wildcard() {
        for (written, plain, rest) in [
            ("/a/b/**", "/a/b", "**"),
            ("/a/b*/c", "/a", "b*/c"),
            ("/a/b", "/a/b", ""),
            ("**/x", "/", "**/x"),
            ("/{a,b}/c", "/", "{a,b}/c"),
            ("~/x", "/home", "a[[]b[]]/x"),
        ] {
            let pattern = parse(written);
            let (literal, tail) = pattern.literal_prefix();
            assert_eq!((literal.as_path(), tail), (Path::new(plain), rest), "{written}");
            assert_eq!(pattern.with_base(&literal, tail), pattern, "{written}");
        }
        assert_eq!(parse("/a/b/**").with_base(Path::new("/x[y"), "**").text, "/x[[]y/**");
    }
}
