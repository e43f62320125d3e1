//! Where an output goes while it comes in, besides into the report: pieces to whoever listens, the whole to a file.

use crate::spill::Spills;

/// Which of its two outputs a program wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Source {
    /// As results call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Stdout => "stdout",
            Source::Stderr => "stderr",
        }
    }
}

/// A piece of output, as it was read.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Counts the pieces of both outputs from 0 without a gap.
    pub sequence: u64,
    /// Which output.
    pub source: Source,
    /// As they were written.
    pub bytes: &'a [u8],
}

/// Whoever hears pieces. It must return at once.
pub type Hear = Box<dyn FnMut(Piece<'_>) + Send>;

/// Where an output goes besides into the report; by default nowhere.
#[derive(Default)]
pub(crate) struct Outlets {
    pub(crate) spills: Option<Spills>,
    hear: Option<Hear>,
    sequence: u64,
}

impl Outlets {
    /// Keeps what is too long, and tells whoever listens.
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
