//! Workspaces apart from Sinew's own folders. What a program may rename around them, or in them, would be the daemon's
//! own policy, ledger and sockets.

use std::path::{Path, PathBuf};

use server::{Home, WorkspaceAccess};

/// Refuses a workspace in one of them, and one that is written to and has one of them in it. The reason is a sentence.
pub(crate) fn refuse(home: &Home, workspace: &Path, access: WorkspaceAccess) -> Result<(), String> {
    for own in home.folders().map(real_name) {
        let own_name = own.display();
        if workspace.starts_with(&own) {
            return Err(format!("it lies in `{own_name}`, which is Sinew's own"));
        }
        if access == WorkspaceAccess::ReadWrite && own.starts_with(workspace) {
            return Err(format!(
                "Sinew's own folder `{own_name}` lies in it; list the folders that callers work in, or add it with \
                 `--read-only`"
            ));
        }
    }
    Ok(())
}

/// The name a folder leads to, as far as it is there.
fn real_name(folder: &Path) -> PathBuf {
    let is_there = folder.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    match is_there {
        Some((above, real)) => {
            folder.strip_prefix(above).map_or_else(|_| folder.to_owned(), |rest| real.join(rest))
        }
        None => folder.to_owned(),
    }
}
