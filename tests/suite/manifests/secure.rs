//! Keys over TLS: the key is sent only after the server has presented a trusted certificate.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tests::{Daemon, Home};

use super::keys::{ASKS, BEARER, echo, guarded, manifest, with_file};
use super::run::put;

type Issuer = CertifiedIssuer<'static, KeyPair>;
type Secure = StreamOwned<ServerConnection, TcpStream>;

fn issuer() -> Issuer {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn certified(issuer: &Issuer) -> Arc<ServerConfig> {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate: CertificateDer<'static> = params.signed_by(&key, issuer).unwrap().into();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    Arc::new(config)
}

/// Starts a TLS proxy before a server on this port. Returns the port of the proxy.
fn start_tls_proxy(config: Arc<ServerConfig>, behind: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let secure = StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), stream);
            std::thread::spawn(move || pass_on(secure, behind));
        }
    });
    port
}

/// Forwards one request to the server and its response back. A client that fails the TLS handshake is
/// ignored.
fn pass_on(mut secure: Secure, behind: u16) -> std::io::Result<()> {
    let (mut request, mut part) = (Vec::new(), [0; 4096]);
    while !is_whole(&request) {
        match secure.read(&mut part)? {
            0 => return Ok(()),
            read => request.extend(&part[..read]),
        }
    }
    let mut server = TcpStream::connect(("127.0.0.1", behind))?;
    server.write_all(&request)?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    secure.write_all(&answer)?;
    secure.conn.send_close_notify();
    secure.flush()
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn trusting(home: &Home, issuer: &Issuer) {
    let file = home.user_home().join("ca.pem");
    std::fs::write(&file, issuer.pem()).unwrap();
    let text = std::fs::read_to_string(home.root().join("config/sinew.yaml")).unwrap();
    let line = format!("\nweb:\n  ca_file: {:?}\n", file.display().to_string());
    home.configure("sinew.yaml", &text.replacen("\nweb:\n", &line, 1));
}

#[test]
fn key_is_sent_only_to_a_trusted_certificate() {
    let (issuer, server) = (issuer(), guarded(BEARER));
    let port = start_tls_proxy(certified(&issuer), server.port());
    let far = manifest("streamable_http", &format!("https://127.0.0.1:{port}/mcp"), ASKS);
    let home = with_file();
    put(&home, "far.yaml", &far);
    let refused = echo(&Daemon::start_in(home));
    assert_eq!(refused["success"], false, "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("certificate"), "{refused}");
    assert_eq!(server.connections(), 0, "who shows no certificate that is trusted is sent nothing");
    let home = with_file();
    trusting(&home, &issuer);
    put(&home, "far.yaml", &far);
    let result = echo(&Daemon::start_in(home));
    assert_eq!(result["output"]["text"], "hi with [key]", "{result}");
    assert!(server.requests().iter().all(|request| request.to_lowercase().contains(BEARER)));
}
