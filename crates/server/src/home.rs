//! Where everything lives. Decided once, from an explicit environment; never from the current directory.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::ServeError;
use crate::platform::{Folders, Platform};
use crate::private_folder;

/// The variables of a process. A caller passes `std::env::vars_os().collect()`.
pub type Environment = HashMap<OsString, OsString>;

/// The folders and files of one Sinew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    folders: Folders,
    user_home: Option<PathBuf>,
    variables: Vec<(&'static str, PathBuf)>,
    /// Where the configuration is read from, if it is a copy.
    copy: Option<Copy>,
}

/// A copy of the configuration, laid out as the original.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Copy {
    root: PathBuf,
    config: PathBuf,
    tools: PathBuf,
}

impl Home {
    /// `SINEW_HOME` if it is set, else the system's usual folders for this user.
    pub fn locate(environment: &Environment) -> Result<Self, ServeError> {
        Self::locate_on(Platform::CURRENT, environment)
    }

    /// Everything below one folder, as with `SINEW_HOME`.
    pub fn at(root: &Path) -> Result<Self, ServeError> {
        let environment = Environment::from([("SINEW_HOME".into(), root.into())]);
        Self::locate(&environment)
    }

    fn locate_on(platform: Platform, environment: &Environment) -> Result<Self, ServeError> {
        let user_home = absolute(environment, "HOME")?;
        // A relative XDG folder is to be ignored, says its specification.
        let xdg = |key| absolute(environment, key).ok().flatten();
        let (folders, variables) = match (absolute(environment, "SINEW_HOME")?, &user_home) {
            (Some(root), _) => (Folders::below(&root), vec![("SINEW_HOME", root)]),
            (None, Some(user)) => {
                let said = platform.variables().iter().filter_map(|key| Some((*key, xdg(key)?)));
                (platform.folders(user, xdg), said.collect())
            }
            (None, None) => return Err(ServeError::NoHome),
        };
        let home = Home { folders, user_home, variables, copy: None };
        for socket in [home.agent_socket(), home.control_socket()] {
            check_length(socket, platform.longest_socket_path())?;
        }
        Ok(home)
    }

    /// `sinew.yaml` and `governance/`.
    pub fn config(&self) -> &Path {
        self.copy.as_ref().map_or(&self.folders.config, |copy| &copy.config)
    }

    /// The manifests.
    pub fn tools(&self) -> &Path {
        self.copy.as_ref().map_or(&self.folders.tools, |copy| &copy.tools)
    }

    /// The same Sinew with a configuration that is read from a copy. What no tool may reach stays what it was.
    pub fn reading(&self, copy: &Path) -> Home {
        let copy = Copy { root: copy.to_owned(), config: copy.join("config"), tools: copy.join("tools") };
        Home { copy: Some(copy), ..self.clone() }
    }

    /// The copy that its configuration is read from, if it is.
    pub fn copy(&self) -> Option<&Path> {
        self.copy.as_ref().map(|copy| copy.root.as_path())
    }

    /// The sockets.
    pub fn run(&self) -> &Path {
        &self.folders.run
    }

    /// The ledger, the lock.
    pub fn state(&self) -> &Path {
        &self.folders.state
    }

    /// The daemon's own log.
    pub fn log(&self) -> &Path {
        &self.folders.log
    }

    /// The folders whose files a running daemon reads again when they change.
    pub fn configuration(&self) -> Vec<PathBuf> {
        let config = self.config();
        vec![config.to_owned(), config.join("governance"), config.join("hosts"), self.tools().to_owned()]
    }

    /// The folders no tool may ever reach.
    pub fn folders(&self) -> [&Path; 5] {
        let Folders { config, tools, run, state, log } = &self.folders;
        [config, tools, run, state, log].map(PathBuf::as_path)
    }

    /// The user's own folder, for `~`.
    pub fn user_home(&self) -> Option<&Path> {
        self.user_home.as_deref()
    }

    /// The variables that say where all this is, and what they say: with the same ones another process finds it too.
    pub fn variables(&self) -> &[(&'static str, PathBuf)] {
        &self.variables
    }

    /// Where agents connect.
    pub fn agent_socket(&self) -> PathBuf {
        self.folders.run.join("agent.sock")
    }

    /// Where the human connects.
    pub fn control_socket(&self) -> PathBuf {
        self.folders.run.join("control.sock")
    }

    /// The settings of the daemon.
    pub fn settings_file(&self) -> PathBuf {
        self.config().join("sinew.yaml")
    }

    /// Held by the one process that owns the state.
    pub fn lock_file(&self) -> PathBuf {
        self.folders.state.join("daemon.lock")
    }

    /// Makes what is missing, private to this user, and refuses what others could enter or replace. A missing
    /// configuration is not made: it means the embedded defaults.
    pub fn prepare(&self) -> Result<(), ServeError> {
        [self.run(), self.state(), self.log()].into_iter().try_for_each(private_folder::ensure)
    }
}

/// A folder that is there, looked at by the same rules; nothing is made or changed.
pub fn check_private(folder: &Path) -> Result<(), ServeError> {
    private_folder::check(folder)
}

fn absolute(environment: &Environment, variable: &'static str) -> Result<Option<PathBuf>, ServeError> {
    let value = environment.get(OsStr::new(variable)).filter(|value| !value.is_empty());
    match value.map(PathBuf::from) {
        Some(value) if value.is_relative() => Err(ServeError::RelativeHome { variable, value }),
        value => Ok(value),
    }
}

fn check_length(path: PathBuf, limit: usize) -> Result<(), ServeError> {
    let bytes = path.as_os_str().as_bytes().len();
    if bytes > limit { Err(ServeError::LongSocketPath { path, bytes, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        variables.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
    }

    #[test]
    fn each_system_has_its_layout() {
        let check = |platform, variables: &[(&str, &str)], config: &str, socket: &str, lock: &str| {
            let home = Home::locate_on(platform, &environment(variables)).unwrap();
            assert_eq!(home.config(), Path::new(config), "{variables:?}");
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
    fn what_says_where_it_is_leads_there_again() {
        let check = |platform, said: &[(&str, &str)], expect: &[(&str, &str)]| {
            let home = Home::locate_on(platform, &environment(said)).unwrap();
            let kept: Vec<_> =
                home.variables().iter().map(|(key, path)| (*key, path.to_str().unwrap())).collect();
            assert_eq!(kept, expect);
            let again = environment(&[&kept[..], &[("HOME", "/h")]].concat());
            assert_eq!(Home::locate_on(platform, &again).unwrap(), home);
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
    fn what_cannot_be_a_home_is_refused_with_the_reason() {
        let check = |variables: &[(&str, &str)], expect: &str| {
            let error = Home::locate_on(Platform::Linux, &environment(variables)).unwrap_err();
            assert_eq!(error.to_string(), expect);
            assert!(error.hint().is_some(), "{expect}");
        };
        check(&[], "no place to live: neither SINEW_HOME nor HOME is set");
        check(&[("HOME", "")], "no place to live: neither SINEW_HOME nor HOME is set");
        check(&[("SINEW_HOME", "here")], "SINEW_HOME is `here`: it must be an absolute path");
        check(&[("HOME", "h")], "HOME is `h`: it must be an absolute path");
    }

    #[test]
    fn the_socket_limit_is_exact_and_counts_bytes() {
        // `/run/control.sock`, the longer of the two, has 17 bytes.
        for (platform, limit) in [(Platform::Linux, 107), (Platform::MacOs, 103)] {
            let locate = |root: String| Home::locate_on(platform, &environment(&[("SINEW_HOME", &root)]));
            let longest = format!("/{}", "x".repeat(limit - 17 - 1));
            assert!(locate(longest.clone()).is_ok());
            let message = locate(format!("{longest}x")).unwrap_err().to_string();
            assert!(message.contains(&format!("has {} bytes", limit + 1)), "{message}");
            assert!(message.contains(&format!("allows {limit}")), "{message}");
            assert!(locate(format!("/{}", "é".repeat(limit / 2))).is_err(), "characters are not bytes");
        }
    }
}
