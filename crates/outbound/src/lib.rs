//! The one way out: every host that a call names, and every service a tool speaks to, is connected to here.
//!
//! A [`Gatekeeper`] takes a permit and an address. The address is parsed once; the permit says whether its host may be
//! reached; its name is resolved once; every address it turned out to have is vetted, and only one of those is
//! connected to, by number. Each redirect walks the same way again. Size, time and headers have caps.
//!
//! Nothing here looks at the environment for a proxy, keeps a cookie, decodes or reads what came: that is bytes from a
//! stranger, and is taken apart by a confined process. The frames of HTTP and of web sockets are all that is understood. No
//! other part of Sinew opens a connection for a call.

mod answer;
mod connect;
mod credential;
mod error;
mod exchange;
mod gatekeeper;
mod key;
mod port;
mod question;
mod redirect;
mod resolver;
mod socket;
mod stream;
mod tls;
mod vet;

#[cfg(test)]
mod tests;

pub use answer::Answer;
pub use credential::{Credential, may_carry_key};
pub use error::OutboundError;
pub use gatekeeper::{Gatekeeper, MOST_HOPS};
pub use key::{Key, KeyPlaces};
pub use question::{Caps, Method, Question};
pub use socket::Socket;
pub use stream::Stream;
pub use tls::Roots;
