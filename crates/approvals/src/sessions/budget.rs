//! Budget and usage of one turn of a worker: pure arithmetic.

use governance::files::CostMode;

/// Upper limit of a hop budget.
pub(crate) const MAX_HOPS: u32 = 10_000;

/// Budget of one turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TurnBudget {
    /// Number of calls, rejected ones included.
    pub(crate) hops: u32,
    pub(crate) cap: TurnCostCap,
}

/// Cost cap of one turn and its effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TurnCostCap {
    /// No cap.
    None,
    /// Exceeding the cap is reported once.
    Warn(f64),
    /// After the cap is exceeded, the next call is refused.
    Enforce(f64),
}

/// Usage of one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct TurnUsage {
    pub(crate) hops: u32,
    pub(crate) cost: f64,
    warned: bool,
}

/// Reason why a turn allows no further call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BudgetExhausted {
    /// All calls are used.
    Hops,
    /// The cost cap is exceeded.
    Cost {
        /// The cap.
        cap: f64,
    },
}

impl TurnCostCap {
    /// Creates a cap. An amount that is not positive, or is NaN, means no cap.
    pub(crate) fn new(mode: CostMode, amount: f64) -> Self {
        match mode {
            CostMode::Warn if amount > 0.0 => TurnCostCap::Warn(amount),
            CostMode::Enforce if amount > 0.0 => TurnCostCap::Enforce(amount),
            CostMode::Warn | CostMode::Enforce | CostMode::Off => TurnCostCap::None,
        }
    }

    /// Name of the mode and amount, if there is a cap.
    pub(crate) fn mode_and_amount(self) -> Option<(&'static str, f64)> {
        match self {
            TurnCostCap::None => None,
            TurnCostCap::Warn(amount) => Some(("warn", amount)),
            TurnCostCap::Enforce(amount) => Some(("enforce", amount)),
        }
    }
}

impl TurnUsage {
    /// Counts a call and returns its number in this turn. The cost cap is checked only if a call is left, and
    /// a call that fails this check is counted too.
    pub(crate) fn spend_hop(&mut self, budget: &TurnBudget) -> Result<u32, BudgetExhausted> {
        if self.hops >= budget.hops {
            return Err(BudgetExhausted::Hops);
        }
        self.hops += 1;
        match budget.cap {
            TurnCostCap::Enforce(cap) if self.cost > cap => Err(BudgetExhausted::Cost { cap }),
            TurnCostCap::Enforce(_) | TurnCostCap::Warn(_) | TurnCostCap::None => Ok(self.hops),
        }
    }

    /// Adds the cost of a call that is about to run, unless other calls have exceeded the cap since it was
    /// admitted.
    pub(crate) fn charge(&mut self, budget: &TurnBudget, cost: f64) -> Result<Option<f64>, BudgetExhausted> {
        match budget.cap {
            TurnCostCap::Enforce(cap) if self.cost > cap => Err(BudgetExhausted::Cost { cap }),
            TurnCostCap::Enforce(_) | TurnCostCap::Warn(_) | TurnCostCap::None => {
                Ok(self.spend(budget, cost))
            }
        }
    }

    /// Adds a cost. Returns the cap if a warning is due: once per turn, when the cost first exceeds it.
    pub(crate) fn spend(&mut self, budget: &TurnBudget, cost: f64) -> Option<f64> {
        // The sum never decreases and stays finite for every reported cost.
        self.cost = (self.cost + if cost.is_finite() { cost.max(0.0) } else { 0.0 }).min(f64::MAX);
        match budget.cap {
            TurnCostCap::Warn(cap) if self.cost > cap && !self.warned => {
                self.warned = true;
                Some(cap)
            }
            TurnCostCap::Warn(_) | TurnCostCap::Enforce(_) | TurnCostCap::None => None,
        }
    }

    /// Number of calls left.
    pub(crate) fn hops_left(&self, budget: &TurnBudget) -> u32 {
        budget.hops.saturating_sub(self.hops)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a sequence of calls by their costs against the expected results: the number of the call, with
    /// `!` if a cost warning is due, or `hops` or `cost` if it is refused.
    fn check(budget: TurnBudget, costs: &[f64], expect: &[&str]) {
        let mut turn = TurnUsage::default();
        let seen: Vec<String> = costs
            .iter()
            .map(|cost| match turn.spend_hop(&budget) {
                Ok(hop) => format!("{hop}{}", turn.spend(&budget, *cost).map(|_| "!").unwrap_or_default()),
                Err(BudgetExhausted::Hops) => "hops".to_owned(),
                Err(BudgetExhausted::Cost { .. }) => "cost".to_owned(),
            })
            .collect();
        assert_eq!(seen, expect, "{budget:?} {costs:?}");
    }

    fn budget(hops: u32, mode: CostMode, amount: f64) -> TurnBudget {
        TurnBudget { hops, cap: TurnCostCap::new(mode, amount) }
    }

    #[test]
    fn call_beyond_the_hop_budget_is_refused() {
        check(budget(2, CostMode::Off, 0.0), &[0.0; 4], &["1", "2", "hops", "hops"]);
        check(budget(0, CostMode::Off, 0.0), &[0.0], &["hops"]);
        check(budget(1, CostMode::Off, 0.0), &[0.0; 2], &["1", "hops"]);
    }

    #[test]
    fn cost_cap_warns_once_or_refuses_or_is_off() {
        check(budget(9, CostMode::Warn, 1.0), &[0.6; 4], &["1", "2!", "3", "4"]);
        check(budget(9, CostMode::Enforce, 1.0), &[0.6; 4], &["1", "2", "cost", "cost"]);
        check(budget(9, CostMode::Off, 1.0), &[0.6; 4], &["1", "2", "3", "4"]);
        // A call that is refused for its cost is counted, so the hop budget is used up too.
        check(budget(3, CostMode::Enforce, 1.0), &[2.0; 5], &["1", "cost", "cost", "hops", "hops"]);
    }

    #[test]
    fn cost_equal_to_the_cap_is_allowed_and_zero_is_no_cap() {
        check(budget(9, CostMode::Enforce, 1.0), &[0.5, 0.5, 0.5, 0.0], &["1", "2", "3", "cost"]);
        check(budget(9, CostMode::Warn, 1.0), &[1.0, 0.0, 0.25], &["1", "2", "3!"]);
        for amount in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
            check(budget(9, CostMode::Enforce, amount), &[5.0; 3], &["1", "2", "3"]);
            assert_eq!(TurnCostCap::new(CostMode::Warn, amount), TurnCostCap::None, "{amount}");
        }
        // A reported cost never reduces the sum.
        check(budget(9, CostMode::Enforce, 1.0), &[2.0, -5.0, f64::NAN], &["1", "cost", "cost"]);
    }

    #[test]
    fn concurrent_calls_cannot_exceed_the_cap_together() {
        let (mut turn, enforced) = (TurnUsage::default(), budget(9, CostMode::Enforce, 1.0));
        let admitted: Vec<_> = (0..4).map(|_| turn.spend_hop(&enforced)).collect();
        assert!(admitted.iter().all(Result::is_ok), "nothing has cost anything yet: {admitted:?}");
        let ran: Vec<bool> = (0..4).map(|_| turn.charge(&enforced, 0.6).is_ok()).collect();
        assert_eq!((ran, turn.cost), (vec![true, true, false, false], 1.2));
        let warned = budget(9, CostMode::Warn, 1.0);
        assert_eq!(turn.charge(&warned, 0.6), Ok(Some(1.0)), "a warning refuses no call");
    }

    #[test]
    fn turn_begins_with_nothing_used() {
        let budget = budget(2, CostMode::Warn, 1.0);
        for _ in 0..3 {
            let mut turn = TurnUsage::default();
            assert_eq!((turn.spend_hop(&budget), turn.spend_hop(&budget)), (Ok(1), Ok(2)));
            assert_eq!((turn.spend(&budget, 2.0), turn.spend(&budget, 2.0)), (Some(1.0), None));
            assert_eq!((turn.spend_hop(&budget), turn.hops_left(&budget)), (Err(BudgetExhausted::Hops), 0));
        }
    }
}
