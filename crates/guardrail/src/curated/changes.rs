//! Comparison of two curated maps: whether the new one is stricter, equal or looser. It compares the
//! effective requirements of each name, so that a requirement that only moved, or is implied by a stricter
//! one, is not reported as dropped.

use std::collections::{BTreeMap, BTreeSet};

use tool::{RuleRef, ToolName};

use super::{CuratedGuardrails, CuratedRequirements};

/// Direction of a change in requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequirementChange {
    /// Calls that passed before may be refused.
    Stricter,
    /// Every call is decided as before.
    Unchanged,
    /// Calls that were refused before may pass.
    Looser,
}

/// One difference between two maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CuratedChange {
    /// Direction of the change.
    pub direction: RequirementChange,
    /// Description of the change for a person.
    pub description: String,
    /// Entry in the new map, or in the old one if it was removed.
    pub rule: Option<RuleRef>,
}

/// One requirement on the calls of a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CuratedDemand<'e> {
    /// At least one of these arguments is present; a single one is a required argument.
    OneOf(BTreeSet<&'e str>),
    /// The value of this argument, if present, has at least this many characters.
    MinLength(&'e str, u32),
    /// This argument holds nested calls, and each of them is checked.
    NestedCalls(&'e str),
}

impl CuratedGuardrails {
    /// Lists the differences from the previous map. Empty if both files are identical.
    pub fn changes_since(&self, old: &CuratedGuardrails) -> Vec<CuratedChange> {
        if self.hash == old.hash {
            return Vec::new();
        }
        let names: BTreeMap<&str, &ToolName> =
            old.entries.keys().chain(self.entries.keys()).map(|name| (name.as_str(), name)).collect();
        let mut found: Vec<CuratedChange> =
            names.values().flat_map(|name| changes_for_name(old, self, name)).collect();
        if found.is_empty() {
            let description = "guardrails: no requirement changed".to_owned();
            found.push(CuratedChange { direction: RequirementChange::Unchanged, description, rule: None });
        }
        found
    }

    /// Returns the requirements in effect for this name. A prefixed name may belong to a tool that is not
    /// known here; in that case the requirements of the bare name are assumed to apply.
    fn effective_requirements(&self, name: &ToolName) -> Option<&CuratedRequirements> {
        self.for_unknown_name(name.as_str(), |_| false)
    }
}

fn changes_for_name(old: &CuratedGuardrails, new: &CuratedGuardrails, name: &ToolName) -> Vec<CuratedChange> {
    let (before, after) =
        (demands(old.effective_requirements(name)), demands(new.effective_requirements(name)));
    let rule = new.entries.get(name).or(old.entries.get(name)).map(|entry| entry.rule.clone());
    let dropped = before.iter().filter(|demand| !is_implied_by_any(demand, &after)).map(|demand| {
        // A weaker requirement may replace the dropped one.
        let rest = after.iter().find(|rest| demand.implies(rest));
        let rest = rest.map(|rest| format!(", only {}", rest.describe())).unwrap_or_default();
        (RequirementChange::Looser, format!("no longer requires {}{rest}", demand.describe()))
    });
    let added = after.iter().filter(|demand| !is_implied_by_any(demand, &before));
    let added = added.map(|demand| (RequirementChange::Stricter, format!("requires {}", demand.describe())));
    let row = |(direction, description)| CuratedChange {
        direction,
        description: format!("the guardrail of {name} {description}"),
        rule: rule.clone(),
    };
    dropped.chain(added).map(row).collect()
}

/// Returns true if one of `others` implies `demand`.
fn is_implied_by_any(demand: &CuratedDemand<'_>, others: &[CuratedDemand<'_>]) -> bool {
    others.iter().any(|other| other.implies(demand))
}

fn demands(entry: Option<&CuratedRequirements>) -> Vec<CuratedDemand<'_>> {
    let Some(entry) = entry else { return Vec::new() };
    // Destructured completely, so that the compiler reports a field that is added and not compared.
    let CuratedRequirements {
        key: _,
        rule: _,
        required,
        any_of_groups: groups,
        min_lengths: least,
        calls_field: calls,
        example: _,
        deprecated: _,
        replacement: _,
    } = entry;
    let single = required.iter().map(|field| CuratedDemand::OneOf(BTreeSet::from([field.as_str()])));
    let groups =
        groups.iter().map(|group| CuratedDemand::OneOf(group.iter().map(|field| field.as_str()).collect()));
    let least = least.iter().map(|(field, least)| CuratedDemand::MinLength(field.as_str(), *least));
    let calls = calls.iter().map(|field| CuratedDemand::NestedCalls(field.as_str()));
    single.chain(groups).chain(least).chain(calls).collect()
}

impl CuratedDemand<'_> {
    /// Returns true if every call that meets this requirement also meets `other`.
    fn implies(&self, other: &CuratedDemand<'_>) -> bool {
        match (self, other) {
            (CuratedDemand::OneOf(these), CuratedDemand::OneOf(those)) => these.is_subset(those),
            (CuratedDemand::MinLength(this, more), CuratedDemand::MinLength(that, less)) => {
                this == that && more >= less
            }
            (CuratedDemand::NestedCalls(this), CuratedDemand::NestedCalls(that)) => this == that,
            (CuratedDemand::OneOf(_) | CuratedDemand::MinLength(..) | CuratedDemand::NestedCalls(_), _) => {
                false
            }
        }
    }

    fn describe(&self) -> String {
        match self {
            CuratedDemand::OneOf(fields) => {
                let fields: Vec<&str> = fields.iter().copied().collect();
                format!("`{}`", fields.join("` or `"))
            }
            CuratedDemand::MinLength(field, least) => format!("at least {least} characters in `{field}`"),
            CuratedDemand::NestedCalls(field) => format!("valid calls in `{field}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use strict_yaml::Document;

    use super::*;

    fn map(tools: &str) -> CuratedGuardrails {
        let text = format!("tools:\n  other: {{required: [x]}}\n{tools}");
        CuratedGuardrails::from_document(Document::from_text("guardrails.yaml", &text).unwrap()).unwrap()
    }

    /// Compares two maps and expects these directions and descriptions, in order.
    #[track_caller]
    fn check(old: &str, new: &str, expect: &[(RequirementChange, &str)]) {
        let changes = map(new).changes_since(&map(old));
        let reported: Vec<(RequirementChange, &str)> =
            changes.iter().map(|change| (change.direction, change.description.as_str())).collect();
        assert_eq!(reported, expect, "{old} becomes {new}");
        let named = changes
            .iter()
            .all(|change| change.rule.is_some() == (change.direction != RequirementChange::Unchanged));
        assert!(named, "a changed requirement names its entry: {changes:?}");
    }

    #[test]
    fn dropped_requirement_is_looser() {
        use RequirementChange::{Looser, Stricter};
        check(
            "  a: {required: [p, q]}\n",
            "  a: {required: [p]}\n",
            &[(Looser, "the guardrail of a no longer requires `q`")],
        );
        check(
            "  a: {required: [p]}\n",
            "  a: {required: [p, q]}\n",
            &[(Stricter, "the guardrail of a requires `q`")],
        );
        let group = "  a: {required_any: [[p, q]], example: {p: 1}}\n";
        check(
            group,
            "  a: {example: {p: 1}}\n",
            &[(Looser, "the guardrail of a no longer requires `p` or `q`")],
        );
        check(
            "  a: {required: [p]}\n",
            "  a: {required_any: [[p, q]]}\n",
            &[(Looser, "the guardrail of a no longer requires `p`, only `p` or `q`")],
        );
        let length = "  a: {min_length: {p: 11}, required: [q]}\n";
        check(
            length,
            "  a: {required: [q]}\n",
            &[(Looser, "the guardrail of a no longer requires at least 11 characters in `p`")],
        );
        check(
            length,
            "  a: {min_length: {p: 10}, required: [q]}\n",
            &[(
                Looser,
                "the guardrail of a no longer requires at least 11 characters in `p`, only at least 10 characters in `p`",
            )],
        );
        let calls = "  a: {calls: p, required: [q]}\n";
        check(
            calls,
            "  a: {required: [q]}\n",
            &[(Looser, "the guardrail of a no longer requires valid calls in `p`")],
        );
    }

    #[test]
    fn removed_entry_drops_all_its_requirements() {
        let whole = "  a: {required: [p], required_any: [[q, r]], min_length: {p: 2}}\n";
        let gone = [
            (RequirementChange::Looser, "the guardrail of a no longer requires `p`"),
            (RequirementChange::Looser, "the guardrail of a no longer requires `q` or `r`"),
            (RequirementChange::Looser, "the guardrail of a no longer requires at least 2 characters in `p`"),
        ];
        check(whole, "", &gone);
        check(
            "",
            "  a: {required: [p]}\n",
            &[(RequirementChange::Stricter, "the guardrail of a requires `p`")],
        );
    }

    /// A requirement that a stricter one implies is not dropped.
    #[test]
    fn implied_requirement_is_not_looser() {
        use RequirementChange::{Stricter, Unchanged};
        let group = "  a: {required_any: [[p, q]]}\n";
        check(group, "  a: {required: [p]}\n", &[(Stricter, "the guardrail of a requires `p`")]);
        check(group, "  a: {required_any: [[q, p]]}\n", &[(Unchanged, "guardrails: no requirement changed")]);
        check(
            "  a: {required: [q], min_length: {p: 5}}\n",
            "  a: {required: [q], min_length: {p: 6}}\n",
            &[(Stricter, "the guardrail of a requires at least 6 characters in `p`")],
        );
        check("", "", &[]);
        check(
            "  a: {required: [p]}\n",
            "  A: {required: [p]}\n",
            &[(Unchanged, "guardrails: no requirement changed")],
        );
    }

    /// A host-prefixed name with an entry of its own is checked by that entry, so a weaker one loosens the
    /// plain name's.
    #[test]
    fn entry_for_prefixed_name_replaces_the_plain_one() {
        let plain = "  a: {required: [p]}\n";
        let shadowed = "  a: {required: [p]}\n  mcp__x__a: {example: {q: 1}}\n";
        check(
            plain,
            shadowed,
            &[(RequirementChange::Looser, "the guardrail of mcp__x__a no longer requires `p`")],
        );
        check(shadowed, plain, &[(RequirementChange::Stricter, "the guardrail of mcp__x__a requires `p`")]);
    }
}
