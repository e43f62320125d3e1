//! Detection of tool failures that blame the arguments, so that the caller gets advice on a mistake that no
//! check could find beforehand.

use tool::{Failure, FailureKind};

/// Phrases of the validators of other systems, in lower case.
const COMPLAINT_PHRASES: [&str; 8] = [
    "validation error",
    "field required",
    "inputvalidationerror",
    "required parameter",
    "missing required",
    "is a required property",
    "invalid params",
    "invalid arguments",
];
/// Number of characters read from a message. A complaint about an argument is at the beginning.
const MAX_CHARS_READ: usize = 2000;
/// Field of the output of a failed program that holds the end of its standard error.
const STDERR: &str = "stderr";

/// Returns true if a failure reads like a complaint about the arguments: in its message, or at the end of the
/// standard error of its program, where an uncaught exception is reported. Text in backticks is a quoted value
/// and is ignored.
pub fn blames_arguments(failure: &Failure) -> bool {
    let may_be = match failure.kind {
        FailureKind::WrongKind | FailureKind::Unreadable | FailureKind::Crashed | FailureKind::Io => true,
        FailureKind::NotFound
        | FailureKind::TooLarge
        | FailureKind::Conflict
        | FailureKind::Denied
        | FailureKind::TimedOut
        | FailureKind::Cancelled
        | FailureKind::ClientGone
        | FailureKind::ResourceExhausted
        | FailureKind::Transient
        | FailureKind::Interrupted => false,
    };
    let stderr = failure.output.as_ref().and_then(|output| output.get(STDERR)?.as_str());
    let is_complaint_of_program = || stderr.is_some_and(|text| has_complaint(end_of(text)));
    may_be && (has_complaint(start_of(&failure.message)) || is_complaint_of_program())
}

fn has_complaint(text: &str) -> bool {
    let text = text.to_lowercase();
    let unquoted: String = text.split('`').step_by(2).collect();
    COMPLAINT_PHRASES.iter().any(|complaint| unquoted.contains(complaint))
}

fn start_of(text: &str) -> &str {
    text.char_indices().nth(MAX_CHARS_READ).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

fn end_of(text: &str) -> &str {
    let start = text.char_indices().rev().nth(MAX_CHARS_READ.saturating_sub(1));
    start.and_then(|(start, _)| text.get(start..)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complaints_about_arguments_count() {
        let check = |kind, message: &str, expect: bool| {
            assert_eq!(blames_arguments(&Failure::new(kind, message)), expect, "{kind:?} {message}");
        };
        for complaint in [
            "1 validation error for Mail: subject",
            "subject: Field required",
            "InputValidationError: x",
            "the required parameter to is absent",
            "Missing required argument",
            "-32602 Invalid params",
        ] {
            check(FailureKind::Io, complaint, true);
            check(FailureKind::Crashed, complaint, true);
            check(FailureKind::TimedOut, complaint, false);
            check(FailureKind::NotFound, complaint, false);
        }
        for other in ["connection refused", "", "disk full", "the file is required reading"] {
            check(FailureKind::Io, other, false);
        }
        check(FailureKind::Unreadable, "`missing required.txt` cannot be read: permission denied", false);
        check(FailureKind::Io, &format!("{} field required", "x".repeat(MAX_CHARS_READ)), false);
    }

    #[test]
    fn complaint_at_the_end_of_standard_error_counts() {
        let check = |kind, stderr: &str, expect: bool| {
            let failure = Failure::new(kind, "the tool exited with code 1");
            let failure = Failure { output: Some(serde_json::json!({"stderr": stderr})), ..failure };
            assert_eq!(blames_arguments(&failure), expect, "{kind:?} {stderr:.80}");
        };
        let padding = "x".repeat(MAX_CHARS_READ);
        check(FailureKind::Crashed, "Traceback\n1 validation error for Mail\n  Field required\n", true);
        check(FailureKind::Crashed, &format!("{padding} missing required argument"), true);
        check(FailureKind::Crashed, &format!("missing required argument {padding}"), false);
        check(FailureKind::Crashed, "Killed", false);
        check(FailureKind::TimedOut, "missing required argument", false);
    }
}
