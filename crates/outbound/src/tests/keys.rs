//! Keys: sent only to the origin they belong to, in the configured header.

use std::sync::Arc;

use super::permits::{OPEN, permit};
use super::server::{Server, response};
use super::{ScriptedResolver, gateway, limits, outcome, outcome_of};
use crate::{Credential, HttpRequest, KeySources, may_carry_key};

/// Creates a credential from a key file.
fn credential(url: &str, header: Option<&str>) -> Credential {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, "key-5b1c").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let key = KeySources { file: Some(file), ..KeySources::default() }.find().unwrap();
    Credential::new(key, url, header).unwrap()
}

fn question(url: &str, credential: Credential) -> HttpRequest {
    HttpRequest { credential: Some(credential), ..HttpRequest::get(url) }
}

#[tokio::test]
async fn key_is_sent_in_its_header_and_not_redirected() {
    let other = Server::with_response(response("200 OK", "", "x"));
    for (header, expect) in [
        (None, "authorization: Bearer key-5b1c\r\n"),
        (Some("X-API-Key"), "x-api-key: key-5b1c\r\n"),
        (Some("Authorization"), "authorization: key-5b1c\r\n"),
    ] {
        let location = format!("Location: {}\r\n", other.url("/"));
        let server = Server::with_response(response("307 Temporary", &location, ""));
        let (url, mut more) = (server.url("/mcp"), |_: &[u8]| false);
        let question = question(&url, credential(&url, header));
        let end = gateway().send_until(&permit(OPEN), &question, limits(100), &mut more).await;
        assert_eq!(outcome(&end), "ok 307");
        assert!(server.requests()[0].contains(expect), "{:?}", server.requests());
    }
    assert_eq!(other.connections(), 0);
}

/// A different port, host or scheme is a different origin, whether a server or a mistake in a caller names
/// it.
#[tokio::test]
async fn key_for_another_origin_opens_no_connection() {
    let (own, other) = (
        Server::with_response(response("200 OK", "", "x")),
        Server::with_response(response("200 OK", "", "x")),
    );
    let named = format!("http://localhost:{}/", own.port);
    let secure = own.url("/").replace("http:", "https:");
    for elsewhere in [other.url("/"), named, secure] {
        let question = question(&elsewhere, credential(&own.url("/"), None));
        let mut more = |_: &[u8]| false;
        let end = gateway().send_until(&permit(OPEN), &question, limits(100), &mut more).await;
        assert_eq!(outcome(&end), "KeyOriginMismatch", "{elsewhere}");
        let end = gateway().open_stream(&permit(OPEN), &question, limits(100).deadline).await;
        assert_eq!(outcome_of(&end), "KeyOriginMismatch", "{elsewhere}");
    }
    let socket = question(&other.url("/").replace("http:", "ws:"), credential(&own.url("/"), None));
    let end = gateway().open_websocket(&permit(OPEN), &socket, "mcp", limits(100)).await;
    assert_eq!(outcome_of(&end), "KeyOriginMismatch");
    assert_eq!((own.connections(), other.connections()), (0, 0));
}

#[tokio::test]
async fn websocket_key_is_sent_with_the_handshake() {
    let server = Server::with_response(response("401 Unauthorized", "", ""));
    let url = server.url("/").replace("http:", "ws:");
    let question = question(&url, credential(&url, Some("x-api-key")));
    let end = gateway().open_websocket(&permit(OPEN), &question, "mcp", limits(100)).await;
    assert_eq!(outcome_of(&end), "WebSocketRefused");
    assert!(server.requests()[0].contains("x-api-key: key-5b1c\r\n"), "{:?}", server.requests());
}

/// The connected address decides, not the host name.
#[tokio::test]
async fn key_is_not_sent_unencrypted() {
    let check = async |scheme: &str, address: &str, expect: &str| {
        let script = Arc::new(ScriptedResolver::of(&[("keys.test", &[&[address]])]));
        let url = format!("{scheme}://keys.test/");
        let question = question(&url, credential(&url, None));
        let (mut more, soon) = (|_: &[u8]| false, std::time::Instant::now());
        let caps =
            crate::ResponseLimits { deadline: soon + std::time::Duration::from_millis(300), ..limits(100) };
        let asked = gateway().with_resolver(script);
        let end = asked.send_until(&permit(OPEN), &question, caps, &mut more).await;
        assert_eq!(outcome(&end), expect, "{scheme} {address}");
    };
    check("http", "10.255.255.1", "KeyUnencrypted").await;
    check("http", "::ffff:10.255.255.1", "KeyUnencrypted").await;
    // No server listens at either, so `Unreachable` shows that a connection was attempted.
    check("http", "127.0.0.1", "Unreachable").await;
    check("https", "127.0.0.1", "Unreachable").await;
}

#[test]
fn framing_and_routing_headers_carry_no_key() {
    for good in ["X-API-Key", "authorization", "api-key", "DD-API-KEY"] {
        assert!(may_carry_key(good), "{good}");
    }
    for bad in [
        "Host",
        "connection",
        "Content-Length",
        "transfer-encoding",
        "Mcp-Session-Id",
        "sec-websocket-key",
        "Proxy-Authorization",
        "cookie",
        "a b",
        "",
        "x:y",
        "x\r\ny",
    ] {
        assert!(!may_carry_key(bad), "{bad:?}");
    }
}

#[test]
fn repeated_keys_are_masked() {
    let credential = credential("https://a.test/", None);
    assert_eq!(credential.mask("no key-5b1c, key-5b1c!").as_deref(), Some("no [key], [key]!"));
    assert_eq!(credential.mask("nothing of it"), None);
    assert_eq!(credential.mask("key-5b1c, cut: key-5b1…").as_deref(), Some("[key], cut: [key]"));
    assert_eq!(credential.mask("too little to tell: ke…"), None);
    assert_eq!(credential.mask("y-5b1c is the end").as_deref(), Some("[key] is the end"));
    assert_eq!(credential.mask("b1c is too short"), None);
    assert!(!format!("{credential:?}").contains("5b1c"));
}
