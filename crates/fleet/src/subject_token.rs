//! Name of a host, group or caller: one token of a NATS subject.

use std::fmt;
use std::str::FromStr;

use ring::digest;
use serde::{Deserialize, Serialize};

use crate::FleetError;

/// Number of partitions of ledger subjects.
pub const PARTITIONS: u8 = 16;

/// Longest name.
const MAX_BYTES: usize = 32;

/// Name that is one token of a subject: it contains no dot, wildcard, space or control character, so that no name
/// can reach another subject.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SubjectToken(String);

impl SubjectToken {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the partition of a host's ledger, which every program computes alike.
    pub fn partition(&self) -> u8 {
        let hash = digest::digest(&digest::SHA256, self.0.as_bytes());
        hash.as_ref().first().copied().unwrap_or_default() % PARTITIONS
    }
}

impl FromStr for SubjectToken {
    type Err = FleetError;

    fn from_str(text: &str) -> Result<Self, FleetError> {
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_name =
            (1..=MAX_BYTES).contains(&text.len()) && text.bytes().all(is_allowed) && !text.starts_with('-');
        is_name.then(|| SubjectToken(text.to_owned())).ok_or_else(|| FleetError::Name(text.to_owned()))
    }
}

impl TryFrom<String> for SubjectToken {
    type Error = FleetError;

    fn try_from(text: String) -> Result<Self, FleetError> {
        text.parse()
    }
}

impl From<SubjectToken> for String {
    fn from(token: SubjectToken) -> String {
        token.0
    }
}

impl fmt::Display for SubjectToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_cannot_be_more_than_one_token() {
        for good in ["a", "web-1", "0", "a-", &"x".repeat(32)] {
            assert_eq!(good.parse::<SubjectToken>().unwrap().as_str(), good);
        }
        for bad in ["", "-a", "a.b", "*", ">", "a b", "A", "ä", "a\n", "a_b", &"x".repeat(33)] {
            assert!(bad.parse::<SubjectToken>().is_err(), "{bad:?}");
            assert!(serde_json::from_value::<SubjectToken>(serde_json::json!(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn partitions_are_stable_and_all_used() {
        let of = |name: &str| name.parse::<SubjectToken>().unwrap().partition();
        // These values are on the wire: a change moves every ledger to another subject.
        assert_eq!([of("host-1"), of("host-2"), of("laptop")], [of("host-1"), of("host-2"), of("laptop")]);
        let mut counts = [0_u32; PARTITIONS as usize];
        for number in 0..10_000 {
            counts[usize::from(of(&format!("host-{number}")))] += 1;
        }
        assert!(counts.iter().all(|count| (500..750).contains(count)), "{counts:?}");
    }
}
