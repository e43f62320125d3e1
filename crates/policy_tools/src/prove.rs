//! Proofs about a policy: finds a call with a stated effect that the policy permits, or shows that there is none.
//!
//! The rules can tell apart only finitely many names, commands and hosts. The prover enumerates one representative
//! of each kind (`component_names`, `commands`, `hosts`) and lets the judge decide on each, so that every witness was
//! judged, and the absence of a witness covers all others. Files that exist, hard links and counts of earlier calls
//! are not part of a policy; `ASSUMPTIONS` lists what an answer assumes.

mod calls;
mod cases;
mod commands;
mod component_names;
mod component_pattern;
mod difference;
mod expression;
mod hosts;
mod name_search;
mod witness_search;

use std::sync::Arc;

use governance::files::VerdictKind;
use governance::{Policy, Workspaces};
use serde::Serialize;
use serde_json::Value;
use tool::{Mode, RuleRef, ToolDefinition};

pub use difference::{PolicyDiff, VerdictChange, diff_policies};
pub use expression::{Attendance, EXPRESSION_GRAMMAR, ExpressionError, Question};

/// Assumptions of every answer.
pub const ASSUMPTIONS: [&str; 5] = [
    "names lead to no symbolic link, and no file exists there yet (existing files, hard links and git directories can only refuse more)",
    "no call was made before: a rate limit of 0 counts, others do not",
    "the caller works outside of every project (in one, its policy also applies), and its arguments are valid",
    "names have no zero-width or combining characters",
    "a sandboxed program may do whatever its sandbox permits; `run` is about the programs that calls name",
];

/// Policy and everything else that a proof depends on.
#[derive(Clone, Copy)]
pub struct ProofContext<'a> {
    /// Policy.
    pub policy: &'a Policy,
    /// Tools that may be called.
    pub definitions: &'a [Arc<ToolDefinition>],
    /// Workspaces of the caller.
    pub workspaces: &'a Workspaces,
    /// Services from the settings or manifests: tool, and URL of the service that its calls send requests to.
    pub services: &'a [(String, String)],
}

/// Call that has the effect, and the verdict of the judge on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Witness {
    /// Tool name.
    pub tool: String,
    /// Arguments of the call.
    pub arguments: Value,
    /// Mode in which it is judged.
    pub mode: Mode,
    /// Verdict: `allow`, or `ask` if a human must approve it.
    pub verdict: VerdictKind,
    /// Rule that decides: the one that requires approval, or the last one that allows the call.
    pub rule: Option<RuleRef>,
    /// Effect of the call that its arguments do not show, such as a file that its program may change.
    pub effect: Option<String>,
}

/// Answer to a question.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Proof {
    /// One witness for each tool and mode that has one. Empty if no such call exists.
    pub witnesses: Vec<Witness>,
    /// Tools that the answer does not cover, each with the reason.
    pub undecided: Vec<UndecidedTool>,
    /// Tools that start a program which they choose. The rules do not name it, so it is in no witness.
    pub choosing_programs: Vec<String>,
    /// Number of calls that were judged.
    pub judged: u64,
}

/// Tool about which no complete answer was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UndecidedTool {
    /// Tool name.
    pub tool: String,
    /// Reason.
    pub reason: String,
}

/// Reason for which a search is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Incomplete(String);

/// Answers a question about a policy.
pub fn prove(context: &ProofContext<'_>, question: &Question) -> Proof {
    let mut proof = Proof::default();
    for definition in context.definitions {
        if question.tool.as_ref().is_some_and(|wanted| wanted != definition.name().as_str()) {
            continue;
        }
        if question.is_about_programs() && witness_search::chooses_program(definition) {
            proof.choosing_programs.push(definition.name().to_string());
        }
        match witness_search::of_tool(context, question, definition) {
            Ok(found) => {
                proof.witnesses.extend(found.witnesses);
                proof.judged += found.judged;
            }
            Err(Incomplete(reason)) => {
                proof.undecided.push(UndecidedTool { tool: definition.name().to_string(), reason });
            }
        }
    }
    proof
}

#[cfg(test)]
mod tests;
