//! Addresses that may and may not be connected to.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::permits::{OPEN, SHIPPED, permit};
use super::server::{Server, response};
use super::{ScriptedResolver, gateway, limits, outcome};
use crate::vet::{Resolver, UrlSource, vet};

/// Every spelling of a private address is refused, and no connection arrives.
#[tokio::test]
async fn private_addresses_are_refused_in_every_spelling() {
    let server = Server::with_response(response("200 OK", "", "secret"));
    let six = TcpListener::bind("[::1]:0").ok();
    let permit = permit(SHIPPED);
    let port = server.port;
    let hosts = [
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "017700000001",
        "127.1",
        "127.0.1",
        "１２７.０.０.１",
        "127。0。0。1",
        "0",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "[fc00::1]",
        "[fe80::1]",
        "[ff02::1]",
        "localhost",
        "localhost.",
        "a.localhost",
        "router",
        "metadata.google.internal",
    ];
    for host in hosts {
        let end = gateway().get(&permit, &format!("http://{host}:{port}/"), &[], limits(100)).await;
        assert_eq!(outcome(&end), "private_address", "{host}");
    }
    for text in [
        "http://a@127.0.0.1:PORT/",
        "http://127.0.0.1\\@evil.org:PORT/",
        "http://127.0.0.1:PORT\\@evil.org/",
        "http://127.0.0.1%00.evil.org:PORT/",
        "http://127.0.0.1\0.evil.org:PORT/",
        "http://[fe80::1%25lo]:PORT/",
        "ftp://127.0.0.1:PORT/",
        "file:///etc/passwd",
        "http:127.0.0.1:PORT",
    ] {
        let end = gateway().get(&permit, &text.replace("PORT", &port.to_string()), &[], limits(100)).await;
        assert!(
            ["bad_url", "userinfo", "scheme", "private_address"].contains(&outcome(&end).as_str()),
            "{text:?}: {end:?}"
        );
    }
    assert_eq!(server.connections(), 0, "nothing may arrive");
    if let Some(six) = six {
        six.set_nonblocking(true).unwrap();
        assert!(six.accept().is_err(), "nothing may arrive");
    }
}

/// One denied address denies the name.
#[tokio::test]
async fn one_denied_address_denies_the_name() {
    let server = Server::with_response(response("200 OK", "", "secret"));
    let permit = permit(SHIPPED);
    for answer in [
        &["127.0.0.1"][..],
        &["93.184.216.34", "127.0.0.1"],
        &["127.0.0.1", "93.184.216.34"],
        &["2606:2800:220:1::1", "::1"],
        &["93.184.216.34", "::ffff:10.0.0.1"],
        &["169.254.169.254"],
    ] {
        let script = Arc::new(ScriptedResolver::of(&[("rebind.example.org", &[answer])]));
        let end = gateway()
            .with_resolver(script)
            .get(&permit, &format!("http://rebind.example.org:{}/", server.port), &[], limits(100))
            .await;
        assert_eq!(outcome(&end), "private_address", "{answer:?}");
    }
    let none = gateway()
        .with_resolver(Arc::new(ScriptedResolver::of(&[("empty.example.org", &[&[]])])))
        .get(&permit, "http://empty.example.org/", &[], limits(100))
        .await;
    assert_eq!(outcome(&none), "Unresolved", "a name without addresses does not bypass the vetting");
    assert_eq!(server.connections(), 0);
}

/// Cloud metadata addresses stay denied even if private addresses are allowed, for callers and settings alike.
#[tokio::test]
async fn link_local_addresses_are_denied_on_an_open_network() {
    let server = Server::with_response(response("200 OK", "", "found"));
    let permit = permit(OPEN);
    for host in [
        "169.254.169.254",
        "0xa9fea9fe",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]",
        "[fe80::1]",
        "[fd00:ec2::254]",
    ] {
        let url = format!("http://{host}:{}/", server.port);
        let end = gateway().get(&permit, &url, &[], limits(100)).await;
        assert_eq!(outcome(&end), "private_address", "{host}");
        let end = gateway().send(&permit, &crate::HttpRequest::get(url), limits(100)).await;
        assert_eq!(outcome(&end), "private_address", "the settings do not allow it: {host}");
    }
    for answer in
        [&["169.254.169.254"][..], &["fe80::1"], &["::ffff:169.254.169.254"], &["64:ff9b::a9fe:a9fe"]]
    {
        let script = Arc::new(ScriptedResolver::of(&[("metadata.internal", &[answer, answer])]));
        let gateway = gateway().with_resolver(script);
        let url = format!("http://metadata.internal:{}/", server.port);
        let end = gateway.get(&permit, &url, &[], limits(100)).await;
        assert_eq!(outcome(&end), "private_address", "a name that leads there: {answer:?}");
        let end = gateway.send(&permit, &crate::HttpRequest::get(url), limits(100)).await;
        assert_eq!(outcome(&end), "private_address", "{answer:?}");
    }
    let both: &[&str] = &["fe80::1", "127.0.0.1"];
    let script = Arc::new(ScriptedResolver::of(&[("nas.local", &[both, both])]));
    let gateway = gateway().with_resolver(script);
    let url = format!("http://nas.local:{}/", server.port);
    let end = gateway.get(&permit, &url, &[], limits(100)).await;
    assert_eq!(outcome(&end), "private_address", "one closed address closes what a caller names");
    let answer = gateway.send(&permit, &crate::HttpRequest::get(url), limits(100)).await.unwrap();
    assert_eq!(answer.body, b"found", "a service of this network is reached at its other address");
    assert_eq!(server.connections(), 1);
}

/// The vetted addresses are the connected ones; a name is resolved once.
#[tokio::test]
async fn name_with_changing_addresses_is_pinned() {
    let permit = permit(SHIPPED);
    let turns: Vec<&[&str]> =
        (0..10_000).map(|n| if n % 2 == 0 { &["93.184.216.34"][..] } else { &["127.0.0.1"][..] }).collect();
    let script = Arc::new(ScriptedResolver::of(&[("flip.example.org", &turns)]));
    let resolver = Resolver::Scripted(Arc::clone(&script));
    let (mut good, mut refused) = (0, 0);
    for _ in 0..10_000 {
        match vet(&permit, (&resolver, &Default::default()), "http://flip.example.org/", UrlSource::Caller)
            .await
        {
            Ok(place) => {
                assert!(place.addresses().iter().all(|address| !address.ip().is_loopback()));
                good += 1;
            }
            Err(error) => {
                assert_eq!(outcome(&Err(error)), "private_address");
                refused += 1;
            }
        }
    }
    assert_eq!((good, refused, script.lookups.load(Ordering::Relaxed)), (5000, 5000, 10_000));
}

/// End to end: a second result of the resolver is never used for the same request.
#[tokio::test]
async fn one_request_resolves_the_name_once() {
    let good = Server::with_response(response("200 OK", "", "first"));
    let script = Arc::new(ScriptedResolver::of(&[("pinned.example.org", &[&["127.0.0.1"], &["127.0.0.9"]])]));
    let url = format!("http://pinned.example.org:{}/", good.port);
    let answer = gateway()
        .with_resolver(Arc::clone(&script))
        .get(&permit(OPEN), &url, &[], limits(100))
        .await
        .unwrap();
    assert_eq!((answer.body.as_slice(), script.lookups.load(Ordering::Relaxed)), (&b"first"[..], 1));
    assert!(good.requests()[0].contains(&format!("host: pinned.example.org:{}", good.port)));
}

/// Host lists are compared label by label.
#[tokio::test]
async fn lookalike_names_are_not_resolved() {
    let permit = permit("{allowed_domains: [\"github.com\"], allow_private_addresses: false}");
    let script = Arc::new(ScriptedResolver::of(&[("github.com", &[&["127.0.0.1"]])]));
    let gateway = gateway().with_resolver(Arc::clone(&script));
    for url in [
        "http://evil-github.com/",
        "http://github.com.evil.com/",
        "http://github.com%00.evil.com/",
        "http://github.com\0.evil.com/",
        "http://gıthub.com/",
        "http://xn--gthub-n4a.com/",
        "http://www.github.com/",
        "http://github.com@evil.com/",
        "http://evil.com/github.com",
        "http://github.comevil.com/",
    ] {
        let end = gateway.get(&permit, url, &[], limits(100)).await;
        assert!(["not_listed", "bad_url", "userinfo"].contains(&outcome(&end).as_str()), "{url:?}: {end:?}");
    }
    assert_eq!(script.lookups.load(Ordering::Relaxed), 0, "a refused name is not even looked up");
    for url in ["http://GITHUB.com/", "http://github.com./"] {
        let end = gateway.get(&permit, url, &[], limits(100)).await;
        assert!(
            ["private_address", "Unresolved"].contains(&outcome(&end).as_str()),
            "the same name: {url} {end:?}"
        );
    }
}

/// A service that the settings place on this machine is reachable there, but the host lists still apply.
#[tokio::test]
async fn configured_service_may_be_local_only_by_its_own_name() {
    let server = Server::with_response(response("200 OK", "", "found"));
    let question = crate::HttpRequest::get(server.url("/search"));
    let answer = gateway().send(&permit(SHIPPED), &question, limits(100)).await.unwrap();
    assert_eq!(answer.body, b"found");

    let script = Arc::new(ScriptedResolver::of(&[("search.example.org", &[&["127.0.0.1"]])]));
    let public = crate::HttpRequest::get(format!("http://search.example.org:{}/", server.port));
    let end = gateway().with_resolver(script).send(&permit(SHIPPED), &public, limits(100)).await;
    assert_eq!(outcome(&end), "private_address", "a public name must not resolve to a private address");

    let closed = permit("{allowed_domains: [\"example.org\"], allow_private_addresses: true}");
    assert_eq!(outcome(&gateway().send(&closed, &question, limits(100)).await), "not_listed");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn ports_of_other_services_are_refused() {
    for port in [22, 25, 6667, 10080, 2375, 2379, 3306, 5432, 6379, 10250, 11211, 27017] {
        let end = gateway().get(&permit(OPEN), &format!("http://127.0.0.1:{port}/"), &[], limits(100)).await;
        assert_eq!(outcome(&end), "BlockedPort", "{port}");
    }
}

/// The policy permits the server, and the settings or a manifest name it. The reservation is stronger.
#[tokio::test]
async fn reserved_port_is_refused_to_every_source() {
    let console = Server::with_response(response("200 OK", "", "x"));
    let reserved = governance::reserved_ports::ReservedPorts::default();
    let gateway = gateway().with_reserved_ports(reserved.clone());
    let (url, permit) = (console.url("/"), permit(OPEN));
    let reservation = reserved.reserve(console.port);
    let request = || crate::HttpRequest::get(url.clone());
    let redirect = response("302 Found", &format!("Location: {url}\r\n"), "");
    let leads_there = Server::with_response(redirect);
    let mut whole = |_: &[u8]| false;
    let ends = [
        gateway.get(&permit, &url, &[], limits(100)).await,
        gateway.get(&permit, &leads_there.url("/"), &[], limits(100)).await,
        gateway.send(&permit, &request(), limits(100)).await,
        gateway.send_until(&permit, &request(), limits(100), &mut whole).await,
    ];
    assert_eq!(ends.each_ref().map(outcome), ["BlockedPort"; 4].map(str::to_owned));
    assert_eq!(console.connections(), 0);
    drop(reservation);
    assert_eq!(outcome(&gateway.get(&permit, &url, &[], limits(100)).await), "ok 200");
}
