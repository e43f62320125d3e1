//! The other side: this program, started again to run functions. One thread, no runtime, no files: a message comes,
//! is answered, and everything it left behind is thrown away.

use std::ffi::OsStr;
use std::io::{self, Read, Write};

use crate::engine::Prepared;
use crate::wire::{self, Reply, Request};

/// The word a worker is started with.
pub const WORKER: &str = "--knowledge-worker";

/// Whether this process was started to be a worker. To be asked before any thread or runtime exists.
pub fn worker_asked() -> bool {
    let mut words = std::env::args_os().skip(1);
    words.next().as_deref() == Some(OsStr::new(WORKER)) && words.next().is_none()
}

/// Answers until nobody asks any more.
pub fn serve(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    loop {
        // Prepared before it is needed, so that who asks does not wait for it.
        let prepared = Prepared::new();
        wire::write(&mut to, &Reply::Ready)?;
        let Some(request) = wire::read::<Request<'_>>(&mut from)? else { return Ok(()) };
        let reply = match prepared {
            Ok(prepared) => prepared.run(&request),
            Err(message) => Reply::Broken(message),
        };
        wire::write(&mut to, &reply)?;
    }
}
