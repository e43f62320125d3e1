//! `check_process_health`: whether a process is alive and how it is doing, by number, name, port or service. It only
//! looks; no process is ever sent anything.

use governance::Permit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{Annotations, Category, CutUnit, Failure, FailureKind, Output, RiskLevel, ToolSpec, Truncation};

use super::platform;
use super::process_facts::ProcessFacts;
use super::service::Service;
use crate::tool_entry::{Answer, ToolEntry};

/// More processes of one name than anybody looks through.
const MOST: usize = 50;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// By number.
    #[serde(default)]
    pid: Option<i64>,
    /// With `pid`: the `started_at` of an earlier answer. A process that began at another time is another process.
    #[serde(default)]
    started_at: Option<String>,
    /// By name, as the system keeps it: without folders, exactly.
    #[serde(default)]
    #[schemars(length(min = 1, max = 255))]
    name: Option<String>,
    /// Whoever listens on this port.
    #[serde(default)]
    port: Option<u16>,
    /// By systemd unit or launchd label.
    #[serde(default)]
    #[schemars(length(max = 255), extend("pattern" = "^[A-Za-z0-9_][A-Za-z0-9_.@:-]*$"))]
    label: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Health {
    /// `running`; `stopped` or `zombie` if that is all there is; `not_running`; `another_process` if the number has been
    /// used again since; `listening` if a port is taken by a process that cannot be seen; `invalid_pid`.
    outcome: &'static str,
    /// What that means here.
    explanation: String,
    /// The processes.
    processes: Vec<ProcessFacts>,
    /// The service, if asked by label.
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<Service>,
}

pub(super) fn tool() -> ToolEntry {
    let about = "Check whether a process is alive and how it is doing. Ask by exactly one of pid, name, port or label.";
    let mut spec = ToolSpec::new("check_process_health", about, Category::READ_ONLY, RiskLevel::Low);
    spec.annotations = Annotations { read_only_hint: true, ..Annotations::default() };
    spec.example = Some(json!({"name": "sshd"}));
    ToolEntry::new(spec, check)
}

fn check(_permit: &Permit, arguments: &Arguments) -> Result<Answer<Health>, Failure> {
    let asked = (arguments.pid, arguments.name.as_deref(), arguments.port, arguments.label.as_deref());
    let (value, truncated) = match asked {
        (Some(pid), None, None, None) => (by_pid(pid, arguments.started_at.as_deref()), None),
        (None, Some(name), None, None) => by_name(name),
        (None, None, Some(port), None) => (by_port(port), None),
        (None, None, None, Some(label)) => (by_label(label)?, None),
        _ => {
            let message = "ask by exactly one of `pid`, `name`, `port` or `label`";
            return Err(Failure::new(FailureKind::WrongKind, message)
                .hint("{\"name\": \"sshd\"} is a call that works"));
        }
    };
    Ok(Answer { value, facts: Output { truncated, ..Output::default() } })
}

fn by_pid(pid: i64, started_at: Option<&str>) -> Health {
    if pid <= 0 {
        let explanation = match pid {
            0 => "0 stands for the kernel, or for a whole group of processes; it is no process".to_owned(),
            pid => format!("{pid} stands for a group of processes; it is no process"),
        };
        return Health { outcome: "invalid_pid", explanation, processes: Vec::new(), service: None };
    }
    match (platform::process(pid), started_at) {
        (None, _) => missing(format!("there is no process {pid}")),
        (Some(facts), Some(earlier)) if facts.started_at != earlier => Health {
            outcome: "another_process",
            explanation: format!(
                "the process {pid} that began at {earlier} has ended; {pid} is now `{}`, which began at {}",
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
        how_to_continue: "there are more; ask for one by pid".to_owned(),
    });
    let health = match processes.is_empty() {
        true => missing(format!("no process is called `{name}`")),
        false => found(processes),
    };
    (health, truncated)
}

/// Each is looked at for a moment, so all of them at the same time.
fn on_threads(numbers: Vec<i64>) -> Vec<ProcessFacts> {
    let started: Vec<_> =
        numbers.into_iter().map(|pid| std::thread::spawn(move || platform::process(pid))).collect();
    started.into_iter().filter_map(|thread| thread.join().ok().flatten()).collect()
}

fn by_port(port: u16) -> Health {
    let (sockets, numbers) = platform::listeners(port);
    let processes = on_threads(numbers);
    match (sockets, processes.is_empty()) {
        (0, _) => missing(format!("nothing listens on port {port}")),
        (_, false) => found(processes),
        (_, true) => Health {
            outcome: "listening",
            explanation: format!(
                "something listens on port {port}; the system does not tell which process of another user"
            ),
            processes,
            service: None,
        },
    }
}

fn by_label(label: &str) -> Result<Health, Failure> {
    let Some(service) = platform::service(label)? else {
        return Ok(missing(format!("no service is called `{label}`")));
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
            "it has ended, and its parent has not asked how; only ending the parent removes it".to_owned()
        }
        "stopped" => "it was stopped and waits to be continued".to_owned(),
        _ if processes.len() == 1 => "it is there".to_owned(),
        _ => format!("there are {}", processes.len()),
    };
    Health { outcome, explanation, processes, service: None }
}
