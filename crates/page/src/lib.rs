//! What a document from the network says: decoded, in the right characters, as text a model can read or as the results
//! of a search.
//!
//! [`serve`] reads one [`Order`] with the bytes of one document and writes one [`Reading`]. It is a pure function of
//! those bytes, so that it can run where nothing can be reached: the bytes are a stranger's, and whatever they make of
//! the parsers stays in the worker that reads them. Nothing here connects, opens or decides.

mod charset;
mod decode;
mod html;
mod kind;
mod order;
mod read;
mod results;
mod robots;
mod serve;
mod skim;
mod visible;

pub use order::{Engine, Failing, Found, Hit, Kind, Order, PageText, Purpose, Reading, View};
pub use serve::{read_reading, serve, write_order};
