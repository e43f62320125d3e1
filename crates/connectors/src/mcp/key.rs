//! The key that a server on the network wants. Its manifest says which, by name; the settings say for which host that key
//! is and where it is kept. Where the two do not agree, or the key is not there, nothing is sent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use manifest::KeyWish;
use outbound::{Credential, KeyPlaces};
use serde_json::{Map, Value};
use tool::{Failure, FailureKind};
use url::Url;

/// A key of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostKey {
    /// The one host that gets it.
    pub host: String,
    /// Where it is kept.
    pub places: KeyPlaces,
}

/// The keys of the settings, by name.
pub type HostKeys = HashMap<String, HostKey>;

/// A key that a manifest names, and the address that gets it.
#[derive(Clone, Debug)]
pub(crate) struct ServerKey {
    name: String,
    header: Option<String>,
    url: String,
    host: String,
    known: Option<HostKey>,
}

impl ServerKey {
    /// The one that a manifest wants for its server, or why no key can be sent like that.
    pub(crate) fn of(wish: &KeyWish, url: &str, keys: &HostKeys) -> Result<ServerKey, String> {
        sendable(wish)?;
        let host = Url::parse(url).ok().and_then(|url| Some(url.host()?.to_string()));
        Ok(ServerKey {
            name: wish.name.clone(),
            header: wish.header.clone(),
            url: url.to_owned(),
            host: host.ok_or("its address has no host")?,
            known: keys.get(&wish.name).cloned(),
        })
    }

    /// The key, for its server alone. It is looked for anew each time, so that a new one counts at once.
    /// A keychain waits for its owner, and a call does not wait for longer than it may.
    pub(crate) async fn credential(self: Arc<Self>, deadline: Instant) -> Result<Credential, Failure> {
        let failed = |kind, why| Err(Failure::new(kind, why));
        let found = tokio::task::spawn_blocking(move || self.find());
        match tokio::time::timeout_at(deadline.into(), found).await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) => failed(FailureKind::Crashed, "looking for the key failed"),
            Err(_) => failed(FailureKind::TimedOut, "nothing was sent: the key was not there in time"),
        }
    }

    /// The same on a thread that may block.
    fn find(&self) -> Result<Credential, Failure> {
        let key = self.known()?.places.find().map_err(|why| self.missing("is not there", why))?;
        Credential::new(key, &self.url, self.header.as_deref()).map_err(Failure::from)
    }

    /// Whether there could be one, without looking for it: to look may ask its owner, and leaves no record.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.known().map(drop)
    }

    fn missing(&self, why: &str, hint: String) -> Failure {
        let message = format!("nothing was sent: the key `{}` for `{}` {why}", self.name, self.host);
        Failure::new(FailureKind::NotFound, message).hint(hint)
    }

    /// What the settings say of it, if that is for this host.
    fn known(&self) -> Result<&HostKey, Failure> {
        let ServerKey { name, host, .. } = self;
        let Some(known) = &self.known else {
            let entry = format!("keys: {{{name}: {{host: {host}, key_file: ~/.config/sinew/keys/{name}}}}}");
            return Err(self.missing("is not in the settings", format!("write `{entry}` into sinew.yaml")));
        };
        if known.host != *host {
            let message =
                format!("nothing was sent: the key `{name}` is for `{}`, not for `{host}`", known.host);
            let hint =
                "the manifest names the address, `keys` in sinew.yaml whose key it is: they must agree";
            return Err(Failure::new(FailureKind::Denied, message).hint(hint));
        }
        Ok(known)
    }

    /// For the person who is asked.
    pub(crate) fn told(&self) -> String {
        let how = match &self.header {
            None => "as a bearer token".to_owned(),
            Some(header) => format!("in the header {header}"),
        };
        format!("`{}` is sent to {} {how}", self.name, self.host)
    }
}

/// Whether a key can be sent as a manifest wants it.
pub(crate) fn sendable(wish: &KeyWish) -> Result<(), String> {
    match &wish.header {
        Some(header) if !outbound::may_carry_key(header) => {
            Err(format!("no key is sent in the header `{header}`, by which messages are told apart"))
        }
        _ => Ok(()),
    }
}

/// What a server says, without the key where it repeats it: what it says is shown, kept and compared.
pub(crate) fn mask(said: Value, credential: &Credential) -> Value {
    let text = |text: String| credential.masked(&text).unwrap_or(text);
    match said {
        Value::String(said) => Value::String(text(said)),
        Value::Array(all) => all.into_iter().map(|one| mask(one, credential)).collect(),
        Value::Object(all) => {
            let all = all.into_iter().map(|(name, one)| (text(name), mask(one, credential)));
            Value::Object(all.collect::<Map<_, _>>())
        }
        other => other,
    }
}
