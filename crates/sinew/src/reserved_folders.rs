//! Keeps workspaces separate from Sinew's own folders. A program that can write to or rename one of them
//! could change the daemon's policy, ledger and sockets.

use std::path::{Path, PathBuf};

use server::SinewHome;
use server::settings::WorkspaceAccessSetting;

/// Refuses a workspace inside one of Sinew's folders, and a writable workspace that contains one of them.
pub(crate) fn check_workspace(
    home: &SinewHome,
    workspace: &Path,
    access: WorkspaceAccessSetting,
) -> Result<(), String> {
    for own in home.protected_dirs().map(resolve_existing_prefix) {
        let own_name = own.display();
        if workspace.starts_with(&own) {
            return Err(format!("it is inside `{own_name}`, which belongs to Sinew"));
        }
        if access == WorkspaceAccessSetting::ReadWrite && own.starts_with(workspace) {
            return Err(format!(
                "it contains `{own_name}`, which belongs to Sinew; add the folders inside it that tools \
                 work in, or add it with `--read-only`"
            ));
        }
    }
    Ok(())
}

/// Resolves the symbolic links of the part of a path that exists.
fn resolve_existing_prefix(folder: &Path) -> PathBuf {
    let is_there = folder.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    match is_there {
        Some((above, real)) => {
            folder.strip_prefix(above).map_or_else(|_| folder.to_owned(), |rest| real.join(rest))
        }
        None => folder.to_owned(),
    }
}
