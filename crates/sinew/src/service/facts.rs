//! What the files of a service say about this machine and this user.

use std::path::{Path, PathBuf};

use server::Home;

use crate::exit::{Exit, Problem};
use crate::setting::Setting;

/// Where programs are, beyond what a manager's own PATH has. Baked in, because managers start services with next to
/// nothing, and no shell start-up file is read.
const PROGRAMS: [&str; 6] = ["/opt/homebrew/bin", "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// One user's daemon.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) uid: u32,
    /// The user's own folder.
    pub(crate) user_home: PathBuf,
    /// This program, by an absolute name.
    pub(crate) program: PathBuf,
    /// What this shell says about where the home is, and a manager would not know.
    pub(crate) folders: Vec<(&'static str, PathBuf)>,
    pub(crate) agent_socket: PathBuf,
    pub(crate) control_socket: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) log: PathBuf,
}

impl Facts {
    /// The facts of this user and this program.
    pub(crate) fn gather(setting: &Setting) -> Result<Facts, Problem> {
        let home: &Home = setting.home();
        let cannot = |what: &str| Problem::new(Exit::Failed, format!("{what} cannot be found"));
        let user_home = home.user_home().ok_or_else(|| cannot("the home folder of this user"))?;
        let program = std::env::current_exe().map_err(|_| cannot("the path of this program"))?;
        Ok(Facts {
            uid: nix::unistd::getuid().as_raw(),
            user_home: user_home.to_owned(),
            program,
            folders: home.variables().to_vec(),
            agent_socket: home.agent_socket(),
            control_socket: home.control_socket(),
            state: home.state().to_owned(),
            log: home.log().to_owned(),
        })
    }

    /// The PATH of the service.
    pub(crate) fn path(&self) -> String {
        let own = self.user_home.join(".local/bin");
        let all = [shown(&own)].into_iter().chain(PROGRAMS.map(str::to_owned));
        all.collect::<Vec<_>>().join(":")
    }

    /// The variables of the service.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let folders = self.folders.iter().map(|(name, folder)| (*name, shown(folder)));
        [("PATH", self.path())].into_iter().chain(folders).collect()
    }
}

/// A path in a file of text.
pub(super) fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A user whose names need care in every format.
    pub(in crate::service) fn awkward() -> Facts {
        let user_home = PathBuf::from("/home/a \"b\" & <c> 100% $d");
        Facts {
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
    fn programs_of_the_user_come_first() {
        let path = awkward().path();
        assert!(path.starts_with("/home/a \"b\" & <c> 100% $d/.local/bin:/opt/homebrew/bin:"), "{path}");
    }
}
