//! Finite set of commands that represents all commands for some command rules.

use std::collections::BTreeSet;

use governance::rules::{CommandRule, CommandRules, EffectivePolicy};

use super::Incomplete;

/// Most commands of one search.
const MAX_COMMANDS: usize = 20_000;

/// Commands that begin with these words, as far as the rules can tell them apart. No words: every command.
pub(super) fn representatives(
    tools: &[&EffectivePolicy<'_>],
    question: &[String],
) -> Result<Vec<Vec<String>>, Incomplete> {
    let mut rules: Vec<&CommandRule> = Vec::new();
    for tool in tools {
        add_rules(tool, &mut rules);
    }
    let mentioned: BTreeSet<&str> =
        rules.iter().flat_map(|rule| rule.words.iter().flatten().map(String::as_str)).collect();
    let fresh = (1..).map(|length| "x".repeat(length)).find(|word| !mentioned.contains(word.as_str()));
    let search = CommandSearch { rules, question, fresh: fresh.unwrap_or_default() };
    let mut found = Vec::new();
    search.extend(&mut Vec::new(), &mut found)?;
    Ok(found)
}

fn add_rules<'p>(tool: &EffectivePolicy<'p>, rules: &mut Vec<&'p CommandRule>) {
    let mut add = |commands: &'p CommandRules| {
        rules.extend(commands.allowed.iter().flat_map(|list| &list.rules).chain(&commands.forbidden));
    };
    tool.rules.into_iter().for_each(|rules| add(&rules.commands));
    for root in tool.policy.project_policies().map(|(root, _)| root) {
        let project = tool.in_project(root);
        project.and_then(|project| project.rules).into_iter().for_each(|rules| add(&rules.commands));
    }
    if let Some(stricter) = tool.stricter() {
        add_rules(&stricter, rules);
    }
}

struct CommandSearch<'r> {
    rules: Vec<&'r CommandRule>,
    question: &'r [String],
    /// Word that no rule names.
    fresh: String,
}

impl CommandSearch<'_> {
    /// Adds every representative that begins with the words so far.
    fn extend(&self, words: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> Result<(), Incomplete> {
        if !words.is_empty() && words.len() >= self.question.len() {
            if found.len() >= MAX_COMMANDS {
                return Err(Incomplete("the command rules have too many combinations".to_owned()));
            }
            found.push(words.clone());
        }
        for word in self.next_words(words) {
            words.push(word);
            self.extend(words, found)?;
            words.pop();
        }
        Ok(())
    }

    /// Returns the words that may follow: those of the question, else those of each rule that matches so far, and one
    /// that no rule names.
    fn next_words(&self, words: &[String]) -> Vec<String> {
        let at = words.len();
        let open = || self.rules.iter().filter(|rule| is_open(rule, words));
        let of_rules = open().filter_map(|rule| rule.words.get(at)).flatten();
        match self.question.get(at) {
            // Rules forbid a program of that name in any folder, and so does the question mean it.
            Some(program) if at == 0 => {
                let same = of_rules.filter(|word| file_name(word) == file_name(program)).cloned();
                let others: BTreeSet<String> = same.filter(|word| word != program).collect();
                let elsewhere = format!("/{}/{}", self.fresh, file_name(program));
                [program.clone()].into_iter().chain(others).chain([elsewhere]).collect()
            }
            Some(word) => vec![word.clone()],
            // One word more than any rule has tells exact rules apart; further words do not matter.
            None if at > 0 && !open().any(|rule| rule.words.len() >= at) => Vec::new(),
            None => {
                let known: BTreeSet<String> = of_rules.cloned().collect();
                known.into_iter().chain([self.fresh.clone()]).collect()
            }
        }
    }
}

/// Returns true if the rule may match a command that begins with the words.
fn is_open(rule: &CommandRule, words: &[String]) -> bool {
    let matches = |(at, (choice, word)): (usize, (&Vec<String>, &String))| match at {
        0 => choice.iter().any(|known| file_name(known).eq_ignore_ascii_case(file_name(word))),
        _ => choice.contains(word),
    };
    rule.words.iter().zip(words).enumerate().all(matches)
}

fn file_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or_default()
}
