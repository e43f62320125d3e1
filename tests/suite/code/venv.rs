//! A virtual environment in a workspace, built from the packages of this machine. The tests run as a user who
//! may not be able to read those packages, so they are copied before root is dropped.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tests::Home;

/// Interpreter that every user can run.
const PYTHON: &str = "/usr/bin/python3";

/// Copied packages for a virtual environment.
pub(crate) struct PythonPackages {
    folder: TempDir,
}

/// Copies these modules, and ruff if it is among them. It must run before root is dropped. Returns nothing
/// and prints the reason if the machine lacks one of them.
pub(crate) fn packages(modules: &[&str]) -> Option<PythonPackages> {
    let folder = tempfile::Builder::new().prefix("sinew-packages-").tempdir().expect("a folder");
    make_readable(folder.path());
    let python = python_with_packages();
    for module in modules {
        let place = if *module == "ruff" {
            "ruff.find_ruff_bin()"
        } else {
            "getattr(m, '__path__', [m.__file__])[0]"
        };
        let code =
            format!("import importlib\nm = ruff = importlib.import_module('{module}')\nprint({place})");
        let found =
            Command::new(&python).args(["-c", &code]).output().ok().filter(|output| output.status.success());
        let Some(found) = found else {
            tests::left_out(&format!(
                "`python3` here has no module `{module}`; `pip install {module}` brings it"
            ));
            return None;
        };
        let from = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        let copied = Command::new("cp")
            .args(["-rL", "--no-preserve=mode,ownership", &from])
            .arg(folder.path())
            .status();
        assert!(copied.expect("cp").success(), "{from}");
    }
    // Compiled for another interpreter, and half of the bytes to copy.
    let mut remove = Command::new("find");
    remove.arg(folder.path()).args(["-name", "__pycache__", "-prune", "-exec", "rm", "-r", "{}", "+"]);
    assert!(remove.status().expect("find").success());
    if !Path::new(PYTHON).exists() {
        tests::left_out(&format!("there is no {PYTHON}"));
        return None;
    }
    Some(PythonPackages { folder })
}

/// The interpreter for which `cargo xtask test` installs the packages, else the one on the search path.
fn python_with_packages() -> PathBuf {
    let installed =
        std::env::var_os("SINEW_PROGRAMS").map(|folder| Path::new(&folder).join("python/bin/python"));
    installed.filter(|python| python.exists()).unwrap_or_else(|| "python3".into())
}

fn make_readable(folder: &Path) {
    std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
}

impl PythonPackages {
    /// Creates `.venv` in a folder of the workspace.
    pub(crate) fn install(&self, home: &Home, project: &str) -> PathBuf {
        let venv = home.workspace().join(project).join(".venv");
        let (bin, lib) = (venv.join("bin"), venv.join("lib").join(version()).join("site-packages"));
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::create_dir_all(&lib).unwrap();
        std::fs::write(venv.join("pyvenv.cfg"), "home = /usr/bin\ninclude-system-site-packages = false\n")
            .unwrap();
        for name in ["python", "python3"] {
            std::os::unix::fs::symlink(PYTHON, bin.join(name)).unwrap();
        }
        for entry in std::fs::read_dir(self.folder.path()).unwrap().flatten() {
            let to = if entry.file_name() == "ruff" { &bin } else { &lib };
            assert!(Command::new("cp").arg("-r").arg(entry.path()).arg(to).status().unwrap().success());
        }
        let script = format!(
            "#!{}\nimport sys\nfrom pytest import console_main\nsys.exit(console_main())\n",
            bin.join("python3").display()
        );
        std::fs::write(bin.join("pytest"), script).unwrap();
        for name in ["pytest", "ruff"] {
            let path = bin.join(name);
            if path.exists() {
                std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            }
        }
        venv
    }
}

/// Returns the interpreter's name with its version, such as `python3.11`.
fn version() -> String {
    let code = "import sys; print('python%d.%d' % sys.version_info[:2])";
    let output = Command::new(PYTHON).args(["-c", code]).output().expect("python");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Modules that pytest needs.
pub(crate) const PYTEST: &[&str] =
    &["pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py"];
