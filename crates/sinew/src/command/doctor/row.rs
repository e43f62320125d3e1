//! Result of one check of `sinew doctor`.

/// Severity of a check result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// No problem.
    Good,
    /// Worth knowing, but nothing is broken.
    Note,
    /// Something does not work.
    Bad,
}

impl Standing {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Standing::Good => "good",
            Standing::Note => "note",
            Standing::Bad => "bad",
        }
    }
}

/// Check result: area, name of the check, severity, finding, and remedy.
pub(super) struct Row {
    pub(super) area: &'static str,
    pub(super) what: String,
    pub(super) standing: Standing,
    pub(super) found: String,
    pub(super) remedy: Option<String>,
}

impl Row {
    pub(super) fn good(area: &'static str, what: impl Into<String>, found: impl Into<String>) -> Row {
        Row { area, what: what.into(), standing: Standing::Good, found: found.into(), remedy: None }
    }

    pub(super) fn note(area: &'static str, what: impl Into<String>, found: impl Into<String>) -> Row {
        Row { standing: Standing::Note, ..Row::good(area, what, found) }
    }

    pub(super) fn bad(area: &'static str, what: impl Into<String>, found: impl Into<String>) -> Row {
        Row { standing: Standing::Bad, ..Row::good(area, what, found) }
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Row {
        self.remedy = Some(remedy.into());
        self
    }
}
