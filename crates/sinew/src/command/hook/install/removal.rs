//! Finds the hooks of Sinew in the settings of all hosts, and removes them: for `sinew uninstall`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::{handlers, host_settings, unexpected_structure};
use crate::cli::{HostName, HostSettingsScope};
use crate::command::hook::settings_file::HostSettingsFile;
use crate::exit::CommandError;

/// Settings file of a host with hooks of Sinew.
pub(crate) struct InstalledHooks {
    file: HostSettingsFile,
    text_without: String,
    is_empty_without: bool,
}

impl InstalledHooks {
    /// Finds the settings files with hooks: those of the user, and those of projects in these folders. A file that
    /// cannot be read or understood is an error, because its hooks would block every call of the host.
    pub(crate) fn find(folders: &[PathBuf]) -> Result<Vec<InstalledHooks>, CommandError> {
        let mut paths = Vec::new();
        for host in HostName::value_variants() {
            paths.push((*host, host_settings::path(*host, HostSettingsScope::User)?));
            for folder in folders {
                let in_project = [HostSettingsScope::Project, HostSettingsScope::Local];
                // Not every host has local settings.
                let in_project = in_project.map(|scope| host_settings::path_in(*host, scope, folder).ok());
                paths.extend(in_project.into_iter().flatten().map(|path| (*host, path)));
            }
        }
        paths.sort_by(|a, b| a.1.cmp(&b.1));
        paths.dedup_by(|a, b| a.1 == b.1);
        let found = paths.into_iter().filter(|(_, path)| path.exists());
        found.filter_map(|(host, path)| InstalledHooks::in_file(host, &path).transpose()).collect()
    }

    fn in_file(host: HostName, path: &Path) -> Result<Option<InstalledHooks>, CommandError> {
        let empty = host_settings::empty(host);
        let file = HostSettingsFile::read(path, empty)?;
        let mut text = file.text().to_owned();
        for handler in &host_settings::handlers(host, Path::new("sinew"), None) {
            text = handlers::without_handlers(&text, handler)
                .ok_or_else(|| unexpected_structure(file.path(), handler.event))?;
        }
        let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
        let is_empty_without = parsed(&text) == parsed(empty);
        Ok((text != file.text()).then_some(InstalledHooks { file, text_without: text, is_empty_without }))
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Removes the hooks. A file without other settings is removed.
    pub(crate) fn remove(&self) -> Result<(), CommandError> {
        self.file.write(&self.text_without)?;
        if self.is_empty_without {
            let removed = std::fs::remove_file(self.path());
            removed.map_err(|error| {
                CommandError::failed(format!("`{}` cannot be removed: {error}", self.path().display()))
            })?;
        }
        Ok(())
    }
}
