//! The check by a tool's own schema alone, and the defaults that every check fills in.

use std::sync::Arc;

use serde_json::Value;
use tool::{Arguments, Refusal, ToolDefinition};

use crate::curated::Curated;
use crate::guard::{Guard, Known};
use crate::schema::InputSchema;
use crate::{Fitting, ValidCall};

/// Checks arguments against the tool's schema alone and fills in its defaults. A call on the road is checked by a
/// [`Guard`], which knows the curated map too. A tool that has validators is refused: they are asked on the road.
pub fn check(
    definition: &Arc<ToolDefinition>,
    schema: &InputSchema,
    arguments: Value,
) -> Result<ValidCall, Box<Refusal>> {
    fits(definition, schema, arguments)?.settled().map_err(|unseen| unseen.unasked())
}

/// Whether arguments fit the tool's schema, whatever its validators would say of them.
pub fn fits(
    definition: &Arc<ToolDefinition>,
    schema: &InputSchema,
    arguments: Value,
) -> Result<Fitting, Box<Refusal>> {
    let (nothing, nobody) = (Curated::none(), |_: &str| None);
    let guard = Guard::new(&nothing, &nobody);
    guard.check(Known { definition, schema }, arguments).map_err(|rejected| rejected.refusal)
}

/// Arguments as they are judged: none at all is an empty object, and what has a default is there.
pub(crate) struct Filled<'d> {
    pub(crate) arguments: Value,
    /// The names of the defaults that were put in, in that order, at the end.
    added: Vec<&'d str>,
}

impl<'d> Filled<'d> {
    pub(crate) fn new(definition: &'d ToolDefinition, arguments: Value) -> Self {
        let mut arguments = match arguments {
            Value::Null => Arguments::new(),
            Value::Object(arguments) => arguments,
            other => return Filled { arguments: other, added: Vec::new() },
        };
        let mut added = Vec::new();
        for parameter in definition.parameters() {
            let Some(default) = parameter.default.as_ref().filter(|default| !default.is_null()) else {
                continue;
            };
            if !arguments.contains_key(&parameter.name) {
                arguments.insert(parameter.name.clone(), default.clone());
                added.push(parameter.name.as_str());
            }
        }
        Filled { arguments: Value::Object(arguments), added }
    }

    /// The arguments, if they are an object.
    pub(crate) fn into_object(self) -> Result<Arguments, Self> {
        match self.arguments {
            Value::Object(arguments) => Ok(arguments),
            arguments => Err(Filled { arguments, ..self }),
        }
    }

    /// The arguments as they came.
    pub(crate) fn without_defaults(self) -> Value {
        let mut arguments = self.arguments;
        if let Value::Object(map) = &mut arguments {
            // From the end, so that what was there before keeps its order.
            self.added.iter().rev().for_each(|name| drop(map.remove(*name)));
        }
        arguments
    }
}

#[cfg(test)]
mod tests;
