//! Terms of a session, as requested and as checked.

use governance::files::{CostMode, SessionsEntry};
use registry::ToolRegistry;
use serde_json::{Value, json};

use super::budget::{MAX_HOPS, TurnBudget, TurnCostCap};

/// Hop budget if neither the session nor `safety.yaml` sets one.
const DEFAULT_HOPS: u32 = 2;
/// Upper limit of names in an allowlist: more are not a selection of what a worker needs.
const MAX_NAMES: usize = 128;
/// Upper limit of a name in bytes. No tool has a longer one.
const MAX_NAME_BYTES: usize = 256;
/// Number of allowed tools that a refusal lists.
const MAX_LISTED: usize = 32;

/// Requested terms of a session. Absent values are taken from `safety.yaml`.
#[derive(Clone, Debug, Default)]
pub struct SessionTerms {
    /// Name for people. A named session outlives the connection that opened it.
    pub name: Option<String>,
    /// The only tools its worker may call.
    pub allowlist: Vec<String>,
    /// Calls per turn.
    pub hop_budget: Option<u32>,
    /// Mode of the cost cap. An unknown value means `warn`.
    pub cost_mode: Option<String>,
    /// Cost cap of a turn; no cap if it is 0 or less.
    pub cost_amount: Option<f64>,
}

/// Reason why the requested terms are invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // the error messages document the variants
pub enum TermsError {
    #[error("`allowlist` is empty: name at least one tool")]
    EmptyAllowlist,
    #[error("`allowlist` has {0} names; the limit is {MAX_NAMES}")]
    TooManyNames(usize),
    #[error("a name in `allowlist` has {0} bytes; the limit is {MAX_NAME_BYTES}")]
    NameTooLong(usize),
    #[error("`hop_budget` is {0}; the limit is {MAX_HOPS}")]
    TooManyHops(u32),
}

/// Checked terms.
#[derive(Debug)]
pub(super) struct CheckedTerms {
    pub(super) allowlist: Vec<String>,
    pub(super) budget: TurnBudget,
}

impl CheckedTerms {
    pub(super) fn check(requested: &SessionTerms, defaults: &SessionsEntry) -> Result<Self, TermsError> {
        let names = requested.allowlist.len();
        if names == 0 {
            return Err(TermsError::EmptyAllowlist);
        }
        if names > MAX_NAMES {
            return Err(TermsError::TooManyNames(names));
        }
        if let Some(long) =
            requested.allowlist.iter().map(String::len).find(|length| *length > MAX_NAME_BYTES)
        {
            return Err(TermsError::NameTooLong(long));
        }
        let hops = requested.hop_budget.or(defaults.hop_budget).unwrap_or(DEFAULT_HOPS);
        if hops > MAX_HOPS {
            return Err(TermsError::TooManyHops(hops));
        }
        let mode = requested.cost_mode.as_deref().map_or(defaults.cost_cap.mode, parse_cost_mode);
        let cap = TurnCostCap::new(mode, requested.cost_amount.unwrap_or(defaults.cost_cap.amount));
        Ok(CheckedTerms { allowlist: requested.allowlist.clone(), budget: TurnBudget { hops, cap } })
    }

    /// Allowed names for a worker. They come from the client, so control characters are escaped.
    pub(super) fn allowlist_text(&self) -> String {
        let shown = self.allowlist.iter().take(MAX_LISTED).map(|name| name.escape_debug().to_string());
        let shown = shown.collect::<Vec<_>>().join(", ");
        match self.allowlist.len().saturating_sub(MAX_LISTED) {
            0 => shown,
            more => format!("{shown}, and {more} more"),
        }
    }

    /// Terms as JSON, for the client that opened the session and for the ledger.
    pub(super) fn to_json(&self, registry: &ToolRegistry) -> Value {
        let (accepted, rejected): (Vec<&String>, Vec<&String>) =
            self.allowlist.iter().partition(|name| registry.get(name).is_some());
        let cap =
            self.budget.cap.mode_and_amount().map(|(mode, amount)| json!({"mode": mode, "amount": amount}));
        json!({"accepted": accepted, "rejected": rejected, "hop_budget": self.budget.hops, "cost_cap": cap})
    }
}

/// An unknown value must not disable the cap.
fn parse_cost_mode(word: &str) -> CostMode {
    match word {
        "enforce" => CostMode::Enforce,
        "off" => CostMode::Off,
        _ => CostMode::Warn,
    }
}

#[cfg(test)]
mod tests {
    use governance::files::CostCap;

    use super::*;

    #[test]
    fn terms_fall_back_to_configuration_then_defaults() {
        let defaults =
            |hops, mode, amount| SessionsEntry { hop_budget: hops, cost_cap: CostCap { mode, amount } };
        let list = || SessionTerms { allowlist: vec!["read_file".to_owned()], ..SessionTerms::default() };
        let check = |requested: SessionTerms, defaults: &SessionsEntry, expect: TurnBudget| {
            assert_eq!(
                CheckedTerms::check(&requested, defaults).map(|terms| terms.budget),
                Ok(expect),
                "{requested:?}"
            );
        };
        let (none, some) = (defaults(None, CostMode::Warn, 0.0), defaults(Some(5), CostMode::Enforce, 2.0));
        check(list(), &none, TurnBudget { hops: 2, cap: TurnCostCap::None });
        check(list(), &some, TurnBudget { hops: 5, cap: TurnCostCap::Enforce(2.0) });
        let asked = SessionTerms {
            hop_budget: Some(7),
            cost_mode: Some("off".to_owned()),
            cost_amount: Some(9.0),
            ..list()
        };
        check(asked, &some, TurnBudget { hops: 7, cap: TurnCostCap::None });
        let odd = SessionTerms { cost_mode: Some("loud".to_owned()), cost_amount: Some(3.0), ..list() };
        check(odd, &some, TurnBudget { hops: 5, cap: TurnCostCap::Warn(3.0) });
        let nothing = CheckedTerms::check(&SessionTerms::default(), &none).map(|_| ());
        assert_eq!(nothing, Err(TermsError::EmptyAllowlist));
        let many = SessionTerms { allowlist: vec![String::new(); MAX_NAMES + 1], ..list() };
        assert_eq!(CheckedTerms::check(&many, &none).map(|_| ()), Err(TermsError::TooManyNames(129)));
        let long = SessionTerms { allowlist: vec!["x".repeat(257)], ..list() };
        assert_eq!(CheckedTerms::check(&long, &none).map(|_| ()), Err(TermsError::NameTooLong(257)));
        let hostile = SessionTerms { allowlist: vec!["\u{1b}[2Jx\u{202e}".to_owned(); 40], ..list() };
        let listed = CheckedTerms::check(&hostile, &none).unwrap().allowlist_text();
        assert!(!listed.contains(['\u{1b}', '\u{202e}']) && listed.ends_with(", and 8 more"), "{listed}");
        let hops = SessionTerms { hop_budget: Some(u32::MAX), ..list() };
        assert_eq!(CheckedTerms::check(&hops, &none).map(|_| ()), Err(TermsError::TooManyHops(u32::MAX)));
    }
}
