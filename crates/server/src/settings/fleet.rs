//! Settings of a fleet: which one this host belongs to, and its behaviour when it is cut off.

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use strict_yaml::{Document, DocumentError, Located};

use super::check_bounds;

/// Longest lease: a day.
const MAX_LEASE_SECONDS: u64 = 24 * 60 * 60;

/// Membership of this host in a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetSettings {
    /// Name of the fleet, as in the join token.
    pub name: String,
    /// Time without a beacon of the fleet after which it counts as lost.
    pub lease: Duration,
    /// Behaviour while the fleet is lost.
    pub on_lost: LostFleetPolicy,
    /// Signing keys whose policy bundles may loosen the policy without the operator of this host.
    pub may_loosen: BTreeSet<String>,
}

impl FleetSettings {
    /// Returns true if keys may loosen the policy that the accepted settings do not list.
    pub fn trusts_more_than(&self, accepted: Option<&FleetSettings>) -> bool {
        match accepted {
            Some(accepted) => !self.may_loosen.is_subset(&accepted.may_loosen),
            None => !self.may_loosen.is_empty(),
        }
    }
}

/// Behaviour of a host that has lost its fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LostFleetPolicy {
    /// Continues in its own mode and the last mode of the fleet.
    #[default]
    Keep,
    /// Continues in ALERT or a stricter mode.
    Alert,
    /// Enters LOCKDOWN.
    Lockdown,
}

/// Membership of this host in a fleet. Without this section, Sinew connects to no fleet.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FleetSection {
    /// Name of the fleet, as in the join token.
    pub(crate) name: String,
    /// Time in seconds without a beacon of the fleet after which it counts as lost. Default 60.
    #[serde(default)]
    pub(crate) lease_seconds: Option<Located<u64>>,
    /// Behaviour while the fleet is lost: keep, alert or lockdown.
    #[serde(default)]
    pub(crate) on_lost_fleet: LostFleetPolicy,
    /// Signing keys (64 hexadecimal digits) whose policy bundles may loosen the policy without the operator of this
    /// host. Default none.
    #[serde(default)]
    pub(crate) may_loosen: Vec<Located<String>>,
}

pub(super) fn check(
    document: &Document,
    file: Option<&FleetSection>,
) -> Result<Option<FleetSettings>, DocumentError> {
    let Some(file) = file else { return Ok(None) };
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let key = |key: &Located<String>| match key.value.len() == 64 && key.value.bytes().all(is_digit) {
        true => Ok(key.value.clone()),
        false => {
            let message = "`may_loosen` lists a key that is not 64 hexadecimal digits";
            let suggestion = "copy it from `sinew fleet doctor`";
            Err(document.error_at(key.line, key.column, message).with_suggestion(suggestion))
        }
    };
    let lease = check_bounds(document, "lease_seconds", &file.lease_seconds, 10, MAX_LEASE_SECONDS)?;
    Ok(Some(FleetSettings {
        name: file.name.clone(),
        lease: Duration::from_secs(lease.unwrap_or(60)),
        on_lost: file.on_lost_fleet,
        may_loosen: file.may_loosen.iter().map(key).collect::<Result<_, _>>()?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(keys: &[&str]) -> FleetSettings {
        FleetSettings {
            name: "acme".to_owned(),
            lease: Duration::from_secs(60),
            on_lost: LostFleetPolicy::Keep,
            may_loosen: keys.iter().map(|key| (*key).to_owned()).collect(),
        }
    }

    #[test]
    fn further_key_that_may_loosen_is_more_trust() {
        assert!(!settings(&[]).trusts_more_than(None));
        assert!(settings(&["a"]).trusts_more_than(None));
        assert!(!settings(&["a"]).trusts_more_than(Some(&settings(&["a", "b"]))));
        assert!(settings(&["a", "c"]).trusts_more_than(Some(&settings(&["a", "b"]))));
    }
}
