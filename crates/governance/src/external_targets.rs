//! Programs and hosts that a call names, read from its arguments once. Not checked against any rule here.

use serde_json::Value;
use tool::definition::ExternalTargetKind;
use tool::{Arguments, ToolDefinition};

use crate::command_rules::RequestedCommand;
use crate::host_rules::NetworkTarget;

/// Commands and hosts that one call names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExternalTargets {
    pub(crate) commands: Vec<RequestedCommand>,
    pub(crate) network_targets: Vec<NetworkTarget>,
}

impl ExternalTargets {
    pub(crate) fn from_arguments(definition: &ToolDefinition, arguments: &Arguments) -> Self {
        let mut found = ExternalTargets::default();
        for argument in definition.external_target_arguments() {
            let texts = argument.texts(arguments);
            match (argument.kind, arguments.get(&argument.key)) {
                (ExternalTargetKind::Url, _) => {
                    found.network_targets.extend(texts.map(NetworkTarget::from_url))
                }
                (ExternalTargetKind::Command, Some(Value::Array(_))) => {
                    let words = argument.prefix.iter().cloned().chain(texts.map(str::to_owned));
                    found.commands.push(RequestedCommand::Words(words.collect()));
                }
                (ExternalTargetKind::Command, _) => {
                    found.commands.extend(texts.map(RequestedCommand::from_line))
                }
            }
        }
        found
    }
}
