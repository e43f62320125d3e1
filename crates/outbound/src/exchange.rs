//! One request and its response over one connection, which is then closed. HTTP/1.1 only, so that there is
//! only one framing to handle.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION,
    RETRY_AFTER,
};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use url::Url;

use crate::answer::Answer;
use crate::connect::Connection;
use crate::error::OutboundError;
use crate::question::{Method, Question};
use crate::stream::Stream;
use crate::vet::Place;

const MCP_SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Maximum number and total size of response headers.
const MOST_HEADERS: usize = 128;
const MOST_HEADER_BYTES: usize = 128 * 1024;
/// Maximum number of interim responses, such as `100 Continue`.
const MOST_ANNOUNCED: usize = 32;
/// Maximum number of content encodings. With more of them, the body is not decoded.
const MOST_CODINGS: usize = 4;
/// Maximum length of a header value that is returned.
const LONGEST_HEADER: usize = 8 * 1024;

/// Called with each part of a body. Returns true if the rest of the body is not needed.
pub(crate) type Enough<'a> = dyn FnMut(&[u8]) -> bool + Send + 'a;

/// Sends a request and reads the response up to the limit.
pub(crate) async fn exchange(
    place: &Place,
    connection: Connection,
    question: &Question,
    (most, is_enough): (u64, &mut Enough<'_>),
) -> Result<Answer, OutboundError> {
    let (response, _driving) = send(place, connection, question, Afterwards::Closed).await?;
    Ok(read(place, response, (most, is_enough)).await)
}

/// Sends a request and returns the response as a stream.
pub(crate) async fn listen(
    place: &Place,
    connection: Connection,
    question: &Question,
) -> Result<Stream, OutboundError> {
    let (response, driving) = send(place, connection, question, Afterwards::Closed).await?;
    let (head, body) = response.into_parts();
    let (status, content_type) = (head.status.as_u16(), header(&head.headers, &CONTENT_TYPE));
    Ok(Stream { status, content_type, host: place.host.clone(), body, _driving: driving })
}

/// Task that drives a connection. It ends when this is dropped.
pub(crate) type Driving = JoinSet<Result<(), hyper::Error>>;

/// Use of a connection after its response.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Afterwards {
    /// The connection is closed.
    Closed,
    /// The connection is upgraded, if the response says so.
    Handed,
}

/// Sends a request and returns the head of the response.
pub(crate) async fn send(
    place: &Place,
    connection: Connection,
    question: &Question,
    afterwards: Afterwards,
) -> Result<(Response<Incoming>, Driving), OutboundError> {
    let garbled = |cause| OutboundError::Garbled { host: place.host.clone(), cause };
    let mut builder = http1::Builder::new();
    builder.max_headers(MOST_HEADERS).max_buf_size(MOST_HEADER_BYTES);
    let (mut sender, driver) = builder.handshake(TokioIo::new(connection)).await.map_err(garbled)?;
    let mut driving = JoinSet::new();
    match afterwards {
        Afterwards::Closed => driving.spawn(driver),
        Afterwards::Handed => driving.spawn(driver.with_upgrades()),
    };
    let mut request = request(&place.url, question)?;
    if let Some(credential) = &question.credential {
        let (name, value) = credential.for_place(place)?;
        request.headers_mut().insert(name, value);
    }
    let announcing = announcements(&mut request);
    tokio::select! {
        response = sender.send_request(request) => Ok((response.map_err(garbled)?, driving)),
        () = announcing.notified() => Err(OutboundError::NoAnswer { host: place.host.clone() }),
    }
}

/// Returns a signal that fires after too many interim responses. Each is small, and a server could send them
/// without end.
fn announcements(request: &mut Request<Full<Bytes>>) -> Arc<Notify> {
    let (enough, count) = (Arc::new(Notify::new()), AtomicUsize::new(0));
    let notifier = Arc::clone(&enough);
    hyper::ext::on_informational(request, move |_| {
        if count.fetch_add(1, Ordering::Relaxed) >= MOST_ANNOUNCED {
            notifier.notify_one();
        }
    });
    enough
}

fn request(url: &Url, question: &Question) -> Result<Request<Full<Bytes>>, OutboundError> {
    let target = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let method = match question.method {
        Method::Get => hyper::Method::GET,
        Method::Post => hyper::Method::POST,
    };
    let uri = target.parse::<hyper::Uri>().map_err(|_| OutboundError::Header("request target"))?;
    let mut request = Request::new(Full::new(Bytes::from(question.body.clone())));
    (*request.method_mut(), *request.uri_mut()) = (method, uri);
    let host = url.host_str().unwrap_or_default();
    let authority = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let headers = request.headers_mut();
    headers.insert(HOST, value("host", &authority)?);
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    for (name, text) in &question.headers {
        headers.insert(HeaderName::from_static(name), value(name, text)?);
    }
    Ok(request)
}

fn value(name: &'static str, text: &str) -> Result<HeaderValue, OutboundError> {
    HeaderValue::from_str(text).map_err(|_| OutboundError::Header(name))
}

async fn read(
    place: &Place,
    response: Response<Incoming>,
    (most, is_enough): (u64, &mut Enough<'_>),
) -> Answer {
    let (head, mut body) = response.into_parts();
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let (mut bytes, mut is_cut) = (Vec::new(), false);
    while !is_cut {
        match body.frame().await {
            None => break,
            Some(Ok(frame)) => {
                let part = frame.into_data().unwrap_or_default();
                let room = most - bytes.len();
                is_cut = part.len() > room;
                let part = part.get(..room.min(part.len())).unwrap_or_default();
                bytes.extend_from_slice(part);
                if is_enough(part) {
                    break;
                }
            }
            // The connection broke, or the body was shorter than announced: the received part is returned and
            // marked as truncated.
            Some(Err(_)) => is_cut = true,
        }
    }
    Answer {
        url: place.url.clone(),
        status: head.status.as_u16(),
        content_type: header(&head.headers, &CONTENT_TYPE),
        codings: codings(&head.headers),
        retry_after: header(&head.headers, &RETRY_AFTER),
        location: header(&head.headers, &LOCATION),
        mcp_session: header(&head.headers, &MCP_SESSION),
        body: bytes,
        is_cut,
        led_by: Vec::new(),
    }
}

fn header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let bytes = headers.get(name)?.as_bytes();
    (bytes.len() <= LONGEST_HEADER).then(|| String::from_utf8_lossy(bytes).trim().to_owned())
}

fn codings(headers: &HeaderMap) -> Vec<String> {
    let named = headers.get_all(CONTENT_ENCODING).into_iter();
    let words = named.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let words = words.map(|word| word.trim().to_ascii_lowercase());
    words.filter(|word| !word.is_empty() && word != "identity").take(MOST_CODINGS + 1).collect()
}
