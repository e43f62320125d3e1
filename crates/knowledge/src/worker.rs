//! Worker side: this program, started again to run functions. It has one thread, no async runtime and no
//! files. For each request it sends a reply and then discards all effects of the function.

use std::io::{self, Read, Write};

use crate::engine::Engine;
use crate::wire::{self, Reply, Request};

/// Answers requests until the peer closes the connection.
pub fn serve(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut engine = Engine::new();
    wire::write(&mut to, &Reply::Ready)?;
    while let Some(request) = wire::read::<Request<'_>>(&mut from)? {
        let reply = match &mut engine {
            Ok(engine) => engine.run(&request),
            Err(message) => Reply::Broken(message.clone()),
        };
        wire::write(&mut to, &reply)?;
        // Restoring after the reply is sent, and before the next request is read, keeps it off the caller's
        // time.
        if let Ok(engine) = &mut engine {
            engine.forget();
        }
    }
    Ok(())
}
