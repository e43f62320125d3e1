//! Questions of `sinew policy prove`: a small language, whose errors show its forms.

use std::path::Path;

use governance::policy_environment::PathVariables;
use governance::rules::{HostPattern, PathGlobs, PathPattern};
use tool::definition::PathAccess;
use tool::text::nearest_word;
use tool::{Mode, ToolName};

/// Forms of a question.
pub const EXPRESSION_GRAMMAR: &str = "\
write [below] PATH      write, create or delete the path, or anything below it
read [below] PATH       read the path, or anything below it
reach HOST              send a request to example.org, *.example.org or *
run PROGRAM [WORD...]   start a program, with these first arguments
Each may be followed by: in MODE, by TOOL, with human, without human";

/// Question about a policy.
#[derive(Clone, Debug)]
pub struct Question {
    pub(super) effect: Effect,
    pub(super) mode: Option<Mode>,
    pub(super) attendance: Attendance,
    pub(super) tool: Option<String>,
}

/// Effect in question.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    Path(PathAccess, Box<PathGlobs>),
    Reach(HostPattern),
    Run(Vec<String>),
}

/// Part of a human in the calls in question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attendance {
    /// Calls with and without approval.
    Either,
    /// Calls that a human must approve.
    WithHuman,
    /// Calls that run without approval.
    WithoutHuman,
}

/// Error in a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionError {
    /// Description of the error.
    pub message: String,
    /// Way to correct it.
    pub hint: String,
}

impl Question {
    /// Reads a question. Relative paths start in `folder`.
    pub fn parse(
        words: &[String],
        folder: &Path,
        variables: &PathVariables,
    ) -> Result<Question, ExpressionError> {
        let words = match words {
            [single] => split_words(single)?,
            several => several.to_vec(),
        };
        let mut question = Question {
            effect: Effect::Run(Vec::new()),
            mode: None,
            attendance: Attendance::Either,
            tool: None,
        };
        let mut rest: &[String] = &words;
        while let Some(shorter) = question.take_condition(rest)? {
            rest = shorter;
        }
        let texts: Vec<&str> = rest.iter().map(String::as_str).collect();
        let path = |access, text: &str, is_below| paths(text, is_below, folder, variables, access);
        question.effect = match texts.as_slice() {
            ["write", "below", text] => path(PathAccess::Write, text, true)?,
            ["write", text] => path(PathAccess::Write, text, false)?,
            ["read", "below", text] => path(PathAccess::Read, text, true)?,
            ["read", text] => path(PathAccess::Read, text, false)?,
            ["reach", host] => Effect::Reach(HostPattern::parse(host).ok_or_else(|| {
                error(format!("`{host}` is not a host"), "write example.org, *.example.org or *")
            })?),
            ["run", _, ..] => Effect::Run(rest.iter().skip(1).filter(|word| *word != "*").cloned().collect()),
            ["write" | "read" | "reach" | "run"] => return Err(grammar("the question is not complete")),
            ["write" | "read", "below", _, more, ..] | ["write" | "read" | "reach", _, more, ..] => {
                return Err(grammar(&format!("`{more}` is not expected there")));
            }
            [] => return Err(grammar("there is no question")),
            [other, ..] => {
                let near = nearest_word(other, ["write", "read", "reach", "run"]);
                let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                return Err(grammar(&format!("`{other}` is not an effect{near}")));
            }
        };
        Ok(question)
    }

    /// Takes a condition from the end, and returns the words before it.
    fn take_condition<'w>(&mut self, words: &'w [String]) -> Result<Option<&'w [String]>, ExpressionError> {
        let [before @ .., key, value] = words else { return Ok(None) };
        if before.is_empty() {
            return Ok(None);
        }
        match (key.as_str(), value.as_str()) {
            ("with", "human") => self.attendance = Attendance::WithHuman,
            ("without", "human") => self.attendance = Attendance::WithoutHuman,
            ("in", mode) => {
                let known = Mode::ALL.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(mode));
                let modes = Mode::ALL.map(Mode::as_str).join(", ");
                self.mode = Some(known.ok_or_else(|| {
                    error(format!("`{mode}` is not a mode"), &format!("the modes are {modes}"))
                })?);
            }
            ("by", tool) => {
                let name = ToolName::new(tool).map_err(|bad| error(bad.to_string(), "name a tool"))?;
                self.tool = Some(name.to_string());
            }
            _ => return Ok(None),
        }
        Ok(Some(before))
    }

    pub(super) fn is_about_programs(&self) -> bool {
        matches!(self.effect, Effect::Run(_))
    }

    /// Returns the tool in question; `None` for every tool.
    pub fn tool(&self) -> Option<&str> {
        self.tool.as_deref()
    }
}

fn paths(
    text: &str,
    is_below: bool,
    folder: &Path,
    variables: &PathVariables,
    access: PathAccess,
) -> Result<Effect, ExpressionError> {
    let is_absolute = text.starts_with(['/', '~', '$']) || text.starts_with("**");
    let plain = text.strip_prefix("./").unwrap_or(text);
    let start = PathPattern::literal(folder);
    let start = start.trim_end_matches('/');
    let whole = match plain {
        _ if is_absolute => text.to_owned(),
        "." | "" => start.to_owned(),
        plain => format!("{start}/{plain}"),
    };
    let whole = match is_below {
        true if !whole.ends_with("/**") => format!("{}/**", whole.trim_end_matches('/')),
        _ => whole,
    };
    let globs = PathGlobs::of_pattern(&whole, variables)
        .map_err(|bad| error(bad.message, &bad.suggestion.unwrap_or_else(|| "write a path".to_owned())))?;
    Ok(Effect::Path(access, Box::new(globs)))
}

/// Splits a text at spaces outside of quotes.
fn split_words(text: &str) -> Result<Vec<String>, ExpressionError> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for character in text.chars() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            (_, other) => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    match quote {
        None => Ok(words),
        Some(open) => Err(error(format!("the quote {open} is not closed"), "close it")),
    }
}

fn grammar(message: &str) -> ExpressionError {
    error(message.to_owned(), &format!("write one of:\n{EXPRESSION_GRAMMAR}"))
}

fn error(message: String, hint: &str) -> ExpressionError {
    ExpressionError { message, hint: hint.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let parsed = Question::parse(&[text.to_owned()], Path::new("/w"), &PathVariables::default());
        let shown = match parsed {
            Err(error) => format!("error: {}", error.message),
            Ok(question) => {
                let effect = match &question.effect {
                    Effect::Path(access, globs) => format!("{access:?} {}", globs.patterns()[0].text),
                    Effect::Reach(host) => format!("reach {host}"),
                    Effect::Run(words) => format!("run {}", words.join("|")),
                };
                format!("{effect} {:?} {:?} {:?}", question.mode, question.attendance, question.tool)
            }
        };
        assert_eq!(shown, expect, "{text}");
    }

    #[test]
    fn questions_are_read_and_errors_explained() {
        check("write below src", "Write /w/src/** None Either None");
        check("read '/a b'", "Read /a b None Either None");
        check("write below .", "Write /w/** None Either None");
        check("reach *.org in alert without human", "reach *.org Some(Alert) WithoutHuman None");
        check("run git push by run_command", "run git|push None Either Some(\"run_command\")");
        check("run * with human", "run  None WithHuman None");
        check("wirte below x", "error: `wirte` is not an effect; did you mean `write`?");
        check("write below", "Write /w/below None Either None");
        check("read", "error: the question is not complete");
        check("write under src", "error: `src` is not expected there");
        check("write below src twice without human", "error: `twice` is not expected there");
        check("reach a.org b.org", "error: `b.org` is not expected there");
        check("reach -", "error: `-` is not a host");
        check("read /x in PANIC", "error: `PANIC` is not a mode");
        check("read 'x", "error: the quote ' is not closed");
        check("", "error: there is no question");
    }
}
