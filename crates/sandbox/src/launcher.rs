//! The other side: this program, started again as a launcher. It is recognised before any runtime, thread or command
//! line exists, and gets two sockets, as its standard input and output. Who watches a run speaks to the daemon through
//! one, who becomes the program through the other, so that an order goes to whom it is for and wakes nobody else.

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
use crate::guard::{self, Guard};
use crate::line;
use crate::probe;
use crate::spec::{self, Limits, Spec};
use crate::status::{Problem, Status, Step};

/// The name a launcher is started under.
pub(crate) const NAME: &str = "sinew-launcher";
/// The name a worker is started under.
pub(crate) const WORKER: &str = "sinew-worker";
/// Standard input, output and error of the program to start.
pub(crate) const DESCRIPTORS: usize = 3;

/// What this process is.
pub enum Entered {
    /// A launcher or a probe, which has done its work and leaves with this code.
    Launcher(ExitCode),
    /// A worker behind walls, with the name of its task. Its orders come on standard input.
    Worker(String),
    /// The program itself. From here on it may start launchers.
    Program,
}

static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// Finds out what this process is, and is it. The first thing a program with a sandbox does: one that does not would,
/// started again, not become a launcher, so [`Sandbox`](crate::Sandbox) starts none.
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

/// Whether this program becomes a launcher when it is started again under that name.
pub(crate) fn is_available() -> bool {
    IS_ENTERED.load(Ordering::Acquire)
}

fn serve(tier: SandboxTier, group: &OsStr) -> io::Result<()> {
    let (control, setup) = sockets()?;
    rustix::process::chdir("/")?;
    backend::serve(tier, group, control, setup)
}

/// Takes the sockets away from where the program would find them, and closes everything that came along by mistake.
fn sockets() -> io::Result<(Control, Setup)> {
    if guard::stands(Guard::Strays) {
        backend::close_strays()?;
    }
    let taken = |descriptor: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(descriptor, 3).map(File::from);
    let (control, setup) = (taken(rustix::stdio::stdin())?, taken(rustix::stdio::stdout())?);
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok((Control { socket: control }, Setup { socket: setup }))
}

/// The socket of who watches a run: its limits come through it, and how it ended goes back. The run ends with it.
pub(crate) struct Control {
    socket: File,
}

impl Control {
    /// The limits of a run; nothing if the daemon has gone or changed its mind.
    pub(crate) fn limits(&mut self) -> io::Result<Option<Limits>> {
        let mut head = [0; line::HEAD];
        match self.socket.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let body = line::read_body(&mut self.socket, line::length(head)?)?;
        Limits::read(&body).map(Some)
    }

    pub(crate) fn say(&mut self, status: &Status) -> io::Result<()> {
        self.socket.write_all(&status.framed())
    }

    /// Whether the daemon has gone, once there is something to read: it says nothing more after the limits.
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

/// The socket of who becomes the program: its order comes through it, and what goes wrong before it runs goes back. It
/// closes with the exec, which is how the daemon knows of it.
pub(crate) struct Setup {
    socket: File,
}

/// What to run, and its standard input, output and error.
pub(crate) struct Order {
    pub(crate) spec: Spec,
    pub(crate) stdio: [OwnedFd; DESCRIPTORS],
}

impl Setup {
    pub(crate) fn say(&mut self, status: &Status) -> io::Result<()> {
        self.socket.write_all(&status.framed())
    }

    /// Waits for an order; nothing if the daemon has gone or changed its mind.
    pub(crate) fn order(&mut self, tier: SandboxTier) -> io::Result<Option<Result<Order, Problem>>> {
        let mut head = [0; line::HEAD];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [io::IoSliceMut::new(&mut head)];
        let received = recvmsg(self.socket.as_fd(), parts, &mut ancillary, RecvFlags::WAITALL)?;
        if received.bytes < line::HEAD {
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
        let body = line::read_body(&mut self.socket, line::length(head)?)?;
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
