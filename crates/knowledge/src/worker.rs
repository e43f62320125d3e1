//! The other side: this program, started again to run functions. One thread, no runtime, no files: a message comes,
//! is answered, and everything it left behind is thrown away.

use std::io::{self, Read, Write};

use crate::engine::Prepared;
use crate::wire::{self, Reply, Request};

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
