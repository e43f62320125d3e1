//! Runs other commands of this program with `--json`, so that a page shows what the command line shows. Each is a
//! process of its own: what it needs in memory is free again when it ends.

use std::process::{Command, Stdio};

use serde_json::Value;
use tokio::sync::Semaphore;

use super::api::ApiError;

/// Commands that run at the same time; further ones wait.
const MAX_RUNNING: usize = 2;

pub(super) struct Subcommands {
    slots: Semaphore,
}

impl Default for Subcommands {
    fn default() -> Self {
        Subcommands { slots: Semaphore::new(MAX_RUNNING) }
    }
}

impl Subcommands {
    /// Runs a command and returns what it prints.
    pub(super) async fn run(&self, arguments: &[&str]) -> Result<Value, ApiError> {
        let failed = |message: String| ApiError { code: "failed".to_owned(), message, data: Value::Null };
        let _slot = self.slots.acquire().await.map_err(|error| failed(error.to_string()))?;
        let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(program);
        command.args(arguments).arg("--json").stdin(Stdio::null()).env("SINEW_PAGER", "");
        let output = tokio::task::spawn_blocking(move || command.output()).await;
        let output = output.map_err(|error| failed(error.to_string()))?;
        let output = output.map_err(|error| failed(format!("`sinew {}`: {error}", arguments.join(" "))))?;
        let printed: Value = serde_json::from_slice(&output.stdout).map_err(|_| {
            let text = String::from_utf8_lossy(&output.stderr);
            failed(format!("`sinew {}` printed no JSON: {}", arguments.join(" "), text.trim()))
        })?;
        match printed.get("error").filter(|_| !output.status.success()) {
            Some(error) => Err(ApiError {
                code: error["code"].as_str().unwrap_or("failed").to_owned(),
                message: error["message"].as_str().unwrap_or_default().to_owned(),
                data: error["hint"].clone(),
            }),
            None => Ok(printed),
        }
    }
}
