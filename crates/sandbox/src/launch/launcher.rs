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
use tool::SandboxTier;

use crate::backend;
use crate::check::probe;
use crate::launch::spec::{self, Limits, Spec};
use crate::launch::status::{Problem, Status, Step};
use crate::launch::wire_format;
use crate::layers::{self, Guard};

/// Name under which a launcher is started.
pub(crate) const NAME: &str = "sinew-launcher";
/// Name under which a worker is started.
pub(crate) const WORKER: &str = "sinew-worker";
/// Number of standard streams of a program: input, output and error.
pub(crate) const DESCRIPTORS: usize = 3;

/// Role of this process.
pub enum Entered {
    /// A launcher or a probe that has finished and exits with this code.
    Launcher(ExitCode),
    /// A sandboxed worker, with the name of its task. Its requests arrive on standard input.
    Worker(String),
    /// The program itself, which may start launchers from now on.
    Program,
}

static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// Detects the role of this process and, for a launcher or probe, runs it. A program with a sandbox must call
/// this first: without the call it would not become a launcher when started again, so
/// [`Sandbox`](crate::Sandbox) starts none.
pub fn enter() -> Entered {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    if name == WORKER {
        return Entered::Worker(words.next().unwrap_or_default().to_string_lossy().into_owned());
    }
    if name == probe::NAME {
        return Entered::Launcher(probe::run(words.map(|word| word.to_string_lossy().into_owned())));
    }
    if name == NAME {
        let tier = words.next().map(|word| spec::tier(&word));
        let served = match tier {
            Some(Ok(tier)) => serve(tier, &words.next().unwrap_or_default()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        };
        return Entered::Launcher(if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    IS_ENTERED.store(true, Ordering::Release);
    Entered::Program
}

/// Returns true if this program becomes a launcher when it is started again under that name.
pub(crate) fn is_available() -> bool {
    IS_ENTERED.load(Ordering::Acquire)
}

fn serve(tier: SandboxTier, group: &OsStr) -> io::Result<()> {
    let (control, setup) = sockets()?;
    // The scheduler shares the processors out between sessions. In a session of its own, a launcher that slept
    // runs soon after it wakes, however busy the daemon's session is. In a shared one, a fork storm and two
    // busy processes beside the daemon delayed the kill at the deadline by up to six seconds.
    rustix::process::setsid()?;
    rustix::process::chdir("/")?;
    backend::serve(tier, group, control, setup)
}

/// Moves the sockets away from the standard streams, and closes descriptors that were inherited by mistake.
fn sockets() -> io::Result<(Control, Setup)> {
    if layers::stands(Guard::Strays) {
        backend::close_strays()?;
    }
    let taken = |descriptor: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(descriptor, 3).map(File::from);
    let (control, setup) = (taken(rustix::stdio::stdin())?, taken(rustix::stdio::stdout())?);
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok((Control { socket: control }, Setup { socket: setup }))
}

/// Socket of the watcher: receives the limits of a run and sends how it ended. The run ends when it is
/// closed.
pub(crate) struct Control {
    socket: File,
}

impl Control {
    /// Receives the limits of a run; `None` if the daemon disconnected or no longer needs the launcher.
    pub(crate) fn limits(&mut self) -> io::Result<Option<Limits>> {
        let mut head = [0; wire_format::HEAD];
        match self.socket.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let body = wire_format::read_body(&mut self.socket, wire_format::length(head)?)?;
        Limits::read(&body).map(Some)
    }

    pub(crate) fn say(&mut self, status: &Status) -> io::Result<()> {
        self.socket.write_all(&status.framed())
    }

    /// Returns true if the daemon disconnected. Called when the socket is readable; the daemon sends nothing
    /// after the limits.
    pub(crate) fn is_deserted(&mut self) -> bool {
        let mut byte = [0; 1];
        !matches!(self.socket.read(&mut byte), Ok(1))
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Socket of the child that becomes the program: receives the run request and reports failures before the
/// program runs. It closes with the exec, which tells the daemon that the program started.
pub(crate) struct Setup {
    socket: File,
}

/// Program to run, and its standard input, output and error.
pub(crate) struct Order {
    pub(crate) spec: Spec,
    pub(crate) stdio: [OwnedFd; DESCRIPTORS],
}

impl Setup {
    pub(crate) fn say(&mut self, status: &Status) -> io::Result<()> {
        self.socket.write_all(&status.framed())
    }

    /// Waits for a run request; `None` if the daemon disconnected or no longer needs the launcher.
    pub(crate) fn order(&mut self, tier: SandboxTier) -> io::Result<Option<Result<Order, Problem>>> {
        let mut head = [0; wire_format::HEAD];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [io::IoSliceMut::new(&mut head)];
        let received = recvmsg(self.socket.as_fd(), parts, &mut ancillary, RecvFlags::WAITALL)?;
        if received.bytes < wire_format::HEAD {
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
        let body = wire_format::read_body(&mut self.socket, wire_format::length(head)?)?;
        Ok(Some(understood(tier, &body, descriptors)))
    }
}

fn understood(tier: SandboxTier, body: &[u8], descriptors: Vec<OwnedFd>) -> Result<Order, Problem> {
    let invalid = |what: &str| Problem::new(Step::Message, what, &io::ErrorKind::InvalidData.into());
    let spec = Spec::read(body).map_err(|error| Problem::new(Step::Message, error.to_string(), &error))?;
    if spec.tier != tier {
        return Err(invalid("tier"));
    }
    let stdio = descriptors.try_into().map_err(|_| invalid("descriptors"))?;
    Ok(Order { spec, stdio })
}
