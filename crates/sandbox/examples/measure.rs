//! What confinement costs: `true` started plainly, confined, and by bubblewrap where it is installed, in turns.
//!
//! `cargo run --release -p sandbox --example measure`

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use sandbox::{Confined, End, Entered, Sandbox};

const ROUNDS: usize = 200;

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
    let sandbox =
        tokio::task::spawn_blocking(Sandbox::of_this_process).await.map_err(|error| error.to_string())?;
    println!("tier: {}", sandbox.availability().tier.as_str());
    let bubblewrap = ["--ro-bind", "/", "/", "--unshare-all", "true"];
    let has_bubblewrap = plain("bwrap", &bubblewrap).is_some();
    let (mut spawned, mut confined, mut wrapped) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        spawned.extend(plain("true", &[]));
        let command = Confined::nothing().map_err(|error| error.to_string())?;
        let began = Instant::now();
        let report = sandbox.run(command).await.map_err(|error| error.to_string())?;
        confined.push(began.elapsed());
        if report.end != End::Exited(0) {
            return Err(format!("it ended so: {:?}", report.end));
        }
        if has_bubblewrap {
            wrapped.extend(plain("bwrap", &bubblewrap));
        }
        // What a caller does between two calls: the next launcher stands ready by then.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let base = median(&mut spawned);
    for (name, mut times) in [("plain spawn", spawned), ("confined", confined), ("bwrap", wrapped)] {
        if !times.is_empty() {
            let middle = median(&mut times);
            println!(
                "{name:12} p50 {middle:>10.1?}  {:>5.2} x plain",
                middle.as_secs_f64() / base.as_secs_f64()
            );
        }
    }
    Ok(())
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
