//! One removal: its line in the list, and its action.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use server::SinewHome;

use crate::command::hook::InstalledHooks;
use crate::command::service as service_command;
use crate::command::stop::stop_daemon;
use crate::command_context::CommandContext;
use crate::exit::CommandError;
use crate::service::ServiceFacts;

/// Item of the list.
pub(super) struct Removal {
    /// Kind of the item.
    pub(super) area: &'static str,
    /// Description of the item, in most cases its path.
    pub(super) target: String,
    pub(super) action: RemovalAction,
}

/// Action that removes an item.
pub(super) enum RemovalAction {
    Hooks(InstalledHooks),
    Service,
    StopDaemon,
    /// Removes the sockets in a folder, and the folder if nothing else is in it.
    Sockets(PathBuf),
    File(PathBuf),
    Folder(PathBuf),
}

impl Removal {
    /// Removal of a file, if it exists.
    pub(super) fn file(area: &'static str, path: &Path) -> Option<Removal> {
        fs::symlink_metadata(path).ok()?;
        let action = RemovalAction::File(path.to_owned());
        Some(Removal { area, target: path.display().to_string(), action })
    }

    /// Removal of the sockets of a daemon, if their folder exists.
    pub(super) fn folder_of_sockets(folder: &Path) -> Option<Removal> {
        fs::symlink_metadata(folder).ok().filter(|facts| facts.is_dir())?;
        let action = RemovalAction::Sockets(folder.to_owned());
        Some(Removal { area: "sockets", target: folder.display().to_string(), action })
    }

    /// Removal of a folder with everything in it, if it exists. Of a symbolic link only the link is removed.
    pub(super) fn folder(area: &'static str, path: &Path) -> Option<Removal> {
        let facts = fs::symlink_metadata(path).ok()?;
        if !facts.is_dir() {
            return Removal::file(area, path);
        }
        let target = match count_files(path) {
            Ok((files, bytes)) => format!("{} ({files} files, {} KiB)", path.display(), bytes.div_ceil(1024)),
            Err(_) => path.display().to_string(),
        };
        Some(Removal { area, target, action: RemovalAction::Folder(path.to_owned()) })
    }

    pub(super) fn perform(self, context: &CommandContext, facts: &ServiceFacts) -> Result<(), CommandError> {
        let cannot = |path: &Path, error: &io::Error| {
            CommandError::failed(format!("`{}` cannot be removed: {error}", path.display()))
                .with_hint("what is listed before it was removed; run the command again for the rest")
        };
        let (path, removed) = match &self.action {
            RemovalAction::Hooks(hooks) => {
                hooks.remove()?;
                (hooks.path(), Ok(()))
            }
            RemovalAction::Service => return service_command::remove_service(facts, |_| Ok(())),
            // The service manager may have stopped it already.
            RemovalAction::StopDaemon if !context.is_state_locked() => return Ok(()),
            RemovalAction::StopDaemon => return stop_daemon(context),
            RemovalAction::Sockets(folder) => (folder.as_path(), remove_sockets(folder)),
            RemovalAction::File(path) => (path.as_path(), fs::remove_file(path)),
            RemovalAction::Folder(path) => (path.as_path(), fs::remove_dir_all(path)),
        };
        match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(cannot(path, &error)),
            _ => {}
        }
        remove_empty_parents(path, &facts.user_home);
        Ok(())
    }
}

/// Refuses to purge a home whose folders are next to files of the user.
pub(super) fn check_purge(home: &SinewHome) -> Result<(), CommandError> {
    let Some((_, root)) = home.variables().iter().find(|(name, _)| *name == "SINEW_HOME") else {
        return Ok(());
    };
    let user_home = home.user_home().unwrap_or(Path::new("/"));
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if real(user_home).starts_with(real(root)) {
        let problem = CommandError::usage(format!(
            "SINEW_HOME is `{}`, which contains your home folder: `--purge` would remove folders such as \
             `config` in it that may be yours",
            root.display()
        ));
        return Err(
            problem.with_hint("run `sinew uninstall` without `--purge`, and remove the rest yourself")
        );
    }
    Ok(())
}

fn remove_sockets(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_socket() {
            fs::remove_file(entry.path())?;
        }
    }
    match fs::remove_dir(folder) {
        // The folder has files of others.
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed,
    }
}

/// Removes the folders above that this left empty, up to the home folder of the user.
pub(in crate::command) fn remove_empty_parents(path: &Path, user_home: &Path) {
    let parents = path.ancestors().skip(1);
    for parent in parents.take_while(|parent| *parent != user_home && parent.starts_with(user_home)) {
        if fs::remove_dir(parent).is_err() {
            return;
        }
    }
}

/// Number and total size of the files in a folder and its subfolders.
fn count_files(folder: &Path) -> io::Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let facts = entry.metadata()?;
        let (inner_files, inner_bytes) = match facts.is_dir() {
            true => count_files(&entry.path())?,
            false => (1, facts.len()),
        };
        (files, bytes) = (files + inner_files, bytes + inner_bytes);
    }
    Ok((files, bytes))
}
