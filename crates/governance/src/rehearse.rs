//! Dry run of a call: decides by its arguments alone, without access to the file system.
//!
//! Used by examples, policy tests and other queries about hypothetical calls.

use std::sync::Arc;

use guardrail::{InputSchema, Known, ValidCall};
use serde_json::Value;
use tool::{Arguments, Refusal, RuleRef, ToolDefinition};

use crate::judge::{Decision, Facts, admit_typed, decide};
use crate::path_rules;
use crate::policy::Policy;
use crate::reached::Reached;
use crate::situation::{Counts, Situation, Workspace, WorkspaceAccess, Workspaces};
use crate::standing::Standing;
use crate::tools_file::Expectation;
use crate::trail::{Notes, Trail};

/// Workspace of a dry run, where relative paths start.
pub const REHEARSED_WORKSPACE: &str = "/workspace";

/// Result of a dry run, with its reasons.
#[derive(Clone, Debug)]
pub struct Rehearsal {
    /// Verdict.
    pub verdict: Expectation,
    /// Refusal that the caller would receive, if the call would be denied.
    pub refusal: Option<Box<Refusal>>,
    /// Rules that require approval, if the verdict is `ask`.
    pub asked_by: Vec<RuleRef>,
    /// Every rule that was evaluated.
    pub trail: Trail,
}

impl Rehearsal {
    /// Returns the verdict and its reason in one line.
    pub fn summary(&self) -> String {
        match (&self.refusal, self.asked_by.first()) {
            (Some(refusal), _) => format!("deny: {}", refusal.reason),
            (None, Some(rule)) => format!("ask: {}", crate::grounds::place(rule)),
            (None, None) => "allow".to_owned(),
        }
    }
}

/// Judges a call as if its paths contained no symbolic links and nothing existed there yet.
pub fn rehearse(policy: &Policy, situation: &Situation<'_>, call: &ValidCall) -> Rehearsal {
    let standing = Standing::of(policy, call.definition());
    let mut trail = Trail::on();
    let mut notes = Notes::on(&mut trail);
    let judged = admit_typed(&standing, situation, call.arguments(), &mut notes).and_then(|named| {
        let reached: Vec<Reached> = named.requests.iter().map(Reached::by_name).collect();
        let content_bytes = path_rules::content_bytes(call.arguments());
        let (requests, errands) = (&named.requests, &named.errands);
        let facts = Facts { requests, reached: &reached, errands, content_bytes };
        decide(&standing, situation, &facts, &mut notes)
    });
    rehearsal(&standing, judged, notes).with(trail)
}

/// Converts a decision to a dry run result.
pub(crate) fn rehearsal(
    standing: &Standing<'_>,
    judged: Result<Decision, crate::grounds::Grounds>,
    mut notes: Notes<'_>,
) -> Rehearsal {
    let (verdict, refusal, asked_by) = match judged {
        Err(grounds) => {
            notes.denied(standing.definition, &grounds);
            let tool = standing.definition.name().as_str();
            (Expectation::Deny, Some(grounds.into_refusal(tool)), Vec::new())
        }
        Ok(decision) if decision.asked_by.is_empty() => (Expectation::Allow, None, Vec::new()),
        Ok(decision) => (Expectation::Ask, None, decision.asked_by),
    };
    Rehearsal { verdict, refusal, asked_by, trail: Trail::off() }
}

impl Rehearsal {
    pub(crate) fn with(self, trail: Trail) -> Self {
        Rehearsal { trail, ..self }
    }
}

/// Returns the workspaces of a dry run that names none.
pub fn rehearsed_workspaces() -> Workspaces {
    Workspaces::new(vec![Workspace::supposed(REHEARSED_WORKSPACE, WorkspaceAccess::ReadWrite)])
}

impl Policy {
    /// Runs a dry run of a call with these arguments. Fails with the reason of the guardrail if the arguments
    /// are not a valid call.
    pub fn try_out(
        &self,
        definition: &Arc<ToolDefinition>,
        arguments: &Arguments,
        mode: tool::Mode,
        workspaces: &Workspaces,
    ) -> Result<Rehearsal, String> {
        let schema = InputSchema::compile(definition.input_schema()).map_err(|error| error.to_string())?;
        self.try_known(Known { definition, schema: &schema }, arguments, mode, workspaces)
    }

    /// Like `dry_run_arguments`, for a tool whose schema is already compiled.
    pub fn try_known(
        &self,
        known: Known<'_>,
        arguments: &Arguments,
        mode: tool::Mode,
        workspaces: &Workspaces,
    ) -> Result<Rehearsal, String> {
        let arguments = Value::Object(arguments.clone());
        let checked = guardrail::check(known.definition, known.schema, arguments);
        let call = checked.map_err(|refusal| refusal.reason)?;
        let situation = Situation { mode, workspaces, counts: Counts::default() };
        Ok(rehearse(self, &situation, &call))
    }
}
