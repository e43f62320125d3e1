//! Upper bound for the cost of evaluating a schema, computed before its first use. References can make a
//! small schema expensive: evaluation never ends if the schema refers to itself without descending into a
//! value, and takes too long if the work doubles at every step.

use std::collections::HashMap;

use serde_json::Value;
use tool::strict_json;

use super::SchemaError;
use super::graph::{SchemaGraph, SchemaNode};

/// Maximum number of subschemas applied to one value, counted along the most expensive path through the
/// arguments.
pub(super) const MAX_COST: u64 = 4096;
/// Maximum number of steps of the computation itself.
const MAX_STEPS: usize = 20_000_000;

/// Refuses a schema whose evaluation does not end or takes too long.
pub(super) fn check(schema: &Value) -> Result<(), SchemaError> {
    let graph = SchemaGraph::build(schema)?;
    let order = topological_order(&graph.nodes).ok_or(SchemaError::Loop)?;
    CostEstimate::new(&graph.nodes).run(&order)
}

/// Returns the nodes in topological order, each after all nodes applied to the same value; `None` if there is
/// a cycle.
fn topological_order(nodes: &[SchemaNode<'_>]) -> Option<Vec<usize>> {
    let mut waiting: Vec<usize> = nodes.iter().map(|node| node.same_value.len()).collect();
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (user, node) in nodes.iter().enumerate() {
        for used in &node.same_value {
            users.get_mut(*used)?.push(user);
        }
    }
    let mut order: Vec<usize> = waiting
        .iter()
        .enumerate()
        .filter(|(_, remaining)| **remaining == 0)
        .map(|(index, _)| index)
        .collect();
    let mut next = 0;
    while let Some(done) = order.get(next).copied() {
        next += 1;
        for user in users.get(done)? {
            let remaining = waiting.get_mut(*user)?;
            *remaining -= 1;
            if *remaining == 0 {
                order.push(*user);
            }
        }
    }
    (order.len() == nodes.len()).then_some(order)
}

/// Number of subschema applications below a value, by the key they descend into; `None` for any key.
type CountsByKey<'s> = HashMap<Option<&'s str>, u64>;

/// Computation of the cost, level by level: each pass gives the cost of values that are one level deeper.
struct CostEstimate<'g, 's> {
    nodes: &'g [SchemaNode<'s>],
    /// Cost of each node for values that are one level less deep.
    previous_costs: Vec<u64>,
    steps: usize,
}

impl<'g, 's> CostEstimate<'g, 's> {
    fn new(nodes: &'g [SchemaNode<'s>]) -> Self {
        CostEstimate { nodes, previous_costs: vec![0; nodes.len()], steps: 0 }
    }

    fn run(mut self, order: &[usize]) -> Result<(), SchemaError> {
        for _ in 0..=strict_json::MAX_DEPTH {
            let now = self.costs_one_level_deeper(order)?;
            // The root is the first node of the graph.
            if now.first().is_some_and(|root| *root > MAX_COST) {
                return Err(SchemaError::TooExpensive);
            }
            if now == self.previous_costs {
                return Ok(());
            }
            self.previous_costs = now;
        }
        Ok(())
    }

    fn costs_one_level_deeper(&mut self, order: &[usize]) -> Result<Vec<u64>, SchemaError> {
        let mut here: Vec<u64> = vec![0; self.nodes.len()];
        let mut counts_below: Vec<CountsByKey<'s>> = vec![CountsByKey::new(); self.nodes.len()];
        let mut costs = vec![0; self.nodes.len()];
        for index in order.iter().copied() {
            let Some(node) = self.nodes.get(index) else { continue };
            let (mut own, mut keys) = (1_u64, CountsByKey::new());
            for (key, child) in &node.children {
                add_count(&mut keys, *key, self.previous_costs.get(*child).copied().unwrap_or_default());
            }
            for used in &node.same_value {
                own = own.saturating_add(here.get(*used).copied().unwrap_or_default());
                for (key, count) in counts_below.get(*used).into_iter().flatten() {
                    add_count(&mut keys, *key, *count);
                    self.steps += 1;
                }
            }
            self.steps += 1 + node.children.len();
            if self.steps > MAX_STEPS {
                return Err(SchemaError::TooExpensive);
            }
            let times = if node.is_evaluated_twice { 2 } else { 1 };
            own = own.saturating_mul(times);
            keys.values_mut().for_each(|count| *count = count.saturating_mul(times));
            let any = keys.get(&None).copied().unwrap_or_default();
            let dearest = keys.iter().filter(|(key, _)| key.is_some()).map(|(_, count)| *count).max();
            let cost = own.saturating_add(any).saturating_add(dearest.unwrap_or_default());
            set_at(&mut costs, index, cost);
            set_at(&mut here, index, own);
            set_at(&mut counts_below, index, keys);
        }
        Ok(costs)
    }
}

fn add_count<'s>(keys: &mut CountsByKey<'s>, key: Option<&'s str>, count: u64) {
    let sum = keys.entry(key).or_default();
    *sum = sum.saturating_add(count);
}

fn set_at<T>(list: &mut [T], index: usize, value: T) {
    if let Some(entry) = list.get_mut(index) {
        *entry = value;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cost_computation_is_bounded() {
        let schema = json!({"allOf": [{"properties": {"a": {}}}]});
        let graph = SchemaGraph::build(&schema).unwrap();
        let order = topological_order(&graph.nodes).unwrap();
        let ends =
            |steps: usize| CostEstimate { steps, ..CostEstimate::new(&graph.nodes) }.run(&order).is_ok();
        // Three nodes, a key in one of them and the same key where it is used: five steps per level. The
        // third level changes nothing.
        assert!(ends(MAX_STEPS - 15));
        assert!(!ends(MAX_STEPS - 14));
    }
}
