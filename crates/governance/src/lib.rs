//! Policy files, and the judge that decides by them whether a call may run.
//!
//! `Policy::load` turns `modes.yaml`, `tools.yaml` and `safety.yaml` into checked rules, or reports every
//! error in them with file, line and column. `precheck` and `judge` are pure, total functions: the same
//! policy, situation and call give the same verdict, and the verdict names the rules that led to it by file
//! and line. Forbidden takes precedence over approval, and approval over allowed. A call that no rule allows
//! is denied. No policy file can relax the built-in denials.
//!
//! This crate does not run tools, request approvals, count calls or change the mode. A call that a rule
//! cannot be evaluated for is refused.

pub mod dry_run;
pub mod files;
pub mod policy_environment;
pub mod reserved_ports;
pub mod rule_trace;
pub mod rules;
pub mod suggested_change;
pub mod transitions;

mod address;
mod built_in_denials;
mod command_entry;
mod command_rules;
mod common_paths;
mod confinement;
mod conjunction;
mod decision_facts;
mod denial_reason;
mod effective_policy;
mod example;
mod external_targets;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz_rules;
mod glob;
mod host_rules;
mod judge;
mod layers;
mod mode_rules;
mod modes_file;
mod name_lists;
mod normalized_path;
mod path_list;
mod path_rules;
mod pattern;
mod policy;
mod policy_queries;
mod prechecked;
mod problems;
mod program_access;
mod program_folders;
mod project;
mod rates;
mod reached_path;
mod read_only_programs;
mod recording;
mod replay;
mod safety_file;
mod safety_rules;
mod situation;
mod tool_names;
mod tool_rules;
mod tools_file;
mod verdict;
mod visibility_filter;

#[cfg(test)]
use judge::tests::fixture as judge_tests;

pub use built_in_denials::{PathEntryKind, is_run_automatically};
pub use host_rules::HostLocation;
pub use judge::{judge, judge_traced, precheck, precheck_traced};
pub use policy::{EMBEDDED_FILES, Policy};
pub use prechecked::Prechecked;
pub use problems::PolicyError;
pub use replay::RecordedCall;
pub use situation::{RateCounts, Situation, Workspace, WorkspaceAccess, Workspaces};
pub use verdict::{ApprovalRequired, Denial, Permit, Verdict};
