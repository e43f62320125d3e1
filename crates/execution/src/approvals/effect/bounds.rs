//! Bounds of a call in one line: where it runs, its timeout and its sandbox. The line is shown to the
//! operator and is part of what an approval is bound to.

use governance::{Network, Permit, Workspace, WorkspaceAccess};
use registry::AtWork;
use serde_json::json;
use tool::canonical;

pub(super) fn bounds(permit: &Permit, at_work: AtWork) -> String {
    let seconds = permit.timeout().as_secs();
    let reads = match at_work {
        AtWork::Gatekeeper => Some("a sandbox without network parses the response"),
        AtWork::Far => Some("parses the response itself, as JSON"),
        AtWork::AsDefined => None,
    };
    if let Some(reads) = reads {
        return format!("at most {seconds} s; the daemon makes the network request, and {reads}");
    }
    if !permit.call().definition().requires_sandbox() {
        return format!("at most {seconds} s, inside the daemon");
    }
    let confinement = permit.confinement();
    let network = match confinement.network {
        Network::Off => "off",
        Network::Loopback => "private loopback",
        Network::Full => "FULL",
    };
    let memory = confinement.memory_mebibytes();
    format!(
        "at most {seconds} s; sandbox: network {network}, {memory} MiB, {} processes, {} isolation ({}){}{}",
        confinement.processes(),
        confinement.least.as_str(),
        walls(permit),
        folders(permit, WorkspaceAccess::ReadWrite, "may write"),
        folders(permit, WorkspaceAccess::ReadOnly, "may read"),
    )
}

/// Fingerprint of the hidden paths and the program directories of the sandbox: an approval does not extend to
/// a sandbox that exposes other files.
fn walls(permit: &Permit) -> String {
    let sight = permit.sight();
    let walls = canonical::bytes(&json!([sight.patterns(), permit.program_folders()]));
    canonical::sha256_hex(&walls).chars().take(12).collect()
}

/// Workspaces that a program can access: an approval does not extend to workspaces that are added later.
fn folders(permit: &Permit, access: WorkspaceAccess, what: &str) -> String {
    let of_kind = permit.folders().iter().filter(|folder| folder.access() == access).map(Workspace::root);
    let names: Vec<String> = of_kind.map(|root| format!("{root:?}")).collect();
    if names.is_empty() { String::new() } else { format!("; {what} {}", names.join(", ")) }
}
