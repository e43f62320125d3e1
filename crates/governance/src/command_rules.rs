//! Rules for the programs a tool may start: words of a command compared with words of a rule. No shell
//! syntax.
//!
//! A rule is a program and the words that must follow it, each at its position; further words may follow, unless
//! the rule is exact. An allowing rule matches the
//! program exactly as written, a forbidding rule the program of that name in any folder. Arguments are not
//! interpreted: an allowed program that starts other programs is limited only by its sandbox.

use strict_yaml::Located;
use tool::{RefusalCode, RuleRef};

use crate::command_entry::{CommandEntry, CommandPattern, WordEntry};
use crate::denial_reason::{DenialReason, allowlist_hint, display_text, rule_location};
use crate::glob::ListPurpose;
use crate::normalized_path::fold_case;
use crate::policy_environment::NameComparison;
use crate::problems::FileInspection;
use crate::rule_trace::TraceRecorder;
use crate::suggested_change;

/// Characters with a special meaning in a shell. A line that contains one cannot be split into words here.
const SHELL_CHARACTERS: &[char] = &[
    '\'', '"', '\\', '$', '`', ';', '&', '|', '<', '>', '(', ')', '{', '}', '[', ']', '*', '?', '~', '!',
    '#', '\n', '\r', '\t', '\0',
];

/// End of the text of an exact rule.
pub const EXACT_SUFFIX: &str = " (exact)";

/// Command rules of one tool.
#[derive(Clone, Debug)]
pub struct CommandRules {
    /// Commands that may be started; `None` if there is no list.
    pub allowed: Option<CommandList>,
    /// Commands that are refused.
    pub forbidden: Vec<CommandRule>,
    file_names: NameComparison,
}

/// List of commands and the line in the policy file that it is on.
#[derive(Clone, Debug)]
pub struct CommandList {
    /// Entries, in file order.
    pub rules: Vec<CommandRule>,
    /// Location in the policy file.
    pub rule: RuleRef,
}

/// Program and the words that follow it. Each word is a choice; a rule without words means any program.
#[derive(Clone, Debug)]
pub struct CommandRule {
    /// Words of the command, each a choice.
    pub words: Vec<Vec<String>>,
    /// True if no further word may follow.
    pub exact: bool,
    /// Location in the policy file.
    pub rule: RuleRef,
    column: u64,
    /// Command lines, and whether the rule must match each.
    examples: Vec<(String, bool)>,
}

/// Command that a call names: its words, or a line that only a shell can split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestedCommand {
    Words(Vec<String>),
    ShellLine(String),
}

impl RequestedCommand {
    /// Splits a line at spaces, unless it contains shell syntax.
    pub(crate) fn from_line(line: &str) -> Self {
        match line.contains(SHELL_CHARACTERS) {
            true => RequestedCommand::ShellLine(line.to_owned()),
            false => RequestedCommand::Words(
                line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect(),
            ),
        }
    }

    /// Returns the narrowest rule that allows the command, in the syntax of the policy file.
    fn to_rule_text(&self) -> String {
        let words: Vec<String> = match self {
            RequestedCommand::Words(words) => {
                words.iter().map(|word| suggested_change::quote_yaml(word)).collect()
            }
            RequestedCommand::ShellLine(line) => vec![suggested_change::quote_yaml(line)],
        };
        // Without `exact` the rule for `python3 -c` would permit any code.
        format!("{{argv: [{}], exact: true}}", words.join(", "))
    }
}

impl std::fmt::Display for RequestedCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RequestedCommand::Words(words) => f.write_str(&words.join(" ")),
            RequestedCommand::ShellLine(line) => f.write_str(line),
        }
    }
}

impl CommandRules {
    pub(crate) fn compile(
        allowed: Option<&Located<Vec<Located<CommandEntry>>>>,
        forbidden: Option<&Located<Vec<Located<CommandEntry>>>>,
        tool: &str,
        names: NameComparison,
        inspection: &mut FileInspection<'_>,
    ) -> Self {
        let allowed = allowed.map(|list| {
            let id = format!("{tool}.allowed_commands");
            let rules = list.iter().map(|entry| CommandRule::compile(entry, &id, inspection)).collect();
            CommandList { rules, rule: inspection.rule_ref(list, id.as_str()) }
        });
        let id = format!("{tool}.forbidden_commands");
        let forbidden = forbidden.into_iter().flat_map(|list| list.iter());
        let forbidden: Vec<_> = forbidden.map(|entry| CommandRule::compile(entry, &id, inspection)).collect();
        let rules = CommandRules { allowed, forbidden, file_names: names };
        rules.check_examples(inspection);
        rules
    }

    /// Returns the rule to name if a tool has command rules; `None` if it has none.
    pub fn first_rule(&self) -> Option<&RuleRef> {
        let allowed = self.allowed.as_ref().map(|list| &list.rule);
        allowed.or_else(|| self.forbidden.first().map(|rule| &rule.rule))
    }

    /// Returns true if the list of allowed commands permits the command.
    pub fn is_listed(&self, words: &[String]) -> bool {
        self.allowed.iter().flat_map(|list| &list.rules).any(|rule| rule.allows(words))
    }

    /// Reports an error for each example of a pattern that the pattern does not match as stated.
    fn check_examples(&self, inspection: &mut FileInspection<'_>) {
        let allowed = self.allowed.iter().flat_map(|list| &list.rules).map(|rule| (rule, ListPurpose::Allow));
        let forbidden = self.forbidden.iter().map(|rule| (rule, ListPurpose::Forbid));
        for (rule, purpose) in allowed.chain(forbidden) {
            for (line, expected) in &rule.examples {
                let found = match (RequestedCommand::from_line(line), purpose) {
                    (RequestedCommand::Words(words), ListPurpose::Allow) => rule.allows(&words),
                    (RequestedCommand::Words(words), ListPurpose::Forbid) => {
                        rule.forbids(&words, self.file_names)
                    }
                    (RequestedCommand::ShellLine(_), _) => false,
                };
                if found != *expected {
                    let requirement = if *expected { "must match" } else { "must not match" };
                    let does = if found { "does" } else { "does not" };
                    let message = format!("the rule {requirement} `{line}`, and {does}");
                    let location = Located { value: (), line: rule.rule.line, column: rule.column };
                    inspection.error(&location, &message, Some("change `argv` or the example".to_owned()));
                }
            }
        }
    }

    /// Checks that a command may be started.
    pub(crate) fn check(
        &self,
        command: &RequestedCommand,
        notes: &mut TraceRecorder<'_>,
    ) -> Result<(), DenialReason> {
        notes.set_value(|| command.to_string());
        notes.set_yaml(|| command.to_rule_text());
        let words = match command {
            RequestedCommand::Words(words) if !words.is_empty() => words,
            RequestedCommand::Words(_) => {
                return Err(self.denial(command, "no_program", "the command is empty; name a program"));
            }
            RequestedCommand::ShellLine(_) => {
                let hint = "no shell is used; pass plain words, without quotes, `;`, `|`, `$` or wildcards";
                return Err(self.denial(command, "needs_a_shell", hint));
            }
        };
        let found = self.forbidden.iter().position(|rule| rule.forbids(words, self.file_names));
        let before = self.forbidden.iter().take(found.unwrap_or(self.forbidden.len()));
        notes.record_skipped(before.map(|rule| (&rule.rule, rule.to_string())));
        if let Some(rule) = found.and_then(|at| self.forbidden.get(at)) {
            notes.set_yaml(|| rule.to_string());
            let hint = format!("{} forbids it, even if another rule allows it", rule_location(&rule.rule));
            let reason = format!("Command {} is forbidden", display_text(&command.to_string()));
            let code = RefusalCode::CommandNotAllowed;
            return Err(DenialReason::new(code, "forbidden_command", &reason, hint, &rule.rule));
        }
        let Some(list) = &self.allowed else {
            let hint = "a tool that starts programs needs `allowed_commands` in tools.yaml";
            return Err(self.denial(command, "not_listed", hint));
        };
        let found = list.rules.iter().position(|rule| rule.allows(words));
        let before = list.rules.iter().take(found.unwrap_or(list.rules.len()));
        notes.record_skipped(before.map(|rule| (&rule.rule, rule.to_string())));
        match found.and_then(|at| list.rules.get(at)) {
            Some(rule) => {
                notes.record_passed(rule.rule.clone(), || rule.to_string(), || command.to_string());
                Ok(())
            }
            None => {
                let permitted = list.rules.iter().map(CommandRule::to_string);
                let hint = allowlist_hint(&list.rule, "commands", permitted);
                Err(self.denial(command, "not_listed", &hint))
            }
        }
    }

    fn denial(&self, command: &RequestedCommand, detail: &str, hint: &str) -> DenialReason {
        let reason = format!("Command {} is not allowed", display_text(&command.to_string()));
        let default = || RuleRef { file: "built-in default".into(), line: 0, id: "allowed_commands".into() };
        let rule = self.allowed.as_ref().map_or_else(default, |list| list.rule.clone());
        DenialReason::new(RefusalCode::CommandNotAllowed, detail, &reason, hint.to_owned(), &rule)
    }

    /// Rules of a tool that has no entry: it may start nothing.
    pub(crate) fn deny_all() -> Self {
        CommandRules { allowed: None, forbidden: Vec::new(), file_names: NameComparison::CaseSensitive }
    }

    /// Returns the rules with a list that allows every command in place of their list. What is forbidden stays, and
    /// without a list the tool still starts nothing.
    pub(crate) fn without_allowlist(&self) -> Self {
        let allowed = self.allowed.as_ref().and(Self::allow_all().allowed);
        CommandRules { allowed, forbidden: self.forbidden.clone(), file_names: self.file_names }
    }

    /// Rules of a tool whose entry is in shadow mode: they allow every command.
    pub(crate) fn allow_all() -> Self {
        let rule = RuleRef { file: "shadow".into(), line: 0, id: "shadow".into() };
        let any = CommandRule {
            words: Vec::new(),
            exact: false,
            rule: rule.clone(),
            column: 0,
            examples: Vec::new(),
        };
        let allowed = Some(CommandList { rules: vec![any], rule });
        CommandRules { allowed, forbidden: Vec::new(), file_names: NameComparison::CaseSensitive }
    }
}

impl CommandRule {
    fn compile(entry: &Located<CommandEntry>, id: &str, inspection: &mut FileInspection<'_>) -> Self {
        check_entry(entry, inspection);
        let (words, exact, examples) = match &entry.value {
            CommandEntry::Program(program) if program == "*" => (Vec::new(), false, Vec::new()),
            CommandEntry::Program(program) => (vec![vec![program.clone()]], false, Vec::new()),
            CommandEntry::Pattern(pattern) => {
                (pattern_words(pattern), pattern.exact, pattern_examples(pattern))
            }
        };
        CommandRule { words, exact, examples, rule: inspection.rule_ref(entry, id), column: entry.column }
    }

    /// Returns true if this rule certainly matches every command that the other rule allows.
    pub fn covers(&self, other: &CommandRule) -> bool {
        let each =
            |(mine, theirs): (&Vec<String>, &Vec<String>)| theirs.iter().all(|word| mine.contains(word));
        let has_length = match self.exact {
            true => other.exact && self.words.len() == other.words.len(),
            false => self.words.len() <= other.words.len(),
        };
        has_length && self.words.iter().zip(&other.words).all(each)
    }

    /// Returns true if a command of this many words has neither too few nor too many for the rule.
    fn admits_length(&self, words: usize) -> bool {
        if self.exact { words == self.words.len() } else { words >= self.words.len() }
    }

    /// Returns true if the command has the words of the rule, each at its position, and no further ones if the rule
    /// is exact.
    pub(crate) fn allows(&self, command: &[String]) -> bool {
        self.admits_length(command.len())
            && self.words.iter().zip(command).all(|(choice, word)| choice.contains(word))
    }

    /// Like `allows`, but for a program of the rule's name in any folder.
    fn forbids(&self, command: &[String], names: NameComparison) -> bool {
        let Some((programs, words)) = self.words.split_first() else { return true };
        let Some((program, arguments)) = command.split_first() else { return false };
        let file_name = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or_default();
            match names {
                NameComparison::CaseSensitive => name.to_owned(),
                NameComparison::CaseInsensitive => fold_case(name),
            }
        };
        let name = file_name(program);
        programs.iter().any(|known| file_name(known) == name)
            && self.admits_length(command.len())
            && words.iter().zip(arguments).all(|(choice, word)| choice.contains(word))
    }
}

impl std::fmt::Display for CommandRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.words.is_empty() {
            return f.write_str("*");
        }
        let words: Vec<String> = self.words.iter().map(|choice| choice.join("|")).collect();
        write!(f, "{}{}", words.join(" "), if self.exact { EXACT_SUFFIX } else { "" })
    }
}

fn pattern_words(pattern: &CommandPattern) -> Vec<Vec<String>> {
    let choice = |word: &WordEntry| match word {
        WordEntry::Word(word) => vec![word.clone()],
        WordEntry::Choice(words) => words.clone(),
    };
    pattern.argv.iter().map(choice).collect()
}

fn pattern_examples(pattern: &CommandPattern) -> Vec<(String, bool)> {
    let matching = pattern.matches.iter().map(|line| (line.clone(), true));
    matching.chain(pattern.not_match.iter().map(|line| (line.clone(), false))).collect()
}

/// Reports an error for an entry that is empty or that cannot match any command.
fn check_entry(command: &Located<CommandEntry>, inspection: &mut FileInspection<'_>) {
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
