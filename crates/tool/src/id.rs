//! Identifiers: of calls, and random ones that cannot be guessed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::canonical;

/// Identifier of one call in the reply, the ledger, the logs and the spans. Sorts by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CallId(#[schemars(with = "String")] Uuid);

impl CallId {
    /// Generates a new id (UUID version 7).
    pub fn fresh() -> Self {
        CallId(Uuid::now_v7())
    }
}

impl std::fmt::Display for CallId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl std::str::FromStr for CallId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(CallId)
    }
}

/// Returns 128 random bits as 32 hexadecimal digits, for an id that must not be guessed.
pub fn random_id() -> String {
    // A version 4 UUID has 122 random bits. A digest of two of them has 128.
    let [first, second] = [Uuid::new_v4(), Uuid::new_v4()].map(Uuid::into_bytes);
    let mut digest = canonical::sha256_hex(&[first, second].concat());
    digest.truncate(32);
    digest
}
