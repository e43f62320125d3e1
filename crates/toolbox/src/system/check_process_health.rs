//! `check_process_health`: reports whether a process is running and its resource usage, by pid, name, port or
//! service. It only reads; it never sends a signal.

use governance::Permit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::definition::Annotations;
use tool::result::{Truncation, TruncationUnit};
use tool::{Category, Failure, FailureKind, RiskLevel, ToolOutput, ToolSpec};

use super::platform;
use super::process_facts::ProcessFacts;
use super::service::ServiceStatus;
use crate::tool_registration::{ToolRegistration, TypedOutput};

/// Largest number of processes reported for one name.
const MAX_PROCESSES: usize = 50;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Process id.
    #[serde(default)]
    pid: Option<i64>,
    /// With `pid`: `started_at` of an earlier result. A process with another start time is another process.
    #[serde(default)]
    started_at: Option<String>,
    /// Exact process name as the system keeps it, without directories.
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    name: Option<String>,
    /// Port that the process listens on.
    #[serde(default)]
    port: Option<u16>,
    /// systemd unit or launchd label.
    #[serde(default)]
    #[schemars(length(max = 255), extend("pattern" = "^[A-Za-z0-9_][A-Za-z0-9_.@:-]*$"))]
    label: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct ProcessHealth {
    /// `running`; `stopped` or `zombie` if all processes are; `not_running`; `another_process` if the pid was
    /// reused; `listening` if the process that uses the port is not visible; `invalid_pid`; `unavailable` if the system
    /// hides processes, so that it is not known.
    outcome: &'static str,
    /// Explanation of the outcome.
    explanation: String,
    /// Processes found.
    processes: Vec<ProcessFacts>,
    /// Service, if requested by label.
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<ServiceStatus>,
}

pub(super) fn tool() -> ToolRegistration {
    let about = "Check whether a process is running, its state and its usage. Give exactly one of pid, name, port, label.";
    let mut spec = ToolSpec::new("check_process_health", about, Category::READ_ONLY, RiskLevel::Low);
    spec.annotations = Annotations { read_only_hint: true, ..Annotations::default() };
    spec.example = Some(json!({"name": "sshd"}));
    ToolRegistration::new(spec, check)
}

fn check(_permit: &Permit, arguments: &Arguments) -> Result<TypedOutput<ProcessHealth>, Failure> {
    let target = (arguments.pid, arguments.name.as_deref(), arguments.port, arguments.label.as_deref());
    let (value, truncated) = match target {
        (Some(pid), None, None, None) => (by_pid(pid, arguments.started_at.as_deref()), None),
        (None, Some(name), None, None) => by_name(name),
        (None, None, Some(port), None) => (by_port(port), None),
        (None, None, None, Some(label)) => (by_label(label)?, None),
        _ => {
            let message = "give exactly one of `pid`, `name`, `port` or `label`";
            return Err(
                Failure::new(FailureKind::WrongKind, message).with_hint("for example {\"name\": \"sshd\"}")
            );
        }
    };
    Ok(TypedOutput { value, metadata: ToolOutput { truncated, ..ToolOutput::default() } })
}

fn by_pid(pid: i64, started_at: Option<&str>) -> ProcessHealth {
    if pid <= 0 {
        let explanation = match pid {
            0 => "pid 0 is the kernel or a process group, not a process".to_owned(),
            pid => format!("pid {pid} is a process group, not a process"),
        };
        return ProcessHealth { outcome: "invalid_pid", explanation, processes: Vec::new(), service: None };
    }
    match (platform::process_facts(pid), started_at) {
        (None, _) => not_running(format!("no process has pid {pid}")),
        (Some(facts), Some(earlier)) if facts.started_at != earlier => ProcessHealth {
            outcome: "another_process",
            explanation: format!(
                "process {pid} started at {earlier} has ended; pid {pid} is now `{}`, started at {}",
                facts.name, facts.started_at
            ),
            processes: vec![facts],
            service: None,
        },
        (Some(facts), _) => health_of(vec![facts]),
    }
}

fn by_name(name: &str) -> (ProcessHealth, Option<Truncation>) {
    let numbers = platform::pids_by_name(name, MAX_PROCESSES + 1);
    let total = numbers.len() as u64;
    let processes: Vec<ProcessFacts> = facts_in_parallel(numbers.into_iter().take(MAX_PROCESSES).collect());
    let truncated = (total > MAX_PROCESSES as u64).then(|| Truncation {
        unit: TruncationUnit::Entries,
        total,
        returned: processes.len() as u64,
        how_to_continue: "there are more processes; check one by pid".to_owned(),
    });
    let health = match processes.is_empty() {
        true => not_running(format!("no process has the name `{name}`")),
        false => health_of(processes),
    };
    (health, truncated)
}

/// Reads all processes in parallel, because each takes the length of one CPU sample.
fn facts_in_parallel(numbers: Vec<i64>) -> Vec<ProcessFacts> {
    let started: Vec<_> =
        numbers.into_iter().map(|pid| std::thread::spawn(move || platform::process_facts(pid))).collect();
    started.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
}

fn by_port(port: u16) -> ProcessHealth {
    let (sockets, numbers) = platform::port_listeners(port);
    let processes = facts_in_parallel(numbers);
    match (sockets, processes.is_empty()) {
        (0, _) => not_running(format!("no process listens on port {port}")),
        (_, false) => health_of(processes),
        (_, true) => ProcessHealth {
            outcome: "listening",
            explanation: format!(
                "a process listens on port {port}; it belongs to another user and the system does not show it"
            ),
            processes,
            service: None,
        },
    }
}

fn by_label(label: &str) -> Result<ProcessHealth, Failure> {
    let Some(service) = platform::query_service(label)? else {
        return Ok(not_running(format!("no service has the label `{label}`")));
    };
    let processes: Vec<ProcessFacts> = service.pid.and_then(platform::process_facts).into_iter().collect();
    let health = match processes.is_empty() {
        true => {
            not_running(format!("the service `{label}` has no process; its state is `{}`", service.state))
        }
        false => health_of(processes),
    };
    Ok(ProcessHealth { service: Some(service), ..health })
}

fn not_running(explanation: String) -> ProcessHealth {
    not_found(explanation, platform::shows_all_processes())
}

/// Outcome if no process was found. If the system hides processes, that proves nothing.
fn not_found(explanation: String, all_are_shown: bool) -> ProcessHealth {
    let (outcome, explanation) = match all_are_shown {
        true => ("not_running", explanation),
        false => {
            let reason = "but this system hides processes (no /proc, or hidepid), so it may be running";
            ("unavailable", format!("{explanation}, {reason}"))
        }
    };
    ProcessHealth { outcome, explanation, processes: Vec::new(), service: None }
}

fn health_of(processes: Vec<ProcessFacts>) -> ProcessHealth {
    let all = |word: &str| processes.iter().all(|one| one.state == word);
    let outcome = match () {
        () if all("zombie") => "zombie",
        () if all("stopped") => "stopped",
        () => "running",
    };
    let explanation = match outcome {
        "zombie" => {
            "it has ended and its parent has not reaped it; it disappears when the parent ends".to_owned()
        }
        "stopped" => "it was stopped by a signal and has not been continued".to_owned(),
        _ if processes.len() == 1 => "the process is running".to_owned(),
        _ => format!("{} processes are running", processes.len()),
    };
    ProcessHealth { outcome, explanation, processes, service: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_processes_are_not_reported_as_ended() {
        let found = |all_are_shown| not_found("no process has pid 7".to_owned(), all_are_shown);
        assert_eq!(found(true).outcome, "not_running");
        assert_eq!(found(false).outcome, "unavailable");
        assert!(found(false).explanation.contains("hidepid"));
    }
}
