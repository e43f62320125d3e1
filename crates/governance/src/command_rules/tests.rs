//! Commands checked against rules. The expected result is `allowed` or the detail word of the denial.

use serde::Deserialize;
use strict_yaml::{Document, Located};

use super::*;
use crate::rule_trace::RuleTrace;

#[derive(Deserialize)]
struct CommandListsFile {
    #[serde(default)]
    allowed: Option<Located<Vec<Located<CommandEntry>>>>,
    #[serde(default)]
    forbidden: Option<Located<Vec<Located<CommandEntry>>>>,
}

fn compile(text: &str, names: NameComparison) -> (CommandRules, Vec<String>) {
    let document = Document::from_text("tools.yaml", text).unwrap();
    let lists: CommandListsFile = document.parse().unwrap();
    let mut inspection = FileInspection::new(&document);
    let (allowed, forbidden) = (lists.allowed.as_ref(), lists.forbidden.as_ref());
    let rules = CommandRules::compile(allowed, forbidden, "run", names, &mut inspection);
    let errors = inspection.errors.iter().map(|error| format!("{}: {}", error.line, error.message));
    (rules, errors.collect())
}

/// Checks the result for each command line.
fn check(lists: &str, names: NameComparison, lines: &[(&str, &str)]) {
    let (rules, errors) = compile(lists, names);
    assert!(errors.is_empty(), "{errors:?}");
    for (line, expect) in lines {
        let mut trace = RuleTrace::disabled();
        let verdict = rules.check(&RequestedCommand::from_line(line), &mut TraceRecorder::new(&mut trace));
        let word = verdict.as_ref().map_or_else(DenialReason::detail, |()| "allowed");
        assert_eq!(word, *expect, "{line}: {verdict:?}");
    }
}

#[test]
fn allowing_rule_is_matched_narrowly() {
    let lists = "allowed: [ls, {argv: [git, [status, diff]]}, /opt/own]\n";
    let lines = [
        ("ls -la /x", "allowed"),
        ("git status --short", "allowed"),
        ("git diff", "allowed"),
        ("/opt/own x", "allowed"),
        ("git push", "not_listed"),
        ("git", "not_listed"),
        ("git -C / status", "not_listed"),
        ("/bin/ls", "not_listed"),
        ("./ls", "not_listed"),
        ("LS", "not_listed"),
        ("lsof", "not_listed"),
        ("FOO=1 ls", "not_listed"),
        ("", "no_program"),
        ("  ", "no_program"),
    ];
    check(lists, NameComparison::CaseSensitive, &lines);
    check(lists, NameComparison::CaseInsensitive, &lines);
    check(
        "forbidden: [sudo]\n",
        NameComparison::CaseSensitive,
        &[("ls", "not_listed"), ("sudo", "forbidden_command")],
    );
    check("allowed: []\n", NameComparison::CaseSensitive, &[("ls", "not_listed")]);
    check("allowed: [\"*\"]\n", NameComparison::CaseSensitive, &[("anything at all", "allowed")]);
}

#[test]
fn forbidding_rule_matches_argv_prefix_in_any_folder() {
    let lists = "allowed: [\"*\"]\nforbidden: [sudo, {argv: [git, push]}, {argv: [rm, [-rf, -fr]]}]\n";
    let lines = [
        ("sudo", "forbidden_command"),
        ("/usr/bin/sudo ls", "forbidden_command"),
        ("../sudo", "forbidden_command"),
        ("git push", "forbidden_command"),
        ("/usr/bin/git push origin", "forbidden_command"),
        ("rm -rf x", "forbidden_command"),
        ("rm -fr x", "forbidden_command"),
        ("git", "allowed"),
        ("git status", "allowed"),
        ("git commit -m sudo", "allowed"),
        ("rm x", "allowed"),
        ("sudoku", "allowed"),
        ("SUDO", "allowed"),
    ];
    check(lists, NameComparison::CaseSensitive, &lines);
    let folded = [
        ("SUDO", "forbidden_command"),
        ("/BIN/Sudo", "forbidden_command"),
        ("Git push", "forbidden_command"),
        ("git PUSH", "allowed"),
    ];
    check(lists, NameComparison::CaseInsensitive, &folded);
    let by_path = "allowed: [\"*\"]\nforbidden: [/usr/bin/sudo]\n";
    let lines = [("/usr/bin/sudo", "forbidden_command"), ("sudo", "forbidden_command")];
    check(by_path, NameComparison::CaseSensitive, &lines);
}

#[test]
fn exact_rule_matches_no_further_words() {
    let lists = "allowed: [{argv: [python3, [-V, -c]], exact: true}, {argv: [node], exact: true}, git]
forbidden: [{argv: [git, push], exact: true}]\n";
    let lines = [
        ("python3 -V", "allowed"),
        ("python3 -c", "allowed"),
        ("node", "allowed"),
        ("git push origin", "allowed"),
        ("python3", "not_listed"),
        ("python3 -c x", "not_listed"),
        ("node x.js", "not_listed"),
        ("git push", "forbidden_command"),
        ("/usr/bin/git push", "forbidden_command"),
    ];
    check(lists, NameComparison::CaseSensitive, &lines);
    let rules = compile(
        "allowed: [{argv: [ls, -l], exact: true}, {argv: [ls, -l]}, ls]\n",
        NameComparison::CaseSensitive,
    )
    .0;
    let rules = rules.allowed.unwrap().rules;
    let covers: Vec<Vec<bool>> =
        rules.iter().map(|wide| rules.iter().map(|narrow| wide.covers(narrow)).collect()).collect();
    assert_eq!(covers, [[true, false, false], [true, true, false], [true, true, true]]);
    assert_eq!(rules[0].to_string(), "ls -l (exact)");
    let no_example = "allowed: [{argv: [ls], exact: true, match: [ls -l]}]\n";
    let errors = compile(no_example, NameComparison::CaseSensitive).1;
    assert_eq!(errors, ["1: the rule must match `ls -l`, and does not"]);
}

/// Documents the limit of a denylist: an allowed program can start any other (decision 36).
#[test]
fn forbidding_rule_does_not_interpret_arguments() {
    let lists = "allowed: [\"*\"]\nforbidden: [sudo, {argv: [git, push]}]\n";
    let lines = ["env sudo ls", "sh -c sudo", "git -C x push", "git p", "git-push origin", "make push"];
    check(lists, NameComparison::CaseSensitive, &lines.map(|line| (line, "allowed")));
}

#[test]
fn line_with_shell_syntax_is_refused() {
    for line in
        ["ls; rm -rf x", "ls $(id)", "ls `id`", "ls\nid", "ls *", "ls ~", "ls 'a b'", "a|b", "a > b", "a & b"]
    {
        check("allowed: [\"*\"]\n", NameComparison::CaseSensitive, &[(line, "needs_a_shell")]);
    }
    // Given as separate words, the same characters are passed on unchanged.
    let (rules, _) = compile("allowed: [ls]\n", NameComparison::CaseSensitive);
    let words = ["ls", "; rm -rf x", "$(id)"].map(str::to_owned).to_vec();
    rules
        .check(&RequestedCommand::Words(words), &mut TraceRecorder::new(&mut RuleTrace::disabled()))
        .unwrap();
}

#[test]
fn rule_without_words_does_not_load() {
    let check = |entry: &str, expect: &[&str]| {
        let errors = compile(&format!("allowed: [{entry}]\n"), NameComparison::CaseSensitive).1;
        assert_eq!(errors, expect, "{entry}");
    };
    let no_words = "1: `argv` has no words, an empty word or an empty choice";
    check("\" \"", &["1: a command is empty"]);
    check("\"\"", &["1: a command is empty"]);
    check("ls -l", &["1: `ls -l` is not a program: it has a space, and would never match"]);
    check("{argv: []}", &[no_words]);
    check("{argv: [ls, \"\"]}", &[no_words]);
    check("{argv: [ls, []]}", &[no_words]);
    check("{argv: [ls, [a, \"\"]]}", &[no_words]);
    check("{argv: [ls, [a, b]]}", &[]);
    let any = compile("allowed: [\"*\", {argv: [ls, [a, b]]}]\n", NameComparison::CaseSensitive).0;
    let shown: Vec<String> = any.allowed.unwrap().rules.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["*", "ls a|b"]);
}

#[test]
fn rule_that_contradicts_its_example_does_not_load() {
    let good =
        "allowed:\n  - {argv: [git, [status, diff]], match: [\"git status\"], not_match: [\"git push\"]}\n";
    assert_eq!(compile(good, NameComparison::CaseSensitive).1, [""; 0]);
    let bad = "allowed:\n  - {argv: [git], not_match: [\"git push\"]}\n  - {argv: [git, status], match: [\"git diff\"]}\n";
    let expect = [
        "2: the rule must not match `git push`, and does",
        "3: the rule must match `git diff`, and does not",
    ];
    assert_eq!(compile(bad, NameComparison::CaseSensitive).1, expect);
    let forbidden =
        "forbidden:\n  - {argv: [git, push], match: [\"git push -f\"], not_match: [\"git pull\"]}\n";
    assert_eq!(compile(forbidden, NameComparison::CaseSensitive).1, [""; 0]);
}
