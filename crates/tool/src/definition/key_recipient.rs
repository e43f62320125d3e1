//! Receiver of a key from the settings.

use std::fmt;

/// Only receiver of a key. A host and a manifest with the same name are different receivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRecipient {
    /// Server on the network, by its host in the form used in URLs.
    Host(String),
    /// Server that Sinew starts, by the id of its manifest.
    Manifest(String),
}

impl fmt::Display for KeyRecipient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyRecipient::Host(host) => f.write_str(host),
            KeyRecipient::Manifest(id) => write!(f, "the manifest {id}"),
        }
    }
}
