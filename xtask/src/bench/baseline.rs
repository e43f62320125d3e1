//! The figures that a change is compared with, and what counts as worse.
//!
//! Instructions are counted by callgrind, hardly depend on what else the machine does, and so may grow by little. Ratios
//! of times are of one run, but two runs of the same code differ: only what no noise explains is a regression.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::results::{Bound, RATIO, Results, rounded};

/// Instructions of a stage by itself may be this many times those of the baseline.
const INSTRUCTIONS: f64 = 1.05;
/// A value with a bound may be this many times worse.
const CLAIMS: f64 = 1.6;

/// The file, in the order it is written.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Baseline {
    claims: BTreeMap<String, f64>,
    instructions: BTreeMap<String, f64>,
}

impl Baseline {
    pub(crate) fn of(results: &Results) -> Self {
        let claims = results.claims.iter().map(|claim| (claim.name.clone(), rounded(claim.value))).collect();
        let instructions =
            results.instructions.iter().map(|(name, count)| (name.clone(), count.round())).collect();
        Baseline { claims, instructions }
    }

    pub(crate) fn read(file: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("no baseline at `{}`", file.display()))?;
        Self::parse(&text).with_context(|| format!("`{}` is no baseline", file.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        let numbers = |key: &str| {
            let object = value.get(key).and_then(Value::as_object).with_context(|| format!("no `{key}`"))?;
            let number = |(name, value): (&String, &Value)| {
                Ok((name.clone(), value.as_f64().with_context(|| format!("`{name}` is no number"))?))
            };
            object.iter().map(number).collect::<Result<BTreeMap<_, _>>>()
        };
        Ok(Baseline { claims: numbers("claims")?, instructions: numbers("instructions")? })
    }

    pub(crate) fn to_text(&self) -> String {
        let value = json!({"claims": self.claims, "instructions": self.instructions});
        format!("{value:#}\n")
    }

    /// What is worse than it was, in words. What was not measured this time is not judged.
    pub(crate) fn regressions(&self, results: &Results) -> Vec<String> {
        let mut worse = Vec::new();
        for (name, now) in &results.instructions {
            if let Some(then) = self.instructions.get(name).filter(|then| *now > **then * INSTRUCTIONS) {
                worse.push(format!("{name}: {now:.0} instructions, {then:.0} in the baseline"));
            }
        }
        for claim in &results.claims {
            let Some(then) = self.claims.get(&claim.name) else { continue };
            let is_worse = match claim.bound {
                Bound::AtMost(_) => claim.value > then * CLAIMS,
                Bound::AtLeast(_) => claim.value < then / CLAIMS,
            };
            // An amount that was next to nothing may be many times that, as long as it is what was promised.
            if is_worse && (claim.unit == RATIO || !claim.holds()) {
                worse.push(format!(
                    "{}: {:.2} {}, {then} in the baseline",
                    claim.name, claim.value, claim.unit
                ));
            }
        }
        worse
    }

    /// What this run has and the baseline has not.
    pub(crate) fn unknown<'r>(&'r self, results: &'r Results) -> impl Iterator<Item = &'r str> {
        let claims =
            results.claims.iter().map(|claim| &claim.name).filter(|name| !self.claims.contains_key(*name));
        let counts = results.instructions.keys().filter(|name| !self.instructions.contains_key(*name));
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
        results.instructions.insert("judge".to_owned(), count);
        results
    }

    fn check(ratio: f64, speed: f64, count: f64, expect: &[&str]) {
        let baseline = Baseline::of(&run(0.9, 10.0, 1000.0));
        let found = baseline.regressions(&run(ratio, speed, count));
        let names: Vec<&str> = found.iter().filter_map(|text| text.split(':').next()).collect();
        assert_eq!(names, expect, "{found:?}");
    }

    #[test]
    fn only_what_noise_does_not_explain_is_a_regression() {
        check(0.9, 10.0, 1000.0, &[]);
        check(1.4, 6.5, 1050.0, &[]);
        check(1.5, 10.0, 1000.0, &["ratio"]);
        check(0.9, 6.0, 1000.0, &["speed"]);
        check(0.9, 10.0, 1051.0, &["judge"]);
        check(0.1, 99.0, 10.0, &[]);
    }

    #[test]
    fn an_amount_is_judged_by_its_bound_too() {
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
    fn what_one_of_the_two_does_not_have_is_not_judged() {
        let empty = Baseline::default();
        assert!(empty.regressions(&run(9.0, 0.1, 1e9)).is_empty());
        assert_eq!(empty.unknown(&run(1.0, 1.0, 1.0)).collect::<Vec<_>>(), ["ratio", "speed", "judge"]);
        assert!(Baseline::of(&run(1.0, 1.0, 1.0)).regressions(&Results::default()).is_empty());
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let baseline = Baseline::of(&run(0.9, 10.0, 1000.0));
        assert_eq!(Baseline::parse(&baseline.to_text()).unwrap(), baseline);
        for wrong in ["", "{}", r#"{"claims": {"a": "b"}, "instructions": {}}"#] {
            assert!(Baseline::parse(wrong).is_err(), "{wrong}");
        }
    }
}
