//! Guardrail check of a call: the tool's schema and the curated map together, reporting every problem at
//! once.

use std::sync::Arc;

use serde_json::Value;
use tool::{LONGEST_WORD, Refusal, ToolDefinition, shorten};

use crate::check::Filled;
use crate::curated::{Curated, Entry};
use crate::findings::{Findings, refusal};
use crate::nested::Nested;
use crate::repair::{self, Proposal};
use crate::schema::InputSchema;
use crate::{Fitting, example, problem};

/// Existing tool with its compiled schema.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Definition of the tool.
    pub definition: &'a Arc<ToolDefinition>,
    /// Compiled schema of its arguments.
    pub schema: &'a InputSchema,
}

/// Lookup of a tool by name, with the same rules as the registry.
pub type FindTool<'a> = dyn Fn(&str) -> Option<Known<'a>> + 'a;

/// Guardrail for one snapshot: the curated map and the tools.
#[derive(Clone, Copy)]
pub struct Guard<'a> {
    pub(crate) curated: &'a Curated,
    pub(crate) tools: &'a FindTool<'a>,
}

/// Call that the guardrail refused.
#[derive(Debug)]
pub struct Rejected {
    /// Refusal sent to the caller.
    pub refusal: Box<Refusal>,
    /// Call that was probably meant. No policy has judged it.
    pub proposal: Option<Box<Proposal>>,
}

impl Rejected {
    /// Creates a rejection without a repair proposal.
    pub fn without_proposal(refusal: Box<Refusal>) -> Self {
        Rejected { refusal, proposal: None }
    }
}

/// Arguments that failed the check, with their problems.
pub(crate) struct Unfit {
    findings: Findings,
    /// Arguments as the caller sent them.
    arguments: Value,
    /// True if the curated map reported a problem.
    by_map: bool,
}

impl<'a> Guard<'a> {
    /// Creates a guardrail for one snapshot of tools and curated map.
    pub fn new(curated: &'a Curated, tools: &'a FindTool<'a>) -> Self {
        Guard { curated, tools }
    }

    /// Checks arguments and fills in the tool's defaults.
    pub fn check(&self, known: Known<'_>, arguments: Value) -> Result<Fitting, Rejected> {
        self.accept(known, arguments).map_err(|unfit| {
            let name = known.definition.name();
            let mut refusal = refusal(name.as_str(), unfit.findings, self.example(known));
            if unfit.by_map {
                refusal.rule = self.curated.of_tool(name).map(|entry| entry.rule.clone());
            }
            if let Some(lore) = known.schema.lore() {
                lore.teach(&mut refusal, known.definition);
            }
            let proposal = repair::propose(self, known, unfit.arguments).map(Box::new);
            Rejected { refusal: Box::new(refusal), proposal }
        })
    }

    pub(crate) fn accept(&self, known: Known<'_>, arguments: Value) -> Result<Fitting, Box<Unfit>> {
        let filled = Filled::new(known.definition, arguments);
        let entry = self.curated.of_tool(known.definition.name());
        let mapped = entry.map(|entry| entry.problems(&filled.arguments, Some(known.definition)));
        let mapped = mapped.unwrap_or_default();
        let nested = Nested::of(self, calls_of(entry, Some(known)), &filled.arguments);
        let by_map = !mapped.is_empty();
        let session = problem::given_session(&filled.arguments, known.definition);
        let unstated = !by_map && nested.problems.is_empty() && session.is_none();
        let filled = if unstated && known.schema.validator().is_valid(&filled.arguments) {
            match filled.into_object() {
                Ok(arguments) => {
                    let validators = known.schema.validators().cloned();
                    return Ok(Fitting::new(Arc::clone(known.definition), arguments, validators));
                }
                Err(filled) => filled,
            }
        } else {
            filled
        };
        let stated = mapped.into_iter().chain(nested.problems).chain(session).collect();
        let findings = Findings::of(known, &filled.arguments, stated);
        let count = findings.count + nested.unlisted;
        let findings = Findings { examples: nested.examples, count, ..findings };
        Err(Box::new(Unfit { findings, arguments: filled.without_defaults(), by_map }))
    }

    /// Checks a call of a name that no tool has against the curated map. Returns `None` if the map has no
    /// entry for the name or the arguments meet it.
    pub fn check_unknown(&self, name: &str, arguments: &Value) -> Option<Box<Refusal>> {
        let entry = self.entry_of_unknown(name)?;
        let findings = self.against(entry, arguments);
        if findings.is_empty() {
            return None;
        }
        let shown = shorten(name, LONGEST_WORD);
        let mut refusal = refusal(&shown, findings, self.example_of_unknown(name));
        refusal.hint = Some(match &entry.deprecated {
            Some(instead) => format!("`{shown}` is deprecated and no longer available: {instead}"),
            None => format!(
                "no tool is named `{shown}` here; correct the call and send it to the server that offers `{shown}`"
            ),
        });
        refusal.rule = Some(entry.rule.clone());
        Some(Box::new(refusal))
    }

    /// Requirements of the map for a name that no tool has. An entry for one of our tools applies to that
    /// tool alone: `mcp__other__read_file` belongs to another server and has its own arguments.
    pub(crate) fn entry_of_unknown(&self, name: &str) -> Option<&'a Entry> {
        self.curated.of_unknown(name, |bare| (self.tools)(bare).is_some())
    }

    fn against(&self, entry: &Entry, arguments: &Value) -> Findings {
        let nested = Nested::of(self, calls_of(Some(entry), None), arguments);
        let shape = (!arguments.is_object() && !arguments.is_null()).then(|| problem::not_object(arguments));
        let stated = entry.problems(arguments, None).into_iter().chain(shape).chain(nested.problems);
        let findings = Findings::stated(stated.collect());
        Findings { examples: nested.examples, count: findings.count + nested.unlisted, ..findings }
    }

    /// Example from the map for a name that no tool has.
    pub fn example_of_unknown(&self, name: &str) -> Option<Value> {
        self.entry_of_unknown(name)?.example.as_ref().map(|example| example.value.clone())
    }

    /// Returns arguments that would be accepted: the example of the map, else the tool's own, else one
    /// generated from its schema.
    pub fn example(&self, known: Known<'_>) -> Option<Value> {
        let mapped = self.curated.of_tool(known.definition.name()).and_then(|entry| entry.example.as_ref());
        let fits = |example: &Value| self.accept(known, example.clone()).is_ok();
        let mapped = mapped.map(|example| &example.value).filter(|example| fits(example)).cloned();
        mapped.or_else(|| example::of(known).filter(fits))
    }
}

/// Arguments that hold nested calls, according to the map and the schema.
pub(crate) fn calls_of<'e>(entry: Option<&'e Entry>, known: Option<Known<'e>>) -> Vec<&'e str> {
    let by_schema = known.map(|known| known.schema.calls()).unwrap_or_default().iter().map(String::as_str);
    let mut fields: Vec<&str> = by_schema.collect();
    let by_map = entry.and_then(|entry| entry.calls.as_ref()).map(|field| field.as_str());
    match by_map {
        Some(field) if !fields.contains(&field) => fields.push(field),
        _ => {}
    }
    fields
}

#[cfg(test)]
mod tests;
