//! The other side: this program, started again to run functions. One thread, no runtime, no files: a message comes,
//! is answered, and everything it left behind is thrown away.

use std::io::{self, Read, Write};

use crate::engine::Engine;
use crate::wire::{self, Reply, Request};

/// Answers until nobody asks any more.
pub fn serve(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut engine = Engine::new();
    wire::write(&mut to, &Reply::Ready)?;
    while let Some(request) = wire::read::<Request<'_>>(&mut from)? {
        let reply = match &mut engine {
            Ok(engine) => engine.run(&request),
            Err(message) => Reply::Broken(message.clone()),
        };
        wire::write(&mut to, &reply)?;
        // Once the answer is on its way, and before anything else is read.
        if let Ok(engine) = &mut engine {
            engine.forget();
        }
    }
    Ok(())
}
