//! Redirects, and the headers that are sent along.

use std::io::Write;
use std::sync::Arc;

use super::permits::{OPEN, SHIPPED, permit};
use super::server::{Server, response};
use super::{ScriptedResolver, gateway, limits, outcome};

#[tokio::test]
async fn redirects_are_followed_as_get_and_listed() {
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let server = Server::start(move |request, stream| {
            let moved = response(status, "Location: /there\r\nSet-Cookie: id=secret\r\n", "");
            let bytes =
                if request.starts_with("GET /here") { moved } else { response("200 OK", "", "there") };
            let _ = stream.write_all(&bytes);
        });
        let answer = gateway().get(&permit(OPEN), &server.url("/here"), &[], limits(100)).await.unwrap();
        assert_eq!((answer.body.as_slice(), answer.url.path()), (&b"there"[..], "/there"), "{status}");
        assert_eq!(answer.led_by.len(), 1);
        let second = server.requests()[1].to_lowercase();
        assert!(
            !second.contains("cookie") && !second.contains("referer"),
            "nothing is carried along: {second}"
        );
    }
}

/// A redirect to a denied target is not followed, whatever its scheme, port or spelling.
#[tokio::test]
async fn redirect_to_this_machine_is_refused() {
    let inside = Server::with_response(response("200 OK", "", "secret"));
    let port = inside.port;
    for location in [
        format!("http://127.0.0.1:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://user:pass@127.0.0.1:{port}/"),
        format!("https://localhost:{port}/"),
        format!("http://inner.example.org:{port}/"),
        format!("//127.0.0.1:{port}/"),
        "file:///etc/passwd".to_owned(),
        "gopher://127.0.0.1/".to_owned(),
    ] {
        // A test server is always local, so the URL that the redirect leads to is requested directly.
        let permit = permit(SHIPPED);
        let onward = url::Url::parse("http://public.example.org/").unwrap().join(&location).unwrap();
        let script = Arc::new(ScriptedResolver::of(&[("inner.example.org", &[&["127.0.0.1"]])]));
        let end = gateway().with_resolver(script).get(&permit, onward.as_str(), &[], limits(100)).await;
        assert!(
            ["private_address", "userinfo", "scheme"].contains(&outcome(&end).as_str()),
            "{location}: {end:?}"
        );
    }
    assert_eq!(inside.connections(), 0);
}

/// Over real connections: the first hop is allowed by its name, the second is denied.
#[tokio::test]
async fn every_hop_is_judged_again() {
    let inside = Server::at("127.0.0.2", |_, stream| {
        let _ = stream.write_all(&response("200 OK", "", "secret"));
    });
    let location = format!("Location: http://127.0.0.2:{}/\r\n", inside.port);
    let entry = Server::with_response(response("302 Found", &location, ""));
    let permit = permit("{allowed_domains: [\"entry.example.org\"], allow_private_addresses: true}");
    let script = Arc::new(ScriptedResolver::of(&[("entry.example.org", &[&["127.0.0.1"]])]));
    let url = format!("http://entry.example.org:{}/", entry.port);
    let end = gateway().with_resolver(script).get(&permit, &url, &[], limits(100)).await;
    assert_eq!(outcome(&end), "not_listed");
    assert_eq!((entry.connections(), inside.connections()), (1, 0));
}

#[tokio::test]
async fn redirect_loops_and_long_chains_end() {
    let server = Server::with_response(response("302 Found", "Location: /again\r\n", ""));
    let end = gateway().get(&permit(OPEN), &server.url("/"), &[], limits(100)).await;
    assert_eq!((outcome(&end).as_str(), server.connections()), ("TooManyRedirects", 6));
}

/// A `Refresh` header is not a redirect, and neither is a redirect status without a location.
#[tokio::test]
async fn only_standard_redirects_are_followed() {
    let check = async |status: &str, headers: &str, expect: &str| {
        let server = Server::with_response(response(status, headers, "x"));
        let end = gateway().get(&permit(OPEN), &server.url("/"), &[], limits(100)).await;
        assert_eq!((outcome(&end).as_str(), server.connections()), (expect, 1), "{status} {headers}");
    };
    check("200 OK", "Refresh: 0; url=/again\r\n", "ok 200").await;
    check("302 Found", "", "ok 302").await;
    check("304 Not Modified", "Location: /again\r\n", "ok 304").await;
    check("302 Found", "Location: http://[\r\n", "BadRedirect").await;
}

/// A request to a service with a key does not follow redirects.
#[tokio::test]
async fn key_is_sent_only_to_its_service() {
    let other = Server::with_response(response("200 OK", "", "x"));
    let location = format!("Location: {}\r\n", other.url("/"));
    let service = Server::with_response(response("307 Temporary", &location, ""));
    let question = crate::HttpRequest::get(service.url("/")).header("authorization", "Bearer key");
    let answer = gateway().send(&permit(OPEN), &question, limits(100)).await.unwrap();
    assert_eq!((answer.status, other.connections()), (307, 0));
    assert!(service.requests()[0].contains("authorization: Bearer key"));
}
