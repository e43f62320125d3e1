//! Validators of a tool: checks beyond its schema, declarative or as a function. They fail closed.

use std::sync::Arc;
use std::time::Duration;

use knowledge::{KnowledgeError, KnowledgeFunction, Validation, WorkerPool};
use tool::refusal::ArgumentProblem;
use tool::text::escape_invisible_line;
use tool::{Arguments, Refusal, RefusalCode, ToolDefinition};

use crate::argument_problems::MAX_LISTED_PROBLEMS;
use crate::guidance::ToolGuidance;
use crate::requirement::Requirement;

/// One validator of a tool.
#[derive(Clone, Debug)]
pub struct ValidatorRule {
    /// Declarative checks.
    pub requirements: Vec<Requirement>,
    /// Validator function, if there is one.
    pub function: Option<KnowledgeFunction>,
}

/// All validators of one tool in declared order, the guidance for their refusals, and the workers that run
/// them.
#[derive(Debug)]
pub struct Validators {
    rules: Vec<ValidatorRule>,
    guidance: Arc<ToolGuidance>,
    workers: WorkerPool,
}

/// Collected results of the validators of one call.
struct ValidatorResults {
    problems: Vec<ArgumentProblem>,
    failed: Option<KnowledgeError>,
    slow: Vec<(Arc<str>, Duration)>,
}

impl Validators {
    /// Creates the validators of a tool, to be run by these workers.
    pub fn new(rules: Vec<ValidatorRule>, tool_guidance: Arc<ToolGuidance>, workers: WorkerPool) -> Self {
        Validators { rules, guidance: tool_guidance, workers }
    }

    /// Runs every validator, so that the caller gets all problems at once, and returns the slow ones with
    /// their run time.
    pub(crate) async fn run(
        &self,
        definition: &ToolDefinition,
        arguments: &Arguments,
    ) -> Result<Vec<(Arc<str>, Duration)>, Box<Refusal>> {
        let text = serde_json::to_string(arguments).unwrap_or_default();
        let mut results = ValidatorResults { problems: Vec::new(), failed: None, slow: Vec::new() };
        for rule in &self.rules {
            let unmet = rule.requirements.iter().flat_map(|one| one.problems(definition, arguments));
            results.problems.extend(unmet);
            let Some(function) = &rule.function else { continue };
            match self.workers.validate(function, &text).await {
                Ok(validation) => {
                    results
                        .problems
                        .extend(validation.errors.iter().map(|error| problem_from(function, error)));
                    if validation.duration > Validation::SLOW_THRESHOLD {
                        results.slow.push((Arc::clone(&function.id), validation.duration));
                    }
                }
                Err(error) => {
                    results.problems.push(problem_from(function, &error.to_string()));
                    results.failed = results.failed.or(Some(error));
                }
            }
        }
        if results.problems.is_empty() { Ok(results.slow) } else { Err(self.refusal(definition, results)) }
    }

    fn refusal(&self, definition: &ToolDefinition, results: ValidatorResults) -> Box<Refusal> {
        let ValidatorResults { mut problems, failed, .. } = results;
        // Several validators of one command often report the same problem.
        let mut seen = std::collections::HashSet::new();
        problems.retain(|problem| seen.insert(problem.message.clone()));
        let count = problems.len();
        problems.truncate(MAX_LISTED_PROBLEMS);
        let name = definition.name().as_str();
        let mut reason = format!("⚠️ Invalid {name} call.");
        for problem in &problems {
            reason.push_str(&format!(" {}.", problem.message.trim_end_matches('.')));
        }
        if count > problems.len() {
            reason.push_str(&format!(" And {} more.", count - problems.len()));
        }
        let (detail, hint) = match failed {
            None => (
                "validator_refused",
                "correct the arguments as the validator's messages say, and send the call again",
            ),
            Some(KnowledgeError::Unavailable(_)) => (
                "validator_unavailable",
                "run `sinew doctor` to see what this machine lacks to run validators",
            ),
            Some(_) => ("validator_failed", "the tool's validator failed: fix it in the tool's manifest"),
        };
        let mut refusal =
            Refusal::new(name, RefusalCode::ValidatorRejected, reason).with_detail(detail).with_hint(hint);
        refusal.problems = problems;
        refusal.example = definition.example().cloned();
        self.guidance.add_to(&mut refusal, definition);
        Box::new(refusal)
    }
}

fn problem_from(function: &KnowledgeFunction, error: &str) -> ArgumentProblem {
    let expected = format!("arguments that `{}` accepts", function.id);
    ArgumentProblem::new("", expected, "something else", escape_invisible_line(error))
}

#[cfg(test)]
mod tests;
