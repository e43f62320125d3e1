//! Tool guidance: known mistakes and quirks from a tool's author, added to a refusal when they concern the
//! arguments it blames.

use std::sync::Arc;

use tool::text::{escape_invisible_line, shorten};
use tool::{Refusal, ToolDefinition};

/// Maximum number of notes in one refusal.
const MAX_NOTES: usize = 3;
/// Maximum number of characters of each part of a note.
const MAX_PART_CHARS: usize = 300;

/// Common mistake in calls of a tool.
#[derive(Clone, Debug)]
pub struct KnownMistake {
    /// Short name of the mistake.
    pub name: String,
    /// Description of the mistake.
    pub description: String,
    /// Example of the wrong call.
    pub wrong: String,
    /// Example of the correct call.
    pub correct: String,
    /// Reason.
    pub rationale: Option<String>,
}

/// Surprising behaviour of a tool, with its mitigation.
#[derive(Clone, Debug)]
pub struct KnownQuirk {
    /// Short name of the quirk.
    pub name: String,
    /// Description of the behaviour.
    pub description: String,
    /// Mitigation.
    pub mitigation: String,
}

/// Known mistakes and quirks of one command. Lists that sibling commands have in common are shared between
/// them.
#[derive(Clone, Debug, Default)]
pub struct ToolGuidance {
    /// Command name as the author writes it; a mistake that shows a call of another command does not apply to
    /// this one.
    pub command: String,
    /// Names of the sibling commands, to find out which command a mistake is about.
    pub siblings: Arc<[String]>,
    /// Known mistakes.
    pub mistakes: Arc<[KnownMistake]>,
    /// Known quirks.
    pub quirks: Arc<[KnownQuirk]>,
    /// Reference to further documentation.
    pub reference: Option<String>,
}

impl ToolGuidance {
    /// Appends the known mistakes and quirks of the rejected arguments to a refusal.
    pub(crate) fn add_to(&self, refusal: &mut Refusal, definition: &ToolDefinition) {
        let blamed = blamed_arguments(refusal, definition);
        let about = |text: &str| blamed.iter().any(|field| mentions(text, field));
        let mistakes =
            self.mistakes.iter().filter(|one| self.is_about_command(&one.wrong) && about(&one.wrong));
        let mistakes = mistakes.map(|one| {
            let explanation = one
                .rationale
                .as_deref()
                .map(|text| format!(" Why: {}.", to_short_line(text)))
                .unwrap_or_default();
            let (wrong, correct) = (to_short_line(&one.wrong), to_short_line(&one.correct));
            format!(
                " Known mistake `{}`: {}. Wrong: {wrong} → correct: {correct}.{explanation}",
                one.name,
                to_short_line(&one.description)
            )
        });
        let quirks = self.quirks.iter().filter(|one| about(&one.description) || about(&one.name));
        let quirks = quirks.map(|one| {
            format!(
                " Known quirk `{}`: {}. {}.",
                one.name,
                to_short_line(&one.description),
                to_short_line(&one.mitigation)
            )
        });
        let notes: Vec<String> = mistakes.chain(quirks).take(MAX_NOTES).collect();
        notes.iter().for_each(|note| refusal.reason.push_str(note));
        if let Some(reference) = &self.reference {
            refusal.reason.push_str(&format!(" Reference for this tool: {}.", to_short_line(reference)));
        }
    }

    /// Returns true if the shown call is one of this command, or names no sibling command.
    fn is_about_command(&self, shown: &str) -> bool {
        mentions(shown, &self.command) || !self.siblings.iter().any(|other| mentions(shown, other))
    }
}

/// Returns the arguments that a refusal names: in its pointers, and in messages without a pointer.
fn blamed_arguments<'d>(refusal: &Refusal, definition: &'d ToolDefinition) -> Vec<&'d str> {
    let names = definition.parameters().iter().map(|parameter| parameter.name.as_str());
    names
        .filter(|name| {
            refusal.problems.iter().any(|problem| {
                let top = problem.pointer.split('/').nth(1);
                top == Some(name) || problem.pointer.is_empty() && mentions(&problem.message, name)
            })
        })
        .collect()
}

/// Returns true if the text contains the name as a word, in singular or plural.
fn mentions(text: &str, name: &str) -> bool {
    let (text, name) = (text.to_lowercase(), name.to_lowercase());
    let singular = name.strip_suffix('s').filter(|stem| stem.len() > 2).unwrap_or(&name);
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let is = |word: &str| word == name || word == singular || word.strip_suffix('s') == Some(singular);
    // An identifier such as `assignee_format_mismatch` contains several words.
    let mut words = words.flat_map(|word| std::iter::once(word).chain(word.split('_')));
    words.any(is)
}

fn to_short_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    escape_invisible_line(&shorten(line.trim_end_matches('.'), MAX_PART_CHARS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_matched_as_a_whole_word() {
        for (text, name, found) in [
            ("create_task({assignees: {add: [456]}})", "assignees", true),
            ("assignee_format_mismatch", "assignees", true),
            ("Create expects [123]", "assignees", false),
            ("the assigneeship", "assignees", false),
            ("Name it", "name", true),
            ("a tag", "tags", true),
            ("a bus", "bus", true),
            ("a bu", "bus", false),
        ] {
            assert_eq!(mentions(text, name), found, "{text} / {name}");
        }
    }
}
