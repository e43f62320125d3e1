//! Sandboxed workers: this program in the sandbox, connected by two pipes.

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::Trial;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use crate::block_on;
use crate::launch::worker::{SandboxWorker, WorkerTask};
use crate::report::RunEnd;
use crate::sandbox::Sandbox;

const TASK: WorkerTask =
    WorkerTask { name: "answer", memory_bytes: 64 << 20, processes: 4, lifetime: Duration::from_secs(20) };

/// Worker side: one response for each line.
pub(crate) fn serve(task: &str) -> ExitCode {
    if task != TASK.name {
        return ExitCode::FAILURE;
    }
    let mut hoard = Vec::new();
    for order in std::io::stdin().lock().lines().map_while(Result::ok) {
        let answer = match order.split_once(' ').unwrap_or((&order, "")) {
            ("read", path) => std::fs::read(path).map(|bytes| bytes.len().to_string()),
            ("write", path) => std::fs::write(path, "mine").map(|()| "written".to_owned()),
            ("connect", address) => std::net::TcpStream::connect(address).map(|_| "connected".to_owned()),
            ("leave", _) => return ExitCode::from(7),
            ("hoard", _) => {
                hoard.resize(512 << 20, 1_u8);
                Ok(hoard.len().to_string())
            }
            (text, _) => Ok(format!("heard {text}")),
        };
        let answer = answer.unwrap_or_else(|error| format!("refused: {error}"));
        if writeln!(std::io::stdout(), "{answer}").is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("worker_responds_and_reaches_nothing", || {
            block_on(answers_and_reaches_nothing());
            Ok(())
        }),
        Trial::test("worker_ends_by_itself_by_its_limits_and_when_dropped", || {
            block_on(ends());
            Ok(())
        }),
    ]
}

/// Uses a separate sandbox: ready launchers belong to the runtime in which they were started.
async fn start(task: &WorkerTask) -> SandboxWorker {
    Sandbox::unprobed().start_worker(task).await.expect("a worker")
}

async fn ask(worker: &mut SandboxWorker, order: &str) -> String {
    worker.requests.write_all(format!("{order}\n").as_bytes()).await.expect("an order");
    let mut line = String::new();
    BufReader::new(&mut worker.responses).read_line(&mut line).await.expect("an answer");
    line.trim_end().to_owned()
}

async fn answers_and_reaches_nothing() {
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "secret").expect("a secret");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut worker = start(&TASK).await;
    assert_eq!(worker.tier(), tool::result::SandboxTier::Full);
    for round in ["one", "two"] {
        assert_eq!(ask(&mut worker, round).await, format!("heard {round}"), "it stays alive");
    }
    let address = listener.local_addr().expect("an address");
    let program = std::env::current_exe().expect("a path");
    for order in [
        format!("read {}", secret.display()),
        format!("write {}", secret.display()),
        format!("write {}", program.display()),
        format!("connect {address}"),
    ] {
        let text = ask(&mut worker, &order).await;
        assert!(text.starts_with("refused"), "{order}: {text}");
    }
    assert_eq!(std::fs::read_to_string(&secret).expect("the secret"), "secret");
}

async fn ends() {
    let mut leaves = start(&TASK).await;
    leaves.requests.write_all(b"leave\n").await.expect("an order");
    assert_eq!(leaves.wait_until_ended().await.expect("an end").0, RunEnd::Exited(7));

    let mut hoards = start(&TASK).await;
    hoards.requests.write_all(b"hoard\n").await.expect("an order");
    assert_eq!(hoards.wait_until_ended().await.expect("an end").0, RunEnd::OutOfMemory);

    let brief = WorkerTask { lifetime: Duration::from_millis(200), ..TASK };
    assert_eq!(start(&brief).await.wait_until_ended().await.expect("an end").0, RunEnd::TimedOut);

    let mut dropped = start(&TASK).await;
    dropped.requests.write_all(b"one\n").await.expect("an order");
    let all_but_its_answers_dropped = |worker: SandboxWorker| worker.responses;
    let mut answers = BufReader::new(all_but_its_answers_dropped(dropped));
    let mut rest = String::new();
    let closed = tokio::time::timeout(Duration::from_secs(10), answers.read_to_string(&mut rest)).await;
    assert!(matches!(closed, Ok(Ok(_))), "the pipe closes when the worker ends: {closed:?}");
}
