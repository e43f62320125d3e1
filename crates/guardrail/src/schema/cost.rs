//! Upper bound for the cost of evaluating a schema, computed before its first use. References make a small
//! schema a large one: one that refers to itself without descending into a value never ends, and one that
//! doubles at every step takes too long.

use std::collections::HashMap;

use serde_json::Value;
use tool::strict_json;

use super::SchemaError;
use super::graph::{Graph, Node};

/// Maximum number of subschemas applied to one value, counted along the most expensive path through the
/// arguments.
pub(super) const DEAREST: u64 = 4096;
/// Maximum number of steps of the computation itself.
const MOST_STEPS: usize = 20_000_000;

/// Refuses a schema whose evaluation does not end or takes too long.
pub(super) fn check(schema: &Value) -> Result<(), SchemaError> {
    let graph = Graph::of(schema)?;
    let order = in_order(&graph.nodes).ok_or(SchemaError::Loop)?;
    Reckoning::new(&graph.nodes).run(&order)
}

/// Returns the nodes in topological order, each after all nodes applied to the same value; `None` if there is
/// a cycle.
fn in_order(nodes: &[Node<'_>]) -> Option<Vec<usize>> {
    let mut waiting: Vec<usize> = nodes.iter().map(|node| node.here.len()).collect();
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (user, node) in nodes.iter().enumerate() {
        for used in &node.here {
            users.get_mut(*used)?.push(user);
        }
    }
    let mut order: Vec<usize> =
        waiting.iter().enumerate().filter(|(_, left)| **left == 0).map(|(index, _)| index).collect();
    let mut next = 0;
    while let Some(done) = order.get(next).copied() {
        next += 1;
        for user in users.get(done)? {
            let left = waiting.get_mut(*user)?;
            *left -= 1;
            if *left == 0 {
                order.push(*user);
            }
        }
    }
    (order.len() == nodes.len()).then_some(order)
}

/// Number of subschema applications below a value, by the key they descend into; `None` for any key.
type ByKey<'s> = HashMap<Option<&'s str>, u64>;

/// Computation of the cost, level by level: each pass gives the cost of values that are one level deeper.
struct Reckoning<'g, 's> {
    nodes: &'g [Node<'s>],
    /// Cost of each node for values that are one level less deep.
    before: Vec<u64>,
    steps: usize,
}

impl<'g, 's> Reckoning<'g, 's> {
    fn new(nodes: &'g [Node<'s>]) -> Self {
        Reckoning { nodes, before: vec![0; nodes.len()], steps: 0 }
    }

    fn run(mut self, order: &[usize]) -> Result<(), SchemaError> {
        for _ in 0..=strict_json::DEEPEST {
            let now = self.level(order)?;
            // The root is the first node of the graph.
            if now.first().is_some_and(|root| *root > DEAREST) {
                return Err(SchemaError::TooDear);
            }
            if now == self.before {
                return Ok(());
            }
            self.before = now;
        }
        Ok(())
    }

    fn level(&mut self, order: &[usize]) -> Result<Vec<u64>, SchemaError> {
        let mut here: Vec<u64> = vec![0; self.nodes.len()];
        let mut below: Vec<ByKey<'s>> = vec![ByKey::new(); self.nodes.len()];
        let mut costs = vec![0; self.nodes.len()];
        for index in order.iter().copied() {
            let Some(node) = self.nodes.get(index) else { continue };
            let (mut own, mut keys) = (1_u64, ByKey::new());
            for (key, child) in &node.below {
                add(&mut keys, *key, self.before.get(*child).copied().unwrap_or_default());
            }
            for used in &node.here {
                own = own.saturating_add(here.get(*used).copied().unwrap_or_default());
                for (key, count) in below.get(*used).into_iter().flatten() {
                    add(&mut keys, *key, *count);
                    self.steps += 1;
                }
            }
            self.steps += 1 + node.below.len();
            if self.steps > MOST_STEPS {
                return Err(SchemaError::TooDear);
            }
            let times = if node.looks_twice { 2 } else { 1 };
            own = own.saturating_mul(times);
            keys.values_mut().for_each(|count| *count = count.saturating_mul(times));
            let any = keys.get(&None).copied().unwrap_or_default();
            let dearest = keys.iter().filter(|(key, _)| key.is_some()).map(|(_, count)| *count).max();
            let cost = own.saturating_add(any).saturating_add(dearest.unwrap_or_default());
            set(&mut costs, index, cost);
            set(&mut here, index, own);
            set(&mut below, index, keys);
        }
        Ok(costs)
    }
}

fn add<'s>(keys: &mut ByKey<'s>, key: Option<&'s str>, count: u64) {
    let sum = keys.entry(key).or_default();
    *sum = sum.saturating_add(count);
}

fn set<T>(list: &mut [T], index: usize, value: T) {
    if let Some(place) = list.get_mut(index) {
        *place = value;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cost_computation_is_bounded() {
        let schema = json!({"allOf": [{"properties": {"a": {}}}]});
        let graph = Graph::of(&schema).unwrap();
        let order = in_order(&graph.nodes).unwrap();
        let ends = |steps: usize| Reckoning { steps, ..Reckoning::new(&graph.nodes) }.run(&order).is_ok();
        // Three nodes, a key in one of them and the same key where it is used: five steps per level. The
        // third level changes nothing.
        assert!(ends(MOST_STEPS - 15));
        assert!(!ends(MOST_STEPS - 14));
    }
}
