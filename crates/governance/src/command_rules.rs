//! Which programs a tool may start: words against the words of a rule. Nothing here knows a shell.
//!
//! A rule that allows is read narrowly: the program exactly as it is written, then the words that must follow it, in
//! their places. A rule that forbids is read widely, in `forbidding.rs`. What a program finds to run in a file is not seen
//! here.

mod editor;
mod escapes;
mod forbidding;
mod git;
mod glue;
mod quiet;
mod readings;

use document::Located;
use tool::{RefusalCode, RuleRef};

use self::readings::Readings;
use crate::command_entry::{CommandEntry, CommandPattern, WordEntry};
use crate::glob::Purpose;
use crate::grounds::{Grounds, place, shown};
use crate::problems::Inspection;
use crate::remedy;
use crate::surroundings::FileNames;
use crate::trail::Notes;

/// What only a shell would give a meaning to. A line that has one is not what its words say.
const FOR_A_SHELL: &[char] = &[
    '\'', '"', '\\', '$', '`', ';', '&', '|', '<', '>', '(', ')', '{', '}', '[', ']', '*', '?', '~', '!',
    '#', '\n', '\r', '\t', '\0',
];

/// What is looked through for a forbidden name. Systems start nothing whose words are much longer, and who looks holds up
/// everybody else.
const LONGEST_COMMAND: usize = 256 * 1024;

/// The commands of one tool.
#[derive(Clone, Debug)]
pub(crate) struct CommandRules {
    pub(crate) allowed: Option<CommandList>,
    pub(crate) forbidden: Vec<CommandRule>,
    names: FileNames,
}

/// A list of commands and the line it stands on.
#[derive(Clone, Debug)]
pub(crate) struct CommandList {
    pub(crate) rules: Vec<CommandRule>,
    pub(crate) rule: RuleRef,
}

/// A program, and the words that follow it. Each word is a choice; no words at all mean any program.
#[derive(Clone, Debug)]
pub(crate) struct CommandRule {
    pub(crate) words: Vec<Vec<String>>,
    pub(crate) rule: RuleRef,
    column: u64,
    /// Lines it must match, and lines it must not.
    examples: Vec<(String, bool)>,
}

/// A command that a call names: its words, or the line that cannot be taken apart without a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Words(Vec<String>),
    ForAShell(String),
}

impl Command {
    /// The words of a line: what stands between spaces.
    pub(crate) fn from_line(line: &str) -> Self {
        match line.contains(FOR_A_SHELL) {
            true => Command::ForAShell(line.to_owned()),
            false => {
                Command::Words(line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect())
            }
        }
    }

    /// The narrowest rule that allows it, as a file writes it.
    fn as_written(&self) -> String {
        let words: Vec<String> = match self {
            Command::Words(words) => words.iter().map(|word| remedy::quoted(word)).collect(),
            Command::ForAShell(line) => vec![remedy::quoted(line)],
        };
        match words.as_slice() {
            [program] => program.clone(),
            words => format!("{{argv: [{}]}}", words.join(", ")),
        }
    }
}

impl std::fmt::Display for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Command::Words(words) => f.write_str(&words.join(" ")),
            Command::ForAShell(line) => f.write_str(line),
        }
    }
}

impl CommandRules {
    pub(crate) fn compile(
        allowed: Option<&Located<Vec<Located<CommandEntry>>>>,
        forbidden: Option<&Located<Vec<Located<CommandEntry>>>>,
        tool: &str,
        names: FileNames,
        inspection: &mut Inspection<'_>,
    ) -> Self {
        let allowed = allowed.map(|list| {
            let id = format!("{tool}.allowed_commands");
            let rules = list.iter().map(|entry| CommandRule::compile(entry, &id, inspection)).collect();
            CommandList { rules, rule: inspection.rule(list, id.as_str()) }
        });
        let id = format!("{tool}.forbidden_commands");
        let forbidden = forbidden.into_iter().flat_map(|list| list.iter());
        let forbidden: Vec<_> = forbidden.map(|entry| CommandRule::compile(entry, &id, inspection)).collect();
        let rules = CommandRules { allowed, forbidden, names };
        rules.run_examples(inspection);
        rules
    }

    /// Whether any command is bound by these rules.
    pub(crate) fn bind(&self) -> Option<&RuleRef> {
        let allowed = self.allowed.as_ref().map(|list| &list.rule);
        allowed.or_else(|| self.forbidden.first().map(|rule| &rule.rule))
    }

    /// The examples that stand beside a pattern hold, or the policy does not load.
    fn run_examples(&self, inspection: &mut Inspection<'_>) {
        let allowed = self.allowed.iter().flat_map(|list| &list.rules).map(|rule| (rule, Purpose::Allow));
        let forbidden = self.forbidden.iter().map(|rule| (rule, Purpose::Forbid));
        for (rule, purpose) in allowed.chain(forbidden) {
            for (line, expected) in &rule.examples {
                let found = match (Command::from_line(line), purpose) {
                    (Command::Words(words), Purpose::Allow) => rule.allows(&words),
                    (Command::Words(words), Purpose::Forbid) => {
                        rule.forbids(&Readings::of(&words, self.names))
                    }
                    (Command::ForAShell(_), _) => false,
                };
                if found != *expected {
                    let says = if *expected { "must match" } else { "must not match" };
                    let does = if found { "does" } else { "does not" };
                    let message = format!("the rule {says} `{line}`, and {does}");
                    let place = Located { value: (), line: rule.rule.line, column: rule.column };
                    inspection.error(&place, &message, Some("change the words or the example".to_owned()));
                }
            }
        }
    }

    /// Whether a command may be started.
    pub(crate) fn admit(&self, command: &Command, notes: &mut Notes<'_>) -> Result<(), Grounds> {
        notes.asks(|| command.to_string());
        notes.offers(|| command.as_written());
        let words = match command {
            Command::Words(words) if !words.is_empty() => words,
            Command::Words(_) => return Err(self.denied(command, "no_program", "name a program")),
            Command::ForAShell(_) => {
                let hint =
                    "no shell runs it; give the words alone, without quotes, `;`, `|`, `$` or patterns";
                return Err(self.denied(command, "needs_a_shell", hint));
            }
        };
        if !self.forbidden.is_empty() && words.iter().map(String::len).sum::<usize>() > LONGEST_COMMAND {
            let hint = format!("with `forbidden_commands`, a command has at most {LONGEST_COMMAND} bytes");
            return Err(self.denied(command, "too_long_to_judge", &hint));
        }
        let found = self.forbids(words);
        let before = self.forbidden.iter().take(found.unwrap_or(self.forbidden.len()));
        notes.skips(before.map(|rule| (&rule.rule, rule.to_string())));
        if let Some(rule) = found.and_then(|at| self.forbidden.get(at)) {
            notes.offers(|| rule.to_string());
            let hint = format!("{} forbids it, whatever else allows it", place(&rule.rule));
            let reason = format!("Command {} is forbidden", shown(&command.to_string()));
            let code = RefusalCode::CommandNotAllowed;
            return Err(Grounds::new(code, "forbidden_command", &reason, hint, &rule.rule));
        }
        let Some(list) = &self.allowed else {
            let hint = "a tool that starts programs needs `allowed_commands` in tools.yaml";
            return Err(self.denied(command, "not_listed", hint));
        };
        let found = list.rules.iter().position(|rule| rule.allows(words));
        let before = list.rules.iter().take(found.unwrap_or(list.rules.len()));
        notes.skips(before.map(|rule| (&rule.rule, rule.to_string())));
        match found.and_then(|at| list.rules.get(at)) {
            Some(rule) => {
                notes.passes(rule.rule.clone(), || rule.to_string(), || command.to_string());
                Ok(())
            }
            None => {
                let hint = format!("{} lists what it may start", place(&list.rule));
                Err(self.denied(command, "not_listed", &hint))
            }
        }
    }

    /// The first of the rules that forbid it.
    fn forbids(&self, words: &[String]) -> Option<usize> {
        if self.forbidden.is_empty() {
            return None;
        }
        let said = Readings::of(words, self.names);
        self.forbidden.iter().position(|rule| rule.forbids(&said))
    }

    fn denied(&self, command: &Command, detail: &str, hint: &str) -> Grounds {
        let reason = format!("Command {} is not allowed", shown(&command.to_string()));
        let default = || RuleRef { file: "built-in default".into(), line: 0, id: "allowed_commands".into() };
        let rule = self.allowed.as_ref().map_or_else(default, |list| list.rule.clone());
        Grounds::new(RefusalCode::CommandNotAllowed, detail, &reason, hint.to_owned(), &rule)
    }

    /// The rules of a tool that has no entry: it may start nothing.
    pub(crate) fn none() -> Self {
        CommandRules { allowed: None, forbidden: Vec::new(), names: FileNames::CaseSensitive }
    }

    /// The rules of a tool whose entry is only recorded: as far as they go, it may start anything.
    pub(crate) fn any() -> Self {
        let rule = RuleRef { file: "shadow".into(), line: 0, id: "shadow".into() };
        let any = CommandRule { words: Vec::new(), rule: rule.clone(), column: 0, examples: Vec::new() };
        let allowed = Some(CommandList { rules: vec![any], rule });
        CommandRules { allowed, forbidden: Vec::new(), names: FileNames::CaseSensitive }
    }
}

impl CommandRule {
    fn compile(entry: &Located<CommandEntry>, id: &str, inspection: &mut Inspection<'_>) -> Self {
        check_words(entry, inspection);
        let (words, examples) = match &entry.value {
            CommandEntry::Program(program) if program == "*" => (Vec::new(), Vec::new()),
            CommandEntry::Program(program) => (vec![vec![program.clone()]], Vec::new()),
            CommandEntry::Pattern(pattern) => (words_of(pattern), examples_of(pattern)),
        };
        CommandRule { words, examples, rule: inspection.rule(entry, id), column: entry.column }
    }

    /// Whether every command that another rule allows is surely met by this one.
    pub(crate) fn covers(&self, other: &CommandRule) -> bool {
        let each =
            |(mine, theirs): (&Vec<String>, &Vec<String>)| theirs.iter().all(|word| mine.contains(word));
        self.words.len() <= other.words.len() && self.words.iter().zip(&other.words).all(each)
    }

    /// The words of the rule, each in its place.
    pub(crate) fn allows(&self, command: &[String]) -> bool {
        command.len() >= self.words.len()
            && self.words.iter().zip(command).all(|(choice, word)| choice.contains(word))
    }
}

impl std::fmt::Display for CommandRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.words.is_empty() {
            return f.write_str("*");
        }
        let words: Vec<String> = self.words.iter().map(|choice| choice.join("|")).collect();
        f.write_str(&words.join(" "))
    }
}

fn words_of(pattern: &CommandPattern) -> Vec<Vec<String>> {
    let choice = |word: &WordEntry| match word {
        WordEntry::Word(word) => vec![word.clone()],
        WordEntry::Choice(words) => words.clone(),
    };
    pattern.argv.iter().map(choice).collect()
}

fn examples_of(pattern: &CommandPattern) -> Vec<(String, bool)> {
    let matching = pattern.matches.iter().map(|line| (line.clone(), true));
    matching.chain(pattern.not_match.iter().map(|line| (line.clone(), false))).collect()
}

/// A program or a pattern whose words can mean something.
fn check_words(command: &Located<CommandEntry>, inspection: &mut Inspection<'_>) {
    match &command.value {
        CommandEntry::Program(program) if program.trim().is_empty() => {
            inspection.error(command, "a command is empty", None);
        }
        CommandEntry::Program(program) if program.contains(char::is_whitespace) => {
            let words: Vec<&str> = program.split_whitespace().collect();
            let suggestion = format!("to match arguments write {{argv: [{}]}}", words.join(", "));
            let message = format!("`{program}` is not a program: it has a space, and would never match");
            inspection.error(command, &message, Some(suggestion));
        }
        CommandEntry::Program(_) => {}
        CommandEntry::Pattern(pattern) => {
            let empty = |word: &WordEntry| match word {
                WordEntry::Word(word) => word.is_empty(),
                WordEntry::Choice(words) => words.is_empty() || words.iter().any(String::is_empty),
            };
            if pattern.argv.is_empty() || pattern.argv.iter().any(empty) {
                inspection.error(command, "`argv` has no words, an empty word or an empty choice", None);
            }
        }
    }
}

#[cfg(test)]
mod tests;
