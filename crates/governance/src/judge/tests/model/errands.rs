//! Model of the rules for commands and hosts, after decision 36 and the gateway rules, limited to the
//! generated words.

use super::plan::{CallPlan, Plan, ToolPlan, Where};

pub(super) fn refuses_commands(call: &CallPlan, stated: &ToolPlan, entry: &ToolPlan) -> bool {
    let line: Option<Vec<&str>> = call.line.map(|line| line.split_whitespace().collect());
    let for_a_shell = call.line.is_some_and(|line| line.contains([';', '*', '$']));
    let mut commands = call.words.map(<[&str]>::to_vec).into_iter().chain(line);
    for_a_shell || commands.any(|words| refuses_command(&words, stated, entry))
}

fn refuses_command(words: &[&str], stated: &ToolPlan, entry: &ToolPlan) -> bool {
    if words.is_empty() {
        return true;
    }
    let allowed = |rule: &&[&str]| **rule == ["*"] || words.starts_with(rule);
    let is_allowed = entry.allowed_commands.as_ref().is_some_and(|rules| rules.iter().any(allowed));
    !stated.shadow && (!is_allowed || entry.forbidden_commands.iter().any(|rule| is_forbidden(words, rule)))
}

/// Returns true if the rule forbids the words in one of the documented forms.
fn is_forbidden(words: &[&str], rule: &[&str]) -> bool {
    if starts_nothing(words) {
        return is_same(words[0].rsplit('/').next().unwrap(), rule[0])
            && are_behind(&rule[1..], &owned(&words[1..]));
    }
    let meant = as_the_program_reads(words);
    let meant: Vec<&str> = meant.iter().map(String::as_str).collect();
    is_said(words, rule) || (meant != words && is_said(&meant, rule))
}

/// Returns the words as a program interprets them, limited to the generated ones: escapes, Perl quotes, a
/// make recipe, and the text that sed runs.
fn as_the_program_reads(words: &[&str]) -> Vec<String> {
    let read = |word: &&str| {
        let script = word.strip_prefix("-e").unwrap_or(word);
        let marks: Vec<&str> =
            script.strip_prefix('s').map_or(Vec::new(), |rest| match rest.chars().next() {
                Some(mark) => rest.split(mark).collect(),
                None => Vec::new(),
            });
        match marks.as_slice() {
            ["", _, text, "e"] => (*text).to_owned(),
            _ => word
                .replace("\\n", "\n")
                .replace("\\x73", "s")
                .replace(";-", "; ")
                .replace("qx.", " ")
                .replace("o.", "o "),
        }
    };
    words.iter().map(read).collect()
}

/// Returns true if the rule forbids the line in one of its readings.
fn is_said(words: &[&str], rule: &[&str]) -> bool {
    let [as_it_stands, by_a_shell, without_quotes, by_signs] = ways_to_read(words);
    let says = |line: &Vec<String>| {
        let mut starts = (0..line.len()).filter(|at| may_name(&line[*at], rule[0]));
        starts.any(|at| are_behind(&rule[1..], &line[at + 1..]))
    };
    let gives_alias = |line: &Vec<String>| {
        let mut starts = (0..line.len()).filter(|at| may_name(&line[*at], "git"));
        starts.any(|at| gives_an_alias(&line[at + 1..]))
    };
    let a_command_of_git = rule[0] == "git" && rule.len() > 1;
    let said = [&as_it_stands, &by_a_shell, &without_quotes, &by_signs].into_iter().any(says);
    said || (a_command_of_git && [&as_it_stands, &by_a_shell, &without_quotes].into_iter().any(gives_alias))
}

/// Returns true if the program starts no program that its words name.
fn starts_nothing(words: &[&str]) -> bool {
    let has = |start: &str| words.iter().any(|word| word.starts_with(start));
    match words {
        ["ls", ..] | ["git"] | ["git", "-C", _] => true,
        ["rg", ..] => !has("--pre"),
        ["git", "status" | "diff" | "add", ..] | ["git", "-C", _, "status", ..] => true,
        ["git", "grep", ..] => !words.iter().any(|word| word.starts_with('-') && word.contains('O')),
        _ => false,
    }
}

/// Returns the line unchanged, split like a shell, split like a shell without quotes, and split at every
/// punctuation character.
fn ways_to_read(words: &[&str]) -> [Vec<String>; 4] {
    let is_sed = words.contains(&"sed");
    let for_a_shell = |c: char| " '\";!|{}()$&*\\\n".contains(c);
    let sign = |c: char| for_a_shell(c) || "=:,@%^".contains(c) || (is_sed && c == '/');
    let parted = |words: &[String], at: &dyn Fn(char) -> bool| -> Vec<String> {
        let parts = words.iter().flat_map(|word| word.split(at)).filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    };
    let words = owned(words);
    let unquoted: Vec<String> = words.iter().map(|word| word.replace(['\'', '"', '\\'], "")).collect();
    let [by_a_shell, by_signs] = [parted(&words, &for_a_shell), parted(&words, &sign)];
    [words, by_a_shell, parted(&unquoted, &for_a_shell), by_signs].map(|line| spelt(&line))
}

/// Writes `git-push` as `git push`.
fn spelt(words: &[String]) -> Vec<String> {
    let spelt = |word: &String| match word.rsplit('/').next() {
        Some("git-push") => vec!["git".to_owned(), "push".to_owned()],
        _ => vec![word.clone()],
    };
    words.iter().flat_map(spelt).collect()
}

/// Returns true if a word may name a program: it ends in the name, after nothing, a folder, a punctuation
/// character, option letters or a sed command.
fn may_name(word: &str, program: &str) -> bool {
    if is_same(word.rsplit('/').next().unwrap(), program) {
        return true;
    }
    let Some(before) = word.strip_suffix(program) else { return false };
    let letters =
        before.strip_prefix('-').filter(|letters| !letters.contains(|c: char| !c.is_alphanumeric()));
    let is_option = letters.is_some_and(|letters| !letters.is_empty());
    before.is_empty() || before.ends_with(['/', '=', ':', '!', ',', ';', ' ']) || before == "1e" || is_option
}

/// Returns true if two names mean one program: one of them may have a version suffix.
fn is_same(name: &str, program: &str) -> bool {
    let is_version = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || c == '.');
    let longer = |one: &str, other: &str| one.strip_prefix(other).is_some_and(is_version);
    longer(name, program) || (!name.is_empty() && longer(program, name))
}

/// Returns true if all wanted words are present: options anywhere, the others in their order.
fn are_behind(wanted: &[&str], words: &[String]) -> bool {
    let (options, plain): (Vec<&str>, Vec<&str>) = wanted.iter().partition(|word| word.starts_with('-'));
    let mut rest = words.iter();
    let has = |option: &&str| words.iter().any(|word| word.starts_with('-') && word.contains(&option[1..]));
    options.iter().all(has) && plain.iter().all(|wanted| rest.any(|word| word == wanted))
}

/// Returns true if git gets a command that is not one of the generated built-in ones, or a word before the
/// command that contains shell syntax.
fn gives_an_alias(words: &[String]) -> bool {
    let mut words = words.iter().map(String::as_str);
    let several = |word: &str| word.contains([' ', '!', '\'', ';']);
    while let Some(word) = words.next() {
        let value = if ["-c", "-C"].contains(&word) { words.next() } else { None };
        if word.starts_with('-') && !several(word) && !value.is_some_and(several) {
            continue;
        }
        return !["status", "push", "diff", "add", "grep", "bisect"].contains(&word);
    }
    false
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub(super) fn refuses_host(plan: &Plan, call: &CallPlan, entry: &ToolPlan) -> bool {
    let Some((_, target)) = call.url else { return false };
    let Ok((host, place)) = target else { return true };
    let below = |name: &str| host.ends_with(&format!(".{name}"));
    let allows = |rule: &&str| match rule.strip_prefix("*.") {
        Some(name) => below(name),
        None => *rule == "*" || *rule == host,
    };
    let blocks = |rule: &&str| {
        let name = rule.trim_start_matches("*.");
        *rule == "*" || name == host || below(name)
    };
    plan.blocked_domains.iter().any(blocks)
        || (place == Where::Private && !plan.private)
        || place == Where::Closed
        || !entry.domains.as_ref().is_none_or(|rules| rules.iter().any(allows))
        || !plan.allowed_domains.iter().any(allows)
}
