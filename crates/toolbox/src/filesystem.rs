//! Tools that work on files and directories, through the handles of their permit.

mod content_encoding;
mod create_directory;
mod cursor;
mod delete_file;
mod dry_run;
mod edit_file;
mod file_part;
mod ignore_rules;
mod inventory;
mod line_search;
mod list_directory;
mod name_pattern;
mod nearest_text;
mod read_file;
mod search_files;
mod search_workers;
mod write_file;

use std::sync::Arc;
use std::time::SystemTime;

use file_access::{OpenedPath, UndoStore};
use governance::Permit;
use tool::{Failure, FailureKind};

use crate::tool_registration::ToolRegistration;

/// Returns the filesystem tools.
pub(crate) fn tools(undo: &Arc<UndoStore>) -> Vec<ToolRegistration> {
    vec![
        create_directory::tool(undo),
        delete_file::tool(undo),
        edit_file::tool(undo),
        list_directory::tool(),
        read_file::tool(),
        search_files::tool(),
        write_file::tool(undo),
    ]
}

/// Returns the opened object of the `path` argument.
fn target(permit: &Permit) -> Result<&OpenedPath, Failure> {
    let missing = || Failure::new(FailureKind::Crashed, "the permit has no opened `path`");
    permit.path("path").ok_or_else(missing)
}

/// Returns the canonical path as text for display. Bytes that are not UTF-8 become replacement characters.
fn display_path(path: &OpenedPath) -> String {
    path.canonical().to_string_lossy().into_owned()
}

/// Formats a time as RFC 3339 in UTC, truncated to seconds.
fn timestamp(time: SystemTime) -> Option<String> {
    let time = jiff::Timestamp::try_from(time).ok()?;
    Some(format!("{time:.0}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_formatted_to_the_second() {
        let check = |time: SystemTime, expect: &str| assert_eq!(timestamp(time).as_deref(), Some(expect));
        let epoch = SystemTime::UNIX_EPOCH;
        check(epoch, "1970-01-01T00:00:00Z");
        check(epoch + Duration::from_millis(1_700_000_000_999), "2023-11-14T22:13:20Z");
        check(epoch - Duration::from_millis(1), "1969-12-31T23:59:59Z");
        check(epoch + Duration::from_secs(253_402_207_200), "9999-12-30T22:00:00Z");
    }
}
