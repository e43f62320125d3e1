//! Validators of a tool: checks beyond its schema, declarative or as a function. They fail closed.

use std::sync::Arc;
use std::time::Duration;

use knowledge::{Function, KnowledgeError, Validation, Workers};
use tool::{Arguments, Problem, Refusal, RefusalCode, ToolDefinition, visible_line};

use crate::findings::MOST_PROBLEMS;
use crate::lore::Lore;
use crate::requirement::Requirement;

/// One validator of a tool.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Declarative checks.
    pub requirements: Vec<Requirement>,
    /// Validator function, if there is one.
    pub function: Option<Function>,
}

/// All validators of one tool in declared order, the guidance for their refusals, and the workers that run
/// them.
#[derive(Debug)]
pub struct Validators {
    rules: Vec<Rule>,
    lore: Arc<Lore>,
    workers: Workers,
}

/// Collected results of the validators of one call.
struct Asked {
    problems: Vec<Problem>,
    failed: Option<KnowledgeError>,
    slow: Vec<(Arc<str>, Duration)>,
}

impl Validators {
    /// Creates the validators of a tool, to be run by these workers.
    pub fn new(rules: Vec<Rule>, lore: Arc<Lore>, workers: Workers) -> Self {
        Validators { rules, lore, workers }
    }

    /// Runs every validator, so that the caller gets all problems at once, and returns the slow ones with
    /// their run time.
    pub(crate) async fn ask(
        &self,
        definition: &ToolDefinition,
        arguments: &Arguments,
    ) -> Result<Vec<(Arc<str>, Duration)>, Box<Refusal>> {
        let text = serde_json::to_string(arguments).unwrap_or_default();
        let mut asked = Asked { problems: Vec::new(), failed: None, slow: Vec::new() };
        for rule in &self.rules {
            let unmet = rule.requirements.iter().flat_map(|one| one.problems(definition, arguments));
            asked.problems.extend(unmet);
            let Some(function) = &rule.function else { continue };
            match self.workers.validate(function, &text).await {
                Ok(validation) => {
                    asked.problems.extend(validation.errors.iter().map(|error| told(function, error)));
                    if validation.took > Validation::SLOW {
                        asked.slow.push((Arc::clone(&function.id), validation.took));
                    }
                }
                Err(error) => {
                    asked.problems.push(told(function, &error.to_string()));
                    asked.failed = asked.failed.or(Some(error));
                }
            }
        }
        if asked.problems.is_empty() { Ok(asked.slow) } else { Err(self.refusal(definition, asked)) }
    }

    fn refusal(&self, definition: &ToolDefinition, asked: Asked) -> Box<Refusal> {
        let Asked { mut problems, failed, .. } = asked;
        // Several validators of one command often report the same problem.
        let mut seen = std::collections::HashSet::new();
        problems.retain(|problem| seen.insert(problem.message.clone()));
        let count = problems.len();
        problems.truncate(MOST_PROBLEMS);
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
            Refusal::new(name, RefusalCode::ValidatorRejected, reason).detail(detail).hint(hint);
        refusal.problems = problems;
        refusal.example = definition.example().cloned();
        self.lore.teach(&mut refusal, definition);
        Box::new(refusal)
    }
}

fn told(function: &Function, error: &str) -> Problem {
    let expected = format!("arguments that `{}` accepts", function.id);
    Problem::new("", expected, "something else", visible_line(error))
}

#[cfg(test)]
mod tests;
