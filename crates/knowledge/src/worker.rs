//! The other side: this program, started again to run functions. One thread, no runtime, no files: a message comes,
//! is answered, and everything it left behind is thrown away.

use std::io::{self, Read, Write};

use crate::engine::Prepared;
use crate::harness::Harness;
use crate::wire::{self, Reply, Request};

/// Answers until nobody asks any more.
pub fn serve(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let harness = Harness::compile();
    loop {
        // Prepared before it is needed, so that who asks does not wait for it.
        let prepared = harness.as_ref().map_err(Clone::clone).and_then(Prepared::new);
        wire::write(&mut to, &Reply::Ready)?;
        let Some(request) = wire::read::<Request<'_>>(&mut from)? else { return Ok(()) };
        let (reply, spent) = match prepared {
            Ok(prepared) => {
                let (reply, spent) = prepared.run(&request);
                (reply, Some(spent))
            }
            Err(message) => (Reply::Broken(message), None),
        };
        wire::write(&mut to, &reply)?;
        drop(spent);
    }
}
