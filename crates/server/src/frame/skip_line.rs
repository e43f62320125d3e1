//! Skips the rest of a line that exceeds the limit, so that its request gets a reply and later lines can be
//! read.

use memchr::memchr;
use tokio::io::AsyncRead;
use tokio::time::timeout;

use super::{FoundFrame, LineReader, UnusableStream};
use crate::request_id_scan::RequestIdScanner;

/// Largest part of a line over the limit that is skipped, in bytes, to find the id of its request and the
/// next line.
const MAX_SKIPPED_BYTES: usize = 64 << 20;

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Skips the rest of a line that is too long. If its end comes soon enough, later lines can be read. Of
    /// the line itself only its request id is retained, which many clients send last.
    pub(super) async fn skip_line(&mut self) -> std::io::Result<FoundFrame> {
        let (mut scanner, mut skipped) = (RequestIdScanner::default(), 0);
        loop {
            let rest = self.buffer.get(self.start..).unwrap_or_default();
            let newline = memchr(b'\n', rest);
            scanner.scan(rest.get(..newline.unwrap_or(rest.len())).unwrap_or_default());
            skipped += rest.len();
            if let Some(offset) = newline {
                (self.start, self.scanned) = (self.start + offset + 1, self.start + offset + 1);
                self.forget_line();
                return Ok(FoundFrame::too_long(scanner.into_id()));
            }
            self.buffer.clear();
            (self.start, self.scanned) = (0, 0);
            let hopeless = scanner.is_outside() || skipped > MAX_SKIPPED_BYTES;
            let read = match hopeless {
                true => Some(0),
                false => {
                    timeout(self.timeouts.skip_pause, self.read_chunk()).await.ok().transpose()?.flatten()
                }
            };
            if read.is_none_or(|read| read == 0) {
                return Ok(FoundFrame::Unusable(UnusableStream::TooLong, scanner.into_id()));
            }
        }
    }
}
