//! Lint findings, by line.

use std::fs;

use super::lint;
use crate::judge_tests::{definition, machine};

/// Checks the findings as line and a part of the message.
#[track_caller]
fn check(tools: &str, modes: Option<&str>, safety: Option<&str>, expect: &[(u64, &str)]) {
    let machine = machine(tools);
    let machine = modes.map_or_else(|| machine, |text| self::machine(tools).modes(text));
    let machine = match safety {
        Some(text) => machine.safety(text),
        None => machine,
    };
    let policy = machine.policy();
    let names = ["read_file", "write_file", "run", "fetch", "gated"];
    let definitions = names.map(definition);
    let found = lint(&policy, &definitions);
    assert_eq!(found.len(), expect.len(), "{found:#?}");
    for (found, (line, message)) in found.iter().zip(expect) {
        assert_eq!(found.line, *line, "{found}");
        assert!(found.message.contains(message) && found.suggestion.is_some(), "{found}");
        assert!(fs::metadata(&found.file).is_ok(), "{found}");
    }
}

#[test]
fn redundant_and_unmatchable_paths_are_found() {
    let tools = "tools:
  read_file:
    allowed_paths:
      - /srv/**
      - /srv/data/x
      - /etc/ssl
      - /opt/secret/**
    forbidden_paths:
      - /etc
      - /etc/ssl
      - /opt/**
      - \"**/.env\"
      - /a/.env
  gated:
    forbidden_paths: [/x]
";
    check(
        tools,
        None,
        None,
        &[
            (5, "`/srv/data/x` changes nothing: line 4 covers it"),
            (6, "`/etc/ssl` never matches"),
            (7, "`/opt/secret/**` never matches"),
            (10, "`/etc/ssl` changes nothing: line 9 covers it"),
            (13, "`/a/.env` changes nothing: line 12 covers it"),
            (15, "no argument that is a path"),
        ],
    );
}

#[test]
fn pattern_below_a_missing_folder_is_found() {
    let tools = "tools:
  write_file:
    allowed_paths:
      - /no/such/folder/**
      - /no/such/file
      - /usr/**
      - \"**/drafts/**\"
";
    let expect =
        [(4, "matches no folder: /no/such/folder does not"), (5, "matches no folder: /no/such does not")];
    check(tools, None, None, &expect);
}

#[test]
fn redundant_modes_commands_and_hosts_are_found() {
    let tools = "tools:
  write_file:
    allowed_in_modes: [NORMAL, ALERT, RECOVERY, DEGRADED]
    requires_approval_in_modes: [RECOVERY]
    forbidden_in_modes: [ALERT]
    rate_limit_per_hour: 0
  run:
    allowed_commands:
      - git
      - {argv: [git, status]}
      - rm
    forbidden_commands:
      - rm
  fetch:
    allowed_domains:
      - x.onion
      - example.org
  read_file:
    allowed_commands: [ls]
";
    let modes = "modes:
  NORMAL: {}
  DEGRADED: {allowed_tool_categories: [read_only]}
  ALERT:
    require_approval_for:
      - network
      - all_actions
";
    let safety =
        "outbound_gateway:\n  allowed_domains: [\"*.org\", \"*.onion\"]\n  blocked_domains: [onion]\n";
    check(
        tools,
        Some(modes),
        Some(safety),
        &[
            (6, "`network` changes nothing: line 7 covers it"),
            (3, "`ALERT` never matches"),
            (3, "`DEGRADED` never matches: modes.yaml"),
            (3, "`RECOVERY` changes nothing"),
            (6, "never run"),
            (10, "`git status` changes nothing: line 9"),
            (11, "`rm` never matches"),
            (16, "`x.onion` never matches"),
            (19, "no argument of the tool is a command"),
        ],
    );
}

#[test]
fn shipped_policy_has_no_findings() {
    let environment = crate::policy_environment::PolicyEnvironment {
        variables: crate::policy_environment::PathVariables::with_home("/home/anna".as_ref()),
        protected: crate::policy_environment::ProtectedFolders::default(),
        name_comparison: crate::policy_environment::NameComparison::CaseSensitive,
    };
    let policy = crate::Policy::embedded(&environment).unwrap();
    let definitions = ["read_file", "write_file", "copy_file", "fetch", "run"].map(definition);
    assert_eq!(lint(&policy, &definitions), []);
}

/// A comparison of every pair would take hours.
#[test]
fn long_lists_are_linted_in_linear_time() {
    let list: Vec<String> = (0..20_000).map(|n| format!("/srv/{n}/**")).collect();
    let tools = format!("tools:\n  read_file:\n    forbidden_paths: [{}, /srv/7/x]\n", list.join(", "));
    check(&tools, None, None, &[(3, "`/srv/7/x` changes nothing: line 3 covers it")]);
}
