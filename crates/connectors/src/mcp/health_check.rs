//! Health check of an MCP server before a call. The policy does not judge it separately from the call.
//! Therefore it must be a read-only command of the same manifest, approval requests show it, and it is not sent
//! to a server process that can write.

use std::time::Duration;

use manifest::{HealthCheck, HealthMethod, Manifest, McpSection, OutputForm};
use serde_json::Value;
use tool::Category;

use super::tool_result::{self, McpToolOutcome};
use crate::error::McpError;

/// Command that checks the health of a server, and its expected answer.
#[derive(Clone, Debug)]
pub(crate) struct ServerHealthCheck {
    pub(crate) command: String,
    expected: Option<Value>,
    /// Timeout of the health check. The deadline of the call applies as well.
    pub(crate) timeout: Option<Duration>,
}

impl ServerHealthCheck {
    /// Returns the health check of a manifest, or `None` if it is not a read-only command of the manifest. The
    /// manifest loader has already reported such a health check.
    pub(crate) fn from_manifest(manifest: &Manifest, section: &McpSection) -> Option<ServerHealthCheck> {
        let HealthCheck { method: HealthMethod::ToolCall, command, expected_response, timeout_ms } =
            section.health_check.as_ref()?
        else {
            return None;
        };
        let command = command.as_ref()?;
        let mut commands = manifest.tools().map(|(command, _)| command);
        let definition = commands.find(|definition| definition.name == *command)?;
        let is_read_only = definition.category == Some(Category::READ_ONLY);
        let expected = expected_response.clone().map(Value::Object);
        let timeout = timeout_ms.map(Duration::from_millis);
        is_read_only.then(|| ServerHealthCheck { command: command.clone(), expected, timeout })
    }

    /// Checks that the result of the health check contains the expected answer.
    pub(crate) fn check_result(&self, result: Value) -> Result<(), McpError> {
        let command = &self.command;
        let answer = match tool_result::parse_result(result.clone(), OutputForm::Json)
            .or_else(|_| tool_result::parse_result(result, OutputForm::Text))?
            .outcome
        {
            McpToolOutcome::Output(answer) => answer,
            McpToolOutcome::ToolError(_) => {
                return Err(McpError::Unhealthy(format!("`{command}` returned an error")));
            }
        };
        match self.expected.as_ref().is_none_or(|expected| tool_result::contains_json(&answer, expected)) {
            true => Ok(()),
            false => Err(McpError::Unhealthy(format!("the answer of `{command}` is not the expected one"))),
        }
    }

    /// Describes the health check for an approval request.
    pub(crate) fn preview_fact(&self) -> (String, String) {
        ("first".to_owned(), format!("may call the tool `{}` of the server as a health check", self.command))
    }
}
