//! Measures the cost of a validator: `cargo run --release -p knowledge --example measure -- [rounds]`.
//!
//! Prints the time of a run in a fresh context, including the round trip to the worker. The worker is a
//! thread of this program without a sandbox: `cargo xtask bench` measures a sandboxed one in the daemon. With
//! `count validator N` it runs N validators and prints nothing, for counting instructions.

use std::error::Error;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use knowledge::{FunctionKind, KnowledgeFunction, StartedWorker, WorkerPool};

const SOURCE: &str = "function validate(args) { \
    if (args.text.length > 20) return { valid: false, errors: ['text must have at most 20 characters'] }; \
    return { valid: true, errors: [] }; }; module.exports = { validate };";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (rounds, counting) = match words.as_slice() {
        [] => (5_000, false),
        [rounds] => (rounds.parse::<usize>()?, false),
        ["count", "validator", rounds] => (rounds.parse()?, true),
        other => return Err(format!("not {other:?}").into()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut times = runtime.block_on(run(rounds))?;
    if !counting {
        times.sort_unstable();
        let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default();
        println!("{:<44} {:>9.1?} {:>9.1?}", "a validator in a fresh context", at(50), at(99));
    }
    Ok(())
}

async fn run(rounds: usize) -> Result<Vec<Duration>, Box<dyn Error>> {
    let workers = WorkerPool::new(|| {
        Box::pin(async {
            let (ours, theirs) = UnixStream::pair()?;
            let from = theirs.try_clone()?;
            std::thread::spawn(move || knowledge::serve(from, theirs));
            ours.set_nonblocking(true)?;
            let (from, to) = tokio::net::UnixStream::from_std(ours)?.into_split();
            Ok(StartedWorker { from: Box::new(from), to: Box::new(to), kill_guard: Box::new(()) })
        })
    });
    let function = KnowledgeFunction {
        kind: FunctionKind::Validator,
        id: "short".into(),
        source: SOURCE.into(),
        helpers: [].into(),
    };
    let mut times = Vec::new();
    for _ in 0..rounds {
        let began = Instant::now();
        let validation = workers.validate(&function, r#"{"text":"Buy milk"}"#).await?;
        times.push(began.elapsed());
        if !validation.errors.is_empty() {
            return Err(format!("refused: {:?}", validation.errors).into());
        }
    }
    Ok(times)
}
