//! The keys of servers on the network: whether each is there, and whether manifests and settings mean the same by it. The
//! keys themselves are looked for and not shown, and nobody is asked with them.

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
            Row::good(AREA, name, format!("it is there, as this shell has it, for {host}"))
        }
        Ok(_) => Row::good(AREA, name, format!("it is there, for {host}")),
        Err(why) => Row::note(AREA, name, format!("{host} would be refused its calls: {why}")),
    }
}

/// A key that a manifest wants and does not get.
fn wanted(manifest: &Manifest, keys: &HostKeys) -> Option<Row> {
    let section = manifest.mcp()?;
    let (wish, url) = (section.key.as_ref()?, section.url.as_deref()?);
    let host = Url::parse(url).ok()?.host()?.to_string();
    let (name, id) = (&wish.name, manifest.id());
    match keys.get(name) {
        Some(known) if known.host == host => None,
        Some(known) => {
            let found = format!("`{id}` wants it for {host}, and it is for {}: nothing is sent", known.host);
            Some(Row::bad(AREA, name, found).remedy("the `url` of the manifest, or `keys` in sinew.yaml"))
        }
        None => {
            let found = format!("`{id}` wants it for {host}, and the settings do not have it");
            let remedy = format!(
                "keys: {{{name}: {{host: {host}, key_file: ~/.config/sinew/keys/{name}}}}} in sinew.yaml"
            );
            Some(Row::note(AREA, name, found).remedy(remedy))
        }
    }
}
