//! Configuration text of nats-server for a fleet: one account, one user for each key, and the permissions of its role.

use std::fmt::Write as _;

use crate::FleetError;
use crate::servers::{FleetFile, FleetRoster};

/// Returns the configuration of a server. Rendering the same roster gives the same text.
pub fn server_config(file: &FleetFile, roster: &FleetRoster) -> Result<String, FleetError> {
    let mut text = format!(
        "# Written by `sinew fleet init`: change fleet.yaml and run it again.\n\
         server_name: {name}\n\
         listen: {listen}\n\
         max_payload: 1MB\n\
         write_deadline: \"10s\"\n",
        name = quoted(&format!("sinew-{}", file.fleet))?,
        listen = quoted(&file.listen)?,
    );
    if let Some(tls) = &file.tls {
        let [cert, key] = [&tls.cert_file, &tls.key_file].map(|path| path.display().to_string());
        let (cert, key) = (quoted(&cert)?, quoted(&key)?);
        let _ = writeln!(text, "tls {{ cert_file: {cert}, key_file: {key}, timeout: 5 }}");
    }
    // Acknowledged records must survive a power cut of the server, so every write is synced.
    let (dir, bytes) = (quoted(&file.store.dir.display().to_string())?, file.store.max_bytes);
    let _ = writeln!(
        text,
        "jetstream {{ store_dir: {dir}, max_file_store: {bytes}, max_memory_store: 0, sync_interval: always }}"
    );
    let account = quoted(&format!("SINEW_{}", file.fleet.as_str().to_uppercase()))?;
    let _ = writeln!(text, "accounts {{\n  {account} {{\n    jetstream: enabled\n    users: [");
    for (nkey, role) in roster.users() {
        if !is_user_nkey(nkey) {
            return Err(FleetError::Roster(format!(
                "the connection key of `{}` is not a user nkey",
                role.user()
            )));
        }
        let permissions = role.permissions();
        let _ = writeln!(text, "      # {}\n      {{ nkey: {nkey}, permissions: {{", role.user());
        for (verb, subjects) in [("publish", permissions.publish), ("subscribe", permissions.subscribe)] {
            let subjects = subjects.iter().map(|subject| quoted(subject)).collect::<Result<Vec<_>, _>>()?;
            let _ = writeln!(text, "        {verb}: {{ allow: [{}] }}", subjects.join(", "));
        }
        text.push_str("      } }\n");
    }
    text.push_str("    ]\n  }\n}\n");
    Ok(text)
}

/// Quotes a text, which cannot leave its quotes: the configuration language expands `$` only outside of them.
fn quoted(text: &str) -> Result<String, FleetError> {
    match text.contains(['"', '\\']) || text.contains(char::is_control) {
        true => Err(FleetError::Roster(format!(
            "`{}` cannot stand in a server configuration",
            text.escape_debug()
        ))),
        false => Ok(format!("\"{text}\"")),
    }
}

/// Returns true if the text has the form of a public user key: 56 characters of base32 that begin with U.
fn is_user_nkey(text: &str) -> bool {
    let is_base32 = |byte: u8| byte.is_ascii_uppercase() || (b'2'..=b'7').contains(&byte);
    text.len() == 56 && text.starts_with('U') && text.bytes().all(is_base32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::{HostEntry, Invitation, ServerStore, TlsFiles};

    fn nkey(letter: char) -> String {
        format!("U{}", String::from(letter).repeat(55))
    }

    fn fleet() -> (FleetFile, FleetRoster) {
        let file = FleetFile {
            fleet: "acme".parse().unwrap(),
            servers: vec!["tls://nats.example.org:4222".to_owned()],
            listen: "0.0.0.0:4222".to_owned(),
            tls: Some(TlsFiles { ca_file: "/c".into(), cert_file: "/s".into(), key_file: "/k".into() }),
            store: ServerStore { dir: "/store".into(), max_bytes: 1 << 30 },
            replicas: 1,
            policy_signatures: 1,
        };
        let signing_key = crate::SigningKey::from_seed(&[1; 32]).unwrap().public();
        let group = || "laptops".parse().unwrap();
        let host = HostEntry { nkey: nkey('D'), signing_key, group: group() };
        let invitation = Invitation { id: "1".parse().unwrap(), nkey: nkey('E'), group: group() };
        let roster = FleetRoster {
            administrator: nkey('A'),
            auditor: nkey('B'),
            signer: nkey('C'),
            signing_keys: vec![signing_key],
            hosts: [("a".parse().unwrap(), host)].into(),
            invitations: [("b".parse().unwrap(), invitation)].into(),
        };
        (file, roster)
    }

    #[test]
    fn configuration_has_one_user_per_key_and_syncs_always() {
        let (file, roster) = fleet();
        let text = server_config(&file, &roster).unwrap();
        assert_eq!(text.matches("{ nkey: U").count(), 5, "{text}");
        assert!(text.contains("sync_interval: always") && text.contains("cert_file: \"/s\""), "{text}");
        assert!(text.contains("allow: [\"sinew.v1.enrol.b.1\"]"), "{text}");
        for absent in ["no_auth_user", "websocket", "allow_responses", "STREAM.MSG.GET"] {
            assert!(!text.contains(absent), "{absent}");
        }
        assert_eq!(text, server_config(&file, &roster).unwrap());
    }

    #[test]
    fn text_from_a_host_cannot_extend_the_configuration() {
        let (file, mut roster) = fleet();
        for bad in ["", "U1", &format!("{}\"", &nkey('A')[1..]), &nkey('a'), &nkey('A').replace('U', "S")] {
            roster.hosts.values_mut().for_each(|host| host.nkey = bad.to_owned());
            assert!(server_config(&file, &roster).is_err(), "{bad}");
        }
        let (mut file, roster) = fleet();
        file.listen = "0.0.0.0:1\" no_auth_user: \"x".to_owned();
        assert!(server_config(&file, &roster).is_err());
    }
}
