//! What a new map demands of calls against an old one: more, as much or less. Compared by what each name has to meet in
//! the end, so that a demand which only moved, or is kept by a stricter one, is not called dropped.

use std::collections::{BTreeMap, BTreeSet};

use tool::{RuleRef, ToolName};

use super::Curated;
use crate::entry::Entry;

/// Which way what is demanded goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demands {
    /// Calls that passed may be refused.
    More,
    /// The same calls pass.
    Same,
    /// Calls that were refused may pass.
    Less,
}

/// One thing that the map says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CuratedChange {
    /// Which way it goes.
    pub demands: Demands,
    /// What, in words.
    pub what: String,
    /// The entry in the new map, or in the old one if it is gone.
    pub rule: Option<RuleRef>,
}

/// One thing that calls of a name have to meet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Demand<'e> {
    /// One of these is there; a single one is a required argument.
    OneOf(BTreeSet<&'e str>),
    /// This text, if there is one, has so many characters.
    AtLeast(&'e str, u32),
    /// What stands here is calls, and each is checked.
    Calls(&'e str),
}

impl Curated {
    /// What this map says otherwise than the one before it. Empty where the two files are the same.
    pub fn changes_since(&self, old: &Curated) -> Vec<CuratedChange> {
        if self.hash == old.hash {
            return Vec::new();
        }
        let names: BTreeMap<&str, &ToolName> =
            old.entries.keys().chain(self.entries.keys()).map(|name| (name.as_str(), name)).collect();
        let mut found: Vec<CuratedChange> =
            names.values().flat_map(|name| of_name(old, self, name)).collect();
        if found.is_empty() {
            let what = "guardrails: only words that demand nothing".to_owned();
            found.push(CuratedChange { demands: Demands::Same, what, rule: None });
        }
        found
    }

    /// What calls of this name have to meet. Whether a tool has the name behind a host's prefix is not asked: where it
    /// might, nobody can say, and then it is taken for demanded.
    fn met_by(&self, name: &ToolName) -> Option<&Entry> {
        self.of_unknown(name.as_str(), |_| false)
    }
}

fn of_name(old: &Curated, new: &Curated, name: &ToolName) -> Vec<CuratedChange> {
    let (before, after) = (demands(old.met_by(name)), demands(new.met_by(name)));
    let rule = new.entries.get(name).or(old.entries.get(name)).map(|entry| entry.rule.clone());
    let dropped = before.iter().filter(|demand| !is_kept(demand, &after)).map(|demand| {
        // What is left of it, where something is.
        let rest = after.iter().find(|rest| demand.implies(rest));
        let rest = rest.map(|rest| format!(", only {}", rest.words())).unwrap_or_default();
        (Demands::Less, format!("no longer demands {}{rest}", demand.words()))
    });
    let added = after.iter().filter(|demand| !is_kept(demand, &before));
    let added = added.map(|demand| (Demands::More, format!("demands {}", demand.words())));
    let row = |(demands, what)| CuratedChange {
        demands,
        what: format!("the guardrail of {name} {what}"),
        rule: rule.clone(),
    };
    dropped.chain(added).map(row).collect()
}

/// Whether something that others demand makes sure of this.
fn is_kept(demand: &Demand<'_>, others: &[Demand<'_>]) -> bool {
    others.iter().any(|other| other.implies(demand))
}

fn demands(entry: Option<&Entry>) -> Vec<Demand<'_>> {
    let Some(entry) = entry else { return Vec::new() };
    // Taken apart to the last field, so that none is forgotten.
    let Entry { key: _, rule: _, required, groups, least, calls, example: _, deprecated: _ } = entry;
    let single = required.iter().map(|field| Demand::OneOf(BTreeSet::from([field.as_str()])));
    let groups = groups.iter().map(|group| Demand::OneOf(group.iter().map(|field| field.as_str()).collect()));
    let least = least.iter().map(|(field, least)| Demand::AtLeast(field.as_str(), *least));
    let calls = calls.iter().map(|field| Demand::Calls(field.as_str()));
    single.chain(groups).chain(least).chain(calls).collect()
}

impl Demand<'_> {
    /// Whether whatever meets this one meets the other too.
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
            Demand::Calls(field) => format!("that the calls in `{field}` are right"),
        }
    }
}

#[cfg(test)]
mod tests {
    use document::Document;

    use super::*;

    fn map(tools: &str) -> Curated {
        let text = format!("tools:\n  other: {{required: [x]}}\n{tools}");
        Curated::of(Document::from_text("guardrails.yaml", &text).unwrap()).unwrap()
    }

    /// From the one map to the other: every row, by its way and its words.
    #[track_caller]
    fn check(old: &str, new: &str, expect: &[(Demands, &str)]) {
        let changes = map(new).changes_since(&map(old));
        let told: Vec<(Demands, &str)> =
            changes.iter().map(|change| (change.demands, change.what.as_str())).collect();
        assert_eq!(told, expect, "{old} becomes {new}");
        let named = changes.iter().all(|change| change.rule.is_some() == (change.demands != Demands::Same));
        assert!(named, "what changes a demand has its place: {changes:?}");
    }

    #[test]
    fn what_is_dropped_is_less() {
        use Demands::{Less, More};
        check(
            "  a: {required: [p, q]}\n",
            "  a: {required: [p]}\n",
            &[(Less, "the guardrail of a no longer demands `q`")],
        );
        check(
            "  a: {required: [p]}\n",
            "  a: {required: [p, q]}\n",
            &[(More, "the guardrail of a demands `q`")],
        );
        let group = "  a: {required_any: [[p, q]], example: {p: 1}}\n";
        check(
            group,
            "  a: {example: {p: 1}}\n",
            &[(Less, "the guardrail of a no longer demands `p` or `q`")],
        );
        check(
            "  a: {required: [p]}\n",
            "  a: {required_any: [[p, q]]}\n",
            &[(Less, "the guardrail of a no longer demands `p`, only `p` or `q`")],
        );
        let length = "  a: {min_length: {p: 11}, required: [q]}\n";
        check(
            length,
            "  a: {required: [q]}\n",
            &[(Less, "the guardrail of a no longer demands at least 11 characters in `p`")],
        );
        check(
            length,
            "  a: {min_length: {p: 10}, required: [q]}\n",
            &[(
                Less,
                "the guardrail of a no longer demands at least 11 characters in `p`, only at least 10 characters in `p`",
            )],
        );
        let calls = "  a: {calls: p, required: [q]}\n";
        check(
            calls,
            "  a: {required: [q]}\n",
            &[(Less, "the guardrail of a no longer demands that the calls in `p` are right")],
        );
    }

    #[test]
    fn an_entry_that_goes_takes_all_it_demanded() {
        let whole = "  a: {required: [p], required_any: [[q, r]], min_length: {p: 2}}\n";
        let gone = [
            (Demands::Less, "the guardrail of a no longer demands `p`"),
            (Demands::Less, "the guardrail of a no longer demands `q` or `r`"),
            (Demands::Less, "the guardrail of a no longer demands at least 2 characters in `p`"),
        ];
        check(whole, "", &gone);
        check("", "  a: {required: [p]}\n", &[(Demands::More, "the guardrail of a demands `p`")]);
    }

    /// A demand that a stricter one keeps is not dropped.
    #[test]
    fn what_is_kept_by_another_demand_is_not_less() {
        use Demands::{More, Same};
        let group = "  a: {required_any: [[p, q]]}\n";
        check(group, "  a: {required: [p]}\n", &[(More, "the guardrail of a demands `p`")]);
        check(
            group,
            "  a: {required_any: [[q, p]]}\n",
            &[(Same, "guardrails: only words that demand nothing")],
        );
        check(
            "  a: {required: [q], min_length: {p: 5}}\n",
            "  a: {required: [q], min_length: {p: 6}}\n",
            &[(More, "the guardrail of a demands at least 6 characters in `p`")],
        );
        check("", "", &[]);
        check(
            "  a: {required: [p]}\n",
            "  A: {required: [p]}\n",
            &[(Same, "guardrails: only words that demand nothing")],
        );
    }

    /// A name of a host's is judged by its own entry where it has one: a weaker one is a way past the plain name's.
    #[test]
    fn an_entry_for_a_hosts_name_takes_the_place_of_the_plain_one() {
        let plain = "  a: {required: [p]}\n";
        let shadowed = "  a: {required: [p]}\n  mcp__x__a: {example: {q: 1}}\n";
        check(plain, shadowed, &[(Demands::Less, "the guardrail of mcp__x__a no longer demands `p`")]);
        check(shadowed, plain, &[(Demands::More, "the guardrail of mcp__x__a demands `p`")]);
    }
}
