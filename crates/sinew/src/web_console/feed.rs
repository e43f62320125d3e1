//! Live data of the pages: the newest rows of the ledger and the header, as server-sent events. The id of an event is
//! the sequence number of the last row before it, so that a page resumes where its stream broke.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use client::ClientError;
use console_view::{ConsoleHeader, LedgerRow, RecentRows};
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::api::without_nulls;
use super::link::ControlLink;

/// Rows in memory. A row takes about 500 bytes.
const KEPT_ROWS: usize = 10_000;
/// Pages of 1,000 records that are read at the start.
const FIRST_PAGES: usize = 5;
/// Interval in which events are collected: ten updates a second are smooth, and a thousand are not.
const BATCH_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of status updates that no event announces, and of the heartbeat of a stream.
const TICK: Duration = Duration::from_secs(2);
/// Interval of updates while no page is open.
const IDLE_TICK: Duration = Duration::from_secs(30);
const QUEUED_EVENTS: usize = 8;

/// Newest rows and header.
pub(super) struct Feed {
    link: Arc<ControlLink>,
    recent: Mutex<RecentRows>,
    news: watch::Sender<FeedNews>,
}

/// State that a stream compares with what it sent.
#[derive(Clone, Debug, Default, PartialEq)]
struct FeedNews {
    head: u64,
    header: Arc<Value>,
    connected: bool,
}

impl Feed {
    pub(super) fn new(link: Arc<ControlLink>) -> Feed {
        let recent = Mutex::new(RecentRows::with_capacity(KEPT_ROWS));
        Feed { link, recent, news: watch::Sender::default() }
    }

    /// Reads what is new whenever the daemon reports an event.
    pub(super) async fn keep_current(&self) -> ! {
        loop {
            let connected = self.link.is_open() && self.refresh().await.is_ok();
            self.news.send_if_modified(|news| std::mem::replace(&mut news.connected, connected) != connected);
            let tick = if self.news.receiver_count() > 0 { TICK } else { IDLE_TICK };
            tokio::select! {
                () = self.link.event() => tokio::time::sleep(BATCH_INTERVAL).await,
                () = tokio::time::sleep(tick) => {}
            }
        }
    }

    /// Calls `read` with the newest rows.
    pub(super) fn with_rows<T>(&self, read: impl FnOnce(&RecentRows) -> T) -> T {
        read(&self.lock())
    }

    /// Reads the newest records and the header.
    pub(super) async fn refresh(&self) -> Result<(), ClientError> {
        let head = self.lock().head();
        match head {
            None => self.read_first_pages().await?,
            Some(head) => self.read_after(head).await?,
        }
        let status = self.link.request("control/status", json!({})).await?;
        let mut header = json!(ConsoleHeader::from_status(&status));
        // It changes every second and would make each header a new one.
        header.as_object_mut().map(|fields| fields.shift_remove("uptime_seconds"));
        let head = self.lock().head().unwrap_or_default();
        self.news.send_if_modified(|news| {
            let changed = news.head != head || *news.header != header;
            if changed {
                *news = FeedNews { head, header: Arc::new(header), connected: true };
            }
            changed
        });
        Ok(())
    }

    async fn read_first_pages(&self) -> Result<(), ClientError> {
        let (mut pages, mut before) = (Vec::new(), None);
        for _ in 0..FIRST_PAGES {
            let params = without_nulls(json!({"limit": 1000, "before_seq": before}));
            let page = &self.link.request("control/ledger.query", params).await?;
            pages.push(rows_of(&page["records"]));
            before = page["next_before_seq"].as_u64();
            if before.is_none() {
                break;
            }
        }
        self.lock().extend(pages.into_iter().rev().flatten());
        Ok(())
    }

    async fn read_after(&self, head: u64) -> Result<(), ClientError> {
        let mut next = Some(head);
        while let Some(after) = next {
            let params = json!({"after_seq": after, "limit": 1000});
            let page = &self.link.request("control/ledger.export", params).await?;
            let lines = page["text"].as_str().unwrap_or_default().lines();
            let records: Vec<Value> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
            self.lock().extend(records.iter().map(LedgerRow::from_record));
            next = page["next_after_seq"].as_u64();
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, RecentRows> {
        // The list is consistent after every statement, so a poisoned lock is safe to use.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a stream of the rows after a sequence number; without one it begins with the next row. The stream ends
    /// when `is_valid` returns false.
    pub(super) fn stream(
        self: &Arc<Self>,
        after: Option<u64>,
        is_valid: impl Fn() -> bool + Send + 'static,
    ) -> mpsc::Receiver<Bytes> {
        let (sender, receiver) = mpsc::channel(QUEUED_EVENTS);
        let (feed, news) = (Arc::clone(self), self.news.subscribe());
        tokio::spawn(async move { feed.send_events(sender, news, after, is_valid).await });
        receiver
    }

    async fn send_events(
        &self,
        sender: mpsc::Sender<Bytes>,
        mut news: watch::Receiver<FeedNews>,
        after: Option<u64>,
        is_valid: impl Fn() -> bool,
    ) {
        let mut sent = after;
        let mut header = None;
        while is_valid() {
            let now = news.borrow_and_update().clone();
            let mut events = String::new();
            if header.as_ref() != Some(&(Arc::clone(&now.header), now.connected)) {
                let data = json!({"header": *now.header, "connected": now.connected});
                events.push_str(&event("header", None, &data));
                header = Some((Arc::clone(&now.header), now.connected));
            }
            events.push_str(&self.new_rows(&mut sent));
            let tick = json!({"time_ms": jiff::Timestamp::now().as_millisecond(), "head": sent});
            events.push_str(&event("tick", None, &tick));
            if sender.send(Bytes::from(events)).await.is_err() {
                return;
            }
            tokio::select! {
                biased;
                () = sender.closed() => return,
                _ = news.changed() => {}
                () = tokio::time::sleep(TICK) => {}
            }
        }
        let _ = sender.send(Bytes::from(event("ended", None, &Value::Null))).await;
    }

    /// Returns the event with the rows that were not sent yet, or with the advice to read the list again.
    fn new_rows(&self, sent: &mut Option<u64>) -> String {
        let recent = self.lock();
        let Some(head) = recent.head() else { return String::new() };
        let after = *sent.get_or_insert(head);
        if after >= head {
            return String::new();
        }
        *sent = Some(head);
        match recent.after(after) {
            Some(rows) => event("rows", Some(head), &json!(rows)),
            None => event("gap", Some(head), &json!({"after": after, "head": head})),
        }
    }
}

fn rows_of(records: &Value) -> Vec<LedgerRow> {
    let records = records.as_array().map(Vec::as_slice).unwrap_or_default();
    records.iter().map(LedgerRow::from_record).collect()
}

/// Encodes an event. JSON has no line feed outside of strings, and in them it is escaped.
fn event(name: &str, id: Option<u64>, data: &Value) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {name}\ndata: {data}\n\n")
}
