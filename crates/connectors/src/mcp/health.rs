//! The call by which a manifest finds out whether its server works. Nobody judges it by itself, so it is one of the
//! manifest's own commands that only look, it is part of what a person is shown, and it goes to no server that could
//! change something.

use manifest::{Health, HealthMethod, Manifest, McpSection, OutputForm};
use serde_json::Value;
use tool::Category;

use super::answer::{self, Answer};
use crate::error::McpError;

/// A command that shows whether a server works, and what it must answer.
#[derive(Clone, Debug)]
pub(crate) struct HealthCall {
    pub(crate) command: String,
    expected: Option<Value>,
}

impl HealthCall {
    /// The one that a manifest names, if it is one of its commands and only looks. What else it says was told when it was read.
    pub(crate) fn of(manifest: &Manifest, section: &McpSection) -> Option<HealthCall> {
        let Health { method: HealthMethod::ToolCall, command, expected_response } =
            section.health_check.as_ref()?
        else {
            return None;
        };
        let command = command.as_ref()?;
        let mut commands = manifest.tools().map(|(command, _)| command);
        let listed = commands.find(|listed| listed.name == *command)?;
        let only_looks = listed.category == Some(Category::READ_ONLY);
        let expected = expected_response.clone().map(Value::Object);
        only_looks.then(|| HealthCall { command: command.clone(), expected })
    }

    /// Whether this answer is that of a server that works.
    pub(crate) fn judge(&self, result: Value) -> Result<(), McpError> {
        let command = &self.command;
        let found = match answer::read(result.clone(), OutputForm::Json)
            .or_else(|_| answer::read(result, OutputForm::Text))?
        {
            Answer::Gave(found) => found,
            Answer::Complained(_) => return Err(McpError::Unwell(format!("`{command}` did not work"))),
        };
        match self.expected.as_ref().is_none_or(|expected| answer::has(&found, expected)) {
            true => Ok(()),
            false => Err(McpError::Unwell(format!("`{command}` did not answer as expected"))),
        }
    }

    /// For the person who is asked about a call.
    pub(crate) fn fact(&self) -> (String, String) {
        (
            "first".to_owned(),
            format!("may call the tool `{}` of the server, to see whether it works", self.command),
        )
    }
}
