//! Sessions of the console: a one-time code from the link is exchanged for a bearer token, in memory only.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tool::canonical;

/// Time in which a code can be exchanged.
const CODE_LIFETIME: Duration = Duration::from_secs(60);
/// Time after which a session ends.
const SESSION_LIFETIME: Duration = Duration::from_secs(8 * 60 * 60);
/// Maximum number of sessions. A new one ends the oldest.
const MAX_SESSIONS: usize = 16;

/// Codes and tokens, by their digests.
#[derive(Default)]
pub(super) struct ConsoleSessions(Mutex<OpenSessions>);

#[derive(Default)]
struct OpenSessions {
    /// Newest code and the time it was issued. An earlier one is void.
    code: Option<(String, Instant)>,
    tokens: Vec<(String, Instant)>,
}

impl ConsoleSessions {
    /// Issues a code and voids the one before.
    pub(super) fn issue_code(&self) -> String {
        let code = random_secret();
        self.lock().code = Some((digest(&code), Instant::now()));
        code
    }

    /// Exchanges a code for a token. A code works once; a wrong one leaves it valid.
    pub(super) fn exchange(&self, code: &str, now: Instant) -> Option<String> {
        let mut table = self.lock();
        let (expected, issued) = table.code.clone()?;
        // Digests are compared, so the time of the comparison says nothing about the code.
        if digest(code) != expected || now.saturating_duration_since(issued) >= CODE_LIFETIME {
            return None;
        }
        table.code = None;
        let token = random_secret();
        if table.tokens.len() >= MAX_SESSIONS {
            table.tokens.remove(0);
        }
        table.tokens.push((digest(&token), now));
        Some(token)
    }

    /// Returns true if the token belongs to a session that has not ended.
    pub(super) fn is_valid(&self, token: &str, now: Instant) -> bool {
        let mut table = self.lock();
        table.tokens.retain(|(_, opened)| now.saturating_duration_since(*opened) < SESSION_LIFETIME);
        let wanted = digest(token);
        table.tokens.iter().any(|(known, _)| *known == wanted)
    }

    /// Ends the session of the token.
    pub(super) fn close(&self, token: &str) {
        let ended = digest(token);
        self.lock().tokens.retain(|(known, _)| *known != ended);
    }

    fn lock(&self) -> MutexGuard<'_, OpenSessions> {
        // The table is consistent after every statement, so a poisoned lock is safe to use.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns 256 random bits.
fn random_secret() -> String {
    [tool::text::random_id(), tool::text::random_id()].concat()
}

fn digest(secret: &str) -> String {
    canonical::sha256_hex(secret.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_works_once_and_for_a_minute() {
        let sessions = ConsoleSessions::default();
        let now = Instant::now();
        assert_eq!(sessions.exchange("", now), None, "no code was issued");
        let code = sessions.issue_code();
        assert_eq!(code.len(), 64);
        assert_eq!(sessions.exchange("wrong", now), None);
        let token = sessions.exchange(&code, now).expect("a wrong code leaves the right one valid");
        assert_eq!(sessions.exchange(&code, now), None, "it works once");
        assert!(
            sessions.is_valid(&token, now) && !sessions.is_valid(&code, now) && !sessions.is_valid("", now)
        );
        let late = sessions.issue_code();
        assert_eq!(sessions.exchange(&late, now + CODE_LIFETIME + Duration::from_secs(1)), None);
        let (first, second) = (sessions.issue_code(), sessions.issue_code());
        assert_eq!(sessions.exchange(&first, now), None, "a newer code voids it");
        assert!(sessions.exchange(&second, now).is_some());
    }

    #[test]
    fn session_ends_by_time_and_on_request() {
        let sessions = ConsoleSessions::default();
        let now = Instant::now();
        let open = || sessions.exchange(&sessions.issue_code(), now).unwrap();
        let (closed, kept) = (open(), open());
        sessions.close(&closed);
        assert!(!sessions.is_valid(&closed, now) && sessions.is_valid(&kept, now));
        assert!(!sessions.is_valid(&kept, now + SESSION_LIFETIME));
        let tokens: Vec<String> = (0..=MAX_SESSIONS).map(|_| open()).collect();
        assert!(!sessions.is_valid(&tokens[0], now) && sessions.is_valid(&tokens[MAX_SESSIONS], now));
    }
}
