//! Daemon to measure: the shipped build with the shipped policy and every check on.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::conversation::{Conversation, Program};
use crate::process;

/// Timeout of a start.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval between two attempts to connect: a small part of the time of a start.
const LOOK: Duration = Duration::from_micros(200);

/// Home directory of one daemon. Its workspace `work` is beside it and contains a file of 1 KiB.
pub(crate) struct Home {
    binary: PathBuf,
    folder: PathBuf,
}

impl Home {
    /// Clears `folder` and creates a home and its workspace in it.
    pub(crate) fn make(binary: &Path, folder: &Path) -> Result<Self> {
        let _ = std::fs::remove_dir_all(folder);
        std::fs::create_dir_all(folder.join("work"))?;
        std::fs::write(folder.join("work/kib.txt"), "x".repeat(1024))?;
        let home = Home { binary: binary.to_owned(), folder: folder.to_owned() };
        process::capture(&mut home.sinew(&["init", "--workspace", "."]))?;
        // Otherwise the benchmark would measure the limit of calls per minute.
        home.put_policy("safety.yaml", "rate_limits:\n  NORMAL: {tool_calls_per_minute: 100000000}\n")?;
        Ok(home)
    }

    /// Command that runs the program in this home.
    pub(crate) fn sinew(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        self.dress(command.args(arguments));
        command
    }

    fn dress(&self, command: &mut Command) {
        command.env("SINEW_HOME", self.root()).env("HOME", &self.folder).current_dir(self.work());
    }

    pub(crate) fn binary(&self) -> &Path {
        &self.binary
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// Path of the workspace.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    /// Replaces a policy file, which overrides the built-in policy key by key.
    pub(crate) fn put_policy(&self, file: &str, text: &str) -> Result<()> {
        Ok(std::fs::write(self.root().join("config/governance").join(file), text)?)
    }

    /// Appends lines to the settings of the daemon.
    pub(crate) fn add_setting(&self, lines: &str) -> Result<()> {
        let path = self.root().join("config/sinew.yaml");
        let text = std::fs::read_to_string(&path)?;
        Ok(std::fs::write(path, format!("{text}{lines}"))?)
    }

    /// Adds a tool manifest that only its owner can access.
    pub(crate) fn put_manifest(&self, name: &str, text: &str) -> Result<()> {
        let folder = self.root().join("tools");
        std::fs::create_dir_all(&folder)?;
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700))?;
        std::fs::write(folder.join(name), text)?;
        Ok(std::fs::set_permissions(folder.join(name), PermissionsExt::from_mode(0o600))?)
    }

    pub(crate) fn start(&self) -> Result<Daemon> {
        self.start_with(&[])
    }

    /// Like `start`, with these variables added to the environment.
    pub(crate) fn start_with(&self, variables: &[(&str, &str)]) -> Result<Daemon> {
        self.start_as(&mut Command::new(&self.binary), variables)
    }

    /// Like `start_with`, by a command that runs the program, such as valgrind.
    pub(crate) fn start_as(&self, command: &mut Command, variables: &[(&str, &str)]) -> Result<Daemon> {
        self.dress(command);
        command.arg("serve").envs(variables.iter().copied());
        // Only the calls of the benchmark run, so root's privileges are no danger here.
        if is_root(&self.folder)? {
            command.arg("--allow-root");
        }
        let began = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Daemon { process: Program(child), socket: self.root().join("run/agent.sock"), began })
    }
}

/// Running daemon, killed when this value is dropped.
pub(crate) struct Daemon {
    process: Program,
    socket: PathBuf,
    /// Time of the start.
    pub(crate) began: Instant,
}

impl Daemon {
    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Sends SIGTERM to the daemon and waits for its end.
    pub(crate) fn end(mut self) -> Result<()> {
        process::capture(Command::new("kill").arg(self.pid().to_string()))?;
        self.process.0.wait()?;
        Ok(())
    }

    /// Connects to the daemon as soon as it listens.
    pub(crate) fn connect(&self) -> Result<Conversation> {
        loop {
            match UnixStream::connect(&self.socket) {
                Ok(stream) => return Conversation::on_socket(stream),
                Err(error) if self.began.elapsed() > START_TIMEOUT => {
                    return Err(error).context("the daemon does not answer");
                }
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }
}

/// Returns true if root owns `folder`. This process created it and so runs as root too.
pub(crate) fn is_root(folder: &Path) -> Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata(folder)?.uid() == 0)
}
