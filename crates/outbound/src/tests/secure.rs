//! TLS. Certificates are generated here; the only way to trust one is the file named in the settings.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::permits::{OPEN, permit};
use super::{ScriptedResolver, gateway, limits, outcome, outcome_of};
use crate::{HttpGateway, HttpRequest, ResponseLimits, TrustedRoots};

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn issuer() -> Issuer {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Starts a server with a certificate for this name, signed by the issuer, and expired if `expired` is set.
fn server(issuer: &Issuer, name: &str, expired: bool) -> u16 {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    if expired {
        (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
    }
    let key = KeyPair::generate().unwrap();
    let certificate: CertificateDer<'static> = params.signed_by(&key, issuer).unwrap().into();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let (config, listener) = (Arc::new(config), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut secure = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
            let mut request = [0; 4096];
            if secure.read(&mut request).is_ok_and(|read| read > 0) {
                let _ = secure.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecure");
                secure.conn.send_close_notify();
                let _ = secure.flush();
            }
        }
    });
    port
}

#[tokio::test]
async fn only_a_valid_certificate_for_the_host_is_accepted() {
    let issuer = issuer();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, issuer.pem()).unwrap();
    let trusting = HttpGateway::new(TrustedRoots::with_file(&file).unwrap()).unwrap();
    let script = Arc::new(ScriptedResolver::of(&[("good.example.org", &[&["127.0.0.1"]])]));
    let check = async |keeper: HttpGateway, port: u16, expect: &str| {
        let url = format!("https://good.example.org:{port}/");
        // The plain server waits ten seconds for the end of a request before it responds.
        let caps = ResponseLimits { body_bytes: 100, deadline: Instant::now() + Duration::from_secs(60) };
        let end = keeper.with_resolver(Arc::clone(&script)).get(&permit(OPEN), &url, &[], caps).await;
        assert_eq!(outcome(&end), expect, "{end:?}");
    };
    let good = server(&issuer, "good.example.org", false);
    check(trusting.clone(), good, "ok 200").await;
    check(gateway(), good, "TlsFailed").await;
    check(trusting.clone(), server(&issuer, "other.example.org", false), "TlsFailed").await;
    check(trusting.clone(), server(&issuer, "good.example.org", true), "TlsFailed").await;
    let plain = super::server::Server::with_response(super::server::response("200 OK", "", "x"));
    check(trusting, plain.port, "TlsFailed").await;
}

/// The server answers the handshake with status 200, which only a client that trusts its certificate sees.
#[tokio::test]
async fn websocket_checks_the_certificate_too() {
    let issuer = issuer();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, issuer.pem()).unwrap();
    let port = server(&issuer, "good.example.org", false);
    let script = Arc::new(ScriptedResolver::of(&[("good.example.org", &[&["127.0.0.1"]])]));
    let question = HttpRequest::get(format!("wss://good.example.org:{port}/"));
    let roots = [TrustedRoots::with_file(&file).unwrap(), TrustedRoots::mozilla()];
    for (roots, expect) in roots.into_iter().zip(["WebSocketRefused", "TlsFailed"]) {
        let keeper = HttpGateway::new(roots).unwrap().with_resolver(Arc::clone(&script));
        let end = keeper.open_websocket(&permit(OPEN), &question, "mcp", limits(100)).await;
        assert_eq!(outcome_of(&end), expect);
    }
}

#[test]
fn certificate_file_must_contain_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    for (content, expect) in [("", "no certificate"), ("-----BEGIN CERTIFICATE-----\nAAAA\n", "")] {
        std::fs::write(&file, content).unwrap();
        let message = TrustedRoots::with_file(&file).unwrap_err().to_string();
        assert!(message.contains("ca.pem") && message.contains(expect), "{message}");
    }
    assert!(TrustedRoots::with_file(&folder.path().join("none.pem")).is_err());
}
