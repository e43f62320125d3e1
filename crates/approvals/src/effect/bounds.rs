//! Bounds of a call in one line: where it runs, its timeout and its sandbox. The line is shown to the
//! operator and is part of what an approval is bound to.

use governance::files::NetworkAccess;
use governance::{Permit, Workspace, WorkspaceAccess};
use registry::ExecutionSite;
use serde_json::json;
use tool::canonical;

pub(super) fn describe_bounds(permit: &Permit, at_work: ExecutionSite) -> String {
    let seconds = permit.timeout().as_secs();
    let reads = match at_work {
        ExecutionSite::HttpGateway => Some("a sandbox without network parses the response"),
        ExecutionSite::RemoteServer => Some("parses the response itself, as JSON"),
        ExecutionSite::AsDefined => None,
    };
    if let Some(reads) = reads {
        return format!("at most {seconds} s; the daemon makes the network request, and {reads}");
    }
    if !permit.call().definition().requires_sandbox() {
        return format!("at most {seconds} s, inside the daemon");
    }
    let confinement = permit.confinement();
    let network = match confinement.network {
        NetworkAccess::Off => "off",
        NetworkAccess::Loopback => "private loopback",
        NetworkAccess::Full => "FULL",
    };
    let memory = confinement.effective_memory_mb();
    format!(
        "at most {seconds} s; sandbox: network {network}, {memory} MiB, {} processes, {} isolation ({}){}{}",
        confinement.effective_max_processes(),
        confinement.min_isolation.as_str(),
        sandbox_fingerprint(permit),
        describe_workspaces(permit, WorkspaceAccess::ReadWrite, "may write"),
        describe_workspaces(permit, WorkspaceAccess::ReadOnly, "may read"),
    )
}

/// Fingerprint of the hidden paths and the program directories of the sandbox: an approval does not extend to
/// a sandbox that exposes other files.
fn sandbox_fingerprint(permit: &Permit) -> String {
    let visibility = permit.visibility_filter();
    let sandbox_spec = canonical::bytes(&json!([visibility.forbidden_patterns(), permit.program_folders()]));
    canonical::sha256_hex(&sandbox_spec).chars().take(12).collect()
}

/// Workspaces that a program can access: an approval does not extend to workspaces that are added later.
fn describe_workspaces(permit: &Permit, access: WorkspaceAccess, permission: &str) -> String {
    let of_kind =
        permit.sandbox_folders().iter().filter(|folder| folder.access() == access).map(Workspace::root);
    let names: Vec<String> = of_kind.map(|root| format!("{root:?}")).collect();
    if names.is_empty() { String::new() } else { format!("; {permission} {}", names.join(", ")) }
}
