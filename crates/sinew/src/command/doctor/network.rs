//! Checks of external services and the keys for them.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use connectors::{ConfiguredKey, ConfiguredKeys};
use manifest::Manifest;
use server::settings::{ProviderSetting, Settings};
use tool::Refusal;
use tool::definition::KeyRecipient;
use url::Url;

use super::Row;
use crate::manifests;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const AREA: &str = "keys";

/// Checks the search providers and the telemetry collector. Only the collector is contacted.
pub(super) fn services(settings: &Settings, refused: &[(String, Box<Refusal>)]) -> Vec<Row> {
    let row = |provider: &ProviderSetting| {
        let refusal = refused.iter().find(|(name, _)| name == provider.name.as_str());
        refusal.map_or_else(|| provider_row(provider), |(name, refusal)| refused_row(name, refusal))
    };
    let mut rows: Vec<Row> = settings.web.providers.iter().map(row).collect();
    rows.push(collector_row(settings));
    rows
}

fn refused_row(name: &str, refusal: &Refusal) -> Row {
    let row = Row::bad("web search", name, format!("the policy refuses it: {}", refusal.reason));
    match &refusal.hint {
        Some(hint) => row.remedy(hint),
        None => row,
    }
}

fn provider_row(provider: &ProviderSetting) -> Row {
    let name = provider.name.as_str();
    if !provider.name.needs_key() {
        return Row::good("web search", name, "needs no key");
    }
    let file = provider.key_file.as_ref().filter(|file| file.exists());
    let variable = provider.key_variable.as_deref().filter(|name| std::env::var_os(name).is_some());
    match (file, variable) {
        (Some(file), _) => Row::good("web search", name, format!("its key is in {}", file.display())),
        (None, Some(variable)) => {
            Row::good("web search", name, format!("its key is in {variable} of this shell"))
        }
        (None, None) => Row::note("web search", name, "no key found (the keychain is not checked)")
            .remedy("set `key_file` (mode 0600) or `key_variable` in sinew.yaml"),
    }
}

fn collector_row(settings: &Settings) -> Row {
    let (area, check) = ("telemetry", "collector");
    let from_variable = std::env::var("OTEL_EXPORTER_OTLP_ENDPOINT").ok().filter(|url| !url.is_empty());
    let Some(endpoint) = from_variable.or_else(|| settings.telemetry.otlp.endpoint.clone()) else {
        return Row::good(area, check, "not configured: nothing is exported");
    };
    let Some((host, port)) = host_and_port(&endpoint) else {
        return Row::bad(area, check, "its endpoint is not an http or https URL")
            .remedy("use an endpoint such as http://localhost:4318");
    };
    let shown = format!("{host}:{port}");
    let reached = (host.as_str(), port).to_socket_addrs().ok().into_iter().flatten();
    match reached.into_iter().any(|address| TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok()) {
        true => Row::good(area, check, format!("{shown} answers")),
        false => Row::note(
            area,
            check,
            format!("{shown} does not answer: calls still run, but nothing is exported"),
        )
        .remedy("start it, or remove the endpoint"),
    }
}

fn host_and_port(endpoint: &str) -> Option<(String, u16)> {
    let url = Url::parse(endpoint).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    Some((url.host_str()?.trim_matches(['[', ']']).to_owned(), url.port_or_known_default()?))
}

/// Checks the API keys for network servers: that each can be found, and that manifests and settings agree on its host.
/// The keys are neither shown nor sent.
pub(super) fn keys(settings: &Settings, usable: &[Manifest]) -> Vec<Row> {
    let keys = manifests::host_keys(settings);
    let mut rows: Vec<Row> =
        settings.keys.keys().filter_map(|name| Some(configured_key_row(name, keys.get(name)?))).collect();
    rows.extend(usable.iter().filter_map(|manifest| missing_key_row(manifest, &keys)));
    rows
}

fn configured_key_row(name: &str, key: &ConfiguredKey) -> Row {
    let recipient = &key.recipient;
    match key.places.find() {
        Ok(_) if key.places.file.is_none() && key.places.variable.is_some() => {
            Row::good(AREA, name, format!("found in the environment of this shell, for {recipient}"))
        }
        Ok(_) => Row::good(AREA, name, format!("found, for {recipient}")),
        Err(why) => Row::note(AREA, name, format!("calls to {recipient} would fail: {why}")),
    }
}

/// Reports a key that a manifest requests but does not receive.
fn missing_key_row(manifest: &Manifest, keys: &ConfiguredKeys) -> Option<Row> {
    let section = manifest.mcp()?;
    let (named_key, url) = (section.key.as_ref()?, section.url.as_deref()?);
    let host = Url::parse(url).ok()?.host()?.to_string();
    let (name, id) = (&named_key.name, manifest.id());
    match keys.get(name) {
        Some(known) if known.recipient == KeyRecipient::Host(host.clone()) => None,
        Some(known) => {
            let found =
                format!("`{id}` needs it for {host}, but it is for {}: it is not sent", known.recipient);
            Some(
                Row::bad(AREA, name, found)
                    .remedy("correct the `url` of the manifest, or `keys` in sinew.yaml"),
            )
        }
        None => {
            let found = format!("`{id}` needs it for {host}, but the settings do not define it");
            let remedy = format!(
                "add `keys: {{{name}: {{host: {host}, key_file: ~/.config/sinew/keys/{name}}}}}` to sinew.yaml"
            );
            Some(Row::note(AREA, name, found).remedy(remedy))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_is_parsed_into_host_and_port() {
        let check = |endpoint: &str, expect: Option<(&str, u16)>| {
            let expect = expect.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(host_and_port(endpoint), expect, "{endpoint}");
        };
        check("http://localhost:4318", Some(("localhost", 4318)));
        check("https://user:secret@collector.example/v1", Some(("collector.example", 443)));
        check("http://[::1]:4318", Some(("::1", 4318)));
        check("localhost:4318", None);
        check("", None);
    }
}
