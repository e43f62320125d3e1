//! Command-line grammar of approvals, the operator PIN and worker sessions.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::JsonArgs;

#[derive(Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List pending approvals, one per line.
    List(JsonArgs),
    /// Show an approval request: effects of the call, file changes, caller and rule.
    Show {
        /// Approval id; a unique prefix is enough.
        id: String,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Watch for approval requests and decide each with one key.
    Watch,
    /// Replace the arguments of a pending call. The changed call is judged again and needs a new approval.
    Edit {
        /// Approval id.
        id: String,
        /// All arguments as a JSON object; `-` reads them from standard input.
        #[arg(value_name = "JSON")]
        arguments: String,
        #[command(flatten)]
        pin: PinArgs,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// List the grants: temporary rules that permit calls without asking.
    Grants(JsonArgs),
    /// Revoke grants.
    Revoke {
        /// Grant ids; a unique prefix of each is enough.
        #[arg(required = true)]
        ids: Vec<String>,
        #[command(flatten)]
        output: JsonArgs,
    },
}

#[derive(Args)]
pub(crate) struct ConsoleArgs {
    /// Print the link and open no browser.
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Show this approval request first.
    #[arg(long, value_name = "ID")]
    pub(crate) open: Option<String>,
}

#[derive(Args)]
pub(crate) struct ApproveArgs {
    /// Full approval ids. A prefix is not accepted, because an agent could create requests until one begins like the
    /// one you read.
    #[arg(required = true)]
    pub(crate) ids: Vec<String>,
    /// Also grant similar calls, for a duration such as `10m` or for the `session` (the caller's connection).
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_grant_duration)]
    pub(crate) span: Option<GrantDuration>,
    /// Widen the grant beyond the call's path or command: `path=/home/me/project/**`, or `command=ls` for a
    /// read-only program.
    #[arg(long, value_name = "ARGUMENT=PATTERN", requires = "span")]
    pub(crate) pattern: Vec<String>,
    /// Accept the grant without a confirmation prompt.
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) pin: PinArgs,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Args)]
pub(crate) struct DenyArgs {
    /// Approval ids; a unique prefix of each is enough.
    #[arg(required = true)]
    pub(crate) ids: Vec<String>,
    /// Reason given to the model.
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
    /// Set the operator PIN.
    Set(PinArgs),
    /// Remove the operator PIN. Any process of your user can then act as the operator.
    Clear(PinArgs),
}

#[derive(Subcommand)]
pub(crate) enum SessionsCommand {
    /// Open a worker session: a socket whose calls may use these tools only. It stays open until it is closed.
    Open {
        /// Name of the session, by which `sinew sessions close` finds it.
        #[arg(long)]
        name: String,
        /// Tool that the session may call; repeat it for more.
        #[arg(long = "allow", value_name = "TOOL", required = true)]
        tools: Vec<String>,
        /// Number of calls that each turn may make.
        #[arg(long, value_name = "COUNT")]
        hop_budget: Option<u32>,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// List open sessions with creator, permitted tools and remaining budget.
    List(JsonArgs),
    /// Close sessions: remove their sockets and cancel their running calls.
    Close {
        /// Session names or ids; the first digits of an id are enough.
        #[arg(required = true)]
        ids: Vec<String>,
        #[command(flatten)]
        output: JsonArgs,
    },
}

#[derive(Subcommand)]
pub(crate) enum CallersCommand {
    /// List suspended callers with the reason and the remaining time.
    List(JsonArgs),
    /// End the suspension of a caller.
    Resume {
        /// Id of the caller, such as process:4711.
        id: String,
        #[command(flatten)]
        pin: PinArgs,
        #[command(flatten)]
        output: JsonArgs,
    },
}

/// Duration of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrantDuration {
    /// Until the connection closes.
    Session,
    /// Fixed time.
    Fixed(Duration),
}

fn parse_grant_duration(text: &str) -> Result<GrantDuration, String> {
    match text {
        "session" => Ok(GrantDuration::Session),
        time => {
            parse_duration(time).map(GrantDuration::Fixed).map_err(|wrong| format!("{wrong}, or `session`"))
        }
    }
}

/// Parses a duration of at most a day.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || "write a time such as 90s, 10m, 2h".to_owned();
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 60 * 60,
        _ => return Err(wrong()),
    };
    let number: u64 = text.get(..text.len() - 1).and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
    match number.checked_mul(unit) {
        Some(seconds @ 1..=86_400) => Ok(Duration::from_secs(seconds)),
        _ => Err("write at least one second and at most 24h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_a_unit_and_an_end() {
        let lasting = |seconds| Ok(GrantDuration::Fixed(Duration::from_secs(seconds)));
        for (text, expect) in
            [("session", Ok(GrantDuration::Session)), ("90s", lasting(90)), ("10m", lasting(600))]
        {
            assert_eq!(parse_grant_duration(text), expect, "{text}");
        }
        for wrong in ["", "10", "m", "0s", "25h", "1d", "-5m", "18446744073709551615h", "10 m", "é"] {
            assert!(parse_grant_duration(wrong).is_err(), "{wrong}");
        }
    }
}
