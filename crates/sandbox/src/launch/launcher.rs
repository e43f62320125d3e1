//! The launcher side: this program, started again as a launcher. It is recognised before any runtime, thread
//! or command line parser exists, and has two sockets as its standard input and output. The watcher uses one
//! and the child that becomes the program uses the other, so that a run request wakes only the process it is
//! for.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tool::result::SandboxTier;

use crate::backend;
use crate::check::probe;
use crate::launch::spec::{self, RunLimits, RunSpec};
use crate::launch::status::{LauncherStatus, SetupFailure, SetupStep};
use crate::launch::wire_format;
use crate::layers::{self, SandboxLayer};

/// Name under which a launcher is started.
pub(crate) const LAUNCHER_NAME: &str = "sinew-launcher";
/// Name under which a worker is started.
pub(crate) const WORKER_NAME: &str = "sinew-worker";
/// Number of standard streams of a program: input, output and error.
pub(crate) const STDIO_COUNT: usize = 3;

/// Role of this process.
pub enum ProcessRole {
    /// A launcher or a probe that has finished and exits with this code.
    Launcher(ExitCode),
    /// A sandboxed worker, with the name of its task. Its requests arrive on standard input.
    Worker(String),
    /// The program itself, which may start launchers from now on.
    Program,
}

static HAS_ENTERED: AtomicBool = AtomicBool::new(false);

/// Detects the role of this process and, for a launcher or probe, runs it. A program with a sandbox must call
/// this first: without the call it would not become a launcher when started again, so
/// [`Sandbox`](crate::Sandbox) starts none.
pub fn enter() -> ProcessRole {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    if name == WORKER_NAME {
        return ProcessRole::Worker(arguments.next().unwrap_or_default().to_string_lossy().into_owned());
    }
    if name == probe::PROBE_NAME {
        return ProcessRole::Launcher(probe::run(arguments.map(|word| word.to_string_lossy().into_owned())));
    }
    if name == LAUNCHER_NAME {
        let tier = arguments.next().map(|word| spec::parse_tier(&word));
        let served = match tier {
            Some(Ok(tier)) => run_launcher(tier, &arguments.next().unwrap_or_default()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        };
        return ProcessRole::Launcher(if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    HAS_ENTERED.store(true, Ordering::Release);
    ProcessRole::Program
}

/// Returns true if this program becomes a launcher when it is started again under that name.
pub(crate) fn is_available() -> bool {
    HAS_ENTERED.load(Ordering::Acquire)
}

fn run_launcher(tier: SandboxTier, group: &OsStr) -> io::Result<()> {
    let (control, setup) = sockets()?;
    // The scheduler shares the processors out between sessions. In a session of its own, a launcher that slept
    // runs soon after it wakes, however busy the daemon's session is. In a shared one, a fork storm and two
    // busy processes beside the daemon delayed the kill at the deadline by up to six seconds.
    rustix::process::setsid()?;
    rustix::process::chdir("/")?;
    backend::run_launcher(tier, group, control, setup)
}

/// Moves the sockets away from the standard streams, and closes descriptors that were inherited by mistake.
fn sockets() -> io::Result<(ControlChannel, SetupChannel)> {
    if layers::is_enabled(SandboxLayer::InheritedDescriptors) {
        backend::close_inherited_descriptors()?;
    }
    let taken = |descriptor: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(descriptor, 3).map(File::from);
    let (control, setup) = (taken(rustix::stdio::stdin())?, taken(rustix::stdio::stdout())?);
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok((ControlChannel { socket: control }, SetupChannel { socket: setup }))
}

/// Socket of the watcher: receives the limits of a run and sends how it ended. The run ends when it is
/// closed.
pub(crate) struct ControlChannel {
    socket: File,
}

impl ControlChannel {
    /// Receives the limits of a run; `None` if the daemon disconnected or no longer needs the launcher.
    pub(crate) fn receive_limits(&mut self) -> io::Result<Option<RunLimits>> {
        let mut head = [0; wire_format::LENGTH_BYTES];
        match self.socket.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let body = wire_format::read_body(&mut self.socket, wire_format::parse_length(head)?)?;
        RunLimits::parse(&body).map(Some)
    }

    pub(crate) fn send(&mut self, status: &LauncherStatus) -> io::Result<()> {
        self.socket.write_all(&status.to_frame())
    }

    /// Returns true if the daemon disconnected. Called when the socket is readable; the daemon sends nothing
    /// after the limits.
    pub(crate) fn is_disconnected(&mut self) -> bool {
        let mut byte = [0; 1];
        !matches!(self.socket.read(&mut byte), Ok(1))
    }
}

impl AsFd for ControlChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Socket of the child that becomes the program: receives the run request and reports failures before the
/// program runs. It closes with the exec, which signals the daemon that the program started.
pub(crate) struct SetupChannel {
    socket: File,
}

/// Program to run, and its standard input, output and error.
pub(crate) struct RunRequest {
    pub(crate) spec: RunSpec,
    pub(crate) stdio: [OwnedFd; STDIO_COUNT],
}

impl SetupChannel {
    pub(crate) fn send(&mut self, status: &LauncherStatus) -> io::Result<()> {
        self.socket.write_all(&status.to_frame())
    }

    /// Waits for a run request; `None` if the daemon disconnected or no longer needs the launcher.
    pub(crate) fn receive_request(
        &mut self,
        tier: SandboxTier,
    ) -> io::Result<Option<Result<RunRequest, SetupFailure>>> {
        let mut head = [0; wire_format::LENGTH_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STDIO_COUNT))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [io::IoSliceMut::new(&mut head)];
        let received = recvmsg(self.socket.as_fd(), parts, &mut ancillary, RecvFlags::WAITALL)?;
        if received.bytes < wire_format::LENGTH_BYTES {
            return Ok(None);
        }
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        for descriptor in &descriptors {
            rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC)?;
        }
        let body = wire_format::read_body(&mut self.socket, wire_format::parse_length(head)?)?;
        Ok(Some(parse_request(tier, &body, descriptors)))
    }
}

fn parse_request(
    tier: SandboxTier,
    body: &[u8],
    descriptors: Vec<OwnedFd>,
) -> Result<RunRequest, SetupFailure> {
    let invalid =
        |what: &str| SetupFailure::new(SetupStep::Message, what, &io::ErrorKind::InvalidData.into());
    let spec = RunSpec::parse(body)
        .map_err(|error| SetupFailure::new(SetupStep::Message, error.to_string(), &error))?;
    if spec.tier != tier {
        return Err(invalid("tier"));
    }
    let stdio = descriptors.try_into().map_err(|_| invalid("descriptors"))?;
    Ok(RunRequest { spec, stdio })
}
