//! Checks of the API keys for network servers: that each can be found, and that manifests and settings agree
//! on its host. The keys are neither shown nor sent.

use connectors::{HostKey, HostKeys};
use manifest::Manifest;
use server::Settings;
use url::Url;

use super::row::Row;
use crate::manifests;

const AREA: &str = "keys";

pub(super) fn rows(settings: &Settings, usable: &[Manifest]) -> Vec<Row> {
    let keys = manifests::keys(settings);
    let mut rows: Vec<Row> =
        settings.keys.keys().filter_map(|name| Some(kept(name, keys.get(name)?))).collect();
    rows.extend(usable.iter().filter_map(|manifest| wanted(manifest, &keys)));
    rows
}

fn kept(name: &str, key: &HostKey) -> Row {
    let host = &key.host;
    match key.places.find() {
        Ok(_) if key.places.file.is_none() && key.places.variable.is_some() => {
            Row::good(AREA, name, format!("found in the environment of this shell, for {host}"))
        }
        Ok(_) => Row::good(AREA, name, format!("found, for {host}")),
        Err(why) => Row::note(AREA, name, format!("calls to {host} would fail: {why}")),
    }
}

/// Reports a key that a manifest requests but does not receive.
fn wanted(manifest: &Manifest, keys: &HostKeys) -> Option<Row> {
    let section = manifest.mcp()?;
    let (wish, url) = (section.key.as_ref()?, section.url.as_deref()?);
    let host = Url::parse(url).ok()?.host()?.to_string();
    let (name, id) = (&wish.name, manifest.id());
    match keys.get(name) {
        Some(known) if known.host == host => None,
        Some(known) => {
            let found = format!("`{id}` needs it for {host}, but it is for {}: it is not sent", known.host);
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
