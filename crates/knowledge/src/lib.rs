//! A manifest's JavaScript: helpers, processors and validators, run where they can harm nobody.
//!
//! The engine lives in a process of its own, which runs [`serve`]; somebody else starts and confines it and hands it
//! over as two streams ([`Started`]), and [`Workers`] keeps a few of them warm. A function gets a context whose memory is,
//! byte for byte, as it was before any function ran, its argument as JSON text, and nothing else. Past its
//! time the process is killed, whatever the engine makes of it, and whoever asked is told no.
//!
//! Nothing here starts a process, opens a file or reads anything as compiled code.

mod engine;
mod error;
mod function;
mod heap;
mod pool;
mod wire;
mod worker;

pub use error::KnowledgeError;
pub use function::{Function, Kind, Validation};
pub use pool::{Start, Started, Starting, Workers};
pub use worker::serve;
