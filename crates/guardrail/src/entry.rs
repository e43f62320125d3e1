//! One tool of the curated map, checked, and what it has against a call.

use document::Located;
use serde_json::Value;
use tool::{Arguments, Problem, RuleRef, ToolDefinition};

use crate::problem;

/// What the map demands of the calls of one tool.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The name as the file has it, and where.
    pub(crate) key: Located<String>,
    pub(crate) rule: RuleRef,
    pub(crate) required: Vec<Located<String>>,
    /// Of each group at least one.
    pub(crate) groups: Vec<Vec<Located<String>>>,
    pub(crate) least: Vec<(Located<String>, u32)>,
    /// The argument that holds calls.
    pub(crate) calls: Option<Located<String>>,
    pub(crate) example: Option<Located<Value>>,
    pub(crate) deprecated: Option<String>,
}

impl Entry {
    /// Every argument it speaks of.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &Located<String>> {
        let lengths = self.least.iter().map(|(field, _)| field);
        self.required.iter().chain(self.groups.iter().flatten()).chain(lengths).chain(&self.calls)
    }

    /// What is wrong with these arguments. Whatever is not an object holds nothing.
    pub(crate) fn problems(&self, arguments: &Value, definition: Option<&ToolDefinition>) -> Vec<Problem> {
        let given = |field: &str| arguments.as_object().and_then(|arguments| present(arguments, field));
        let missing = self.required.iter().filter(|field| given(field).is_none());
        let missing = missing.map(|field| {
            let kind = kind_of(field, definition);
            match arguments.get(field.as_str()) {
                None => problem::missing("", field, kind),
                Some(_) => problem::empty(field, kind),
            }
        });
        let unmet = self.groups.iter().filter(|group| group.iter().all(|field| given(field).is_none()));
        let unmet = unmet.map(|group| problem::none_of(group.iter().map(|field| field.as_str())));
        let short = self.least.iter().filter_map(|(field, least)| {
            let length = given(field)?.as_str()?.chars().count();
            (length < *least as usize).then(|| problem::too_short(field, *least, length))
        });
        missing.chain(unmet).chain(short).collect()
    }
}

/// The value of a field that counts as given: 0, false, [] and {} do.
fn present<'a>(arguments: &'a Arguments, field: &str) -> Option<&'a Value> {
    arguments.get(field).filter(|value| !value.is_null() && value.as_str() != Some(""))
}

fn kind_of(field: &str, definition: Option<&ToolDefinition>) -> &'static str {
    definition.map_or(problem::A_VALUE, |definition| problem::kind_of(field, definition))
}
