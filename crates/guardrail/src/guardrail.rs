//! Guardrail check of a call: the tool's schema and the curated map together, reporting every problem at
//! once.

use std::sync::Arc;

use serde_json::Value;
use tool::text::{MAX_QUOTED_CHARS, shorten};
use tool::{Refusal, ToolDefinition};

use crate::argument_problems::{ArgumentProblems, invalid_call_refusal};
use crate::check::FilledArguments;
use crate::curated::{CuratedGuardrails, CuratedRequirements};
use crate::nested_calls::NestedProblems;
use crate::repair::{self, RepairProposal};
use crate::schema::InputSchema;
use crate::{SchemaCheckedCall, example, problem};

/// Existing tool with its compiled schema.
#[derive(Clone, Copy, Debug)]
pub struct KnownTool<'a> {
    /// Definition of the tool.
    pub definition: &'a Arc<ToolDefinition>,
    /// Compiled schema of its arguments.
    pub schema: &'a InputSchema,
}

/// Lookup of a tool by name, with the same rules as the registry.
pub type ToolLookup<'a> = dyn Fn(&str) -> Option<KnownTool<'a>> + 'a;

/// Guardrail for one snapshot: the curated map and the tools.
#[derive(Clone, Copy)]
pub struct Guardrail<'a> {
    pub(crate) curated: &'a CuratedGuardrails,
    pub(crate) find_tool: &'a ToolLookup<'a>,
}

/// Call that the guardrail refused.
#[derive(Debug)]
pub struct RejectedCall {
    /// Refusal sent to the caller.
    pub refusal: Box<Refusal>,
    /// Call that was probably meant. No policy has judged it.
    pub proposal: Option<Box<RepairProposal>>,
}

impl RejectedCall {
    /// Creates a rejection without a repair proposal.
    pub fn without_proposal(refusal: Box<Refusal>) -> Self {
        RejectedCall { refusal, proposal: None }
    }
}

/// Arguments that failed the check, with their problems.
pub(crate) struct FailedCheck {
    problems: ArgumentProblems,
    /// Arguments as the caller sent them.
    arguments: Value,
    /// True if the curated map reported a problem.
    from_curated_map: bool,
}

impl<'a> Guardrail<'a> {
    /// Creates a guardrail for one snapshot of tools and curated map.
    pub fn new(curated: &'a CuratedGuardrails, tools: &'a ToolLookup<'a>) -> Self {
        Guardrail { curated, find_tool: tools }
    }

    /// Checks arguments and fills in the tool's defaults.
    pub fn check(&self, known: KnownTool<'_>, arguments: Value) -> Result<SchemaCheckedCall, RejectedCall> {
        self.check_arguments(known, arguments).map_err(|unfit| {
            let name = known.definition.name();
            let mut refusal = invalid_call_refusal(name.as_str(), unfit.problems, self.example_for(known));
            if unfit.from_curated_map {
                refusal.rule = self.curated.for_tool(name).map(|entry| entry.rule.clone());
            }
            if let Some(guidance) = known.schema.guidance() {
                guidance.add_to(&mut refusal, known.definition);
            }
            let proposal = repair::propose(self, known, unfit.arguments).map(Box::new);
            RejectedCall { refusal: Box::new(refusal), proposal }
        })
    }

    pub(crate) fn check_arguments(
        &self,
        known: KnownTool<'_>,
        arguments: Value,
    ) -> Result<SchemaCheckedCall, Box<FailedCheck>> {
        let entry = self.curated.for_tool(known.definition.name());
        // The entry applies to what the caller sent: a default would satisfy a requirement on its argument.
        let mapped = entry.map(|entry| entry.problems(&arguments, Some(known.definition)));
        let mapped = mapped.unwrap_or_default();
        let filled = FilledArguments::new(known.definition, arguments);
        let nested = NestedProblems::check(self, call_fields(entry, Some(known)), &filled.arguments);
        let by_map = !mapped.is_empty();
        let session = problem::unexpected_session(&filled.arguments, known.definition);
        let unstated = !by_map && nested.problems.is_empty() && session.is_none();
        let filled = if unstated && known.schema.validator().is_valid(&filled.arguments) {
            match filled.into_object() {
                Ok(arguments) => {
                    let validators = known.schema.validators().cloned();
                    return Ok(SchemaCheckedCall::new(Arc::clone(known.definition), arguments, validators));
                }
                Err(filled) => filled,
            }
        } else {
            filled
        };
        let stated = mapped.into_iter().chain(nested.problems).chain(session).collect();
        let findings = ArgumentProblems::from_schema(known, &filled.arguments, stated);
        let count = findings.count + nested.unlisted_count;
        let findings = ArgumentProblems { examples: nested.examples, count, ..findings };
        Err(Box::new(FailedCheck {
            problems: findings,
            arguments: filled.without_defaults(),
            from_curated_map: by_map,
        }))
    }

    /// Checks a call of a name that no tool has against the curated map. Returns `None` if the map has no
    /// entry for the name or the arguments meet it.
    pub fn check_unknown(&self, name: &str, arguments: &Value) -> Option<Box<Refusal>> {
        let entry = self.requirements_for_unknown(name)?;
        let findings = self.problems_for_unknown(entry, arguments);
        if findings.is_empty() {
            return None;
        }
        let shown = shorten(name, MAX_QUOTED_CHARS);
        let mut refusal = invalid_call_refusal(&shown, findings, self.example_for_unknown(name));
        refusal.hint = Some(match (&entry.deprecated, &entry.replacement) {
            (Some(instead), _) => format!("`{shown}` is not available here: {instead}"),
            (None, Some(tool)) => format!("`{shown}` is not available here: use {tool}"),
            (None, None) => format!(
                "no tool is named `{shown}` here; correct the call and send it to the server that offers `{shown}`"
            ),
        });
        refusal.rule = Some(entry.rule.clone());
        Some(Box::new(refusal))
    }

    /// Requirements of the map for a name that no tool has. An entry for one of our tools applies to that
    /// tool alone: `mcp__other__read_file` belongs to another server and has its own arguments.
    pub(crate) fn requirements_for_unknown(&self, name: &str) -> Option<&'a CuratedRequirements> {
        self.curated.for_unknown_name(name, |bare| (self.find_tool)(bare).is_some())
    }

    fn problems_for_unknown(&self, entry: &CuratedRequirements, arguments: &Value) -> ArgumentProblems {
        let nested = NestedProblems::check(self, call_fields(Some(entry), None), arguments);
        let shape = (!arguments.is_object() && !arguments.is_null()).then(|| problem::wrong_type(arguments));
        let stated = entry.problems(arguments, None).into_iter().chain(shape).chain(nested.problems);
        let findings = ArgumentProblems::from_stated(stated.collect());
        ArgumentProblems {
            examples: nested.examples,
            count: findings.count + nested.unlisted_count,
            ..findings
        }
    }

    /// Returns an example from the map for a name that no tool has.
    pub fn example_for_unknown(&self, name: &str) -> Option<Value> {
        self.requirements_for_unknown(name)?.example.as_ref().map(|example| example.value.clone())
    }

    /// Returns arguments that would be accepted: the example of the map, else the tool's own, else one
    /// generated from its schema.
    pub fn example_for(&self, known: KnownTool<'_>) -> Option<Value> {
        let mapped = self.curated.for_tool(known.definition.name()).and_then(|entry| entry.example.as_ref());
        let fits = |example: &Value| self.check_arguments(known, example.clone()).is_ok();
        let mapped = mapped.map(|example| &example.value).filter(|example| fits(example)).cloned();
        mapped.or_else(|| example::build(known).filter(fits))
    }
}

/// Returns the arguments that contain nested calls, according to the map and the schema.
pub(crate) fn call_fields<'e>(
    entry: Option<&'e CuratedRequirements>,
    known: Option<KnownTool<'e>>,
) -> Vec<&'e str> {
    let by_schema =
        known.map(|known| known.schema.call_fields()).unwrap_or_default().iter().map(String::as_str);
    let mut fields: Vec<&str> = by_schema.collect();
    let by_map = entry.and_then(|entry| entry.calls_field.as_ref()).map(|field| field.as_str());
    match by_map {
        Some(field) if !fields.contains(&field) => fields.push(field),
        _ => {}
    }
    fields
}

#[cfg(test)]
mod tests;
