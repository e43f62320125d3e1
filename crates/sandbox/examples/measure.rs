//! Measures the cost of confinement: `true` started plainly, confined in both tiers, and by bubblewrap where
//! it is installed, in turns. The measured time is what a caller waits, from the request to the report.
//!
//! `cargo run --release -p sandbox --example measure -- [--rounds N] [--raw] [NAME=COMMAND…]`
//!
//! Each NAME=COMMAND is measured as well, split at spaces, once in eight rounds because such commands are
//! slow. With `--raw` every time is printed in microseconds, one line per command.

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use sandbox::{ConfinedCommand, ProcessRole, RunEnd, Sandbox};
use tool::result::SandboxTier;

const ROUNDS: usize = 200;
/// Extra commands run in one of this many rounds.
const EXTRA_INTERVAL: usize = 8;
/// Rounds that only warm up.
const WARM_UP: usize = 10;
/// Pause before each start, so that the leftovers of the previous one are gone: namespaces are torn down
/// after the report, and the next launcher is ready by then, as it is between two calls.
const PAUSE: Duration = Duration::from_millis(20);
const BUBBLEWRAP: [&str; 5] = ["--ro-bind", "/", "/", "--unshare-all", "true"];

/// Ways to start the program, in the order of the rows.
#[derive(Clone, Copy)]
enum StartMethod {
    Plain,
    Confined(SandboxTier),
    Bubblewrap,
}

const STARTS: [(&str, StartMethod); 4] = [
    ("plain", StartMethod::Plain),
    ("confined, full", StartMethod::Confined(SandboxTier::Full)),
    ("confined, reduced", StartMethod::Confined(SandboxTier::Reduced)),
    ("bwrap --ro-bind / / --unshare-all", StartMethod::Bubblewrap),
];

/// Parsed command line.
struct MeasureOptions {
    rounds: usize,
    raw: bool,
    extra: Vec<(String, Vec<String>)>,
}

impl MeasureOptions {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = MeasureOptions { rounds: ROUNDS, raw: false, extra: Vec::new() };
        while let Some(word) = words.next() {
            match (word.as_str(), word.split_once('=')) {
                ("--raw", _) => options.raw = true,
                ("--rounds", _) => {
                    let number = words.next().and_then(|number| number.parse().ok());
                    options.rounds = number.ok_or("`--rounds` needs a number")?;
                }
                (_, Some((name, command))) => {
                    let command = command.split(' ').map(str::to_owned).collect();
                    options.extra.push((name.to_owned(), command));
                }
                (other, None) => return Err(format!("`{other}` is not NAME=COMMAND")),
            }
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    match sandbox::enter() {
        ProcessRole::Launcher(code) => return code,
        ProcessRole::Worker(_) => return ExitCode::FAILURE,
        ProcessRole::Program => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    // In a task, as the daemon's calls are: code outside of a task is woken through another thread first.
    let options = MeasureOptions::parse(std::env::args().skip(1));
    let measured = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        let task = runtime.spawn(measure(options?));
        runtime.block_on(task).map_err(|error| error.to_string())?
    });
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("{message}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(options: MeasureOptions) -> Result<(), String> {
    let sandboxes = [SandboxTier::Full, SandboxTier::Reduced].map(Sandbox::at_most);
    for sandbox in &sandboxes {
        let sandbox = sandbox.clone();
        let tried = tokio::task::spawn_blocking(move || sandbox.availability().tier);
        tried.await.map_err(|error| error.to_string())?;
    }
    let mut times = STARTS.map(|_| Vec::new());
    let mut beside = vec![Vec::new(); options.extra.len()];
    for round in 0..options.rounds + WARM_UP {
        if round == WARM_UP {
            times = STARTS.map(|_| Vec::new());
        }
        for ((_, command), times) in
            options.extra.iter().zip(&mut beside).filter(|_| round % EXTRA_INTERVAL == 0)
        {
            let Some((program, words)) = command.split_first() else { continue };
            tokio::time::sleep(PAUSE).await;
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            times.extend(plain(program, &words));
        }
        for ((_, start), times) in STARTS.into_iter().zip(&mut times) {
            tokio::time::sleep(PAUSE).await;
            let took = match start {
                StartMethod::Plain => plain("true", &[]),
                StartMethod::Confined(SandboxTier::Full) => Some(confined(&sandboxes[0]).await?),
                StartMethod::Confined(_) => Some(confined(&sandboxes[1]).await?),
                StartMethod::Bubblewrap => plain("bwrap", &BUBBLEWRAP),
            };
            times.extend(took);
        }
    }
    if options.raw {
        let ours = STARTS.iter().map(|(name, _)| *name).zip(&times);
        for (name, times) in ours.chain(options.extra.iter().map(|(name, _)| name.as_str()).zip(&beside)) {
            let times: Vec<String> = times.iter().map(|time| time.as_micros().to_string()).collect();
            println!("{name}\t{}", times.join(" "));
        }
    } else {
        print(&times);
    }
    Ok(())
}

async fn confined(sandbox: &Sandbox) -> Result<Duration, String> {
    let command = ConfinedCommand::no_op().map_err(|error| error.to_string())?;
    let began = Instant::now();
    let report = sandbox.run(command).await.map_err(|error| error.to_string())?;
    let took = began.elapsed();
    match report.end {
        RunEnd::Exited(0) => Ok(took),
        end => Err(format!("the program ended with {end:?}")),
    }
}

fn plain(program: &str, words: &[&str]) -> Option<Duration> {
    let began = Instant::now();
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().ok().filter(std::process::ExitStatus::success).map(|_| began.elapsed())
}

fn print(times: &[Vec<Duration>; 4]) {
    let [plain, .., bubblewrap] = times.each_ref().map(|times| percentile(times, 50));
    println!("{:<44} {:>9} {:>9} {:>9} {:>9}", "no-op program", "p10", "p50", "x plain", "x bwrap");
    for ((name, _), times) in STARTS.into_iter().zip(times).filter(|(_, times)| !times.is_empty()) {
        let (low, middle) = (percentile(times, 10), percentile(times, 50));
        let ratio = |to: Duration| match to.is_zero() {
            true => "-".to_owned(),
            false => format!("{:.2}", middle.as_secs_f64() / to.as_secs_f64()),
        };
        let [low, middle] = [low, middle].map(|time| format!("{} µs", time.as_micros()));
        println!("{name:<44} {low:>9} {middle:>9} {:>9} {:>9}", ratio(plain), ratio(bubblewrap));
    }
}

/// Returns the percentile `part`.
fn percentile(times: &[Duration], part: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() * part / 100).copied().unwrap_or_default()
}
