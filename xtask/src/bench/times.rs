//! Times of many rounds, and their percentiles.

/// Sorted times in microseconds.
pub(crate) struct Times(Vec<f64>);

impl Times {
    pub(crate) fn new(mut times: Vec<f64>) -> Self {
        times.sort_unstable_by(f64::total_cmp);
        Times(times)
    }

    /// Percentile: the time that `percent` percent of the rounds did not exceed.
    pub(crate) fn at(&self, percent: usize) -> f64 {
        let place = self.0.len() * percent / 100;
        self.0.get(place.min(self.0.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    pub(crate) fn p50(&self) -> f64 {
        self.at(50)
    }

    pub(crate) fn p99(&self) -> f64 {
        self.at(99)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(times: &[f64], percent: usize, expect: f64) {
        let found = Times::new(times.to_vec()).at(percent);
        assert!((found - expect).abs() < f64::EPSILON, "{percent} of {}: {found}", times.len());
    }

    #[test]
    fn a_percentile_is_a_time_that_was_measured() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        check(&hundred, 50, 51.0);
        check(&hundred, 99, 100.0);
        check(&hundred, 100, 100.0);
        check(&[7.0], 99, 7.0);
        check(&[3.0, 1.0, 2.0], 50, 2.0);
        check(&[], 50, 0.0);
    }
}
