//! Chromium for the tests of the web console, from the package of Debian. If it is missing and cannot be installed, this
//! module prints it, and those tests are left out.

use std::path::Path;
use std::process::Command;

use crate::ordinary_user;
use crate::process;

/// Places where the tests look for it.
const PROGRAMS: [&str; 4] =
    ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome", "/usr/local/bin/chromium"];

/// Installs Chromium if it is missing and this process may install packages.
pub(crate) fn prepare() {
    if PROGRAMS.iter().any(|program| Path::new(program).exists()) || !cfg!(target_os = "linux") {
        return;
    }
    let apt = |words: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(words).env("DEBIAN_FRONTEND", "noninteractive");
        process::run(&mut command)
    };
    let may_install = ordinary_user::is_root() && Path::new("/usr/bin/apt-get").exists();
    let install = ["install", "-y", "-q", "--no-install-recommends", "chromium"];
    // The lists of packages may be missing or old.
    let is_installed =
        may_install && (apt(&install).is_ok() || (apt(&["update", "-q"]).is_ok() && apt(&install).is_ok()));
    if !is_installed {
        println!(
            "LEFT OUT: there is no Chromium for the tests of the web console: `apt-get install chromium` as root"
        );
    }
}
