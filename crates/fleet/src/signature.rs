//! Ed25519 signatures over canonical JSON, each for one purpose.
//!
//! Signing keys are never the keys of a connection: a NATS server chooses the bytes that a connection key signs at
//! log-in, so a hostile server could obtain a signature over anything.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool::canonical;

use crate::FleetError;

/// Most signatures of one message; further ones are not examined.
const MAX_SIGNATURES: usize = 16;

/// Kind of a signed message. A signature for one kind is invalid for every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Policy bundle.
    Bundle,
    /// Pointer to the newest bundle.
    Pointer,
    /// Mode of the fleet.
    Mode,
    /// Sign of life of the fleet.
    Beacon,
    /// Header of a batch of ledger records.
    Batch,
    /// Heartbeat of a host with its ledger head.
    Heartbeat,
    /// Enrolment request of a host.
    Enrolment,
    /// Call of a tool on another host.
    Call,
}

impl Purpose {
    /// Returns the name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Bundle => "policy bundle",
            Purpose::Pointer => "policy pointer",
            Purpose::Mode => "fleet mode",
            Purpose::Beacon => "beacon",
            Purpose::Batch => "ledger batch",
            Purpose::Heartbeat => "heartbeat",
            Purpose::Enrolment => "enrolment",
            Purpose::Call => "remote call",
        }
    }

    /// Returns the bytes that are signed. The name separates the purposes, because JSON never begins with it.
    fn message(self, body: &Value) -> Vec<u8> {
        let mut bytes = format!("sinew-fleet-v1 {}\n", self.name()).into_bytes();
        bytes.extend_from_slice(&canonical::bytes(body));
        bytes
    }
}

/// Private key that signs.
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// Derives the key from 32 random bytes.
    pub fn from_seed(seed: &[u8; 32]) -> Result<SigningKey, FleetError> {
        Ed25519KeyPair::from_seed_unchecked(seed).map(SigningKey).map_err(|_| FleetError::Key)
    }

    /// Parses the seed as 64 hexadecimal digits.
    pub fn from_text(text: &str) -> Result<SigningKey, FleetError> {
        SigningKey::from_seed(&parse_hex(text.trim())?)
    }

    /// Returns the public key.
    pub fn public(&self) -> VerifyingKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        VerifyingKey(bytes)
    }

    /// Signs a message for one purpose.
    pub fn sign<T: Serialize>(&self, purpose: Purpose, body: &T) -> Result<Signed, FleetError> {
        let body = serde_json::to_value(body).map_err(|error| malformed(purpose, &error))?;
        let mut signed = Signed { body, signatures: Vec::new() };
        self.add_signature(purpose, &mut signed);
        Ok(signed)
    }

    /// Adds the signature of this key to a message that others have signed.
    pub fn add_signature(&self, purpose: Purpose, signed: &mut Signed) {
        let signature = canonical::hex(self.0.sign(&purpose.message(&signed.body)).as_ref());
        signed.signatures.retain(|other| other.key != self.public());
        signed.signatures.push(KeySignature { key: self.public(), signature });
    }
}

/// Public key that verifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VerifyingKey([u8; 32]);

impl FromStr for VerifyingKey {
    type Err = FleetError;

    fn from_str(text: &str) -> Result<Self, FleetError> {
        parse_hex(text).map(VerifyingKey)
    }
}

impl TryFrom<String> for VerifyingKey {
    type Error = FleetError;

    fn try_from(text: String) -> Result<Self, FleetError> {
        text.parse()
    }
}

impl From<VerifyingKey> for String {
    fn from(key: VerifyingKey) -> String {
        key.to_string()
    }
}

impl fmt::Display for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&canonical::hex(&self.0))
    }
}

/// Signature of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeySignature {
    key: VerifyingKey,
    signature: String,
}

/// Message with its signatures. Its content can be read only by verifying it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signed {
    body: Value,
    signatures: Vec<KeySignature>,
}

/// Keys that are trusted for a purpose, and how many of them must sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedKeys {
    /// Keys.
    pub keys: BTreeSet<VerifyingKey>,
    /// Number of distinct keys that must sign; at least one.
    pub needed: usize,
}

impl TrustedKeys {
    /// Trusts one key.
    pub fn one(key: VerifyingKey) -> TrustedKeys {
        TrustedKeys { keys: BTreeSet::from([key]), needed: 1 }
    }
}

impl Signed {
    /// Parses a message from the network.
    pub fn parse(purpose: Purpose, bytes: &[u8]) -> Result<Signed, FleetError> {
        serde_json::from_slice(bytes).map_err(|error| malformed(purpose, &error))
    }

    /// Returns the text for the network.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns the digest of the content, without the signatures.
    pub fn digest(&self) -> String {
        canonical::digest(&self.body)
    }

    /// Returns the trusted keys whose signatures are valid.
    pub fn signers(&self, purpose: Purpose, trusted: &BTreeSet<VerifyingKey>) -> BTreeSet<VerifyingKey> {
        let message = purpose.message(&self.body);
        let is_valid = |signed: &&KeySignature| {
            let Ok(signature) = parse_hex::<64>(&signed.signature) else { return false };
            UnparsedPublicKey::new(&ED25519, signed.key.0).verify(&message, &signature).is_ok()
        };
        let examined = self.signatures.iter().take(MAX_SIGNATURES);
        examined
            .filter(|signed| trusted.contains(&signed.key))
            .filter(is_valid)
            .map(|signed| signed.key)
            .collect()
    }

    /// Returns the content without verifying it, to find the key that must have signed it.
    #[cfg(feature = "nats")]
    pub(crate) fn content_unverified<T: DeserializeOwned>(&self, purpose: Purpose) -> Result<T, FleetError> {
        T::deserialize(&self.body).map_err(|error| malformed(purpose, &error))
    }

    /// Verifies the signatures and returns the content.
    pub fn verify<T: DeserializeOwned>(
        &self,
        purpose: Purpose,
        trusted: &TrustedKeys,
    ) -> Result<T, FleetError> {
        let (valid, needed) = (self.signers(purpose, &trusted.keys).len(), trusted.needed.max(1));
        if valid < needed {
            return Err(FleetError::Unsigned { kind: purpose.name(), valid, needed });
        }
        T::deserialize(&self.body).map_err(|error| malformed(purpose, &error))
    }
}

fn malformed(purpose: Purpose, error: &serde_json::Error) -> FleetError {
    FleetError::Malformed { kind: purpose.name(), cause: error.to_string() }
}

/// Parses lower-case hexadecimal digits of exactly `N` bytes, so that each value has one spelling.
fn parse_hex<const N: usize>(text: &str) -> Result<[u8; N], FleetError> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return Err(FleetError::Key);
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let &[high, low] = pair else { return Err(FleetError::Key) };
        *byte = digit(high).zip(digit(low)).map(|(high, low)| high << 4 | low).ok_or(FleetError::Key)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_seed(&[seed; 32]).unwrap()
    }

    fn check(signed: &Signed, purpose: Purpose, trusted: &[u8], needed: usize, expect: Result<(), usize>) {
        let keys = trusted.iter().map(|seed| key(*seed).public()).collect();
        let found = signed.verify::<Value>(purpose, &TrustedKeys { keys, needed });
        let found = found.map(drop).map_err(|error| match error {
            FleetError::Unsigned { valid, .. } => valid,
            other => panic!("{other}"),
        });
        assert_eq!(found, expect, "{purpose:?} {trusted:?} {needed}");
    }

    #[test]
    fn enough_distinct_trusted_keys_must_sign() {
        let mut signed = key(1).sign(Purpose::Bundle, &json!({"b": 1, "a": [2]})).unwrap();
        check(&signed, Purpose::Bundle, &[1], 1, Ok(()));
        check(&signed, Purpose::Bundle, &[1], 0, Ok(()));
        check(&signed, Purpose::Bundle, &[2], 1, Err(0));
        check(&signed, Purpose::Bundle, &[], 0, Err(0));
        check(&signed, Purpose::Pointer, &[1], 1, Err(0));
        check(&signed, Purpose::Bundle, &[1, 2], 2, Err(1));
        // A key that signs twice counts once.
        let again = signed.signatures.clone();
        signed.signatures.extend(again);
        check(&signed, Purpose::Bundle, &[1, 2], 2, Err(1));
        key(2).add_signature(Purpose::Bundle, &mut signed);
        check(&signed, Purpose::Bundle, &[1, 2, 3], 2, Ok(()));
        let text = Signed::parse(Purpose::Bundle, &signed.to_bytes()).unwrap();
        check(&text, Purpose::Bundle, &[1, 2], 2, Ok(()));
        signed.body = json!({"b": 2, "a": [2]});
        check(&signed, Purpose::Bundle, &[1, 2], 1, Err(0));
    }

    #[test]
    fn key_text_has_one_spelling() {
        let public = key(7).public().to_string();
        assert_eq!(public.parse::<VerifyingKey>().unwrap(), key(7).public());
        for bad in [public.to_uppercase(), public[1..].to_owned(), format!("{public}0"), "g".repeat(64)] {
            assert!(bad.parse::<VerifyingKey>().is_err(), "{bad}");
        }
    }
}
