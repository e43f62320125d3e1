//! Help for people who write policies: compares two policies, proves what one permits, lints one, lists what each tool may do without
//! approval, edits policy files, runs policy tests and suggests changes from recorded calls.
//!
//! This crate reads the compiled rules of `governance`. It decides on no call and changes no loaded policy: an
//! edit gives a new one.

pub mod prove;

mod amend;
mod compare;
mod lint;
mod reach;
mod recorded_policy;
mod seen_paths;
mod suggest;
mod trial;

#[cfg(test)]
#[path = "../../governance/src/judge/tests/fixture.rs"]
#[allow(dead_code, reason = "the fixture is shared with the tests of the judge, which use all of it")]
mod judge_tests;

// Names that the shared fixture imports from its crate.
#[cfg(test)]
use governance::{
    Policy, RateCounts, Situation, Verdict, Workspace, WorkspaceAccess, Workspaces, files, judge_traced,
    policy_environment, precheck_traced, rule_trace,
};

pub use amend::{amended, replace_value, wider_edits};
pub use compare::{PolicyDifference, PolicyEffect, compare_policies, compare_projects};
pub use lint::{lint, lint_between, lint_host_lists};
pub use reach::{ToolReach, reach};
pub use recorded_policy::{LearnedEntry, LearnedPolicy, RecordedUse, learn_policy};
pub use suggest::{
    MIN_CALLS, ObservedCall, OperatorAnswer, ReplayEffect, SuggestContext, SuggestReport, Suggestion,
    SuggestionKind, suggest,
};
pub use trial::{PolicyTestResult, PolicyTests, PolicyTestsFile};
