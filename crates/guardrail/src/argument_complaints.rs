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

/// Returns true if a failure reads like a complaint about the arguments. Text in backticks is a quoted value
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
    let text: String = failure.message.chars().take(MAX_CHARS_READ).flat_map(char::to_lowercase).collect();
    let unquoted: String = text.split('`').step_by(2).collect();
    may_be && COMPLAINT_PHRASES.iter().any(|complaint| unquoted.contains(complaint))
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
}
