//! Pointer to the newest bundle of a group, signed again every hour. A server that withholds bundles cannot
//! produce a fresh one, so that a host detects it.

use serde::{Deserialize, Serialize};

use super::bundle::{check_number, check_origin};
use super::{PolicyRevision, PolicyTrust};
use crate::signature::{Purpose, Signed};
use crate::{FleetError, SubjectToken};

/// Content of a pointer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyPointer {
    /// Name of the fleet.
    pub fleet: SubjectToken,
    /// Group of hosts.
    pub group: SubjectToken,
    /// Revision of the newest bundle.
    pub revision: u64,
    /// Digest of the newest bundle.
    pub digest: String,
    /// Time of the signature in milliseconds.
    pub issued_at: u64,
    /// Time in milliseconds from which the pointer counts as frozen.
    pub not_after: u64,
}

/// State of the policy of a host, as far as the pointer shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum PointerFreshness {
    /// The host has the newest bundle.
    Newest,
    /// A newer bundle exists and has not arrived.
    Behind {
        /// Newest revision.
        revision: u64,
    },
    /// The pointer expired: the signer is away, or the server withholds what it signs.
    Frozen {
        /// Milliseconds since the expiry.
        for_ms: u64,
    },
}

impl PolicyPointer {
    /// Verifies a pointer against the newest one seen before.
    pub fn verify(
        signed: &Signed,
        trust: &PolicyTrust,
        seen: Option<&PolicyPointer>,
    ) -> Result<PolicyPointer, FleetError> {
        let kind = Purpose::Pointer.name();
        let pointer: PolicyPointer = signed.verify(Purpose::Pointer, &trust.signers)?;
        check_origin(kind, (&pointer.fleet, &pointer.group), trust)?;
        let Some(seen) = seen.filter(|seen| **seen != pointer) else { return Ok(pointer) };
        if pointer.revision == seen.revision && pointer.digest != seen.digest {
            return Err(FleetError::Equivocation { kind, number: pointer.revision });
        }
        if pointer.revision != seen.revision {
            check_number(kind, pointer.revision, seen.revision)?;
        }
        check_number(kind, pointer.issued_at, seen.issued_at)?;
        Ok(pointer)
    }

    /// Compares the pointer with the bundle in effect.
    pub fn freshness(&self, current: Option<&PolicyRevision>, now: u64) -> PointerFreshness {
        if self.not_after <= now {
            return PointerFreshness::Frozen { for_ms: now - self.not_after };
        }
        match current.is_some_and(|current| current.revision >= self.revision) {
            true => PointerFreshness::Newest,
            false => PointerFreshness::Behind { revision: self.revision },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SigningKey, TrustedKeys};

    fn pointer(revision: u64, issued_at: u64) -> PolicyPointer {
        PolicyPointer {
            fleet: "acme".parse().unwrap(),
            group: "laptops".parse().unwrap(),
            revision,
            digest: format!("d{revision}"),
            issued_at,
            not_after: issued_at + 100,
        }
    }

    fn check(candidate: &PolicyPointer, seen: Option<&PolicyPointer>, expect: Result<(), &str>) {
        let key = SigningKey::from_seed(&[1; 32]).unwrap();
        let trust = PolicyTrust {
            fleet: "acme".parse().unwrap(),
            group: "laptops".parse().unwrap(),
            signers: TrustedKeys::one(key.public()),
            version: "0.1.0".to_owned(),
        };
        let signed = key.sign(Purpose::Pointer, candidate).unwrap();
        match (PolicyPointer::verify(&signed, &trust, seen), expect) {
            (Ok(_), Ok(())) => {}
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, expect) => panic!("{found:?} is not {expect:?}"),
        }
    }

    #[test]
    fn pointer_never_moves_back() {
        let seen = pointer(5, 1000);
        check(&seen, None, Ok(()));
        check(&seen, Some(&seen), Ok(()));
        check(&pointer(5, 1001), Some(&seen), Ok(()));
        check(&pointer(6, 1001), Some(&seen), Ok(()));
        check(&pointer(5, 999), Some(&seen), Err("has number 999"));
        check(&pointer(4, 1001), Some(&seen), Err("has number 4"));
        check(&pointer(6, 999), Some(&seen), Err("has number 999"));
        check(
            &PolicyPointer { digest: "x".to_owned(), ..pointer(5, 1001) },
            Some(&seen),
            Err("two different"),
        );
        check(&PolicyPointer { group: "b".parse().unwrap(), ..pointer(6, 1001) }, None, Err("is for `b`"));
    }

    #[test]
    fn expired_pointer_shows_a_frozen_server() {
        let revision = |revision| PolicyRevision { revision, digest: String::new(), signers: [].into() };
        let (seen, fresh) = (pointer(5, 1000), PointerFreshness::Newest);
        assert_eq!(seen.freshness(Some(&revision(5)), 1099), fresh);
        assert_eq!(seen.freshness(Some(&revision(4)), 1099), PointerFreshness::Behind { revision: 5 });
        assert_eq!(seen.freshness(None, 1099), PointerFreshness::Behind { revision: 5 });
        assert_eq!(seen.freshness(Some(&revision(5)), 1100), PointerFreshness::Frozen { for_ms: 0 });
    }
}
