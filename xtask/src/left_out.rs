//! Tests that report that they, or parts of them, were left out: because only root can run them, or a program
//! is missing.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

/// Variable by which tests find the file to report to.
pub(crate) const VARIABLE: &str = "SINEW_LEFT_OUT";

/// File to which tests report, one line each.
pub(crate) struct Reports(NamedTempFile);

impl Reports {
    pub(crate) fn create() -> Result<Self> {
        // Not in TMPDIR, which may be closed to the user that the tests run as.
        let file = tempfile::Builder::new().prefix("sinew-left-out-").tempfile_in("/tmp")?;
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o666))?;
        Ok(Reports(file))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes the reports so far: the reason of each test, by its name.
    pub(crate) fn take(&self) -> Result<BTreeMap<String, String>> {
        let text = std::fs::read_to_string(self.path()).context("the reports of tests that were left out")?;
        self.0.as_file().set_len(0)?;
        Ok(parse(&text))
    }
}

fn parse(text: &str) -> BTreeMap<String, String> {
    let reports = text.lines().filter_map(|line| line.split_once('\t'));
    reports.map(|(test, reason)| (test.to_owned(), reason.to_owned())).collect()
}

/// Paragraph for the end of a run.
pub(crate) fn summary(reports: &BTreeMap<String, String>) -> String {
    let lines = reports.iter().map(|(test, reason)| format!("\n  {test}: {reason}"));
    format!("LEFT OUT, whole or in part: {} tests{}", reports.len(), lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_taken_once_and_listed_by_test() {
        let reports = Reports::create().unwrap();
        std::fs::write(reports.path(), "b\tno strace\na\tonly root can mount\nb\tno strace\n").unwrap();
        let taken = reports.take().unwrap();
        let expect = "LEFT OUT, whole or in part: 2 tests\n  a: only root can mount\n  b: no strace";
        assert_eq!(summary(&taken), expect);
        assert!(reports.take().unwrap().is_empty());
    }
}
