//! Commands and hosts in the files: whether their words can mean anything. Matching them is not done yet.

use document::Located;

use crate::command_entry::{CommandEntry, WordEntry};
use crate::problems::Inspection;

/// A program or a pattern of its arguments.
pub(crate) fn check_command(command: &Located<CommandEntry>, inspection: &mut Inspection<'_>) {
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

/// A host: `example.org`, `*.example.org` or `*`.
pub(crate) fn check_domain(domain: &Located<String>, inspection: &mut Inspection<'_>) {
    let name = domain.strip_prefix("*.").unwrap_or(domain);
    let label = |label: &str| {
        let inner = |c: char| c.is_ascii_alphanumeric() || c == '-';
        !label.is_empty()
            && label.len() <= 63
            && label.chars().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if domain.value != "*" && (name.len() > 253 || !name.split('.').all(label)) {
        let suggestion = "write a name such as example.org, *.example.org for all below it, or *; \
                          non-ASCII names in their xn-- form";
        inspection.error(
            domain,
            &format!("`{}` is not a host name", domain.value),
            Some(suggestion.to_owned()),
        );
    }
}
