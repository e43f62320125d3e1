//! Comparison of two curated maps: whether the new one is stricter, equal or looser. It compares the
//! effective requirements of each name, so that a requirement that only moved, or is implied by a stricter
//! one, is not reported as dropped.

use std::collections::{BTreeMap, BTreeSet};

use tool::{RuleRef, ToolName};

use super::{Curated, Entry};

/// Direction of a change in requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demands {
    /// Calls that passed before may be refused.
    More,
    /// Every call is decided as before.
    Same,
    /// Calls that were refused before may pass.
    Less,
}

/// One difference between two maps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CuratedChange {
    /// Direction of the change.
    pub demands: Demands,
    /// Description of the change for a person.
    pub what: String,
    /// Entry in the new map, or in the old one if it was removed.
    pub rule: Option<RuleRef>,
}

/// One requirement on the calls of a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Demand<'e> {
    /// At least one of these arguments is present; a single one is a required argument.
    OneOf(BTreeSet<&'e str>),
    /// The value of this argument, if present, has at least this many characters.
    AtLeast(&'e str, u32),
    /// This argument holds nested calls, and each of them is checked.
    Calls(&'e str),
}

impl Curated {
    /// Lists the differences from the previous map. Empty if both files are identical.
    pub fn changes_since(&self, old: &Curated) -> Vec<CuratedChange> {
        if self.hash == old.hash {
            return Vec::new();
        }
        let names: BTreeMap<&str, &ToolName> =
            old.entries.keys().chain(self.entries.keys()).map(|name| (name.as_str(), name)).collect();
        let mut found: Vec<CuratedChange> =
            names.values().flat_map(|name| of_name(old, self, name)).collect();
        if found.is_empty() {
            let what = "guardrails: no requirement changed".to_owned();
            found.push(CuratedChange { demands: Demands::Same, what, rule: None });
        }
        found
    }

    /// Returns the requirements in effect for this name. A prefixed name may belong to a tool that is not
    /// known here; in that case the requirements of the bare name are assumed to apply.
    fn met_by(&self, name: &ToolName) -> Option<&Entry> {
        self.of_unknown(name.as_str(), |_| false)
    }
}

fn of_name(old: &Curated, new: &Curated, name: &ToolName) -> Vec<CuratedChange> {
    let (before, after) = (demands(old.met_by(name)), demands(new.met_by(name)));
    let rule = new.entries.get(name).or(old.entries.get(name)).map(|entry| entry.rule.clone());
    let dropped = before.iter().filter(|demand| !is_kept(demand, &after)).map(|demand| {
        // A weaker requirement may replace the dropped one.
        let rest = after.iter().find(|rest| demand.implies(rest));
        let rest = rest.map(|rest| format!(", only {}", rest.words())).unwrap_or_default();
        (Demands::Less, format!("no longer requires {}{rest}", demand.words()))
    });
    let added = after.iter().filter(|demand| !is_kept(demand, &before));
    let added = added.map(|demand| (Demands::More, format!("requires {}", demand.words())));
    let row = |(demands, what)| CuratedChange {
        demands,
        what: format!("the guardrail of {name} {what}"),
        rule: rule.clone(),
    };
    dropped.chain(added).map(row).collect()
}

/// Returns true if one of `others` implies `demand`.
fn is_kept(demand: &Demand<'_>, others: &[Demand<'_>]) -> bool {
    others.iter().any(|other| other.implies(demand))
}

fn demands(entry: Option<&Entry>) -> Vec<Demand<'_>> {
    let Some(entry) = entry else { return Vec::new() };
    // Destructured completely, so that the compiler reports a field that is added and not compared.
    let Entry { key: _, rule: _, required, groups, least, calls, example: _, deprecated: _ } = entry;
    let single = required.iter().map(|field| Demand::OneOf(BTreeSet::from([field.as_str()])));
    let groups = groups.iter().map(|group| Demand::OneOf(group.iter().map(|field| field.as_str()).collect()));
    let least = least.iter().map(|(field, least)| Demand::AtLeast(field.as_str(), *least));
    let calls = calls.iter().map(|field| Demand::Calls(field.as_str()));
    single.chain(groups).chain(least).chain(calls).collect()
}

impl Demand<'_> {
    /// Returns true if every call that meets this requirement also meets `other`.
    fn implies(&self, other: &Demand<'_>) -> bool {
        match (self, other) {
            (Demand::OneOf(these), Demand::OneOf(those)) => these.is_subset(those),
            (Demand::AtLeast(this, more), Demand::AtLeast(that, less)) => this == that && more >= less,
            (Demand::Calls(this), Demand::Calls(that)) => this == that,
            (Demand::OneOf(_) | Demand::AtLeast(..) | Demand::Calls(_), _) => false,
        }
    }

    fn words(&self) -> String {
        match self {
            Demand::OneOf(fields) => {
                let fields: Vec<&str> = fields.iter().copied().collect();
                format!("`{}`", fields.join("` or `"))
            }
            Demand::AtLeast(field, least) => format!("at least {least} characters in `{field}`"),
            Demand::Calls(field) => format!("valid calls in `{field}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use strict_yaml::Document;

    use super::*;

    fn map(tools: &str) -> Curated {
        let text = format!("tools:\n  other: {{required: [x]}}\n{tools}");
        Curated::of(Document::from_text("guardrails.yaml", &text).unwrap()).unwrap()
    }

    /// Compares two maps and expects these directions and descriptions, in order.
    #[track_caller]
    fn check(old: &str, new: &str, expect: &[(Demands, &str)]) {
        let changes = map(new).changes_since(&map(old));
        let reported: Vec<(Demands, &str)> =
            changes.iter().map(|change| (change.demands, change.what.as_str())).collect();
        assert_eq!(reported, expect, "{old} becomes {new}");
        let named = changes.iter().all(|change| change.rule.is_some() == (change.demands != Demands::Same));
        assert!(named, "a changed requirement names its entry: {changes:?}");
    }

    #[test]
    fn dropped_requirement_is_looser() {
        use Demands::{Less, More};
        check(
            "  a: {required: [p, q]}\n",
            "  a: {required: [p]}\n",
            &[(Less, "the guardrail of a no longer requires `q`")],
        );
        check(
            "  a: {required: [p]}\n",
            "  a: {required: [p, q]}\n",
            &[(More, "the guardrail of a requires `q`")],
        );
        let group = "  a: {required_any: [[p, q]], example: {p: 1}}\n";
        check(
            group,
            "  a: {example: {p: 1}}\n",
            &[(Less, "the guardrail of a no longer requires `p` or `q`")],
        );
        check(
            "  a: {required: [p]}\n",
            "  a: {required_any: [[p, q]]}\n",
            &[(Less, "the guardrail of a no longer requires `p`, only `p` or `q`")],
        );
        let length = "  a: {min_length: {p: 11}, required: [q]}\n";
        check(
            length,
            "  a: {required: [q]}\n",
            &[(Less, "the guardrail of a no longer requires at least 11 characters in `p`")],
        );
        check(
            length,
            "  a: {min_length: {p: 10}, required: [q]}\n",
            &[(
                Less,
                "the guardrail of a no longer requires at least 11 characters in `p`, only at least 10 characters in `p`",
            )],
        );
        let calls = "  a: {calls: p, required: [q]}\n";
        check(
            calls,
            "  a: {required: [q]}\n",
            &[(Less, "the guardrail of a no longer requires valid calls in `p`")],
        );
    }

    #[test]
    fn removed_entry_drops_all_its_requirements() {
        let whole = "  a: {required: [p], required_any: [[q, r]], min_length: {p: 2}}\n";
        let gone = [
            (Demands::Less, "the guardrail of a no longer requires `p`"),
            (Demands::Less, "the guardrail of a no longer requires `q` or `r`"),
            (Demands::Less, "the guardrail of a no longer requires at least 2 characters in `p`"),
        ];
        check(whole, "", &gone);
        check("", "  a: {required: [p]}\n", &[(Demands::More, "the guardrail of a requires `p`")]);
    }

    /// A requirement that a stricter one implies is not dropped.
    #[test]
    fn implied_requirement_is_not_looser() {
        use Demands::{More, Same};
        let group = "  a: {required_any: [[p, q]]}\n";
        check(group, "  a: {required: [p]}\n", &[(More, "the guardrail of a requires `p`")]);
        check(group, "  a: {required_any: [[q, p]]}\n", &[(Same, "guardrails: no requirement changed")]);
        check(
            "  a: {required: [q], min_length: {p: 5}}\n",
            "  a: {required: [q], min_length: {p: 6}}\n",
            &[(More, "the guardrail of a requires at least 6 characters in `p`")],
        );
        check("", "", &[]);
        check(
            "  a: {required: [p]}\n",
            "  A: {required: [p]}\n",
            &[(Same, "guardrails: no requirement changed")],
        );
    }

    /// A host-prefixed name with an entry of its own is checked by that entry, so a weaker one loosens the
    /// plain name's.
    #[test]
    fn entry_for_prefixed_name_replaces_the_plain_one() {
        let plain = "  a: {required: [p]}\n";
        let shadowed = "  a: {required: [p]}\n  mcp__x__a: {example: {q: 1}}\n";
        check(plain, shadowed, &[(Demands::Less, "the guardrail of mcp__x__a no longer requires `p`")]);
        check(shadowed, plain, &[(Demands::More, "the guardrail of mcp__x__a requires `p`")]);
    }
}
