//! Policy bundle: the policy files of a group of hosts, signed, with a revision that only rises.
//!
//! This module decides if a host takes a bundle. The ordinary reload decides what of it takes effect.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tool::canonical;

use crate::signature::{Purpose, Signed, TrustedKeys, VerifyingKey};
use crate::{FleetError, SubjectToken};

/// Files that a bundle may contain: policy, and nothing that runs or that opens a connection.
const FILES: [&str; 4] = ["guardrails.yaml", "modes.yaml", "safety.yaml", "tools.yaml"];
/// Longest file. A message of NATS has at most 1 MiB.
const MAX_FILE_BYTES: usize = 192 * 1024;

/// Content of a policy bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyBundle {
    /// Name of the fleet.
    pub fleet: SubjectToken,
    /// Group of hosts.
    pub group: SubjectToken,
    /// Revision; a rollback is a new, higher one.
    pub revision: u64,
    /// Time in milliseconds after which the bundle is not taken any more.
    pub not_after: u64,
    /// Oldest version of Sinew that reads these files.
    pub minimum_version: String,
    /// Policy files by name.
    pub files: BTreeMap<String, BundleFile>,
}

/// File of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleFile {
    /// SHA-256 of the text, in hexadecimal.
    pub sha256: String,
    /// Text.
    pub text: String,
}

impl BundleFile {
    /// Creates a file with its hash.
    pub fn new(text: String) -> BundleFile {
        BundleFile { sha256: canonical::sha256_hex(text.as_bytes()), text }
    }
}

/// Revision that a host has taken. It is stored, so that a restart does not forget it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRevision {
    /// Number.
    pub revision: u64,
    /// Digest of the bundle.
    pub digest: String,
    /// Keys that signed the bundle.
    pub signers: BTreeSet<VerifyingKey>,
}

/// Fleet, group and keys that a host accepts bundles from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyTrust {
    /// Fleet of the host.
    pub fleet: SubjectToken,
    /// Group of the host.
    pub group: SubjectToken,
    /// Keys that sign bundles.
    pub signers: TrustedKeys,
    /// Version of this program.
    pub version: String,
}

impl PolicyBundle {
    /// Verifies a bundle against the one in effect. `Ok(None)` means that it is the one in effect.
    pub fn verify(
        signed: &Signed,
        trust: &PolicyTrust,
        current: Option<&PolicyRevision>,
        now: u64,
    ) -> Result<Option<(PolicyBundle, PolicyRevision)>, FleetError> {
        let kind = Purpose::Bundle.name();
        let bundle: PolicyBundle = signed.verify(Purpose::Bundle, &trust.signers)?;
        check_origin(kind, (&bundle.fleet, &bundle.group), trust)?;
        let digest = signed.digest();
        if let Some(current) = current {
            if bundle.revision == current.revision && digest == current.digest {
                return Ok(None);
            }
            check_number(kind, bundle.revision, current.revision)?;
        }
        if bundle.not_after <= now {
            return Err(FleetError::Expired { kind, seconds: (now - bundle.not_after) / 1000 });
        }
        if version_parts(&bundle.minimum_version) > version_parts(&trust.version) {
            return Err(FleetError::Version { needed: bundle.minimum_version, found: trust.version.clone() });
        }
        check_files(&bundle.files)?;
        let signers = signed.signers(Purpose::Bundle, &trust.signers.keys);
        let revision = PolicyRevision { revision: bundle.revision, digest, signers };
        Ok(Some((bundle, revision)))
    }
}

/// Refuses messages of another fleet or group.
pub(super) fn check_origin(
    kind: &'static str,
    (fleet, group): (&SubjectToken, &SubjectToken),
    trust: &PolicyTrust,
) -> Result<(), FleetError> {
    for (found, expected) in [(fleet, &trust.fleet), (group, &trust.group)] {
        if found != expected {
            let (found, expected) = (found.to_string(), expected.to_string());
            return Err(FleetError::Foreign { kind, found, expected });
        }
    }
    Ok(())
}

/// Refuses a number that is not higher than the current one.
pub(crate) fn check_number(kind: &'static str, found: u64, current: u64) -> Result<(), FleetError> {
    match found.cmp(&current) {
        std::cmp::Ordering::Greater => Ok(()),
        std::cmp::Ordering::Equal => Err(FleetError::Equivocation { kind, number: found }),
        std::cmp::Ordering::Less => Err(FleetError::Rollback { kind, found, current }),
    }
}

fn check_files(files: &BTreeMap<String, BundleFile>) -> Result<(), FleetError> {
    let refuse = |name: &str, reason| Err(FleetError::File { name: name.to_owned(), reason });
    if files.is_empty() {
        return refuse("", "is missing: a bundle without files would be no policy");
    }
    for (name, file) in files {
        if !FILES.contains(&name.as_str()) {
            return refuse(name, "is none of guardrails.yaml, modes.yaml, safety.yaml and tools.yaml");
        }
        if file.text.len() > MAX_FILE_BYTES {
            return refuse(name, "is longer than 192 KiB");
        }
        if canonical::sha256_hex(file.text.as_bytes()) != file.sha256 {
            return refuse(name, "does not have the hash that is stated for it");
        }
    }
    Ok(())
}

/// Returns the numbers of a version, which compare like versions.
pub(crate) fn version_parts(text: &str) -> [u64; 3] {
    let text = text.trim_start_matches('v');
    let numbers = text.split(['-', '+']).next().unwrap_or_default();
    let mut parts = numbers.split('.').map(|part| part.parse().unwrap_or_default());
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SigningKey;

    const NOW: u64 = 1_000_000;

    fn trust(needed: usize) -> PolicyTrust {
        let keys = [1, 2, 3].map(|seed| SigningKey::from_seed(&[seed; 32]).unwrap().public()).into();
        PolicyTrust {
            fleet: "acme".parse().unwrap(),
            group: "laptops".parse().unwrap(),
            signers: TrustedKeys { keys, needed },
            version: "0.1.0".to_owned(),
        }
    }

    fn bundle(revision: u64) -> PolicyBundle {
        let file = BundleFile::new(format!("# {revision}\n"));
        PolicyBundle {
            fleet: "acme".parse().unwrap(),
            group: "laptops".parse().unwrap(),
            revision,
            not_after: NOW + 1,
            minimum_version: "0.1.0".to_owned(),
            files: [("tools.yaml".to_owned(), file)].into(),
        }
    }

    fn sign(bundle: &PolicyBundle, seeds: &[u8]) -> Signed {
        let key = |seed: u8| SigningKey::from_seed(&[seed; 32]).unwrap();
        let mut signed = key(seeds[0]).sign(Purpose::Bundle, bundle).unwrap();
        seeds.iter().for_each(|seed| key(*seed).add_signature(Purpose::Bundle, &mut signed));
        signed
    }

    /// Asserts the revision that is taken, or a part of the reason for the refusal.
    fn check(change: impl FnOnce(&mut PolicyBundle), seeds: &[u8], needed: usize, expect: Result<u64, &str>) {
        let current =
            PolicyBundle::verify(&sign(&bundle(5), &[1, 2]), &trust(2), None, NOW).unwrap().unwrap().1;
        let mut candidate = bundle(6);
        change(&mut candidate);
        let found = PolicyBundle::verify(&sign(&candidate, seeds), &trust(needed), Some(&current), NOW);
        match (found, expect) {
            (Ok(found), Ok(expect)) => assert_eq!(found.map_or(5, |found| found.1.revision), expect),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, expect) => panic!("{found:?} is not {expect:?}"),
        }
    }

    #[test]
    fn only_a_newer_signed_bundle_of_the_group_is_taken() {
        check(|_| {}, &[1, 2], 2, Ok(6));
        check(|b| *b = bundle(5), &[1, 2], 2, Ok(5));
        check(|_| {}, &[1], 2, Err("1 valid signatures"));
        check(|_| {}, &[1, 9], 2, Err("1 valid signatures"));
        check(|_| {}, &[9], 1, Err("0 valid signatures"));
        check(|b| b.revision = 4, &[1, 2], 2, Err("a rollback is a new, higher number"));
        check(|b| b.revision = 5, &[1, 2], 2, Err("two different versions"));
        check(|b| b.fleet = "other".parse().unwrap(), &[1], 1, Err("is for `other`, not for `acme`"));
        check(|b| b.group = "servers".parse().unwrap(), &[1], 1, Err("is for `servers`"));
        check(|b| b.not_after = NOW, &[1], 1, Err("expired 0 s ago"));
        check(|b| b.minimum_version = "0.1.1".to_owned(), &[1], 1, Err("upgrade this host"));
        check(|b| b.minimum_version = "0.0.9".to_owned(), &[1], 1, Ok(6));
        check(|b| b.files.clear(), &[1], 1, Err("would be no policy"));
        check(
            |b| b.files.get_mut("tools.yaml").unwrap().text.push('x'),
            &[1],
            1,
            Err("does not have the hash"),
        );
        for name in ["sinew.yaml", "../tools.yaml", "tools/x.yaml", ""] {
            let insert =
                |b: &mut PolicyBundle| _ = b.files.insert(name.to_owned(), BundleFile::new(String::new()));
            check(insert, &[1], 1, Err("is none of"));
        }
        let long = BundleFile::new("x".repeat(MAX_FILE_BYTES + 1));
        check(|b| _ = b.files.insert("modes.yaml".to_owned(), long), &[1], 1, Err("is longer"));
    }

    #[test]
    fn versions_compare_by_number() {
        let mut versions = ["0.10.0", "v0.9.9", "0.2.0-rc1", "1"];
        versions.sort_by_key(|version| version_parts(version));
        assert_eq!(versions, ["0.2.0-rc1", "v0.9.9", "0.10.0", "1"]);
    }
}
