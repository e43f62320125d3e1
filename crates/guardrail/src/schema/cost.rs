//! What a schema can cost, known before it is used. References make a small schema a large one: one that leads back to
//! itself before it has gone into a value never ends, and one that doubles at every step ends too late.

use std::collections::HashMap;

use serde_json::Value;
use tool::strict_json;

use super::SchemaError;
use super::graph::{Graph, Node};

/// Subschemas that one value may be held against, counted along the dearest path through the arguments.
pub(super) const DEAREST: u64 = 4096;
/// The reckoning itself has a bound too.
const MOST_STEPS: usize = 20_000_000;

/// Refuses a schema whose use could take for ever, or nearly.
pub(super) fn check(schema: &Value) -> Result<(), SchemaError> {
    let graph = Graph::of(schema)?;
    let order = in_order(&graph.nodes).ok_or(SchemaError::Loop)?;
    Reckoning::new(&graph.nodes).run(&order)
}

/// The nodes, each after all that are applied in its place; nothing if some of them lead back to themselves.
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

/// How often subschemas are applied below a value, by the key they go into; no key where they go into any.
type ByKey<'s> = HashMap<Option<&'s str>, u64>;

/// Reckons level by level: what a value costs whose deepest part is so many levels down.
struct Reckoning<'g, 's> {
    nodes: &'g [Node<'s>],
    /// The cost of each node for values one level less deep.
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
            // The root is the first that was found.
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
    fn the_reckoning_ends_too() {
        let schema = json!({"allOf": [{"properties": {"a": {}}}]});
        let graph = Graph::of(&schema).unwrap();
        let order = in_order(&graph.nodes).unwrap();
        let ends = |steps: usize| Reckoning { steps, ..Reckoning::new(&graph.nodes) }.run(&order).is_ok();
        // Three nodes, a key in one of them and the same key where it is used: five steps a level. On the third
        // nothing is new.
        assert!(ends(MOST_STEPS - 15));
        assert!(!ends(MOST_STEPS - 14));
    }
}
