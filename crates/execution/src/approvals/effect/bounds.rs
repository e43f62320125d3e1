//! Where a call runs and how far it gets there, in one line: a part of what a person sees, and of what a yes is bound to.

use governance::{Network, Permit, Workspace, WorkspaceAccess};
use registry::AtWork;
use serde_json::json;
use tool::canonical;

pub(super) fn bounds(permit: &Permit, at_work: AtWork) -> String {
    let seconds = permit.timeout().as_secs();
    let reads = match at_work {
        AtWork::Gatekeeper => Some("a sandbox without any reads what comes"),
        AtWork::Far => Some("reads what comes itself, as JSON"),
        AtWork::AsDefined => None,
    };
    if let Some(reads) = reads {
        return format!("at most {seconds} s; the daemon goes out to the network, and {reads}");
    }
    if !permit.call().definition().requires_sandbox() {
        return format!("at most {seconds} s, inside the daemon");
    }
    let confinement = permit.confinement();
    let network = match confinement.network {
        Network::Off => "off",
        Network::Loopback => "loopback, its own",
        Network::Full => "FULL",
    };
    let memory = confinement.memory_mebibytes();
    format!(
        "at most {seconds} s, in a sandbox: network {network}, {memory} MiB, {} processes, walls {} ({}){}{}",
        confinement.processes(),
        confinement.least.as_str(),
        walls(permit),
        folders(permit, WorkspaceAccess::ReadWrite, "may write"),
        folders(permit, WorkspaceAccess::ReadOnly, "may read"),
    )
}

/// Stands for what is hidden from a program and where it takes others from: a yes is not for walls with other holes.
fn walls(permit: &Permit) -> String {
    let sight = permit.sight();
    let walls = canonical::bytes(&json!([sight.patterns(), permit.program_folders()]));
    canonical::sha256_hex(&walls).chars().take(12).collect()
}

/// The folders that a program gets: a yes is not for those that are added later.
fn folders(permit: &Permit, access: WorkspaceAccess, what: &str) -> String {
    let of_kind = permit.folders().iter().filter(|folder| folder.access() == access).map(Workspace::root);
    let names: Vec<String> = of_kind.map(|root| format!("{root:?}")).collect();
    if names.is_empty() { String::new() } else { format!("; {what} {}", names.join(", ")) }
}
