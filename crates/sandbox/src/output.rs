//! Destinations of program output besides the report: chunks to a listener while they arrive, and the whole
//! to a file.

pub(crate) mod capture;
pub(crate) mod spill;

use crate::output::spill::Spills;

/// Output stream of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Source {
    /// Returns the name used in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Stdout => "stdout",
            Source::Stderr => "stderr",
        }
    }
}

/// Chunk of output, as it was read.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Number of the chunk, counted over both streams from 0 without gaps.
    pub sequence: u64,
    /// Stream it came from.
    pub source: Source,
    /// Unchanged bytes.
    pub bytes: &'a [u8],
}

/// Callback for output chunks. It must return quickly.
pub type Hear = Box<dyn FnMut(Piece<'_>) + Send>;

/// Destinations of output besides the report; none by default.
#[derive(Default)]
pub(crate) struct Outlets {
    pub(crate) spills: Option<Spills>,
    hear: Option<Hear>,
    sequence: u64,
}

impl Outlets {
    /// Keeps output that is too long in `spills`, and passes chunks to `listener`.
    pub(crate) fn new(spills: Option<Spills>, hear: Option<Hear>) -> Outlets {
        Outlets { spills, hear, sequence: 0 }
    }

    pub(crate) fn hand_on(&mut self, source: Source, bytes: &[u8]) {
        if let Some(hear) = &mut self.hear {
            hear(Piece { sequence: self.sequence, source, bytes });
            self.sequence += 1;
        }
    }
}
