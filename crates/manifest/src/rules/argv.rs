//! Checks of command lines: literal words and whole arguments, never an argument inside a word, never a
//! shell.

use strict_yaml::{YamlNode, YamlNodeKind};

use super::commands;
use crate::diagnostic::DiagnosticCode;
use crate::diagnostic_collector::{DiagnosticCollector, FieldPosition};

/// Programs that interpret their arguments as code.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ksh", "fish", "cmd", "powershell"];

pub(super) fn check(tool: &YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let executable = tool.get("cli_specific").and_then(|cli| cli.get("executable"));
    if let Some(executable) = executable {
        check_program(executable, findings);
    }
    for (index, (_, command)) in commands(tool).enumerate() {
        let parameters = command.get("parameters").map(YamlNode::items).unwrap_or_default();
        let mut names: Vec<&str> =
            parameters.iter().filter_map(|parameter| parameter.get("name")?.text()).collect();
        let wants_session = command.get("wants_session").map(|wants| &wants.kind);
        if matches!(wants_session, Some(YamlNodeKind::Boolean(true))) {
            names.push(tool::definition::SESSION_ARGUMENT);
        }
        for part in command.get("argv").map(YamlNode::items).unwrap_or_default() {
            let arguments = if part.text().is_some() { std::slice::from_ref(part) } else { part.items() };
            for word in arguments {
                check_placeholder(word, &names, &format!("tool.commands[{index}].argv"), findings);
            }
        }
    }
}

fn check_program(executable: &YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let text = executable.text().unwrap_or_default();
    let name = text.rsplit('/').next().unwrap_or(text);
    let at = FieldPosition::node(executable, "tool.cli_specific.executable");
    if text.contains(char::is_whitespace) {
        let message = "`executable` must be a program without arguments";
        findings.add(
            DiagnosticCode::InvalidValue,
            at,
            message,
            "put the arguments in the `argv` of each command",
        );
    } else if SHELLS.contains(&name) {
        let message =
            format!("`{name}` interprets its arguments as code, so passing call arguments to it is unsafe");
        findings.add(DiagnosticCode::InvalidValue, at, &message, "name the program itself");
    }
}

fn check_placeholder(word: &YamlNode, known: &[&str], field: &str, findings: &mut DiagnosticCollector<'_>) {
    let Some(text) = word.text() else { return };
    let Some(name) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        if text.contains('{') && text.contains('}') {
            let message = format!("`{}` puts an argument inside a word", tool::text::shorten(text, 64));
            let fix = "an argument is a word of its own: [\"--option\", \"{name}\"]";
            findings.add(DiagnosticCode::InvalidValue, FieldPosition::node(word, field), &message, fix);
        }
        return;
    };
    if name.is_empty() || name.contains(['{', '}']) {
        let message = format!("`{}` is not one argument", tool::text::shorten(text, 64));
        return findings.add(
            DiagnosticCode::InvalidValue,
            FieldPosition::node(word, field),
            &message,
            "write one `{name}` and nothing else",
        );
    }
    if !known.contains(&name) {
        let fix = match tool::text::nearest_word(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{{{near}}}`?"),
            None => "declare it in `parameters` of this command".to_owned(),
        };
        let message = format!("`{text}` is not a parameter of this command");
        findings.add(DiagnosticCode::UnresolvedReference, FieldPosition::node(word, field), &message, &fix);
    }
}
