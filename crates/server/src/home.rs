//! Locations of all folders and files of a Sinew installation. Resolved once from an explicit environment,
//! never from the current directory.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::ServeError;
use crate::platform::{HomeFolders, Platform};
use crate::private_folder;

/// Environment variables of a process; callers pass `std::env::vars_os().collect()`.
pub type ProcessEnvironment = HashMap<OsString, OsString>;

/// Folders and files of one Sinew installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinewHome {
    folders: HomeFolders,
    user_home: Option<PathBuf>,
    variables: Vec<(&'static str, PathBuf)>,
    /// Copy to read the configuration from, instead of the original.
    config_copy: Option<ConfigCopy>,
}

/// Copy of the configuration, with the layout of the original.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ConfigCopy {
    root: PathBuf,
    config: PathBuf,
    tools: PathBuf,
}

impl SinewHome {
    /// Uses `SINEW_HOME` if it is set, else the standard folders of the platform for this user.
    pub fn locate(environment: &ProcessEnvironment) -> Result<Self, ServeError> {
        Self::locate_on(Platform::CURRENT, environment)
    }

    /// Places everything below one folder, as with `SINEW_HOME`.
    pub fn from_root(root: &Path) -> Result<Self, ServeError> {
        let environment = ProcessEnvironment::from([("SINEW_HOME".into(), root.into())]);
        Self::locate(&environment)
    }

    fn locate_on(platform: Platform, environment: &ProcessEnvironment) -> Result<Self, ServeError> {
        let user_home = absolute_variable(environment, "HOME")?;
        // The XDG specification requires relative paths to be ignored.
        let xdg = |key| absolute_variable(environment, key).ok().flatten();
        let (folders, variables) = match (absolute_variable(environment, "SINEW_HOME")?, &user_home) {
            (Some(root), _) => (HomeFolders::under_root(&root), vec![("SINEW_HOME", root)]),
            (None, Some(user)) => {
                let set = platform.variables().iter().filter_map(|key| Some((*key, xdg(key)?)));
                (platform.folders(user, xdg), set.collect())
            }
            (None, None) => return Err(ServeError::NoHome),
        };
        let home = SinewHome { folders, user_home, variables, config_copy: None };
        for socket in [home.agent_socket(), home.control_socket()] {
            check_socket_path_length(socket, platform.max_socket_path_bytes())?;
        }
        Ok(home)
    }

    /// Folder with `sinew.yaml` and `governance/`.
    pub fn config_dir(&self) -> &Path {
        self.config_copy.as_ref().map_or(&self.folders.config, |copy| &copy.config)
    }

    /// Folder with the manifests.
    pub fn tools_dir(&self) -> &Path {
        self.config_copy.as_ref().map_or(&self.folders.tools, |copy| &copy.tools)
    }

    /// Returns the same home with its configuration read from a copy. The folders that tools may not reach
    /// stay the originals.
    pub fn with_config_copy(&self, copy: &Path) -> SinewHome {
        let copy =
            ConfigCopy { root: copy.to_owned(), config: copy.join("config"), tools: copy.join("tools") };
        SinewHome { config_copy: Some(copy), ..self.clone() }
    }

    /// Copy that the configuration is read from, if any.
    pub fn config_copy(&self) -> Option<&Path> {
        self.config_copy.as_ref().map(|copy| copy.root.as_path())
    }

    /// Folder with the sockets.
    pub fn run_dir(&self) -> &Path {
        &self.folders.run
    }

    /// Folder with the ledger and the state lock.
    pub fn state_dir(&self) -> &Path {
        &self.folders.state
    }

    /// Folder with the daemon's log.
    pub fn log_dir(&self) -> &Path {
        &self.folders.log
    }

    /// Folders whose files a running daemon reloads when they change.
    pub fn watched_dirs(&self) -> Vec<PathBuf> {
        let config = self.config_dir();
        vec![config.to_owned(), config.join("governance"), config.join("hosts"), self.tools_dir().to_owned()]
    }

    /// Folders that no tool may reach.
    pub fn protected_dirs(&self) -> [&Path; 5] {
        let HomeFolders { config, tools, run, state, log } = &self.folders;
        [config, tools, run, state, log].map(PathBuf::as_path)
    }

    /// Home folder of the user, for expanding `~`.
    pub fn user_home(&self) -> Option<&Path> {
        self.user_home.as_deref()
    }

    /// Environment variables that locate this home, with their values. Another process with the same
    /// variables finds the same home.
    pub fn variables(&self) -> &[(&'static str, PathBuf)] {
        &self.variables
    }

    /// Path of `agent.sock`, for agents.
    pub fn agent_socket(&self) -> PathBuf {
        self.folders.run.join("agent.sock")
    }

    /// Path of `control.sock`, for the operator.
    pub fn control_socket(&self) -> PathBuf {
        self.folders.run.join("control.sock")
    }

    /// Path of the daemon's settings file.
    pub fn settings_file(&self) -> PathBuf {
        self.config_dir().join("sinew.yaml")
    }

    /// Path of the lock file, which the process that owns the state holds.
    pub fn lock_file(&self) -> PathBuf {
        self.folders.state.join("daemon.lock")
    }

    /// Creates missing folders, private to this user, and refuses folders that other users could enter or
    /// replace. A missing configuration is not created: it means the embedded defaults.
    pub fn prepare(&self) -> Result<(), ServeError> {
        [self.run_dir(), self.state_dir(), self.log_dir()].into_iter().try_for_each(private_folder::ensure)
    }
}

/// Checks an existing folder by the rules of `SinewHome::prepare`, without creating or changing anything.
pub fn check_private(folder: &Path) -> Result<(), ServeError> {
    private_folder::check(folder)
}

fn absolute_variable(
    environment: &ProcessEnvironment,
    variable: &'static str,
) -> Result<Option<PathBuf>, ServeError> {
    let value = environment.get(OsStr::new(variable)).filter(|value| !value.is_empty());
    match value.map(PathBuf::from) {
        Some(value) if value.is_relative() => Err(ServeError::RelativeHome { variable, value }),
        value => Ok(value),
    }
}

fn check_socket_path_length(path: PathBuf, limit: usize) -> Result<(), ServeError> {
    let bytes = path.as_os_str().as_bytes().len();
    if bytes > limit { Err(ServeError::LongSocketPath { path, bytes, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> ProcessEnvironment {
        variables.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    #[test]
    fn each_platform_has_its_layout() {
        let check = |platform, variables: &[(&str, &str)], config: &str, socket: &str, lock: &str| {
            let home = SinewHome::locate_on(platform, &environment(variables)).unwrap();
            assert_eq!(home.config_dir(), Path::new(config), "{variables:?}");
            assert_eq!(home.agent_socket(), Path::new(socket), "{variables:?}");
            assert_eq!(home.lock_file(), Path::new(lock), "{variables:?}");
        };
        let one_folder = [("SINEW_HOME", "/s"), ("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")];
        for platform in [Platform::Linux, Platform::MacOs] {
            check(platform, &one_folder, "/s/config", "/s/run/agent.sock", "/s/state/daemon.lock");
        }
        let plain = [("HOME", "/h"), ("SINEW_HOME", "")];
        let state = "/h/.local/state/sinew";
        let (socket, lock) = (format!("{state}/run/agent.sock"), format!("{state}/daemon.lock"));
        check(Platform::Linux, &plain, "/h/.config/sinew", &socket, &lock);
        let xdg = [
            ("HOME", "/h"),
            ("XDG_CONFIG_HOME", "/c"),
            ("XDG_STATE_HOME", "relative/is/ignored"),
            ("XDG_RUNTIME_DIR", "/r"),
        ];
        check(Platform::Linux, &xdg, "/c/sinew", "/r/sinew/agent.sock", &lock);
        let library = "/h/Library/Application Support/sinew";
        let (config, socket) = (format!("{library}/config"), format!("{library}/run/agent.sock"));
        check(Platform::MacOs, &xdg, &config, &socket, &format!("{library}/state/daemon.lock"));
    }

    #[test]
    fn reported_variables_locate_the_same_home() {
        let check = |platform, text: &[(&str, &str)], expect: &[(&str, &str)]| {
            let home = SinewHome::locate_on(platform, &environment(text)).unwrap();
            let kept: Vec<_> =
                home.variables().iter().map(|(key, path)| (*key, path.to_str().unwrap())).collect();
            assert_eq!(kept, expect);
            let again = environment(&[&kept[..], &[("HOME", "/h")]].concat());
            assert_eq!(SinewHome::locate_on(platform, &again).unwrap(), home);
        };
        let xdg = [
            ("HOME", "/h"),
            ("XDG_CONFIG_HOME", "/c"),
            ("XDG_STATE_HOME", "here"),
            ("XDG_RUNTIME_DIR", "/r"),
        ];
        check(Platform::Linux, &xdg, &[("XDG_CONFIG_HOME", "/c"), ("XDG_RUNTIME_DIR", "/r")]);
        check(Platform::MacOs, &xdg, &[]);
        check(Platform::Linux, &[("HOME", "/h"), ("SINEW_HOME", "")], &[]);
        let one_folder = [("HOME", "/h"), ("SINEW_HOME", "/s"), ("XDG_CONFIG_HOME", "/c")];
        check(Platform::Linux, &one_folder, &[("SINEW_HOME", "/s")]);
    }

    #[test]
    fn invalid_home_is_refused_with_the_reason() {
        let check = |variables: &[(&str, &str)], expect: &str| {
            let error = SinewHome::locate_on(Platform::Linux, &environment(variables)).unwrap_err();
            assert_eq!(error.to_string(), expect);
            assert!(error.hint().is_some(), "{expect}");
        };
        check(&[], "cannot locate the Sinew home folder: neither SINEW_HOME nor HOME is set");
        check(&[("HOME", "")], "cannot locate the Sinew home folder: neither SINEW_HOME nor HOME is set");
        check(&[("SINEW_HOME", "here")], "SINEW_HOME is `here`: it must be an absolute path");
        check(&[("HOME", "h")], "HOME is `h`: it must be an absolute path");
    }

    #[test]
    fn socket_path_limit_is_exact_and_counts_bytes() {
        // `/run/control.sock`, the longer of the two, has 17 bytes.
        for (platform, limit) in [(Platform::Linux, 107), (Platform::MacOs, 103)] {
            let locate =
                |root: String| SinewHome::locate_on(platform, &environment(&[("SINEW_HOME", &root)]));
            let longest = format!("/{}", "x".repeat(limit - 17 - 1));
            assert!(locate(longest.clone()).is_ok());
            let message = locate(format!("{longest}x")).unwrap_err().to_string();
            assert!(message.contains(&format!("has {} bytes", limit + 1)), "{message}");
            assert!(message.contains(&format!("allows {limit}")), "{message}");
            assert!(locate(format!("/{}", "é".repeat(limit / 2))).is_err(), "characters are not bytes");
        }
    }
}
