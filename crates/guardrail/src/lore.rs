//! What a tool's author knows of the mistakes people make with it, told exactly when one was made.

use std::sync::Arc;

use tool::{Refusal, ToolDefinition, shorten, visible_line};

/// More than this is a manual.
const MOST_LESSONS: usize = 3;
/// Of each part of a lesson.
const LONGEST: usize = 300;

/// A mistake that is often made.
#[derive(Clone, Debug)]
pub struct Mistake {
    /// What it is called.
    pub name: String,
    /// What is wrong.
    pub description: String,
    /// How it is done wrong.
    pub wrong: String,
    /// How it is done.
    pub correct: String,
    /// Why.
    pub rationale: Option<String>,
}

/// What surprises, and what helps.
#[derive(Clone, Debug)]
pub struct Quirk {
    /// What it is called.
    pub name: String,
    /// What happens.
    pub description: String,
    /// What helps.
    pub mitigation: String,
}

/// The mistakes and surprises of one command. What its siblings know too is there once for all of them.
#[derive(Clone, Debug, Default)]
pub struct Lore {
    /// As the author calls the command: a mistake that shows a call of another one is not this one's.
    pub command: String,
    /// Of its siblings, to tell whose mistake one is.
    pub siblings: Arc<[String]>,
    /// Mistakes.
    pub mistakes: Arc<[Mistake]>,
    /// Surprises.
    pub quirks: Arc<[Quirk]>,
    /// Where what is known is kept, if that is elsewhere.
    pub reference: Option<String>,
}

impl Lore {
    /// Adds to a refusal what is known about the arguments it blames.
    pub(crate) fn teach(&self, refusal: &mut Refusal, definition: &ToolDefinition) {
        let blamed = blamed(refusal, definition);
        let about = |text: &str| blamed.iter().any(|field| mentions(text, field));
        let mistakes = self.mistakes.iter().filter(|one| self.is_ours(&one.wrong) && about(&one.wrong));
        let mistakes = mistakes.map(|one| {
            let why = one.rationale.as_deref().map(|why| format!(" Why: {}.", part(why))).unwrap_or_default();
            let (wrong, correct) = (part(&one.wrong), part(&one.correct));
            format!(
                " Known mistake `{}`: {}. Wrong: {wrong} → correct: {correct}.{why}",
                one.name,
                part(&one.description)
            )
        });
        let quirks = self.quirks.iter().filter(|one| about(&one.description) || about(&one.name));
        let quirks = quirks.map(|one| {
            format!(" Known quirk `{}`: {}. {}.", one.name, part(&one.description), part(&one.mitigation))
        });
        let lessons: Vec<String> = mistakes.chain(quirks).take(MOST_LESSONS).collect();
        lessons.iter().for_each(|lesson| refusal.reason.push_str(lesson));
        if let Some(reference) = &self.reference {
            refusal.reason.push_str(&format!(" What is known of this tool: {}.", part(reference)));
        }
    }

    /// Whether a call that is shown is one of this command, or of none in particular.
    fn is_ours(&self, shown: &str) -> bool {
        mentions(shown, &self.command) || !self.siblings.iter().any(|other| mentions(shown, other))
    }
}

/// The arguments a refusal is about: those it points to, and those its words name.
fn blamed<'d>(refusal: &Refusal, definition: &'d ToolDefinition) -> Vec<&'d str> {
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

/// Whether a text has a name in it as a word, in the plural or not.
fn mentions(text: &str, name: &str) -> bool {
    let (text, name) = (text.to_lowercase(), name.to_lowercase());
    let singular = name.strip_suffix('s').filter(|stem| stem.len() > 2).unwrap_or(&name);
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let is = |word: &str| word == name || word == singular || word.strip_suffix('s') == Some(singular);
    // An identifier such as `assignee_format_mismatch` is several words.
    let mut words = words.flat_map(|word| std::iter::once(word).chain(word.split('_')));
    words.any(is)
}

fn part(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    visible_line(&shorten(line.trim_end_matches('.'), LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_as_a_word() {
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
