//! The gateway against real servers on this machine. A connection that must not happen is counted where it
//! would arrive.

mod addresses;
mod bounds;
mod keys;
mod permits;
mod redirects;
mod secure;
mod server;
mod sockets;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::{HttpGateway, HttpResponse, OutboundError, ResponseLimits, TrustedRoots};

/// Scripted resolver: each lookup of a name returns its next list of addresses, and the last one repeats.
#[derive(Debug, Default)]
pub(crate) struct ScriptedResolver {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    pub(crate) lookups: AtomicUsize,
}

impl ScriptedResolver {
    fn of(entries: &[(&str, &[&[&str]])]) -> Self {
        let read = |answer: &&[&str]| answer.iter().map(|text| text.parse().unwrap()).collect();
        let answers = entries
            .iter()
            .map(|(name, answers)| ((*name).to_owned(), answers.iter().rev().map(read).collect()));
        ScriptedResolver { answers: Mutex::new(answers.collect()), lookups: AtomicUsize::new(0) }
    }

    pub(crate) fn look_up(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let mut answers = self.answers.lock().unwrap();
        let left = answers.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        let answer = if left.len() > 1 { left.pop() } else { left.last().cloned() };
        Ok(answer.unwrap_or_default().into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }
}

fn gateway() -> HttpGateway {
    HttpGateway::new(TrustedRoots::mozilla()).unwrap()
}

fn limits(body_bytes: u64) -> ResponseLimits {
    ResponseLimits { body_bytes, deadline: Instant::now() + Duration::from_secs(15) }
}

/// Returns `ok` and the status, the detail word of a denial, or the name of the error variant.
fn outcome(end: &Result<HttpResponse, OutboundError>) -> String {
    match end {
        Ok(answer) => format!("ok {}", answer.status),
        Err(_) => outcome_of(end),
    }
}

/// Like `outcome`, for a result without a status.
fn outcome_of<T>(end: &Result<T, OutboundError>) -> String {
    match end {
        Ok(_) => "ok".to_owned(),
        Err(OutboundError::Denied(refusal)) => refusal.detail.clone().unwrap_or_default(),
        Err(error) => {
            let shown = format!("{error:?}");
            shown.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
        }
    }
}
