//! Destinations of program output besides the report: chunks to a listener while they arrive, and the whole
//! to a file.

pub(crate) mod capture;
pub(crate) mod spill;

use crate::output::spill::SpillStore;

/// Output stream of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl OutputStream {
    /// Returns the name used in results.
    pub fn as_str(self) -> &'static str {
        match self {
            OutputStream::Stdout => "stdout",
            OutputStream::Stderr => "stderr",
        }
    }
}

/// Chunk of output, as it was read.
#[derive(Clone, Copy, Debug)]
pub struct OutputChunk<'a> {
    /// Number of the chunk, counted over both streams from 0 without gaps.
    pub sequence: u64,
    /// Stream it came from.
    pub stream: OutputStream,
    /// Unchanged bytes.
    pub bytes: &'a [u8],
}

/// Callback for output chunks. It must return quickly.
pub type OutputListener = Box<dyn FnMut(OutputChunk<'_>) + Send>;

/// Destinations of output besides the report; none by default.
#[derive(Default)]
pub(crate) struct OutputSinks {
    pub(crate) spills: Option<SpillStore>,
    listener: Option<OutputListener>,
    sequence: u64,
}

impl OutputSinks {
    /// Keeps output that is too long in `spills`, and passes chunks to `listener`.
    pub(crate) fn new(spills: Option<SpillStore>, listener: Option<OutputListener>) -> OutputSinks {
        OutputSinks { spills, listener, sequence: 0 }
    }

    pub(crate) fn notify(&mut self, source: OutputStream, bytes: &[u8]) {
        if let Some(listener) = &mut self.listener {
            listener(OutputChunk { sequence: self.sequence, stream: source, bytes });
            self.sequence += 1;
        }
    }
}
