//! Sandboxed commands end to end: hostile programs, each also run without a sandbox to show its effect.

mod attempts;
mod bounds;
mod cancel;
mod cases;
mod input;
mod left_behind;
mod lost_connection;
mod moved;
mod ordinary;
mod outputs;
mod programs;
mod tiers;
mod worker_endpoint;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tests::{Daemon, Home};

/// Rules under which any program may run, with these lines added.
fn rules(more: &str) -> String {
    format!(
        "tools:\n  run_command:\n    allowed_in_modes: [NORMAL]\n    allowed_commands: [\"*\"]\n    \
         forbidden_paths: [\"**/.env\", \"**/.env.d\"]\n{more}"
    )
}

pub(crate) fn home(more: &str) -> Home {
    let home = Home::initialised();
    home.configure("governance/tools.yaml", &rules(more));
    home
}

fn run(daemon: &Daemon, words: &[&str]) -> Value {
    daemon.agent().execute("run_command", &json!({"command": words}))
}

/// Standard output of a command that must have run in the full sandbox.
fn output(result: &Value) -> String {
    assert_eq!(result["output"]["sandbox"]["tier"], "full", "{result}");
    result["output"]["stdout"].as_str().expect("text").to_owned()
}

/// Quarantined file in a folder, by its original name.
fn aside_of(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let start = format!("{name}.quarantined-");
    entries
        .map(|entry| entry.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&start)))
}
