//! Line framing: splits a byte stream into lines of bounded length, one message each. Does not parse the
//! lines; of a line that cannot be used, it finds the request id.

mod skip_line;

use std::ops::Range;
use std::time::{Duration, Instant};

use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use crate::budget::{BudgetShare, MessageBudget, SMALL_MESSAGE_BYTES};
use crate::request_id_scan::find_request_id;
use crate::rpc::RequestId;

/// Initial size of a read buffer, in bytes.
const INITIAL_BUFFER_BYTES: usize = 8 * 1024;

/// Timeouts of a line longer than `SMALL_MESSAGE_BYTES`.
struct LongLineTimeouts {
    /// Wait for its share of the memory budget.
    share: Duration,
    /// Time from then to the end of the line.
    line: Duration,
    /// Pause after which the rest of a line that is too long is not expected any more.
    skip_pause: Duration,
}

const LONG_LINE_TIMEOUTS: LongLineTimeouts = LongLineTimeouts {
    share: Duration::from_secs(10),
    line: Duration::from_secs(30),
    skip_pause: Duration::from_millis(500),
};

/// Splits a stream into lines. The buffer grows with the line, never past the limit, and shrinks again
/// afterwards.
pub(crate) struct LineReader<R> {
    source: R,
    limit: usize,
    budget: MessageBudget,
    buffer: Vec<u8>,
    /// Start of the current line; everything before it has been consumed.
    start: usize,
    /// End of the part after `start` that is known to contain no newline.
    scanned: usize,
    /// Arrival time of the first byte of the current line.
    line_started: Option<Instant>,
    /// Budget share of the current line if it is long, and the time it was acquired.
    share: Option<(BudgetShare, Instant)>,
    last_read: Instant,
    timeouts: LongLineTimeouts,
}

/// Next item of the stream.
pub(crate) enum LineFrame<'a> {
    /// Non-empty line.
    Line(InputLine<'a>),
    /// Line that is not UTF-8; later lines may be valid.
    NotUtf8(Option<RequestId>),
    /// Request over the limit, read to its end; later lines may be valid.
    TooLong(RequestId),
    /// Nothing after this point can be parsed.
    Unusable(UnusableStream, Option<RequestId>),
    /// End of the stream.
    End,
}

/// One line without its line ending.
pub(crate) struct InputLine<'a> {
    pub(crate) text: &'a str,
    /// Arrival time of its first byte.
    pub(crate) received_at: Instant,
    /// Budget share, to be held as long as the parsed message.
    pub(crate) share: BudgetShare,
}

/// Reason why a stream cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnusableStream {
    /// The line exceeds the limit.
    TooLong,
    /// The memory budget is used up by other long lines.
    Starved,
    /// A long line exceeded its timeout.
    TooSlow,
    /// The line starts with a byte that cannot start a JSON text, such as the first byte of a TLS handshake.
    Foreign,
    /// The stream ended inside a line.
    Unterminated,
}

/// Frame as a range of the buffer.
enum FoundFrame {
    Line(Range<usize>),
    TooLong(RequestId),
    Unusable(UnusableStream, Option<RequestId>),
    End,
}

impl FoundFrame {
    /// Frame of a line over the limit that was read to its end. Without an id, the peer may not speak this
    /// protocol at all.
    fn too_long(id: Option<RequestId>) -> Self {
        id.map_or(FoundFrame::Unusable(UnusableStream::TooLong, None), FoundFrame::TooLong)
    }
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn source(&self) -> &R {
        &self.source
    }

    pub(crate) fn new(source: R, limit: usize, budget: MessageBudget) -> Self {
        let (buffer, last_read) = (Vec::new(), Instant::now());
        LineReader {
            source,
            limit,
            budget,
            buffer,
            start: 0,
            scanned: 0,
            line_started: None,
            share: None,
            last_read,
            timeouts: LONG_LINE_TIMEOUTS,
        }
    }

    /// Returns the next frame. Skips empty lines and strips a carriage return at the end of a line.
    pub(crate) async fn next(&mut self) -> std::io::Result<LineFrame<'_>> {
        let range = match self.find_frame().await? {
            FoundFrame::Line(range) => range,
            FoundFrame::TooLong(id) => return Ok(LineFrame::TooLong(id)),
            FoundFrame::Unusable(why, id) => return Ok(LineFrame::Unusable(why, id)),
            FoundFrame::End => return Ok(LineFrame::End),
        };
        let received_at = self.line_started.take().unwrap_or(self.last_read);
        let (mut share, _) = self.share.take().unwrap_or((BudgetShare::default(), received_at));
        share.trim(range.len());
        // The rest of the buffer arrived in the same read as the end of this line.
        self.line_started = (self.start < self.buffer.len()).then_some(self.last_read);
        let line = self.buffer.get(range).unwrap_or_default();
        Ok(match std::str::from_utf8(line) {
            Ok(text) => LineFrame::Line(InputLine { text, received_at, share }),
            Err(_) => LineFrame::NotUtf8(find_request_id(line)),
        })
    }

    /// Reads and discards input until the peer closes, so that it can finish writing and read the final
    /// error.
    pub(crate) async fn discard_input(&mut self, max_duration: Duration) {
        self.buffer = Vec::with_capacity(INITIAL_BUFFER_BYTES);
        let drained = async {
            while self.source.read_buf(&mut self.buffer).await.is_ok_and(|read| read > 0) {
                self.buffer.clear();
            }
        };
        let _ = timeout(max_duration, drained).await;
    }

    async fn find_frame(&mut self) -> std::io::Result<FoundFrame> {
        if self.buffer.capacity() > SMALL_MESSAGE_BYTES {
            self.discard_consumed();
            self.buffer.shrink_to(INITIAL_BUFFER_BYTES);
        }
        loop {
            while let Some(line) = self.next_complete_line() {
                if line.len() > self.limit {
                    self.forget_line();
                    let line = self.buffer.get(line).unwrap_or_default();
                    return Ok(FoundFrame::too_long(find_request_id(line)));
                }
                if !line.is_empty() {
                    return Ok(FoundFrame::Line(line));
                }
                self.line_started = None;
            }
            match self.early_rejection() {
                Some(UnusableStream::TooLong) => return self.skip_line().await,
                Some(why) => return Ok(FoundFrame::Unusable(why, None)),
                None => {}
            }
            if let Err(why) = self.reserve_space().await {
                return Ok(self.unusable(why));
            }
            match self.read_chunk().await? {
                None => return Ok(self.unusable(UnusableStream::TooSlow)),
                Some(0) if self.buffer.is_empty() => return Ok(FoundFrame::End),
                Some(0) => return Ok(FoundFrame::Unusable(UnusableStream::Unterminated, None)),
                Some(_) => {}
            }
        }
    }

    /// Returns the frame of an unfinished line, with its request id if that has arrived.
    fn unusable(&self, why: UnusableStream) -> FoundFrame {
        FoundFrame::Unusable(why, find_request_id(self.buffer.get(self.start..).unwrap_or_default()))
    }

    /// Releases the budget share of a line that is not returned.
    fn forget_line(&mut self) {
        self.share = None;
        self.line_started = (self.start < self.buffer.len()).then_some(self.last_read);
    }

    /// Discards consumed bytes and moves the rest to the front. Called only when space is needed or the
    /// memory of a long line is released: after every line, each of many buffered lines would move all lines
    /// behind it.
    fn discard_consumed(&mut self) {
        self.buffer.drain(..self.start);
        (self.start, self.scanned) = (0, self.scanned - self.start);
    }

    /// Returns the next complete line in the buffer, without its line ending.
    fn next_complete_line(&mut self) -> Option<Range<usize>> {
        let fresh = self.buffer.get(self.scanned..).unwrap_or_default();
        let Some(offset) = memchr(b'\n', fresh) else {
            self.scanned = self.buffer.len();
            return None;
        };
        let (start, newline) = (self.start, self.scanned + offset);
        (self.start, self.scanned) = (newline + 1, newline + 1);
        let line = self.buffer.get(start..newline).unwrap_or_default();
        Some(start..newline - usize::from(line.ends_with(b"\r")))
    }

    /// Returns a reason to refuse the unfinished line already, if there is one.
    fn early_rejection(&self) -> Option<UnusableStream> {
        let line = self.buffer.get(self.start..).unwrap_or_default();
        let control = |byte: &u8| byte.is_ascii_control() && !byte.is_ascii_whitespace();
        // A byte over the limit may still be the carriage return of a line that fits.
        if line.len() > self.limit + 1 {
            Some(UnusableStream::TooLong)
        } else if line.first().is_some_and(control) {
            Some(UnusableStream::Foreign)
        } else {
            None
        }
    }

    async fn reserve_space(&mut self) -> Result<(), UnusableStream> {
        self.discard_consumed();
        let capacity = self.buffer.capacity();
        if self.buffer.len() < capacity {
            return Ok(());
        }
        let wanted = (capacity * 2).max(INITIAL_BUFFER_BYTES).min(self.limit + 2);
        if wanted > SMALL_MESSAGE_BYTES && self.share.is_none() {
            let taken = timeout(self.timeouts.share, self.budget.acquire(self.limit)).await;
            self.share = Some((taken.map_err(|_| UnusableStream::Starved)?, Instant::now()));
        }
        self.buffer.reserve_exact(wanted.saturating_sub(self.buffer.len()));
        Ok(())
    }

    /// Reads once; returns `None` if a long line exceeded its timeout.
    async fn read_chunk(&mut self) -> std::io::Result<Option<usize>> {
        // Bounds what can follow the end of a line, so that leftover bytes need no budget share.
        let mut source = (&mut self.source).take(SMALL_MESSAGE_BYTES as u64);
        let read = source.read_buf(&mut self.buffer);
        let read = match &self.share {
            None => read.await?,
            Some((_, since)) => match timeout(self.timeouts.line.saturating_sub(since.elapsed()), read).await
            {
                Ok(read) => read?,
                Err(_) => return Ok(None),
            },
        };
        self.last_read = Instant::now();
        self.line_started.get_or_insert(self.last_read);
        Ok(Some(read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 200 * 1024;
    const TEST_TIMEOUT: Duration = Duration::from_millis(50);
    const SHORT_TIMEOUTS: LongLineTimeouts =
        LongLineTimeouts { share: TEST_TIMEOUT, line: TEST_TIMEOUT, skip_pause: TEST_TIMEOUT };

    /// Returns the frames of a stream: the text of each line, or the name of the reason.
    async fn frames(input: impl AsyncRead + Unpin, limit: usize) -> Vec<String> {
        let mut reader = LineReader::new(input, limit, MessageBudget::new());
        let mut seen = Vec::new();
        loop {
            let frame = match reader.next().await.unwrap() {
                LineFrame::Line(line) => line.text.to_owned(),
                LineFrame::NotUtf8(_) => "not utf-8".to_owned(),
                LineFrame::TooLong(id) => format!("too long: {}", serde_json::json!(id)),
                LineFrame::Unusable(why, _) => format!("{why:?}"),
                LineFrame::End => return seen,
            };
            let last = frame.starts_with(char::is_uppercase);
            seen.push(frame);
            assert!(
                reader.buffer.capacity() <= limit + 2 + SMALL_MESSAGE_BYTES,
                "{}",
                reader.buffer.capacity()
            );
            if last {
                return seen;
            }
        }
    }

    #[tokio::test]
    async fn stream_is_split_into_lines() {
        let check = async |input: &[u8], expect: &[&str]| {
            assert_eq!(frames(input, LIMIT).await, expect, "{}", input.escape_ascii());
        };
        check(b"", &[]).await;
        check(b"a\nb\n", &["a", "b"]).await;
        check(b"a\r\n\r\n\n  \nb\r\n", &["a", "  ", "b"]).await;
        check(b"a\r\r\n", &["a\r"]).await;
        check(b"\xff{\nb\n", &["not utf-8", "b"]).await;
        check(b"a\nb", &["a", "Unterminated"]).await;
        check(b"\x16\x03\x01\x02", &["Foreign"]).await;
        check(b"\ta\n", &["\ta"]).await;
    }

    #[tokio::test]
    async fn line_limit_is_exact() {
        for limit in [100, SMALL_MESSAGE_BYTES - 1, SMALL_MESSAGE_BYTES, SMALL_MESSAGE_BYTES + 1, LIMIT] {
            for end in ["\n", "\r\n"] {
                let line = |length: usize| format!("{}{end}next\n", "x".repeat(length));
                let fits = frames(line(limit).as_bytes(), limit).await;
                assert_eq!((fits[0].len(), fits[1].as_str()), (limit, "next"), "{limit}");
                assert_eq!(frames(line(limit + 1).as_bytes(), limit).await, ["TooLong"], "{limit}");
            }
        }
    }

    #[tokio::test]
    async fn line_after_a_request_that_is_too_long_is_read() {
        for length in [100, 101, 1000, 3 * SMALL_MESSAGE_BYTES] {
            let input = format!("{{\"params\":\"{}\",\"id\":7}}\nnext\n", "x".repeat(length));
            assert_eq!(frames(input.as_bytes(), 100).await, ["too long: 7", "next"], "{length}");
        }
    }

    #[tokio::test]
    async fn endless_line_uses_no_more_memory_than_the_limit() {
        let mut reader = LineReader::new(tokio::io::repeat(b'x'), LIMIT, MessageBudget::new());
        assert!(matches!(reader.next().await.unwrap(), LineFrame::Unusable(UnusableStream::TooLong, _)));
        assert!(reader.buffer.capacity() <= LIMIT + 2, "{}", reader.buffer.capacity());
    }

    #[tokio::test]
    async fn memory_of_a_long_line_is_released() {
        let input = format!("{}\nshort\n", "x".repeat(LIMIT));
        let mut reader = LineReader::new(input.as_bytes(), LIMIT, MessageBudget::new());
        assert!(matches!(reader.next().await.unwrap(), LineFrame::Line(_)));
        assert!(matches!(reader.next().await.unwrap(), LineFrame::Line(InputLine { text: "short", .. })));
        assert!(reader.buffer.capacity() <= SMALL_MESSAGE_BYTES, "{}", reader.buffer.capacity());
    }

    #[tokio::test]
    async fn buffered_lines_are_not_moved_until_space_is_needed() {
        let line = "x".repeat(99) + "\n";
        let mut reader = LineReader::new(tokio::io::repeat(0), LIMIT, MessageBudget::new());
        reader.buffer = line.repeat(10).into_bytes();
        for read in 1..=10 {
            assert!(
                matches!(reader.next().await.unwrap(), LineFrame::Line(InputLine { text, .. }) if text.len() == 99)
            );
            assert_eq!((reader.start, reader.buffer.len()), (read * line.len(), 10 * line.len()));
        }
        let input = line.repeat(10_000);
        let mut reader = LineReader::new(input.as_bytes(), LIMIT, MessageBudget::new());
        while let LineFrame::Line(line) = reader.next().await.unwrap() {
            assert_eq!(line.text.len(), 99);
            assert!(reader.buffer.capacity() <= INITIAL_BUFFER_BYTES, "{}", reader.buffer.capacity());
        }
    }

    #[tokio::test]
    async fn long_lines_share_one_budget() {
        let limit = crate::budget::TOTAL_BYTES / 2;
        let budget = MessageBudget::new();
        let long = format!("{}\n", "x".repeat(SMALL_MESSAGE_BYTES + 1));
        let read = async |budget: &MessageBudget| {
            let mut reader = LineReader::new(long.as_bytes(), limit, budget.clone());
            reader.timeouts = SHORT_TIMEOUTS;
            match reader.next().await.unwrap() {
                LineFrame::Line(line) => Ok(line.share),
                LineFrame::Unusable(why, _) => Err(why),
                _ => panic!("another frame"),
            }
        };
        let held = (read(&budget).await.unwrap(), read(&budget).await.unwrap());
        let half =
            timeout(SHORT_TIMEOUTS.share, budget.acquire(limit)).await.expect("the surplus was released");
        assert_eq!(
            read(&budget).await.unwrap_err(),
            UnusableStream::Starved,
            "the rest is less than a line needs"
        );
        let short = frames(&b"short\n"[..], limit).await;
        assert_eq!(short, ["short"], "a short line needs no share");
        drop(half);
        read(&budget).await.expect("the released share is enough");
        drop(held);
    }

    #[tokio::test]
    async fn unfinished_long_line_times_out() {
        let (mut client, server) = tokio::io::duplex(SMALL_MESSAGE_BYTES * 2);
        let mut reader = LineReader::new(server, LIMIT, MessageBudget::new());
        reader.timeouts = SHORT_TIMEOUTS;
        let slow = tokio::spawn(async move {
            use tokio::io::AsyncWriteExt;
            client.write_all(&vec![b'x'; SMALL_MESSAGE_BYTES + 1]).await.unwrap();
            std::future::pending::<()>().await;
        });
        assert!(matches!(reader.next().await.unwrap(), LineFrame::Unusable(UnusableStream::TooSlow, _)));
        slow.abort();
    }
}
