//! Checks of the sandbox, tested from inside, and of the operator PIN.

use sandbox::{Finding, Sandbox};
use server::{Holder, StateLock};
use tool::SandboxTier;

use super::row::Row;
use crate::exit::{Exit, Problem};
use crate::setting::Setting;

const AREA: &str = "sandbox";

pub(super) fn rows(setting: &Setting) -> Result<Vec<Row>, Problem> {
    let sandbox = Sandbox::of_this_process();
    let unusable = |error| Problem::new(Exit::Failed, format!("the sandbox cannot be tested: {error}"));
    // Use a temporary folder: before the first start the home does not exist, and two concurrent checks must
    // not share files.
    let own = tempfile::tempdir().map_err(unusable)?;
    let found = sandbox.check(own.path()).map_err(unusable)?;
    let mut rows = vec![tier(sandbox), limits(sandbox, setting)];
    rows.extend(found.iter().map(wall));
    rows.push(pin(setting));
    Ok(rows)
}

fn tier(sandbox: &Sandbox) -> Row {
    let availability = sandbox.availability();
    let (what, missing) = ("isolation of programs", availability.missing.join("; "));
    match availability.tier {
        SandboxTier::Full => Row::good(AREA, what, "full"),
        SandboxTier::Reduced => Row::note(AREA, what, format!("reduced: {missing}"))
            .remedy("enable what is missing, or set `min_isolation: reduced` in tools.yaml"),
        SandboxTier::None => Row::bad(AREA, what, format!("none: {missing}"))
            .remedy("fix this: until then tools that must be sandboxed are refused"),
    }
}

/// Reports what enforces the resource limits of a run: in the daemon if one runs, else in this process.
fn limits(sandbox: &Sandbox, setting: &Setting) -> Row {
    let what = "resource limits of a run";
    let daemon = match StateLock::holder(setting.home()) {
        Holder::Process { pid } => pid,
        Holder::Nobody => None,
    };
    match (sandbox.groups(), daemon) {
        (_, Some(daemon)) if sandbox.has_groups(daemon) => {
            Row::good(AREA, what, "enforced by the kernel: the daemon has control groups")
        }
        (Ok(held), _) => {
            Row::good(AREA, what, format!("enforced by the kernel: control groups for {}", held.join(", ")))
        }
        (Err(why), _) => {
            Row::note(AREA, what, format!("enforced by a watcher, without control groups: {why}"))
        }
    }
}

fn wall(finding: &Finding) -> Row {
    if finding.held {
        return Row::good(AREA, format!("cannot {}", finding.what), finding.cause.as_str());
    }
    let row = Row::bad(AREA, format!("CAN {}", finding.what), finding.cause.as_str());
    match finding.remedy {
        Some(remedy) => row.remedy(remedy),
        None => row,
    }
}

fn pin(setting: &Setting) -> Row {
    match execution::Pin::at(setting.home().state()).is_set() {
        true => Row::good("approvals", "operator PIN", "set: nothing is approved without it"),
        false => {
            Row::note("approvals", "operator PIN", "not set: any process that runs as you can approve calls")
                .remedy("sinew pin set")
        }
    }
}
