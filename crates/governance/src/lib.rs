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

pub mod files;
pub mod rules;

mod address;
mod cleared;
mod command_entry;
mod command_rules;
mod common_paths;
mod errands;
mod example;
mod facts;
mod floor;
mod glob;
mod grounds;
mod host_rules;
mod judge;
mod mode_rules;
mod modes_file;
mod name;
mod offer;
mod path_list;
mod path_rules;
mod pattern;
mod policy;
mod problems;
mod program_folders;
mod rates;
mod reached;
mod rehearse;
mod remedy;
mod replay;
mod safety_file;
mod safety_rules;
mod sight;
mod situation;
mod standing;
mod surroundings;
mod tool_names;
mod tool_rules;
mod tools_file;
mod trail;
mod transitions;
mod verdict;
mod walls;

#[cfg(test)]
use judge::tests::machine as judge_tests;

pub use cleared::Cleared;
pub use floor::{Stands, runs_by_itself};
pub use host_rules::Nearness;
pub use judge::{clear, clear_traced, judge, judge_traced};
pub use offer::SecretRule;
pub use policy::{EMBEDDED, Policy};
pub use problems::PolicyError;
pub use rates::RateLimits;
pub use rehearse::{REHEARSED_WORKSPACE, Rehearsal, rehearse, rehearsed_workspaces};
pub use remedy::{Act, Change, Edit, PolicyFile};
pub use sight::Sight;
pub use situation::{Counts, Situation, Workspace, WorkspaceAccess, Workspaces};
pub use surroundings::{FileNames, Protected, Surroundings, Variables};
pub use tool_rules::Confinement;
pub use tools_file::{Isolation, Network};
pub use trail::{Said, Step, Trail};
pub use transitions::{
    ChangedBy, MOST_COUNTED, Machine, Move, Need, Reading, Transition, Transitions, a_human_may_lead,
    ways_out,
};
pub use verdict::{Denial, Permit, Question, Verdict};
pub use walls::SYSTEM_FOLDERS;
