//! `fleet doctor`: the membership of this host as its daemon sees it.

use fleet::link::FleetMembership;
use serde_json::json;

use crate::cli::JsonArgs;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::fleet::{FleetStatus, fleet_dir, now_ms};
use crate::render;
use crate::terminal::{escape_invisible_line, print_result_line, print_warning};

/// Age of the status from which the daemon counts as stopped: it writes one with each heartbeat.
const MAX_STATUS_AGE_MS: u64 = 45_000;

pub(super) fn run(context: &CommandContext, output: JsonArgs) -> Result<ExitKind, CommandError> {
    let folder = fleet_dir(context);
    let membership = FleetMembership::read(&folder).map_err(CommandError::failed)?;
    let status = FleetStatus::read(&folder).map_err(CommandError::failed)?;
    let named = context.settings()?.fleet.map(|fleet| fleet.name);
    let mut problems = problems(membership.as_ref(), status.as_ref(), named.as_deref());
    if membership.is_some() && !context.is_daemon_ready() {
        problems.push("the daemon does not run: start it with `sinew serve`".to_owned());
    }
    let exit = if problems.is_empty() { ExitKind::Done } else { ExitKind::Failed };
    if output.json {
        render::print_json(json!({"membership": membership, "status": status, "problems": problems}))?;
        return Ok(exit);
    }
    if let Some(member) = &membership {
        print_result_line(format!("member of {} as {}, group {}", member.fleet, member.host, member.group))?;
        for key in &member.signing_keys {
            print_result_line(format!("signing key {key}"))?;
        }
    }
    if let Some(status) = &status {
        show(status)?;
    }
    for problem in &problems {
        print_warning(escape_invisible_line(problem));
    }
    Ok(exit)
}

fn show(status: &FleetStatus) -> Result<(), CommandError> {
    let lines = [
        format!("connection: {} (nats-server {})", status.connection, status.server),
        format!("fleet mode: {} (epoch {})", status.fleet_mode, status.mode_epoch),
        format!("policy: revision {}, {}", status.policy, status.policy_state),
        format!("ledger: {} of {} records mirrored", status.mirrored, status.synced),
    ];
    lines.iter().try_for_each(|line| print_result_line(escape_invisible_line(line)))
}

/// Returns what is wrong, with the way out.
fn problems(
    member: Option<&FleetMembership>,
    status: Option<&FleetStatus>,
    named: Option<&str>,
) -> Vec<String> {
    let mut found = Vec::new();
    let mut problem = |text: String| found.push(text);
    match (member, named) {
        (None, None) => {
            problem("this host is not a member of a fleet: run `sinew fleet join TOKEN`".to_owned())
        }
        (None, Some(name)) => {
            problem(format!("sinew.yaml names the fleet `{name}`, and this host has not joined it"))
        }
        (Some(_), None) => problem("sinew.yaml has no `fleet:`, so the daemon does not connect".to_owned()),
        (Some(member), Some(name)) if member.fleet.as_str() != name => {
            problem(format!("sinew.yaml names the fleet `{name}`, and this host joined `{}`", member.fleet));
        }
        (Some(_), Some(_)) => {}
    }
    let Some(status) = status else { return found };
    if now_ms().saturating_sub(status.at) > MAX_STATUS_AGE_MS {
        problem("the daemon has not reported for 45 s: what is shown is old".to_owned());
    }
    if status.connection != "connected" {
        problem(format!("not connected: {}", status.connection));
    }
    if !status.lease_held {
        problem(
            "the lease is lost: no beacon arrives; the operator of the fleet runs `sinew fleet beacon`"
                .to_owned(),
        );
    }
    if status.pointer.get("state").is_some_and(|state| state == "frozen") {
        problem(
            "the policy pointer expired: the signer is away, or the server withholds what it signs"
                .to_owned(),
        );
    }
    for (what, text) in [
        ("the server refused", &status.fault),
        ("a message of the fleet was refused", &status.refused),
        ("the ledger is not mirrored", &status.mirror_fault),
    ] {
        if let Some(text) = text {
            problem(format!("{what}: {text}"));
        }
    }
    if status.policy > 0 && status.policy_state != "in effect" {
        problem(format!("policy revision {}: {}", status.policy, status.policy_state));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_name_the_way_out() {
        let healthy = FleetStatus {
            at: now_ms(),
            connection: "connected".to_owned(),
            lease_held: true,
            policy_state: "in effect".to_owned(),
            pointer: serde_json::Value::Null,
            ..FleetStatus::default()
        };
        assert_eq!(problems(None, Some(&healthy), None).len(), 1);
        let check = |change: fn(&mut FleetStatus), part: &str| {
            let mut status = healthy.clone();
            change(&mut status);
            let found = problems(None, Some(&status), None);
            assert!(found.len() == 2 && found[1].contains(part), "{found:?}");
        };
        check(|status| status.at = 0, "45 s");
        check(|status| status.connection = "no answer".to_owned(), "not connected: no answer");
        check(|status| status.lease_held = false, "sinew fleet beacon");
        check(|status| status.pointer = json!({"state": "frozen"}), "pointer expired");
        check(|status| status.mirror_fault = Some("full".to_owned()), "not mirrored: full");
        check(
            |status| (status.policy, status.policy_state) = (3, "rejected: x".to_owned()),
            "revision 3: rejected: x",
        );
    }
}
