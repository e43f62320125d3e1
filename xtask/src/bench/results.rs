//! Results of a run: times, claims that must hold, and counts that do not depend on the machine's load.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Sorted times in microseconds.
pub(crate) struct Times(Vec<f64>);

impl Times {
    pub(crate) fn new(mut times: Vec<f64>) -> Self {
        times.sort_unstable_by(f64::total_cmp);
        Times(times)
    }

    /// Percentile: the time that `percent` percent of the rounds did not exceed.
    pub(crate) fn at(&self, percent: usize) -> f64 {
        let rank = self.0.len() * percent / 100;
        self.0.get(rank.min(self.0.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    pub(crate) fn p50(&self) -> f64 {
        self.at(50)
    }

    pub(crate) fn p99(&self) -> f64 {
        self.at(99)
    }
}

/// Percentiles of one repeated measurement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    /// Name shared by figures that did the same work in the same rounds.
    pub(crate) group: &'static str,
    pub(crate) name: String,
    /// In microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) per_second: Option<f64>,
    /// Processor time of the program per call, in microseconds.
    pub(crate) processor: Option<f64>,
}

/// The unit of a ratio.
pub(crate) const RATIO: &str = "×";

/// Limit of a claim, and the direction in which it is exceeded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// Value with a bound: a ratio of two figures of one run, or an amount.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claim {
    pub(crate) name: String,
    pub(crate) value: f64,
    /// [`RATIO`], or the unit of an amount.
    pub(crate) unit: &'static str,
    pub(crate) bound: Bound,
}

impl Claim {
    pub(crate) fn holds(&self) -> bool {
        match self.bound {
            Bound::AtMost(most) => self.value <= most,
            Bound::AtLeast(least) => self.value >= least,
        }
    }
}

/// All results of one run.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) figures: Vec<Figure>,
    pub(crate) claims: Vec<Claim>,
    /// Instructions, system calls and allocations of one round, by a description that starts with the unit.
    pub(crate) counts: BTreeMap<String, f64>,
    /// Measurements that were not possible, each with the reason.
    pub(crate) absent: Vec<String>,
}

impl Results {
    /// Adds a figure, and returns its median.
    pub(crate) fn add(&mut self, group: &'static str, name: &str, times: Vec<f64>) -> f64 {
        let times = Times::new(times);
        let (p50, p99) = (times.p50(), times.p99());
        self.figures.push(Figure {
            group,
            name: name.to_owned(),
            p50,
            p99,
            per_second: None,
            processor: None,
        });
        p50
    }

    /// Adds a figure with its rate and its processor time per call.
    pub(crate) fn add_load(
        &mut self,
        (group, name): (&'static str, &str),
        times: Vec<f64>,
        (per_second, processor): (f64, f64),
    ) {
        let times = Times::new(times);
        self.figures.push(Figure {
            group,
            name: name.to_owned(),
            p50: times.p50(),
            p99: times.p99(),
            per_second: Some(per_second),
            processor: Some(processor),
        });
    }

    /// Finds a figure by its group and name.
    pub(crate) fn find(&self, group: &str, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.group == group && figure.name == name)
    }

    /// Adds a claim if its value was measured.
    pub(crate) fn claim(&mut self, name: &str, value: Option<f64>, unit: &'static str, bound: Bound) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.claims.push(Claim { name: name.to_owned(), value, unit, bound });
        }
    }

    /// Ratio of the medians of two figures of a group.
    pub(crate) fn ratio(&self, group: &str, of: &str, to: &str) -> Option<f64> {
        Some(self.find(group, of)?.p50 / self.find(group, to)?.p50)
    }

    /// Ratio of the processor times per call of two figures of a group.
    pub(crate) fn processor_ratio(&self, group: &str, of: &str, to: &str) -> Option<f64> {
        Some(self.find(group, of)?.processor? / self.find(group, to)?.processor?)
    }

    pub(crate) fn to_json(&self, machine: &str) -> Value {
        let figures = self.figures.iter().map(|figure| {
            json!({"group": figure.group, "name": figure.name, "p50_us": rounded(figure.p50),
                "p99_us": rounded(figure.p99), "per_second": figure.per_second.map(f64::round),
                "processor_us": figure.processor.map(rounded)})
        });
        let claims = self.claims.iter().map(|claim| {
            let (bound, limit) = match claim.bound {
                Bound::AtMost(limit) => ("at_most", limit),
                Bound::AtLeast(limit) => ("at_least", limit),
            };
            json!({"name": claim.name, "value": rounded(claim.value), "unit": claim.unit, bound: limit,
                "holds": claim.holds()})
        });
        json!({"machine": machine, "figures": figures.collect::<Vec<_>>(),
            "claims": claims.collect::<Vec<_>>(), "counts": self.counts, "absent": self.absent})
    }
}

/// Rounds to hundredths, which is finer than any measurement here.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(value: f64, bound: Bound) -> Claim {
        Claim { name: "it".to_owned(), value, unit: "×", bound }
    }

    #[test]
    fn a_value_equal_to_its_bound_holds() {
        assert!(claim(1.0, Bound::AtMost(1.0)).holds());
        assert!(!claim(1.01, Bound::AtMost(1.0)).holds());
        assert!(claim(8.0, Bound::AtLeast(8.0)).holds());
        assert!(!claim(7.9, Bound::AtLeast(8.0)).holds());
    }

    #[test]
    fn ratios_are_of_medians_within_one_group() {
        let mut results = Results::default();
        results.add("read", "ours", vec![1.0, 2.0, 90.0]);
        results.add("read", "theirs", vec![4.0]);
        results.add("spawn", "other", vec![8.0]);
        assert_eq!(results.ratio("read", "ours", "theirs"), Some(0.5));
        assert_eq!(results.ratio("read", "ours", "other"), None, "not the same work");
    }

    #[test]
    fn values_that_were_not_measured_make_no_claim() {
        let mut results = Results::default();
        results.claim("nothing", None, "×", Bound::AtMost(1.0));
        results.claim("by nothing", Some(f64::INFINITY), "×", Bound::AtMost(1.0));
        assert!(results.claims.is_empty());
    }

    #[test]
    fn the_json_states_which_claims_hold() {
        let mut results = Results::default();
        results.add_load(("read", "ours"), vec![1.234_5], (1000.4, 2.004));
        results.claim("ratio", Some(0.996), "×", Bound::AtMost(1.0));
        let json = results.to_json("a machine");
        assert_eq!(json["figures"][0]["p50_us"], 1.23);
        assert_eq!(json["figures"][0]["per_second"], 1000.0);
        assert_eq!(json["figures"][0]["processor_us"], 2.0);
        assert_eq!(
            json["claims"][0],
            json!({"name": "ratio", "value": 1.0, "unit": "×", "at_most": 1.0, "holds": true})
        );
    }

    fn check_percentile(times: &[f64], percent: usize, expect: f64) {
        let found = Times::new(times.to_vec()).at(percent);
        assert!((found - expect).abs() < f64::EPSILON, "{percent} of {}: {found}", times.len());
    }

    #[test]
    fn a_percentile_is_a_time_that_was_measured() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        check_percentile(&hundred, 50, 51.0);
        check_percentile(&hundred, 99, 100.0);
        check_percentile(&hundred, 100, 100.0);
        check_percentile(&[7.0], 99, 7.0);
        check_percentile(&[3.0, 1.0, 2.0], 50, 2.0);
        check_percentile(&[], 50, 0.0);
    }
}
