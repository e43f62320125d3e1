//! Checked entry of the curated map, and the check of a call against it.

use serde_json::Value;
use strict_yaml::Located;
use tool::{Arguments, Problem, RuleRef, ToolDefinition};

use crate::problem;

/// Requirements of the curated map for the calls of one tool name.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Name as written in the file, with its position.
    pub(crate) key: Located<String>,
    pub(crate) rule: RuleRef,
    pub(crate) required: Vec<Located<String>>,
    /// Groups of arguments of which at least one must be present.
    pub(crate) groups: Vec<Vec<Located<String>>>,
    pub(crate) least: Vec<(Located<String>, u32)>,
    /// Argument that holds nested calls.
    pub(crate) calls: Option<Located<String>>,
    pub(crate) example: Option<Located<Value>>,
    pub(crate) deprecated: Option<String>,
}

impl Entry {
    /// Iterates over every argument the entry names.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &Located<String>> {
        let lengths = self.least.iter().map(|(field, _)| field);
        self.required.iter().chain(self.groups.iter().flatten()).chain(lengths).chain(&self.calls)
    }

    /// Returns the problems of these arguments. A value that is not an object has no arguments.
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

/// Returns the value of a field that counts as present: 0, false, [] and {} do.
fn present<'a>(arguments: &'a Arguments, field: &str) -> Option<&'a Value> {
    arguments.get(field).filter(|value| !value.is_null() && value.as_str() != Some(""))
}

fn kind_of(field: &str, definition: Option<&ToolDefinition>) -> &'static str {
    definition.map_or(problem::A_VALUE, |definition| problem::kind_of(field, definition))
}
