//! Key of a server. The manifest names the key; the settings define its receiver and where it is stored. If the
//! receiver is another one or the key is missing, nothing is sent and no server is started.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Instant;

use manifest::{KeyRequirement, Manifest, McpSection};
use outbound::{ApiKey, Credential, KeySources};
use sandbox::ConfinedCommand;
use serde_json::{Map, Value};
use tool::definition::KeyRecipient;
use tool::{Failure, FailureKind};
use url::Url;

/// Key in the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredKey {
    /// Only receiver of the key.
    pub recipient: KeyRecipient,
    /// Locations of the key.
    pub places: KeySources,
}

/// Keys of the settings by name.
pub type ConfiguredKeys = HashMap<String, ConfiguredKey>;

/// Key that a manifest names, with the URL that receives it.
#[derive(Clone, Debug)]
pub(crate) struct ServerKey {
    name: String,
    header: Option<String>,
    url: String,
    host: String,
    configured: Option<ConfiguredKey>,
}

impl ServerKey {
    /// Resolves the key of a manifest. The error states why a key cannot be sent in this form.
    pub(crate) fn resolve(
        requirement: &KeyRequirement,
        url: &str,
        keys: &ConfiguredKeys,
    ) -> Result<ServerKey, String> {
        check_key_header(requirement)?;
        let host = Url::parse(url).ok().and_then(|url| Some(url.host()?.to_string()));
        Ok(ServerKey {
            name: requirement.name.clone(),
            header: requirement.header.clone(),
            url: url.to_owned(),
            host: host.ok_or("its URL has no host")?,
            configured: keys.get(&requirement.name).cloned(),
        })
    }

    /// Reads the key. It is read again for each call, so that a new key takes effect immediately. A keychain
    /// may wait for its user, so the deadline of the call applies.
    pub(crate) async fn credential(self: Arc<Self>, deadline: Instant) -> Result<Credential, Failure> {
        let failed = |kind, reason| Err(Failure::new(kind, reason));
        let found = tokio::task::spawn_blocking(move || self.read_key());
        match tokio::time::timeout_at(deadline.into(), found).await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) => failed(FailureKind::Crashed, "reading the key failed"),
            Err(_) => failed(FailureKind::TimedOut, "nothing was sent: reading the key timed out"),
        }
    }

    /// Reads the key. Blocking.
    fn read_key(&self) -> Result<Credential, Failure> {
        let key = self
            .configured_for_host()?
            .places
            .find()
            .map_err(|reason| self.missing_key_failure("was not found", reason))?;
        Credential::new(key, &self.url, self.header.as_deref()).map_err(Failure::from)
    }

    /// Checks the settings without reading the key: reading it may prompt the user and is not recorded.
    pub(crate) fn check_configured(&self) -> Result<(), Failure> {
        self.configured_for_host().map(drop)
    }

    fn missing_key_failure(&self, reason: &str, hint: String) -> Failure {
        let message = format!("nothing was sent: the key `{}` for `{}` {reason}", self.name, self.host);
        Failure::new(FailureKind::NotFound, message).with_hint(hint)
    }

    /// Returns the key in the settings if it is for this host.
    fn configured_for_host(&self) -> Result<&ConfiguredKey, Failure> {
        let ServerKey { name, host, .. } = self;
        let Some(known) = &self.configured else {
            let entry = format!("keys: {{{name}: {{host: {host}, key_file: ~/.config/sinew/keys/{name}}}}}");
            return Err(self
                .missing_key_failure("is not in the settings", format!("write `{entry}` into sinew.yaml")));
        };
        if known.recipient != KeyRecipient::Host(host.clone()) {
            let message =
                format!("nothing was sent: the key `{name}` is for `{}`, not for `{host}`", known.recipient);
            let hint = "the URL in the manifest and the host of the key in sinew.yaml (`keys`) must agree";
            return Err(Failure::new(FailureKind::Denied, message).with_hint(hint));
        }
        Ok(known)
    }

    /// Describes the key for an approval request.
    pub(crate) fn describe(&self) -> String {
        let how = match &self.header {
            None => "as a bearer token".to_owned(),
            Some(header) => format!("in the header {header}"),
        };
        format!("`{}` is sent to {} {how}", self.name, self.host)
    }
}

/// Environment variables of a started server. The manifest names them. The operator supplies each value as the
/// key of the same name in lower case, whose `manifest` is the id of the manifest, so that no other one gets it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerVariables {
    manifest: String,
    variables: Vec<(String, String, Option<ConfiguredKey>)>,
}

impl ServerVariables {
    pub(crate) fn resolve(
        manifest: &Manifest,
        section: &McpSection,
        keys: &ConfiguredKeys,
    ) -> ServerVariables {
        let named = section.environment_variables.iter();
        let variables = named.map(|variable| {
            let key = variable.key_name();
            let configured = keys.get(&key).cloned();
            (variable.name.clone(), key, configured)
        });
        ServerVariables { manifest: manifest.callable_id(), variables: variables.collect() }
    }

    /// Reads the values. They are read for each start, so that a new value takes effect with the next server.
    /// Blocking.
    pub(crate) fn read(&self) -> Result<Vec<(String, OsString)>, Failure> {
        self.variables.iter().map(|(name, key, configured)| {
            let failed = |reason: &str, hint: String| {
                let message = format!("nothing was run: the variable `{name}` {reason}");
                Err(Failure::new(FailureKind::NotFound, message).with_hint(hint))
            };
            let entry = format!(
                "write `keys: {{{key}: {{manifest: {}, key_file: ~/.config/sinew/keys/{key}}}}}` into sinew.yaml",
                self.manifest
            );
            let own = KeyRecipient::Manifest(self.manifest.clone());
            match configured {
                None => failed("has no value", entry),
                Some(known) if known.recipient != own => {
                    failed(&format!("is for `{}`, not for this manifest", known.recipient), entry)
                }
                Some(known) => match known.places.find() {
                    Ok(value) => Ok((name.clone(), OsString::from(value.reveal()))),
                    Err(hint) => failed("was not found", hint),
                },
            }
        }).collect()
    }

    /// Returns the values that a prepared server gets.
    pub(crate) fn values_in(&self, confined: &ConfinedCommand) -> ServerSecrets {
        let values = self.variables.iter().filter_map(|(name, ..)| confined.variable(name)?.to_str());
        ServerSecrets(values.filter_map(ApiKey::parse).collect())
    }

    /// Names the variables for an approval request.
    pub(crate) fn describe(&self) -> Option<String> {
        let names: Vec<&str> = self.variables.iter().map(|(name, ..)| name.as_str()).collect();
        (!names.is_empty()).then(|| format!("the server gets {}", names.join(", ")))
    }
}

/// Values of the variables that a started server got. They are masked in everything that it writes.
#[derive(Debug, Default)]
pub(crate) struct ServerSecrets(Vec<ApiKey>);

/// Text of a server without its secrets.
pub(crate) trait MaskSecrets {
    /// Returns the text with each secret masked, or `None` if it contains none.
    fn mask_secrets(&self, text: &str) -> Option<String>;
}

impl MaskSecrets for Credential {
    fn mask_secrets(&self, text: &str) -> Option<String> {
        self.mask(text)
    }
}

impl MaskSecrets for ServerSecrets {
    fn mask_secrets(&self, text: &str) -> Option<String> {
        self.0.iter().fold(None, |masked, value| value.mask(masked.as_deref().unwrap_or(text)).or(masked))
    }
}

/// Checks that the header of a manifest may carry a key.
pub(crate) fn check_key_header(requirement: &KeyRequirement) -> Result<(), String> {
    match &requirement.header {
        Some(header) if !outbound::may_carry_key(header) => {
            Err(format!("a key cannot be sent in the header `{header}`, which controls the protocol"))
        }
        _ => Ok(()),
    }
}

/// Masks the secrets in a message of the server, which is displayed, stored and compared.
pub(crate) fn mask_message(message: Value, secrets: &impl MaskSecrets) -> Value {
    let text = |text: String| secrets.mask_secrets(&text).unwrap_or(text);
    match message {
        Value::String(message) => Value::String(text(message)),
        Value::Array(all) => all.into_iter().map(|one| mask_message(one, secrets)).collect(),
        Value::Object(all) => {
            let all = all.into_iter().map(|(name, one)| (text(name), mask_message(one, secrets)));
            Value::Object(all.collect::<Map<_, _>>())
        }
        other => other,
    }
}
