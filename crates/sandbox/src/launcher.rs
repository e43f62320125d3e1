//! The other side: this program, started again as a launcher. It gets its orders on its standard input, a socket, and
//! answers there. It is recognised before any runtime, thread or command line exists.

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tool::SandboxTier;

use crate::backend;
use crate::guard::{self, Guard};
use crate::line;
use crate::probe;
use crate::spec::{self, Spec};
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
            Some(Ok(tier)) => serve(tier),
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

fn serve(tier: SandboxTier) -> io::Result<()> {
    let mut control = Control::take()?;
    rustix::process::chdir("/")?;
    let prepared = backend::prepare(tier);
    control.say(&Status::Ready)?;
    let Some((spec, descriptors)) = control.order()? else { return Ok(()) };
    let problem = match (spec, prepared) {
        (_, Err(problem)) => problem,
        (Ok(spec), Ok(())) if spec.tier == tier => match descriptors.try_into() {
            Ok(descriptors) => return backend::run(&spec, descriptors, control),
            Err(_) => Problem::new(Step::Message, "descriptors", &io::ErrorKind::InvalidData.into()),
        },
        (Ok(_), Ok(())) => Problem::new(Step::Message, "tier", &io::ErrorKind::InvalidData.into()),
        (Err(error), Ok(())) => Problem::new(Step::Message, error.to_string(), &error),
    };
    control.say(&Status::Failed(problem))
}

/// The socket to the daemon.
pub(crate) struct Control {
    socket: File,
}

impl Control {
    /// Takes the socket away from standard input, where the program would find it, and closes everything that came
    /// along by mistake.
    fn take() -> io::Result<Control> {
        if guard::stands(Guard::Strays) {
            backend::close_strays()?;
        }
        let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        let nothing = File::open("/dev/null")?;
        rustix::stdio::dup2_stdin(&nothing)?;
        Ok(Control { socket: File::from(socket) })
    }

    pub(crate) fn say(&mut self, status: &Status) -> io::Result<()> {
        self.socket.write_all(&status.framed())
    }

    /// Waits for an order; nothing if the daemon has gone or changed its mind.
    #[allow(clippy::type_complexity)] // said once, taken apart at once
    fn order(&mut self) -> io::Result<Option<(io::Result<Spec>, Vec<OwnedFd>)>> {
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
        Ok(Some((Spec::read(&body), descriptors)))
    }

    /// Whether the daemon has gone, once there is something to read: it says nothing more after its order.
    pub(crate) fn is_deserted(&mut self) -> bool {
        let mut byte = [0; 1];
        !matches!(self.socket.read(&mut byte), Ok(1))
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
