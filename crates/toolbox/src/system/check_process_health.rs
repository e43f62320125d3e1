//! `check_process_health`: reports whether a process is running and its resource usage, by pid, name, port or
//! service. It only reads; it never sends a signal.

use governance::Permit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{Annotations, Category, CutUnit, Failure, FailureKind, Output, RiskLevel, ToolSpec, Truncation};

use super::platform;
use super::process_facts::ProcessFacts;
use super::service::Service;
use crate::tool_entry::{Answer, ToolEntry};

/// Largest number of processes reported for one name.
const MOST: usize = 50;

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
struct Health {
    /// `running`; `stopped` or `zombie` if all processes are; `not_running`; `another_process` if the pid was
    /// reused; `listening` if the process that uses the port is not visible; `invalid_pid`.
    outcome: &'static str,
    /// Explanation of the outcome.
    explanation: String,
    /// Processes found.
    processes: Vec<ProcessFacts>,
    /// Service, if requested by label.
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<Service>,
}

pub(super) fn tool() -> ToolEntry {
    let about = "Check whether a process is running, its state and its usage. Give exactly one of pid, name, port, label.";
    let mut spec = ToolSpec::new("check_process_health", about, Category::READ_ONLY, RiskLevel::Low);
    spec.annotations = Annotations { read_only_hint: true, ..Annotations::default() };
    spec.example = Some(json!({"name": "sshd"}));
    ToolEntry::new(spec, check)
}

fn check(_permit: &Permit, arguments: &Arguments) -> Result<Answer<Health>, Failure> {
    let target = (arguments.pid, arguments.name.as_deref(), arguments.port, arguments.label.as_deref());
    let (value, truncated) = match target {
        (Some(pid), None, None, None) => (by_pid(pid, arguments.started_at.as_deref()), None),
        (None, Some(name), None, None) => by_name(name),
        (None, None, Some(port), None) => (by_port(port), None),
        (None, None, None, Some(label)) => (by_label(label)?, None),
        _ => {
            let message = "give exactly one of `pid`, `name`, `port` or `label`";
            return Err(
                Failure::new(FailureKind::WrongKind, message).hint("for example {\"name\": \"sshd\"}")
            );
        }
    };
    Ok(Answer { value, facts: Output { truncated, ..Output::default() } })
}

fn by_pid(pid: i64, started_at: Option<&str>) -> Health {
    if pid <= 0 {
        let explanation = match pid {
            0 => "pid 0 is the kernel or a process group, not a process".to_owned(),
            pid => format!("pid {pid} is a process group, not a process"),
        };
        return Health { outcome: "invalid_pid", explanation, processes: Vec::new(), service: None };
    }
    match (platform::process(pid), started_at) {
        (None, _) => missing(format!("no process has pid {pid}")),
        (Some(facts), Some(earlier)) if facts.started_at != earlier => Health {
            outcome: "another_process",
            explanation: format!(
                "process {pid} started at {earlier} has ended; pid {pid} is now `{}`, started at {}",
                facts.name, facts.started_at
            ),
            processes: vec![facts],
            service: None,
        },
        (Some(facts), _) => found(vec![facts]),
    }
}

fn by_name(name: &str) -> (Health, Option<Truncation>) {
    let numbers = platform::named(name, MOST + 1);
    let total = numbers.len() as u64;
    let processes: Vec<ProcessFacts> = on_threads(numbers.into_iter().take(MOST).collect());
    let truncated = (total > MOST as u64).then(|| Truncation {
        unit: CutUnit::Entries,
        total,
        returned: processes.len() as u64,
        how_to_continue: "there are more processes; check one by pid".to_owned(),
    });
    let health = match processes.is_empty() {
        true => missing(format!("no process has the name `{name}`")),
        false => found(processes),
    };
    (health, truncated)
}

/// Reads all processes in parallel, because each takes the length of one CPU sample.
fn on_threads(numbers: Vec<i64>) -> Vec<ProcessFacts> {
    let started: Vec<_> =
        numbers.into_iter().map(|pid| std::thread::spawn(move || platform::process(pid))).collect();
    started.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
}

fn by_port(port: u16) -> Health {
    let (sockets, numbers) = platform::listeners(port);
    let processes = on_threads(numbers);
    match (sockets, processes.is_empty()) {
        (0, _) => missing(format!("no process listens on port {port}")),
        (_, false) => found(processes),
        (_, true) => Health {
            outcome: "listening",
            explanation: format!(
                "a process listens on port {port}; it belongs to another user and the system does not show it"
            ),
            processes,
            service: None,
        },
    }
}

fn by_label(label: &str) -> Result<Health, Failure> {
    let Some(service) = platform::service(label)? else {
        return Ok(missing(format!("no service has the label `{label}`")));
    };
    let processes: Vec<ProcessFacts> = service.pid.and_then(platform::process).into_iter().collect();
    let health = match processes.is_empty() {
        true => missing(format!("the service `{label}` has no process; its state is `{}`", service.state)),
        false => found(processes),
    };
    Ok(Health { service: Some(service), ..health })
}

fn missing(explanation: String) -> Health {
    Health { outcome: "not_running", explanation, processes: Vec::new(), service: None }
}

fn found(processes: Vec<ProcessFacts>) -> Health {
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
    Health { outcome, explanation, processes, service: None }
}
