//! Baseline figures, and the rules by which a run counts as worse than them.
//!
//! Instructions, system calls and allocations hardly depend on the load of the machine, so they may grow by little.
//! Each ratio of times comes from one run, but two runs of the same code differ, so only a change beyond
//! noise is a regression.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::results::{Bound, RATIO, Results, rounded};

/// Largest allowed ratio of a count to that of the baseline.
const COUNTS: f64 = 1.05;
/// Factor by which a value with a bound may be worse than in the baseline.
const CLAIMS: f64 = 1.6;

/// Contents of the baseline file, in the order of the file.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Baseline {
    claims: BTreeMap<String, f64>,
    counts: BTreeMap<String, f64>,
}

impl Baseline {
    pub(crate) fn of(results: &Results) -> Self {
        let claims = results.claims.iter().map(|claim| (claim.name.clone(), rounded(claim.value))).collect();
        let counts = results.counts.iter().map(|(name, count)| (name.clone(), rounded(*count))).collect();
        Baseline { claims, counts }
    }

    pub(crate) fn read(file: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("no baseline at `{}`", file.display()))?;
        Self::parse(&text).with_context(|| format!("`{}` is not a baseline", file.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        let numbers = |key: &str| {
            let object = value.get(key).and_then(Value::as_object).with_context(|| format!("no `{key}`"))?;
            let number = |(name, value): (&String, &Value)| {
                Ok((name.clone(), value.as_f64().with_context(|| format!("`{name}` is not a number"))?))
            };
            object.iter().map(number).collect::<Result<BTreeMap<_, _>>>()
        };
        Ok(Baseline { claims: numbers("claims")?, counts: numbers("counts")? })
    }

    pub(crate) fn to_text(&self) -> String {
        let value = json!({"claims": self.claims, "counts": self.counts});
        format!("{value:#}\n")
    }

    /// Describes each figure that is worse than in the baseline. Figures missing from this run are not
    /// compared.
    pub(crate) fn regressions(&self, results: &Results) -> Vec<String> {
        let mut worse = Vec::new();
        for (name, now) in &results.counts {
            if let Some(then) = self.counts.get(name).filter(|then| *now > **then * COUNTS) {
                worse.push(format!("{name}: {now:.1}, {then:.1} in the baseline"));
            }
        }
        for claim in &results.claims {
            let Some(then) = self.claims.get(&claim.name) else { continue };
            let is_worse = match claim.bound {
                Bound::AtMost(_) => claim.value > then * CLAIMS,
                Bound::AtLeast(_) => claim.value < then / CLAIMS,
            };
            // An amount close to zero may grow many times over, as long as it stays within its bound.
            if is_worse && (claim.unit == RATIO || !claim.holds()) {
                worse.push(format!(
                    "{}: {:.2} {}, {then} in the baseline",
                    claim.name, claim.value, claim.unit
                ));
            }
        }
        worse
    }

    /// Names of the figures of this run that the baseline lacks.
    pub(crate) fn unknown<'r>(&'r self, results: &'r Results) -> impl Iterator<Item = &'r str> {
        let claims =
            results.claims.iter().map(|claim| &claim.name).filter(|name| !self.claims.contains_key(*name));
        let counts = results.counts.keys().filter(|name| !self.counts.contains_key(*name));
        claims.chain(counts).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ratio: f64, speed: f64, count: f64) -> Results {
        let mut results = Results::default();
        results.claim("ratio", Some(ratio), RATIO, Bound::AtMost(1.0));
        results.claim("speed", Some(speed), RATIO, Bound::AtLeast(8.0));
        results.counts.insert("judge".to_owned(), count);
        results
    }

    fn check(ratio: f64, speed: f64, count: f64, expect: &[&str]) {
        let baseline = Baseline::of(&run(0.9, 10.0, 1000.0));
        let found = baseline.regressions(&run(ratio, speed, count));
        let names: Vec<&str> = found.iter().filter_map(|text| text.split(':').next()).collect();
        assert_eq!(names, expect, "{found:?}");
    }

    #[test]
    fn only_changes_beyond_noise_are_regressions() {
        check(0.9, 10.0, 1000.0, &[]);
        check(1.4, 6.5, 1050.0, &[]);
        check(1.5, 10.0, 1000.0, &["ratio"]);
        check(0.9, 6.0, 1000.0, &["speed"]);
        check(0.9, 10.0, 1051.0, &["judge"]);
        check(0.1, 99.0, 10.0, &[]);
    }

    #[test]
    fn the_committed_baseline_guards_each_kind_of_count() {
        let text = include_str!("../../../docs/benchmarks/baseline.json");
        let committed = Baseline::parse(text).expect("`--check` needs it");
        for kind in ["instructions, ", "allocations, ", "system calls, "] {
            assert!(committed.counts.keys().any(|name| name.starts_with(kind)), "no {kind}");
        }
    }

    #[test]
    fn an_amount_within_its_bound_is_no_regression() {
        let of = |percent: f64| {
            let mut results = Results::default();
            results.claim("idle", Some(percent), "%", Bound::AtMost(0.5));
            results
        };
        let baseline = Baseline::of(&of(0.01));
        assert!(baseline.regressions(&of(0.4)).is_empty());
        assert_eq!(baseline.regressions(&of(0.6)).len(), 1);
    }

    #[test]
    fn figures_missing_on_one_side_are_not_compared() {
        let empty = Baseline::default();
        assert!(empty.regressions(&run(9.0, 0.1, 1e9)).is_empty());
        assert_eq!(empty.unknown(&run(1.0, 1.0, 1.0)).collect::<Vec<_>>(), ["ratio", "speed", "judge"]);
        assert!(Baseline::of(&run(1.0, 1.0, 1.0)).regressions(&Results::default()).is_empty());
    }

    #[test]
    fn a_written_baseline_parses_to_the_same_value() {
        let baseline = Baseline::of(&run(0.9, 10.0, 1000.0));
        assert_eq!(Baseline::parse(&baseline.to_text()).unwrap(), baseline);
        for wrong in ["", "{}", r#"{"claims": {"a": "b"}, "counts": {}}"#] {
            assert!(Baseline::parse(wrong).is_err(), "{wrong}");
        }
    }
}
