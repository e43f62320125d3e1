//! A daemon to measure: release build, shipped policy, everything on.

use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::process;

/// A daemon in a home of its own, ended with the task.
pub(crate) struct Daemon {
    process: Child,
    socket: PathBuf,
}

impl Daemon {
    /// Starts one below `folder`; its workspace is `folder/work`.
    pub(crate) fn start(binary: &Path, folder: &Path) -> Result<Self> {
        Daemon::start_with(binary, folder, &[])
    }

    /// The same with these variables in its environment.
    pub(crate) fn start_with(binary: &Path, folder: &Path, variables: &[(&str, &str)]) -> Result<Self> {
        let home = folder.join("home");
        let sinew = |words: &[&str]| {
            let mut command = Command::new(binary);
            command.args(words).env("SINEW_HOME", &home).current_dir(folder.join("work"));
            command
        };
        process::capture(&mut sinew(&["init", "--workspace", "."]))?;
        unlimited(&home.join("config/governance/safety.yaml"))?;
        // Only what is measured runs, so root's powers are no danger here.
        let allow_root: &[&str] = if is_root(folder)? { &["serve", "--allow-root"] } else { &["serve"] };
        let mut serve = sinew(allow_root);
        serve.envs(variables.iter().copied());
        let process = serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Daemon { process, socket: home.join("run/agent.sock") })
    }

    /// A conversation with it, as soon as it listens.
    pub(crate) fn connect(&self) -> Result<BufReader<UnixStream>> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match UnixStream::connect(&self.socket) {
                Ok(stream) => return Ok(BufReader::new(stream)),
                Err(error) if Instant::now() > deadline => {
                    return Err(error).context("the daemon does not answer");
                }
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The limit of calls a minute would be what is measured.
fn unlimited(file: &Path) -> Result<()> {
    let text = std::fs::read_to_string(file)?;
    std::fs::write(file, text.replace("tool_calls_per_minute: 600", "tool_calls_per_minute: 100000000"))?;
    Ok(())
}

/// Whoever makes a file owns it.
fn is_root(folder: &Path) -> Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata(folder)?.uid() == 0)
}
