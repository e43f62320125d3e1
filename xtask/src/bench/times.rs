//! Times of many rounds, and how a round is taken.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use anyhow::{Result, bail};
use serde_json::Value;

/// Sorted times in microseconds.
pub(crate) struct Times(Vec<f64>);

impl Times {
    pub(crate) fn new(mut times: Vec<f64>) -> Self {
        times.sort_unstable_by(f64::total_cmp);
        Times(times)
    }

    /// The time that so many of a hundred rounds did not exceed.
    pub(crate) fn at(&self, percent: usize) -> f64 {
        self.0.get(self.0.len() * percent / 100).copied().unwrap_or_default()
    }

    pub(crate) fn print(&self, name: &str) {
        println!("{name:<44} {:>6.1} µs {:>6.1} µs", self.at(50), self.at(99));
    }
}

/// Sends one message `rounds` times, one after the other, and adds how long each answer took.
pub(crate) fn measure(
    client: &mut BufReader<UnixStream>,
    message: &Value,
    rounds: usize,
    times: &mut Vec<f64>,
) -> Result<()> {
    ask(client, message, rounds, |time, _| {
        times.push(time);
        Ok(())
    })
}

/// The same, and shows each answer to whoever wants to know more of it than how long it took.
pub(crate) fn ask(
    client: &mut BufReader<UnixStream>,
    message: &Value,
    rounds: usize,
    mut each: impl FnMut(f64, &str) -> Result<()>,
) -> Result<()> {
    let line = format!("{message}\n");
    let mut answer = String::new();
    for _ in 0..rounds {
        let asked = Instant::now();
        client.get_mut().write_all(line.as_bytes())?;
        answer.clear();
        client.read_line(&mut answer)?;
        let time = asked.elapsed().as_secs_f64() * 1e6;
        if !answer.contains("\"success\":true") && !answer.contains("\"uptime_seconds\"") {
            bail!("the daemon answered {answer}");
        }
        each(time, &answer)?;
    }
    Ok(())
}
