//! Programs and hosts that a call names, read from its arguments once. Not checked against any rule here.

use serde_json::Value;
use tool::{Arguments, Outward, ToolDefinition};

use crate::command_rules::Command;
use crate::host_rules::Target;

/// Commands and hosts that one call names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Errands {
    pub(crate) commands: Vec<Command>,
    pub(crate) targets: Vec<Target>,
}

impl Errands {
    pub(crate) fn of(definition: &ToolDefinition, arguments: &Arguments) -> Self {
        let mut errands = Errands::default();
        for argument in definition.outward_arguments() {
            let texts = argument.texts(arguments);
            match (argument.kind, arguments.get(&argument.key)) {
                (Outward::Url, _) => errands.targets.extend(texts.map(Target::of_url)),
                (Outward::Command, Some(Value::Array(_))) => {
                    errands.commands.push(Command::Words(texts.map(str::to_owned).collect()));
                }
                (Outward::Command, _) => errands.commands.extend(texts.map(Command::from_line)),
            }
        }
        errands
    }
}
