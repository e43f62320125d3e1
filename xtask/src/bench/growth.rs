//! Cost of a call as its surroundings grow: tools, rules, records, connections. It should stay the same. Only
//! the size of the call's own arguments may affect it, and at most in proportion.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use super::Length;
use super::conversation::{BenchRequest, Conversation, ask_many, time};
use super::daemon::{Daemon, Home};
use super::life;
use super::results::{Bound, RATIO, Results, Times};

const GROUP: &str = "read_file of 1 KiB by tools, globs, records and connections";
const SIZES: &str = "a judgement by the size of its arguments";
const ROUNDS: usize = 20;
const CALLS: usize = 200;
/// Largest allowed ratio of a median at the largest point of an axis to that at the smallest.
const MOST: f64 = 1.3;

/// Axes, each with its smallest and its largest point.
const AXES: [(Axis, usize, usize); 4] = [
    (Axis::Tools, 10, 10_000),
    (Axis::Globs, 10, 2_000),
    (Axis::Records, 0, 1_000_000),
    (Axis::Connections, 1, 1_000),
];

#[derive(Clone, Copy)]
enum Axis {
    Tools,
    Globs,
    Records,
    Connections,
}

impl Axis {
    fn name(self) -> &'static str {
        match self {
            Axis::Tools => "tools",
            Axis::Globs => "globs",
            Axis::Records => "records",
            Axis::Connections => "connections",
        }
    }
}

/// Daemon at one point of an axis.
struct Point {
    count: usize,
    daemon: Daemon,
    conversation: Conversation,
    /// Idle connections.
    _silent: Vec<Conversation>,
    times: Vec<f64>,
}

/// Measures a daemon at the smallest and one at the largest point of each axis, in alternating rounds.
pub(crate) fn measure(binary: &Path, folder: &Path, length: Length, results: &mut Results) -> Result<()> {
    for (axis, smallest, largest) in AXES {
        let largest = if length == Length::Full { largest } else { largest / 10 };
        let point_dir = folder.join(axis.name());
        let points = [smallest, largest].map(|count| point(binary, &point_dir, axis, count));
        let measured = points.into_iter().collect::<Result<Vec<_>>>();
        let measured = measured.and_then(|points| compare(axis, points, length, results));
        measured.with_context(|| format!("as {} grow", axis.name()))?;
        let _ = std::fs::remove_dir_all(point_dir);
    }
    sizes(&Home::make(binary, &folder.join("arguments"))?, length, results)
}

fn point(binary: &Path, folder: &Path, axis: Axis, count: usize) -> Result<Point> {
    let point_dir: PathBuf = folder.join(count.to_string());
    let home = Home::make(binary, &point_dir)?;
    match axis {
        Axis::Tools => life::manifests(&home, count)?,
        Axis::Globs => home.put_policy("tools.yaml", &with_globs(count))?,
        Axis::Connections => {
            home.add_setting(&format!("limits: {{max_connections: {}}}\n", count + 256))?;
        }
        Axis::Records => {}
    }
    let daemon = home.start()?;
    let mut point =
        Point { count, conversation: daemon.connect()?, daemon, _silent: Vec::new(), times: Vec::new() };
    match axis {
        Axis::Tools | Axis::Globs => {}
        Axis::Records if count == 0 => {}
        // A read writes one record.
        Axis::Records => {
            ask_many(&mut point.conversation, &BenchRequest::read(), (count, 64), &mut Vec::new())?;
        }
        Axis::Connections => {
            let others = (1..count).map(|_| point.daemon.connect());
            point._silent = others.collect::<Result<_>>()?;
        }
    }
    Ok(point)
}

fn compare(axis: Axis, mut points: Vec<Point>, length: Length, results: &mut Results) -> Result<()> {
    for _ in 0..length.of(ROUNDS) {
        for point in &mut points {
            time(&mut point.conversation, &BenchRequest::read(), CALLS, &mut point.times)?;
        }
    }
    let mut medians = Vec::new();
    // A shorter axis is another claim, so the name contains the counts: a bound that holds for a tenth of the
    // axis may not hold for all of it.
    let counts: Vec<String> = points.iter().map(|point| point.count.to_string()).collect();
    for point in points {
        medians.push(results.add(GROUP, &format!("{}: {}", axis.name(), point.count), point.times));
    }
    let grown = medians.first().zip(medians.last()).map(|(smallest, largest)| largest / smallest);
    let name = format!("growth with {}, {}, p50", axis.name(), counts.join(" to "));
    results.claim(&name, grown, RATIO, Bound::AtMost(MOST));
    Ok(())
}

/// Policy that adds `count` forbidden paths to those that `read_file` has.
fn with_globs(count: usize) -> String {
    let items = (0..count).map(|n| match n % 3 {
        0 => format!("/{n:x}"),
        1 => format!("/{n:x}/*"),
        _ => format!("/*/{n:x}"),
    });
    // On one line, because a policy file may have at most 1 MiB.
    let items = items.collect::<Vec<_>>().join(",");
    format!("tools:\n  read_file:\n    forbidden_paths: {{add: [{items}]}}\n")
}

/// Measures calls with large arguments until their verdict: parsing, schema check, secret scan, judgement.
fn sizes(home: &Home, length: Length, results: &mut Results) -> Result<()> {
    let daemon = home.start()?;
    let mut conversation = daemon.connect()?;
    let mut kinds = [100, 64 << 10, 1 << 20].map(|size: usize| {
        let arguments = json!({"path": "new.txt", "content": "word ".repeat(size / 5)});
        let params = json!({"tool_name": "write_file", "arguments": arguments});
        (size, BenchRequest::new("sinew/explain", &params, "permit"), Vec::new())
    });
    for _ in 0..length.of(100) {
        for (_, request, times) in &mut kinds {
            time(&mut conversation, request, 1, times)?;
        }
    }
    let mut medians = Vec::new();
    for (size, _, times) in kinds {
        medians.push((size as f64, Times::new(times.clone()).p50()));
        results.add(SIZES, &format!("{size} bytes"), times);
    }
    let [_, (less, short), (more, long)] = medians.as_slice() else { return Ok(()) };
    let grown = (long / more) / (short / less);
    results.claim("cost of a byte, 1 MiB to 64 KiB", Some(grown), RATIO, Bound::AtMost(MOST));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_extend_the_list_of_the_tool() {
        let expect = "tools:\n  read_file:\n    forbidden_paths: {add: [/0,/1/*,/*/2]}\n";
        assert_eq!(with_globs(3), expect);
    }
}
