//! The gatekeeper: a question goes out through it, and every hop of its way is vetted.

use std::sync::Arc;
use std::time::Instant;

use governance::Permit;
use rustls::ClientConfig;
use url::Url;

use crate::answer::Answer;
use crate::connect::connect;
use crate::error::OutboundError;
use crate::exchange::{self, Enough, exchange};
use crate::question::{Caps, Question};
use crate::redirect;
use crate::resolver::Resolver;
use crate::socket::{self, Socket};
use crate::stream::Stream;
use crate::tls::Roots;
use crate::vet::{NamedBy, Place, vet};

/// How many redirects are followed.
pub const MOST_HOPS: usize = 5;

/// Opens every connection that a call makes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Gatekeeper {
    tls: Arc<ClientConfig>,
    resolver: Resolver,
}

impl Gatekeeper {
    /// One that trusts these certificates.
    pub fn new(roots: Roots) -> Result<Self, OutboundError> {
        let tls = roots.configuration().map_err(|error| OutboundError::Roots {
            file: "the built-in list".to_owned(),
            cause: error.to_string(),
        })?;
        Ok(Gatekeeper { tls, resolver: Resolver::System })
    }

    #[cfg(test)]
    pub(crate) fn asking(self, script: Arc<crate::tests::Script>) -> Self {
        Gatekeeper { resolver: Resolver::Scripted(script), ..self }
    }

    /// Gets a page that a caller named, and follows where it is redirected to. The headers are sent at every hop, so no
    /// credential belongs among them: whoever has one asks a service.
    pub async fn get(
        &self,
        permit: &Permit,
        url: &str,
        headers: &[(&'static str, String)],
        caps: Caps,
    ) -> Result<Answer, OutboundError> {
        let mut led_by: Vec<Url> = Vec::new();
        let mut next = url.to_owned();
        loop {
            let question = Question { headers: headers.to_vec(), ..Question::get(next) };
            let answer = self.ask_once(permit, &question, NamedBy::Caller, caps, &mut to_the_end).await?;
            let host = answer.url.host_str().unwrap_or_default().to_owned();
            let Some(onward) = redirect::next(&answer, &host)? else {
                return Ok(Answer { led_by, ..answer });
            };
            led_by.push(answer.url);
            if led_by.len() > MOST_HOPS {
                return Err(OutboundError::TooManyRedirects { host, hops: led_by.len() });
            }
            next = onward.into();
        }
    }

    /// Asks a service that the settings name. What it redirects to is not followed: keys go nowhere else.
    pub async fn ask(
        &self,
        permit: &Permit,
        question: &Question,
        caps: Caps,
    ) -> Result<Answer, OutboundError> {
        self.ask_once(permit, question, NamedBy::Settings, caps, &mut to_the_end).await
    }

    /// Asks a server that a manifest names. `is_enough` is shown each part of the body as it comes, and says when nothing
    /// more is waited for: some leave their answer open.
    pub async fn converse(
        &self,
        permit: &Permit,
        question: &Question,
        caps: Caps,
        is_enough: &mut Enough<'_>,
    ) -> Result<Answer, OutboundError> {
        self.ask_once(permit, question, NamedBy::Manifest, caps, is_enough).await
    }

    /// Asks a server that a manifest names, and leaves what it says to be read as it comes. By the deadline it must have begun.
    pub async fn listen(
        &self,
        permit: &Permit,
        question: &Question,
        deadline: Instant,
    ) -> Result<Stream, OutboundError> {
        let listening = async {
            let place = self.place(permit, question, &question.url, NamedBy::Manifest).await?;
            let connection = connect(&place, &self.tls).await?;
            exchange::listen(&place, connection, question).await
        };
        in_time(listening, question, deadline).await
    }

    /// Opens a web socket to a server that a manifest names, for this protocol: an address of `ws` is judged and connected
    /// to as one of `http`, `wss` as `https`. No message may be larger than the cap; by the deadline it must be open.
    pub async fn open_socket(
        &self,
        permit: &Permit,
        question: &Question,
        protocol: &'static str,
        caps: Caps,
    ) -> Result<Socket, OutboundError> {
        let opening = async {
            let url = of_the_web(&question.url)?;
            let place = self.place(permit, question, &url, NamedBy::Manifest).await?;
            let connection = connect(&place, &self.tls).await?;
            socket::open(&place, connection, question, (protocol, caps.body_bytes)).await
        };
        in_time(opening, question, caps.deadline).await
    }

    /// Where a question goes to. One with a key is not even connected for to where the key does not belong.
    async fn place(
        &self,
        permit: &Permit,
        question: &Question,
        url: &str,
        named_by: NamedBy,
    ) -> Result<Place, OutboundError> {
        let place = vet(permit, &self.resolver, url, named_by).await?;
        question.credential.as_ref().map_or(Ok(()), |credential| credential.for_place(&place).map(drop))?;
        Ok(place)
    }

    async fn ask_once(
        &self,
        permit: &Permit,
        question: &Question,
        named_by: NamedBy,
        caps: Caps,
        is_enough: &mut Enough<'_>,
    ) -> Result<Answer, OutboundError> {
        let asking = async {
            let place = self.place(permit, question, &question.url, named_by).await?;
            let connection = connect(&place, &self.tls).await?;
            exchange(&place, connection, question, (caps.body_bytes, is_enough)).await
        };
        in_time(asking, question, caps.deadline).await
    }
}

/// The address at which a web socket is asked for, which is done by HTTP.
pub(crate) fn of_the_web(url: &str) -> Result<String, OutboundError> {
    let secure = url.strip_prefix("wss://").map(|rest| format!("https://{rest}"));
    let plain = || url.strip_prefix("ws://").map(|rest| format!("http://{rest}"));
    secure.or_else(plain).ok_or_else(|| OutboundError::NoSocket {
        host: host_of(url),
        why: "its address begins with neither `ws://` nor `wss://`".to_owned(),
    })
}

fn host_of(url: &str) -> String {
    let url = Url::parse(url).ok();
    url.as_ref().and_then(Url::host_str).unwrap_or_default().to_owned()
}

async fn in_time<T>(
    asking: impl Future<Output = Result<T, OutboundError>>,
    question: &Question,
    deadline: Instant,
) -> Result<T, OutboundError> {
    let left = deadline.saturating_duration_since(Instant::now());
    match tokio::time::timeout(left, asking).await {
        Ok(answered) => answered,
        Err(_) => Err(OutboundError::TimedOut { host: host_of(&question.url) }),
    }
}

/// Whatever came, more is waited for.
fn to_the_end(_: &[u8]) -> bool {
    false
}
