//! Each permission of a host, tried with its stolen key.

use fleet::link::{ConnectionKey, ConnectionSettings, FleetConnection, FleetMembership};
use fleet::{FleetError, SubjectToken, Subjects};
use tests::Home;

use super::bench::Fleet;

fn token(text: &str) -> SubjectToken {
    text.parse().expect("a name")
}

/// Publishes with the stolen key and returns the refusal of the server.
async fn publish(connection: &FleetConnection, subject: &str) -> Option<String> {
    connection.take_fault();
    connection.publish(subject.to_owned(), b"x".to_vec()).await.expect("the client sends it");
    refusal(connection).await
}

/// The refusal arrives before the reply to the next ping, which `flush` waits for; the client reports it by an event.
async fn refusal(connection: &FleetConnection) -> Option<String> {
    for _ in 0..50 {
        if let Some(fault) = connection.take_fault() {
            return Some(fault);
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    None
}

fn assert_denied(fault: Option<String>, subject: &str) {
    let fault = fault.unwrap_or_else(|| panic!("`{subject}` was permitted"));
    assert!(fault.to_lowercase().contains("permissions violation"), "{subject}: {fault}");
}

#[test]
fn stolen_host_key_reaches_nothing_else() {
    let Some(fleet) = Fleet::start() else { return };
    let home = Home::initialised();
    fleet.enrol("web-1", &home);
    let folder = home.root().join("state/fleet");
    let membership = FleetMembership::read(&folder).expect("it can be read").expect("a member");
    let settings = membership.connection(&folder).expect("a key");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let thief = FleetConnection::open(&settings).await.expect("the key is valid");
        let (own, other) = (token("web-1"), token("web-2"));
        assert_eq!(publish(&thief, &Subjects::beat(&own)).await, None, "the control: its own subject works");
        let stream = Subjects::ledger_stream(other.partition());
        for subject in [
            Subjects::beat(&other),
            Subjects::ledger(&other),
            Subjects::reply("me", "web-2", "n"),
            Subjects::call("web-2", "web-1"),
            Subjects::call("web-1", "web-1"),
            Subjects::place("gpu", "web-1"),
            Subjects::policy(&token("default")),
            Subjects::pointer(&token("default")),
            Subjects::MODE.to_owned(),
            Subjects::BEACON.to_owned(),
            Subjects::enrolment(&other, &token("1")),
            "sinew.v1.ctl.web-2.cancel.web-1".to_owned(),
            Subjects::direct_get(&stream, &Subjects::ledger(&other)),
            Subjects::direct_get("POLICY", &Subjects::policy(&token("servers"))),
            format!("$JS.API.STREAM.PURGE.{stream}"),
            format!("$JS.API.STREAM.DELETE.{stream}"),
            format!("$JS.API.STREAM.MSG.GET.{stream}"),
            format!("$JS.API.STREAM.MSG.DELETE.{stream}"),
            format!("$JS.API.CONSUMER.CREATE.{stream}"),
            format!("$JS.API.DIRECT.GET.{stream}"),
            "$JS.API.STREAM.CREATE.OTHER".to_owned(),
            "$SYS.REQ.SERVER.PING".to_owned(),
        ] {
            assert_denied(publish(&thief, &subject).await, &subject);
        }
        for subject in [
            Subjects::ALL_BEATS.to_owned(),
            Subjects::call("web-2", "*"),
            "sinew.v1.reply.>".to_owned(),
            "sinew.v1.ledger.>".to_owned(),
            format!("{}.>", Subjects::inbox("host-web-2")),
            format!("{}.>", Subjects::inbox("auditor")),
            ">".to_owned(),
        ] {
            thief.take_fault();
            let _silent = thief.subscribe(&subject).await.expect("the client sends it");
            assert_denied(refusal(&thief).await, &subject);
        }
        // A message with its own name for another host's mirror, and a rewrite of its own past.
        let own_subject = Subjects::ledger(&own);
        let stored =
            thief.store(&own_subject, (None, b"x".to_vec()), Some(0)).await.expect("its own subject");
        let rewritten = thief.store(&own_subject, (None, b"y".to_vec()), Some(0)).await;
        assert_eq!(rewritten, Err(FleetError::Conflict));
        let own_stream = Subjects::ledger_stream(own.partition());
        let last = thief.last(&own_stream, &own_subject).await.expect("its own head").expect("a message");
        assert_eq!((last.seq, last.payload), (stored, b"x".to_vec()));
    });
}

#[test]
fn unknown_and_removed_keys_are_refused() {
    let Some(fleet) = Fleet::start() else { return };
    let home = Home::initialised();
    fleet.enrol("web-1", &home);
    let folder = home.root().join("state/fleet");
    let membership = FleetMembership::read(&folder).expect("it can be read").expect("a member");
    let settings = membership.connection(&folder).expect("a key");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let opens = |settings: &ConnectionSettings| runtime.block_on(FleetConnection::open(settings)).is_ok();
    assert!(opens(&settings));
    let stranger = ConnectionKey::generate().expect("a key");
    assert!(!opens(&ConnectionSettings { seed: stranger.seed().to_owned(), ..settings.clone() }));
    fleet.sinew(&["fleet", "remove", "web-1"]).must_exit(0);
    fleet.reload_server();
    assert!(!opens(&settings));
}
