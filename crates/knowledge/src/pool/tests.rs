//! Who is asked next, and when there is one more to ask. What workers do is in `tests/`.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::DuplexStream;

use super::*;

/// A worker that says yes to everything and takes its time before it can be asked again.
async fn slow(mut pipe: DuplexStream) -> io::Result<()> {
    loop {
        pipe.write_all(&wire::framed(&Reply::Ready)?).await?;
        let mut head = [0; wire::HEAD];
        pipe.read_exact(&mut head).await?;
        let mut body = vec![0; wire::length(head)?];
        pipe.read_exact(&mut body).await?;
        pipe.write_all(&wire::framed(&Reply::Verdict { valid: true, errors: Vec::new() })?).await?;
        tokio::time::sleep(100 * LATE).await;
    }
}

#[tokio::test]
async fn calls_that_keep_waiting_take_turns_with_a_few_more() {
    let started = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&started);
    let workers = Workers::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            let (ours, theirs) = tokio::io::duplex(4096);
            tokio::spawn(slow(theirs));
            let (from, to) = tokio::io::split(ours);
            Ok(Started { from: Box::new(from), to: Box::new(to), life: Box::new(()) })
        })
    });
    let function = Function {
        kind: Kind::Validator,
        id: "yes".into(),
        source: "({valid: true, errors: []})".into(),
        helpers: [].into(),
    };
    let mut after_a_few = 0;
    for call in 0..OFTEN * 4 * MOST_SPARE {
        assert!(workers.validate(&function, "{}").await.unwrap().passes());
        if call == OFTEN / 2 {
            after_a_few = started.load(Ordering::Relaxed);
        }
    }
    let started = started.load(Ordering::Relaxed);
    assert_eq!(after_a_few, 1, "a few calls after one another are no reason");
    assert!((2..=MOST_SPARE).contains(&started), "{started} were started");
}
