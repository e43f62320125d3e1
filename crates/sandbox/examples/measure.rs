//! What confinement costs: `true` started plainly, confined in both tiers, and by bubblewrap where it is installed, in
//! turns. What is measured is how long a caller waits, from its order to the report.
//!
//! `cargo run --release -p sandbox --example measure`

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use sandbox::{Confined, End, Entered, Sandbox};
use tool::SandboxTier;

const ROUNDS: usize = 200;
/// Rounds that only warm up.
const WARM_UP: usize = 10;
/// What a caller does between two calls; the next launcher stands ready by then.
const PAUSE: Duration = Duration::from_millis(20);
const BUBBLEWRAP: [&str; 5] = ["--ro-bind", "/", "/", "--unshare-all", "true"];

fn main() -> ExitCode {
    match sandbox::enter() {
        Entered::Launcher(code) => return code,
        Entered::Worker(_) => return ExitCode::FAILURE,
        Entered::Program => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.map_err(|error| error.to_string()).and_then(|runtime| runtime.block_on(measure())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("{message}");
            ExitCode::FAILURE
        }
    }
}

async fn measure() -> Result<(), String> {
    let sandboxes = [SandboxTier::Full, SandboxTier::Reduced].map(Sandbox::at_most);
    for sandbox in &sandboxes {
        let sandbox = sandbox.clone();
        let tried = tokio::task::spawn_blocking(move || sandbox.availability().tier);
        tried.await.map_err(|error| error.to_string())?;
    }
    let has_bubblewrap = plain("bwrap", &BUBBLEWRAP).is_some();
    let (mut spawned, mut wrapped, mut confined) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
    for round in 0..ROUNDS + WARM_UP {
        if round == WARM_UP {
            (spawned, wrapped, confined) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
        }
        spawned.extend(plain("true", &[]));
        for (sandbox, times) in sandboxes.iter().zip(&mut confined) {
            times.push(one(sandbox).await?);
            tokio::time::sleep(PAUSE).await;
        }
        if has_bubblewrap {
            wrapped.extend(plain("bwrap", &BUBBLEWRAP));
        }
    }
    let base = median(&mut spawned);
    println!("{:<44} {:>9} {:>9}", "a program that does nothing", "p50", "x plain");
    let [full, reduced] = confined;
    let rows =
        [("plain", spawned), ("confined, full", full), ("confined, reduced", reduced), ("bwrap", wrapped)];
    for (name, mut times) in rows {
        let middle = median(&mut times);
        if !times.is_empty() {
            let (times_plain, micros) = (middle.as_secs_f64() / base.as_secs_f64(), middle.as_micros());
            println!("{name:<44} {micros:>6} µs {times_plain:>9.2}");
        }
    }
    Ok(())
}

async fn one(sandbox: &Sandbox) -> Result<Duration, String> {
    let command = Confined::nothing().map_err(|error| error.to_string())?;
    let began = Instant::now();
    let report = sandbox.run(command).await.map_err(|error| error.to_string())?;
    let took = began.elapsed();
    match report.end {
        End::Exited(0) => Ok(took),
        end => Err(format!("it ended so: {end:?}")),
    }
}

fn plain(program: &str, words: &[&str]) -> Option<Duration> {
    let began = Instant::now();
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().ok().filter(std::process::ExitStatus::success).map(|_| began.elapsed())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
