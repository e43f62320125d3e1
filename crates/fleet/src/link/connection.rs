//! One connection to the servers of a fleet.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, HeaderMap, Message, ServerError, Subscriber};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::servers::{StreamDefinition, check_server_version};
use crate::{FleetError, Subjects};

/// Longest wait for a reply. A denied request has no reply either.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest delay between two attempts to reconnect.
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(15);
/// Error code of JetStream for a compare-and-set that failed.
const WRONG_LAST_SEQUENCE: u64 = 10071;

/// Parameters of a connection.
#[derive(Clone)]
pub struct ConnectionSettings {
    /// Addresses of the servers.
    pub servers: Vec<String>,
    /// Authority that must have signed the certificate of the server. Without one, only loopback addresses are
    /// connected to.
    pub ca_file: Option<PathBuf>,
    /// Name of the user, which is the token of its inbox.
    pub user: String,
    /// Seed of the connection key.
    pub seed: String,
}

/// Message in a stream.
#[derive(Clone, Debug)]
pub struct StoredMessage {
    /// Sequence number in the stream.
    pub seq: u64,
    /// Subject.
    pub subject: String,
    /// Header with the signed description, if there is one.
    pub description: Option<String>,
    /// Content.
    pub payload: Vec<u8>,
}

/// Message of a subscription.
#[derive(Clone, Debug)]
pub struct Received {
    /// Subject.
    pub subject: String,
    /// Content.
    pub payload: Vec<u8>,
}

/// Connection to the servers, which reconnects by itself.
#[derive(Clone)]
pub struct FleetConnection {
    client: Client,
    /// Last refusal of the server: a denied subject shows nowhere else.
    fault: Arc<Mutex<Option<String>>>,
}

impl FleetConnection {
    /// Name of the header with the signed description of a message.
    pub const DESCRIPTION: &str = "Sinew-Signed";

    /// Connects, and refuses a server below the version floor.
    pub async fn open(settings: &ConnectionSettings) -> Result<FleetConnection, FleetError> {
        if settings.ca_file.is_none()
            && let Some(server) = settings.servers.iter().find(|server| !crate::servers::is_loopback(server))
        {
            let reason = "it is not on this machine, and no certificate authority is pinned";
            return Err(FleetError::Connection { server: server.clone(), cause: reason.to_owned() });
        }
        let fault = Arc::new(Mutex::new(None));
        let noted = Arc::clone(&fault);
        let mut options = ConnectOptions::with_nkey(settings.seed.clone())
            .name(&settings.user)
            .custom_inbox_prefix(Subjects::inbox(&settings.user))
            .connection_timeout(REPLY_TIMEOUT)
            .request_timeout(Some(REPLY_TIMEOUT))
            .ignore_discovered_servers()
            .reconnect_delay_callback(reconnect_delay)
            .event_callback(move |event| {
                let noted = Arc::clone(&noted);
                async move { note_fault(&noted, &event) }
            });
        if let Some(ca_file) = &settings.ca_file {
            // With an authority given, the client loads none of the platform.
            options = options.add_root_certificates(ca_file.clone()).require_tls(true);
        }
        let servers = settings.servers.join(", ");
        let client = options.connect(settings.servers.as_slice()).await;
        let client = client
            .map_err(|error| FleetError::Connection { server: servers, cause: with_sources(&error) })?;
        let connection = FleetConnection { client, fault };
        connection.check_server()?;
        Ok(connection)
    }

    /// Refuses a server below the version floor: a reconnect may have reached another server.
    pub fn check_server(&self) -> Result<(), FleetError> {
        check_server_version(&self.client.server_info().version)
    }

    /// Returns the version of the server.
    pub fn server_version(&self) -> String {
        self.client.server_info().version
    }

    /// Returns true while the connection is established.
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }

    /// Returns the last refusal of the server since the last call.
    pub fn take_fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Publishes a message that is not stored.
    pub async fn publish(&self, subject: String, payload: Vec<u8>) -> Result<(), FleetError> {
        self.client.publish(subject, payload.into()).await.map_err(|error| self.failed(&error))?;
        self.client.flush().await.map_err(|error| self.failed(&error))
    }

    /// Stores a message if the last one on its subject has the expected sequence number; without an expectation, in any
    /// case. Returns the sequence number, or `Conflict`.
    pub async fn store(
        &self,
        subject: &str,
        (description, payload): (Option<&str>, Vec<u8>),
        expected: Option<u64>,
    ) -> Result<u64, FleetError> {
        let mut headers = HeaderMap::new();
        if let Some(expected) = expected {
            headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string().as_str());
        }
        if let Some(description) = description {
            headers.insert(Self::DESCRIPTION, description);
        }
        let request = self.client.request_with_headers(subject.to_owned(), headers, payload.into());
        let reply = request.await.map_err(|error| self.failed(&error))?;
        let reply = parse_reply(&reply)?;
        reply
            .get("seq")
            .and_then(Value::as_u64)
            .ok_or_else(|| FleetError::Stream(format!("an answer without a number: {reply}")))
    }

    /// Returns the last message on a subject.
    pub async fn last(&self, stream: &str, subject: &str) -> Result<Option<StoredMessage>, FleetError> {
        let request = self.client.request(Subjects::direct_get(stream, subject), Vec::new().into());
        stored(&request.await.map_err(|error| self.failed(&error))?)
    }

    /// Returns the first message on a subject, which may have wildcards, from a sequence number on.
    pub async fn next(
        &self,
        stream: &str,
        subject: &str,
        from: u64,
    ) -> Result<Option<StoredMessage>, FleetError> {
        let wanted = json!({"seq": from, "next_by_subj": subject}).to_string();
        let request = self.client.request(format!("$JS.API.DIRECT.GET.{stream}"), wanted.into());
        stored(&request.await.map_err(|error| self.failed(&error))?)
    }

    /// Creates a stream, or updates one that exists.
    pub async fn create_stream(&self, stream: &StreamDefinition) -> Result<(), FleetError> {
        let body = stream.config.to_string();
        let create = format!("$JS.API.STREAM.CREATE.{}", stream.name);
        let reply =
            self.client.request(create, body.clone().into()).await.map_err(|error| self.failed(&error))?;
        if parse_reply(&reply).is_ok() {
            return Ok(());
        }
        let update = format!("$JS.API.STREAM.UPDATE.{}", stream.name);
        let reply = self.client.request(update, body.into()).await.map_err(|error| self.failed(&error))?;
        parse_reply(&reply).map(drop)
    }

    /// Subscribes to a subject. The subscription survives reconnects.
    pub async fn subscribe(&self, subject: &str) -> Result<FleetSubscription, FleetError> {
        let subscriber =
            self.client.subscribe(subject.to_owned()).await.map_err(|error| self.failed(&error))?;
        self.client.flush().await.map_err(|error| self.failed(&error))?;
        Ok(FleetSubscription(subscriber))
    }

    /// Adds the refusal of the server, if there is one: the client reports only a timeout.
    fn failed(&self, error: &(dyn std::error::Error + 'static)) -> FleetError {
        let cause = match self.take_fault() {
            Some(fault) => format!("{} (the server reported: {fault})", with_sources(error)),
            None => with_sources(error),
        };
        FleetError::Connection { server: self.client.server_info().server_name, cause }
    }
}

/// Messages of a subscription.
pub struct FleetSubscription(Subscriber);

impl FleetSubscription {
    /// Returns the next message; `None` once the connection is closed for good.
    pub async fn next(&mut self) -> Option<Received> {
        let message = self.0.next().await?;
        Some(Received { subject: message.subject.to_string(), payload: message.payload.to_vec() })
    }
}

fn note_fault(noted: &Mutex<Option<String>>, event: &Event) {
    let fault = match event {
        Event::ServerError(ServerError::Other(reason)) => reason.clone(),
        Event::ServerError(error) => error.to_string(),
        _ => return,
    };
    *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
}

/// Delay before an attempt to reconnect, with jitter, so that ten thousand hosts do not return at once.
fn reconnect_delay(attempts: usize) -> Duration {
    let exponent = u32::try_from(attempts.min(8)).unwrap_or(8);
    let longest =
        Duration::from_millis(100).saturating_mul(2_u32.saturating_pow(exponent)).min(MAX_RECONNECT_DELAY);
    let random = super::random_bytes::<1>().map_or(255, |[byte]| u32::from(byte));
    longest / 2 + longest.mul_f64(0.5) * random / 256
}

fn with_sources(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// Parses a reply of JetStream; an error in it becomes an error.
fn parse_reply(message: &Message) -> Result<Value, FleetError> {
    let reply: Value = serde_json::from_slice(&message.payload)
        .map_err(|error| FleetError::Stream(format!("an answer that is not JSON: {error}")))?;
    match reply.get("error") {
        Some(error) if error["err_code"].as_u64() == Some(WRONG_LAST_SEQUENCE) => Err(FleetError::Conflict),
        Some(error) => Err(FleetError::Stream(error["description"].as_str().unwrap_or("unknown").to_owned())),
        None => Ok(reply),
    }
}

/// Reads the reply to a direct get. A message that does not exist has status 404.
fn stored(message: &Message) -> Result<Option<StoredMessage>, FleetError> {
    if let Some(status) = message.status {
        if status.as_u16() == 404 {
            return Ok(None);
        }
        if status.as_u16() >= 300 {
            let reason = message.description.clone().unwrap_or_else(|| status.to_string());
            return Err(FleetError::Stream(reason));
        }
    }
    let header = |name: &str| message.headers.as_ref()?.get(name).map(|value| value.as_str().to_owned());
    let seq = header("Nats-Sequence").and_then(|text| text.parse().ok());
    let (Some(seq), Some(subject)) = (seq, header("Nats-Subject")) else {
        return Err(FleetError::Stream("a stored message without its number".to_owned()));
    };
    let description = header(FleetConnection::DESCRIPTION);
    Ok(Some(StoredMessage { seq, subject, description, payload: message.payload.to_vec() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconnect_delays_grow_and_are_bounded() {
        for attempts in 0..100 {
            let delay = reconnect_delay(attempts);
            assert!(
                delay >= Duration::from_millis(50) && delay <= MAX_RECONNECT_DELAY,
                "{attempts}: {delay:?}"
            );
        }
        assert!(reconnect_delay(20) > reconnect_delay(0));
    }
}
