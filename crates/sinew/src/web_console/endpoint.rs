//! Entry of every request: files of the page, and the JSON interface below `/api/`, which takes POST only.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::{Method, Request, StatusCode};
use serde_json::{Value, json};

use crate::command_context::CommandContext;
use crate::http_bridge::{ConnectionPlace, single};

use super::access::AccessRules;
use super::api::{Api, ApiError};
use super::assets;
use super::feed::Feed;
use super::link::ControlLink;
use super::reply::{self, Reply};
use super::sessions::ConsoleSessions;

/// Longest body of a request: a policy file, or edited arguments.
const MAX_BODY_BYTES: usize = 1 << 20;
/// Time for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay of the response to a wrong code or token.
const FAILURE_DELAY: Duration = Duration::from_millis(500);

/// State shared by all connections.
pub(super) struct Endpoint {
    access: AccessRules,
    sessions: Arc<ConsoleSessions>,
    api: Api,
    feed: Arc<Feed>,
    /// Approval request that the page shows first.
    first_request: Option<String>,
    pin_file: std::path::PathBuf,
}

impl Endpoint {
    pub(super) fn new(
        port: u16,
        context: CommandContext,
        link: Arc<ControlLink>,
        feed: Arc<Feed>,
        first_request: Option<String>,
    ) -> Endpoint {
        Endpoint {
            access: AccessRules::new(port),
            sessions: Arc::default(),
            pin_file: context.home().state_dir().join("operator-pin"),
            api: Api::new(context, link, Arc::clone(&feed)),
            feed,
            first_request,
        }
    }

    /// Returns a link with a new code. The fragment of a URL is sent to no server, and stands in no referrer.
    pub(super) fn new_link(&self) -> String {
        format!("{}/#{}", self.access.origin(), self.sessions.issue_code())
    }

    /// Returns true if the PIN file exists, for a hint. The daemon decides.
    pub(super) fn pin_is_set(&self) -> bool {
        self.pin_file.exists()
    }

    pub(super) async fn handle(&self, request: Request<Incoming>, place: &ConnectionPlace) -> Reply {
        if let Err(denied) = self.access.check_host(request.headers()) {
            return reply::denied(denied);
        }
        let path = request.uri().path().to_owned();
        match path.strip_prefix("/api/") {
            Some(name) => self.handle_api(name, request, place).await,
            None => self.handle_asset(&path, &request),
        }
    }

    fn handle_asset(&self, path: &str, request: &Request<Incoming>) -> Reply {
        if let Err(denied) = self.access.check_asset(request.headers()) {
            return reply::denied(denied);
        }
        if request.method() != Method::GET {
            return reply::closing(reply::method_not_allowed("GET"));
        }
        match assets::find(path) {
            Some((content_type, content)) => reply::asset(content_type, content),
            None => reply::error(StatusCode::NOT_FOUND, "not_found", "there is no such file", &Value::Null),
        }
    }

    async fn handle_api(&self, name: &str, request: Request<Incoming>, place: &ConnectionPlace) -> Reply {
        if request.method() != Method::POST {
            return reply::closing(reply::method_not_allowed("POST"));
        }
        if let Err(denied) = self.access.check_api(request.headers()) {
            return reply::denied(denied);
        }
        let (head, body) = request.into_parts();
        let token = bearer_token(&head.headers).map(str::to_owned);
        let is_open = token.as_deref().is_some_and(|token| self.sessions.is_valid(token, Instant::now()));
        // A body is read before there is a session only for the code, which is short.
        if !is_open && name != "open" {
            tokio::time::sleep(FAILURE_DELAY).await;
            let message =
                "the session has ended: press Enter in the terminal of `sinew console` for a new link";
            return reply::closing(reply::error(
                StatusCode::UNAUTHORIZED,
                "no_session",
                message,
                &Value::Null,
            ));
        }
        if is_open && !place.become_client() {
            let message = "too many connections are open: close a page";
            return reply::closing(reply::error(
                StatusCode::SERVICE_UNAVAILABLE,
                "busy",
                message,
                &Value::Null,
            ));
        }
        let limit = if is_open { MAX_BODY_BYTES } else { 1024 };
        let body = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, limit).collect()).await;
        let Ok(Ok(body)) = body else {
            let message = format!("the body did not arrive, or is longer than {limit} bytes");
            return reply::closing(reply::error(
                StatusCode::PAYLOAD_TOO_LARGE,
                "too_large",
                &message,
                &Value::Null,
            ));
        };
        let params = match serde_json::from_slice::<Value>(&body.to_bytes()) {
            Ok(params @ Value::Object(_)) => params,
            _ => {
                let message = "the body must be a JSON object";
                return reply::error(StatusCode::BAD_REQUEST, "invalid", message, &Value::Null);
            }
        };
        match (name, token) {
            ("open", _) => self.open(&params).await,
            (_, Some(token)) => self.handle_call(name, params, token).await,
            (_, None) => reply::error(StatusCode::UNAUTHORIZED, "no_session", "no session", &Value::Null),
        }
    }

    /// Exchanges the code of a link for a token.
    async fn open(&self, params: &Value) -> Reply {
        let code = params["code"].as_str().unwrap_or_default();
        match self.sessions.exchange(code, Instant::now()) {
            Some(token) => reply::result(&json!({"token": token, "request": self.first_request})),
            None => {
                tokio::time::sleep(FAILURE_DELAY).await;
                let message = "the link was used already or is older than 60 s: press Enter in the terminal of \
                    `sinew console` for a new one";
                reply::error(StatusCode::UNAUTHORIZED, "code_invalid", message, &Value::Null)
            }
        }
    }

    async fn handle_call(&self, name: &str, params: Value, token: String) -> Reply {
        match name {
            "stream" => {
                let sessions = Arc::clone(&self.sessions);
                let is_valid = move || sessions.is_valid(&token, Instant::now());
                reply::events(self.feed.stream(params.get("after").and_then(Value::as_u64), is_valid))
            }
            "close" => {
                self.sessions.close(&token);
                reply::result(&json!({"closed": true}))
            }
            _ => match self.api.call(name, params).await {
                Ok(result) => reply::result(&result),
                // A browser logs every status of an error, and a wrong PIN is no fault of the page.
                Err(ApiError { code, message, data }) => reply::error(StatusCode::OK, &code, &message, &data),
            },
        }
    }
}

fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = single(headers, &AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
