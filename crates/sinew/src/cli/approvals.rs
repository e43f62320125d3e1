//! The words by which a human sees and answers questions, and sees and ends what workers were given.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::JsonArgs;

#[derive(Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// One line a question.
    List(JsonArgs),
    /// All of one question: what the call would do, the change of each file, who asks, and which rule.
    Show {
        /// Which; its first characters are enough.
        id: String,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Look at questions as they come, and answer each with one key.
    Watch,
    /// Give a waiting call other arguments. The changed call is judged and asked about anew.
    Edit {
        /// Which.
        id: String,
        /// All its arguments, as a JSON object; `-` reads them from standard input.
        #[arg(value_name = "JSON")]
        arguments: String,
        #[command(flatten)]
        pin: PinArgs,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// The rules by which nobody is asked for a while.
    Grants(JsonArgs),
    /// Take such a rule back.
    Revoke {
        /// Which.
        #[arg(required = true)]
        ids: Vec<String>,
        #[command(flatten)]
        output: JsonArgs,
    },
}

#[derive(Args)]
pub(crate) struct ApproveArgs {
    /// Which questions, each by its whole id: what begins alike may be another one.
    #[arg(required = true)]
    pub(crate) ids: Vec<String>,
    /// Do not ask again about calls like it: for `session` (the connection it came on), or for a time such as `10m`.
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    pub(crate) span: Option<Span>,
    /// Not only for this path or command: `path=/home/me/project/**`, or, for a program that only looks, `command=ls`.
    #[arg(long, value_name = "ARGUMENT=PATTERN", requires = "span")]
    pub(crate) pattern: Vec<String>,
    /// Take the rule without asking once more.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) pin: PinArgs,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Args)]
pub(crate) struct DenyArgs {
    /// Which questions; the first characters of each are enough.
    #[arg(required = true)]
    pub(crate) ids: Vec<String>,
    /// What the model is told.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Args, Clone, Copy)]
pub(crate) struct PinArgs {
    /// Read the operator PIN from the first line of standard input instead of the terminal.
    #[arg(long)]
    pub(crate) pin_stdin: bool,
}

#[derive(Subcommand)]
pub(crate) enum PinCommand {
    /// Set the PIN without which nothing is approved.
    Set(PinArgs),
    /// Take the PIN away. Then any process of yours can approve.
    Clear(PinArgs),
}

#[derive(Subcommand)]
pub(crate) enum SessionsCommand {
    /// One line a session: who opened it, what it may call, what is left of it.
    List(JsonArgs),
    /// End sessions, with their sockets and whatever of them still runs.
    Close {
        /// Which, by id or name.
        #[arg(required = true)]
        ids: Vec<String>,
        #[command(flatten)]
        output: JsonArgs,
    },
}

/// For how long nobody is asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// As long as the connection.
    Session,
    /// So long.
    Lasting(Duration),
}

fn span(text: &str) -> Result<Span, String> {
    if text == "session" {
        return Ok(Span::Session);
    }
    let wrong = || "write `session`, or a time such as 90s, 10m, 2h".to_owned();
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 60 * 60,
        _ => return Err(wrong()),
    };
    let number: u64 = text.get(..text.len() - 1).and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
    match number.checked_mul(unit) {
        Some(seconds @ 1..=86_400) => Ok(Span::Lasting(Duration::from_secs(seconds))),
        _ => Err("a rule stands for at least a second and at most 24h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_a_unit_and_an_end() {
        let lasting = |seconds| Ok(Span::Lasting(Duration::from_secs(seconds)));
        for (text, expect) in [("session", Ok(Span::Session)), ("90s", lasting(90)), ("10m", lasting(600))] {
            assert_eq!(span(text), expect, "{text}");
        }
        for wrong in ["", "10", "m", "0s", "25h", "1d", "-5m", "18446744073709551615h", "10 m", "é"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }
}
