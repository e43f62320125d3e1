//! What a worker may do in one turn, and what it has done: arithmetic, nothing else.

use governance::files::CostMode;

/// The most calls that a turn may be given.
pub(crate) const MOST_HOPS: u32 = 10_000;

/// What one turn may use up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Budget {
    /// Calls, rejected ones included.
    pub(crate) hops: u32,
    pub(crate) cap: Cap,
}

/// What one turn may cost, and what happens past it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cap {
    /// Any amount.
    None,
    /// It is reported, once.
    Warn(f64),
    /// The next call is refused.
    Enforce(f64),
}

/// What one turn has used up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Turn {
    pub(crate) hops: u32,
    pub(crate) cost: f64,
    warned: bool,
}

/// Why a turn has no further call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Exhausted {
    /// All calls are used up.
    Hops,
    /// It has cost more than it may.
    Cost {
        /// The cap.
        cap: f64,
    },
}

impl Cap {
    /// A cap of 0 or less is none, and so is one that is no number.
    pub(crate) fn of(mode: CostMode, amount: f64) -> Self {
        match mode {
            CostMode::Warn if amount > 0.0 => Cap::Warn(amount),
            CostMode::Enforce if amount > 0.0 => Cap::Enforce(amount),
            CostMode::Warn | CostMode::Enforce | CostMode::Off => Cap::None,
        }
    }

    /// The amount and the word of its mode, where there is a cap.
    pub(crate) fn stated(self) -> Option<(&'static str, f64)> {
        match self {
            Cap::None => None,
            Cap::Warn(amount) => Some(("warn", amount)),
            Cap::Enforce(amount) => Some(("enforce", amount)),
        }
    }
}

impl Turn {
    /// Spends a call; its number in this turn. What the turn has cost is asked only of a call that there still is, and
    /// that call is spent too.
    pub(crate) fn spend_hop(&mut self, budget: &Budget) -> Result<u32, Exhausted> {
        if self.hops >= budget.hops {
            return Err(Exhausted::Hops);
        }
        self.hops += 1;
        match budget.cap {
            Cap::Enforce(cap) if self.cost > cap => Err(Exhausted::Cost { cap }),
            Cap::Enforce(_) | Cap::Warn(_) | Cap::None => Ok(self.hops),
        }
    }

    /// Adds what a call costs that is about to run. What others have cost since it was let in counts.
    pub(crate) fn charge(&mut self, budget: &Budget, cost: f64) -> Result<Option<f64>, Exhausted> {
        match budget.cap {
            Cap::Enforce(cap) if self.cost > cap => Err(Exhausted::Cost { cap }),
            Cap::Enforce(_) | Cap::Warn(_) | Cap::None => Ok(self.spend(budget, cost)),
        }
    }

    /// Adds what something has cost. Returns the cap that is to be warned of: once a turn, when it is first passed.
    pub(crate) fn spend(&mut self, budget: &Budget, cost: f64) -> Option<f64> {
        // A sum that only grows and stays a number, whatever is reported.
        self.cost = (self.cost + if cost.is_finite() { cost.max(0.0) } else { 0.0 }).min(f64::MAX);
        match budget.cap {
            Cap::Warn(cap) if self.cost > cap && !self.warned => {
                self.warned = true;
                Some(cap)
            }
            Cap::Warn(_) | Cap::Enforce(_) | Cap::None => None,
        }
    }

    /// Calls that are left.
    pub(crate) fn hops_left(&self, budget: &Budget) -> u32 {
        budget.hops.saturating_sub(self.hops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls with what each costs, and what must come of them: the number of the call, `hops` or `cost`, and a mark
    /// where the cap is warned of.
    fn check(budget: Budget, costs: &[f64], expect: &[&str]) {
        let mut turn = Turn::default();
        let seen: Vec<String> = costs
            .iter()
            .map(|cost| match turn.spend_hop(&budget) {
                Ok(hop) => format!("{hop}{}", turn.spend(&budget, *cost).map(|_| "!").unwrap_or_default()),
                Err(Exhausted::Hops) => "hops".to_owned(),
                Err(Exhausted::Cost { .. }) => "cost".to_owned(),
            })
            .collect();
        assert_eq!(seen, expect, "{budget:?} {costs:?}");
    }

    fn budget(hops: u32, mode: CostMode, amount: f64) -> Budget {
        Budget { hops, cap: Cap::of(mode, amount) }
    }

    #[test]
    fn b157_the_call_after_the_last_is_refused() {
        check(budget(2, CostMode::Off, 0.0), &[0.0; 4], &["1", "2", "hops", "hops"]);
        check(budget(0, CostMode::Off, 0.0), &[0.0], &["hops"]);
        check(budget(1, CostMode::Off, 0.0), &[0.0; 2], &["1", "hops"]);
    }

    #[test]
    fn b159_a_cap_warns_once_or_ends_the_turn_or_is_silent() {
        check(budget(9, CostMode::Warn, 1.0), &[0.6; 4], &["1", "2!", "3", "4"]);
        check(budget(9, CostMode::Enforce, 1.0), &[0.6; 4], &["1", "2", "cost", "cost"]);
        check(budget(9, CostMode::Off, 1.0), &[0.6; 4], &["1", "2", "3", "4"]);
        // A call that is refused for its cost is spent, so the calls run out too.
        check(budget(3, CostMode::Enforce, 1.0), &[2.0; 5], &["1", "cost", "cost", "hops", "hops"]);
    }

    #[test]
    fn b161_equal_is_not_over_and_a_cap_of_nothing_is_none() {
        check(budget(9, CostMode::Enforce, 1.0), &[0.5, 0.5, 0.5, 0.0], &["1", "2", "3", "cost"]);
        check(budget(9, CostMode::Warn, 1.0), &[1.0, 0.0, 0.25], &["1", "2", "3!"]);
        for amount in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            check(budget(9, CostMode::Enforce, amount), &[5.0; 3], &["1", "2", "3"]);
            assert_eq!(Cap::of(CostMode::Warn, amount), Cap::None, "{amount}");
        }
        // Nothing that is reported takes a cost back.
        check(budget(9, CostMode::Enforce, 1.0), &[2.0, -5.0, f64::NAN], &["1", "cost", "cost"]);
    }

    #[test]
    fn calls_that_were_let_in_together_do_not_pass_the_cap_together() {
        let (mut turn, enforced) = (Turn::default(), budget(9, CostMode::Enforce, 1.0));
        let let_in: Vec<_> = (0..4).map(|_| turn.spend_hop(&enforced)).collect();
        assert!(let_in.iter().all(Result::is_ok), "nothing has cost anything yet: {let_in:?}");
        let ran: Vec<bool> = (0..4).map(|_| turn.charge(&enforced, 0.6).is_ok()).collect();
        assert_eq!((ran, turn.cost), (vec![true, true, false, false], 1.2));
        let warned = budget(9, CostMode::Warn, 1.0);
        assert_eq!(turn.charge(&warned, 0.6), Ok(Some(1.0)), "a warning stops nobody");
    }

    #[test]
    fn b160_a_turn_begins_with_nothing_used() {
        let budget = budget(2, CostMode::Warn, 1.0);
        for _ in 0..3 {
            let mut turn = Turn::default();
            assert_eq!((turn.spend_hop(&budget), turn.spend_hop(&budget)), (Ok(1), Ok(2)));
            assert_eq!((turn.spend(&budget, 2.0), turn.spend(&budget, 2.0)), (Some(1.0), None));
            assert_eq!((turn.spend_hop(&budget), turn.hops_left(&budget)), (Err(Exhausted::Hops), 0));
        }
    }
}
