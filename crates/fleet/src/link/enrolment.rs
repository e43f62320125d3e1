//! Enrolment of a host: the one-time token that an operator passes to it, and its request.

use serde::{Deserialize, Serialize};

use crate::{FleetError, Purpose, Signed, SubjectToken, TrustedKeys, VerifyingKey};

/// Prefix of a token, so that it is recognised in logs and by secret scanners.
const TOKEN_PREFIX: &str = "sinew-join-";

/// Content of a join token. It is secret until it is used: its bearer can ask to become this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinToken {
    /// Name of the fleet.
    pub fleet: SubjectToken,
    /// Name of the host.
    pub host: SubjectToken,
    /// Group whose policy the host will take.
    pub group: SubjectToken,
    /// Id of the invitation.
    pub invitation: SubjectToken,
    /// Addresses of the servers.
    pub servers: Vec<String>,
    /// Certificate authority of the servers, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Keys that sign policy, modes and beacons.
    pub signing_keys: Vec<VerifyingKey>,
    /// Number of signatures that a policy bundle needs.
    pub policy_signatures: usize,
    /// Seed of the connection key of the invitation.
    pub seed: String,
}

impl JoinToken {
    /// Returns the text.
    pub fn to_text(&self) -> String {
        let json = serde_json::to_vec(self).unwrap_or_default();
        format!("{TOKEN_PREFIX}{}", tool::canonical::hex(&json))
    }

    /// Parses the text. The error does not quote it.
    pub fn parse(text: &str) -> Result<JoinToken, FleetError> {
        let malformed = || {
            FleetError::Roster(
                "this is not a join token: copy the whole line that `sinew fleet invite` printed".to_owned(),
            )
        };
        let digits = text.trim().strip_prefix(TOKEN_PREFIX).ok_or_else(malformed)?;
        let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(pair).collect();
        serde_json::from_slice(&bytes.ok_or_else(malformed)?).map_err(|_| malformed())
    }
}

/// Request of an invited host, signed by its signing key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnrolmentRequest {
    /// Name of the fleet.
    pub fleet: SubjectToken,
    /// Name of the host.
    pub host: SubjectToken,
    /// Id of the invitation.
    pub invitation: SubjectToken,
    /// Connection key that the host made.
    pub nkey: String,
    /// Signing key that the host made.
    pub signing_key: VerifyingKey,
}

impl EnrolmentRequest {
    /// Verifies a request: it must be signed by the key that it names, and be for this invitation.
    pub fn verify(
        bytes: &[u8],
        (fleet, host, invitation): (&SubjectToken, &SubjectToken, &SubjectToken),
    ) -> Result<EnrolmentRequest, FleetError> {
        let kind = Purpose::Enrolment.name();
        let signed = Signed::parse(Purpose::Enrolment, bytes)?;
        let claimed: EnrolmentRequest = signed.content_unverified(Purpose::Enrolment)?;
        let request: EnrolmentRequest =
            signed.verify(Purpose::Enrolment, &TrustedKeys::one(claimed.signing_key))?;
        for (found, expected) in
            [(&request.fleet, fleet), (&request.host, host), (&request.invitation, invitation)]
        {
            if found != expected {
                let (found, expected) = (found.to_string(), expected.to_string());
                return Err(FleetError::Foreign { kind, found, expected });
            }
        }
        Ok(request)
    }

    /// Returns the fingerprint that both operators compare.
    pub fn fingerprint(&self) -> String {
        let digest = tool::canonical::sha256_hex(format!("{} {}", self.nkey, self.signing_key).as_bytes());
        digest.as_bytes().chunks(4).take(6).map(String::from_utf8_lossy).collect::<Vec<_>>().join("-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SigningKey;

    fn token(text: &str) -> SubjectToken {
        text.parse().unwrap()
    }

    #[test]
    fn join_token_round_trips_and_errors_do_not_quote_it() {
        let join = JoinToken {
            fleet: token("acme"),
            host: token("a"),
            group: token("g"),
            invitation: token("1"),
            servers: vec!["tls://x:1".to_owned()],
            ca: Some("PEM".to_owned()),
            signing_keys: Vec::new(),
            policy_signatures: 1,
            seed: "SUSECRET".to_owned(),
        };
        let text = join.to_text();
        assert_eq!(JoinToken::parse(&format!(" {text}\n")).unwrap(), join);
        for bad in [&text[1..], &text[..text.len() - 1], &format!("{text}00"), "sinew-join-zz", ""] {
            let error = JoinToken::parse(bad).unwrap_err().to_string();
            assert!(error.contains("not a join token") && !error.contains("SUSECRET"), "{error}");
        }
    }

    #[test]
    fn enrolment_is_for_one_invitation_and_signed_by_its_own_key() {
        let key = SigningKey::from_seed(&[1; 32]).unwrap();
        let request = EnrolmentRequest {
            fleet: token("acme"),
            host: token("a"),
            invitation: token("1"),
            nkey: "U1".to_owned(),
            signing_key: key.public(),
        };
        let signed = key.sign(Purpose::Enrolment, &request).unwrap().to_bytes();
        let verify = |host: &str, id: &str| {
            EnrolmentRequest::verify(&signed, (&token("acme"), &token(host), &token(id)))
        };
        assert_eq!(verify("a", "1").unwrap(), request);
        assert!(verify("b", "1").is_err() && verify("a", "2").is_err());
        let stolen = SigningKey::from_seed(&[2; 32]).unwrap().sign(Purpose::Enrolment, &request).unwrap();
        let found = EnrolmentRequest::verify(&stolen.to_bytes(), (&token("acme"), &token("a"), &token("1")));
        assert!(found.is_err());
    }
}
