//! Facts about this machine and user that the service files contain.

use std::path::{Path, PathBuf};

use server::SinewHome;

use crate::command_context::CommandContext;
use crate::exit::CommandError;
use crate::program_path::stable_program_path;

/// Program folders for the PATH of the service. They are written into the service files, because a service
/// manager starts services with a minimal PATH and reads no shell start-up file.
const PROGRAM_DIRS: [&str; 6] =
    ["/opt/homebrew/bin", "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// Facts about one user's daemon.
#[derive(Clone, Debug)]
pub(crate) struct ServiceFacts {
    pub(crate) uid: u32,
    /// Home folder of the user.
    pub(crate) user_home: PathBuf,
    /// Absolute path of this program that survives an upgrade.
    pub(crate) program: PathBuf,
    /// Variables of this shell that locate the Sinew home; a service manager does not have them.
    pub(crate) folders: Vec<(&'static str, PathBuf)>,
    pub(crate) agent_socket: PathBuf,
    pub(crate) control_socket: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) log: PathBuf,
}

impl ServiceFacts {
    /// Collects the facts for this user and program.
    pub(crate) fn collect(context: &CommandContext) -> Result<ServiceFacts, CommandError> {
        let home: &SinewHome = context.home();
        let cannot = |what: &str| CommandError::failed(format!("{what} cannot be found"));
        let user_home = home.user_home().ok_or_else(|| cannot("the home folder of this user"))?;
        let program = stable_program_path()?;
        Ok(ServiceFacts {
            uid: nix::unistd::getuid().as_raw(),
            user_home: user_home.to_owned(),
            program,
            folders: home.variables().to_vec(),
            agent_socket: home.agent_socket(),
            control_socket: home.control_socket(),
            state: home.state_dir().to_owned(),
            log: home.log_dir().to_owned(),
        })
    }

    /// Returns the PATH of the service.
    pub(crate) fn path(&self) -> String {
        let own = self.user_home.join(".local/bin");
        let all = [path_text(&own)].into_iter().chain(PROGRAM_DIRS.map(str::to_owned));
        all.collect::<Vec<_>>().join(":")
    }

    /// Returns the environment variables of the service.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let folders = self.folders.iter().map(|(name, folder)| (*name, path_text(folder)));
        [("PATH", self.path())].into_iter().chain(folders).collect()
    }
}

/// Converts a path to text for a service file.
pub(super) fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Facts with characters that need escaping in every format.
    pub(in crate::service) fn facts_with_special_characters() -> ServiceFacts {
        let user_home = PathBuf::from("/home/a \"b\" & <c> 100% $d");
        ServiceFacts {
            uid: 501,
            program: user_home.join("bin/sinew"),
            folders: vec![("SINEW_HOME", user_home.join("s"))],
            agent_socket: user_home.join("s/run/agent.sock"),
            control_socket: user_home.join("s/run/control.sock"),
            state: user_home.join("s/state"),
            log: user_home.join("s/log"),
            user_home,
        }
    }

    #[test]
    fn user_programs_come_first() {
        let path = facts_with_special_characters().path();
        assert!(path.starts_with("/home/a \"b\" & <c> 100% $d/.local/bin:/opt/homebrew/bin:"), "{path}");
    }
}
