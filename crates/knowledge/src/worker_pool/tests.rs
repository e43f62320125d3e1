//! Selection of the next worker, and when another one is started. The behaviour of workers is tested in
//! `tests/`.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::DuplexStream;

use super::*;

/// Answers like a worker that accepts every call.
async fn yes(mut pipe: DuplexStream) -> io::Result<()> {
    pipe.write_all(&worker_protocol::frame(&WorkerReply::Ready)?).await?;
    loop {
        let mut head = [0; worker_protocol::LENGTH_PREFIX];
        pipe.read_exact(&mut head).await?;
        let mut body = vec![0; worker_protocol::decode_length(head)?];
        pipe.read_exact(&mut body).await?;
        pipe.write_all(&worker_protocol::frame(&WorkerReply::Verdict { valid: true, errors: Vec::new() })?)
            .await?;
    }
}

fn counted() -> (WorkerPool, Arc<AtomicUsize>) {
    let started = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&started);
    let workers = WorkerPool::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            let (client_end, worker_end) = tokio::io::duplex(4096);
            tokio::spawn(yes(worker_end));
            let (from, to) = tokio::io::split(client_end);
            Ok(StartedWorker { from: Box::new(from), to: Box::new(to), kill_guard: Box::new(()) })
        })
    });
    (workers, started)
}

fn function() -> KnowledgeFunction {
    let (id, source) = ("yes".into(), "({valid: true, errors: []})".into());
    KnowledgeFunction { kind: FunctionKind::Validator, id, source, helpers: [].into() }
}

#[tokio::test]
async fn sequential_calls_share_a_worker_concurrent_calls_do_not() {
    let (workers, started) = counted();
    let function = function();
    for _ in 0..100 {
        assert!(workers.validate(&function, "{}").await.unwrap().passes());
    }
    assert_eq!(started.load(Ordering::Relaxed), 1);
    let all = (0..100).map(|_| {
        let (workers, function) = (workers.clone(), function.clone());
        tokio::spawn(async move { workers.validate(&function, "{}").await.unwrap().passes() })
    });
    for one in all.collect::<Vec<_>>() {
        assert!(one.await.unwrap());
    }
    let started = started.load(Ordering::Relaxed);
    assert!((2..=MAX_CONCURRENT).contains(&started), "{started} were started");
}
