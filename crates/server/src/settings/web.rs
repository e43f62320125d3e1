//! Settings of the web tools: trusted certificates, robots.txt and search providers. The hosts they may reach
//! are part of the policy, not of these settings.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use strict_yaml::{Document, DocumentError, Located};
use url::{Host, Url};

/// Settings of the web tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSettings {
    /// `User-Agent` header; absent means Sinew's default.
    pub user_agent: Option<String>,
    /// Handling of `robots.txt`.
    pub robots: RobotsSetting,
    /// PEM file of certificates trusted in addition to the public ones.
    pub ca_file: Option<PathBuf>,
    /// Search providers, in the order they are tried.
    pub providers: Vec<ProviderSetting>,
}

impl Default for WebSettings {
    fn default() -> Self {
        let provider = |name| ProviderSetting { name, url: None, key_file: None, key_variable: None };
        WebSettings {
            user_agent: None,
            robots: RobotsSetting::default(),
            ca_file: None,
            providers: [SearchProvider::DuckduckgoHtml, SearchProvider::DuckduckgoLite]
                .map(provider)
                .to_vec(),
        }
    }
}

/// Search provider with its address and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderSetting {
    /// Name of the provider.
    pub name: SearchProvider,
    /// URL, if it differs from the provider's standard URL.
    pub url: Option<String>,
    /// File that contains its key.
    pub key_file: Option<PathBuf>,
    /// Environment variable that contains its key.
    pub key_variable: Option<String>,
}

/// Handling of `robots.txt`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RobotsSetting {
    /// Ignored: a page is fetched because a user requested it, not by a crawler.
    #[default]
    Ignore,
    /// Pages that `robots.txt` excludes are not fetched.
    Respect,
}

/// Supported search provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchProvider {
    /// HTML page of DuckDuckGo. Needs no key; best effort.
    DuckduckgoHtml,
    /// Lite page of DuckDuckGo. Needs no key; best effort.
    DuckduckgoLite,
    /// SearXNG instance whose `search.formats` lists json. Needs a `url`.
    Searxng,
    /// Brave search service. Needs a key.
    Brave,
    /// Tavily search service. Needs a key.
    Tavily,
}

impl SearchProvider {
    /// Returns the name used in the settings.
    pub fn as_str(self) -> &'static str {
        match self {
            SearchProvider::DuckduckgoHtml => "duckduckgo_html",
            SearchProvider::DuckduckgoLite => "duckduckgo_lite",
            SearchProvider::Searxng => "searxng",
            SearchProvider::Brave => "brave",
            SearchProvider::Tavily => "tavily",
        }
    }

    /// Returns true if the provider needs a key.
    pub fn needs_key(self) -> bool {
        matches!(self, SearchProvider::Brave | SearchProvider::Tavily)
    }
}

/// Settings of the web tools.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WebFile {
    /// `User-Agent` header of the web tools.
    pub(crate) user_agent: Option<Located<String>>,
    /// Handling of `robots.txt`.
    pub(crate) robots: RobotsSetting,
    /// PEM file of certificates trusted in addition to the public ones, such as those of a company.
    pub(crate) ca_file: Option<Located<String>>,
    /// Search settings.
    pub(crate) search: SearchFile,
}

/// Search providers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SearchFile {
    /// Providers, tried in this order until one responds. Default: duckduckgo_html, then duckduckgo_lite.
    pub(crate) providers: Option<Vec<Located<ProviderEntry>>>,
}

/// Provider as a name, or as a mapping with its URL and key.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum ProviderEntry {
    /// Provider at its standard URL.
    Name(SearchProvider),
    /// Provider with its URL and key.
    Full(ProviderFile),
}

/// Provider with its URL and key.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProviderFile {
    /// Name of the provider.
    pub(crate) name: SearchProvider,
    /// URL, if it differs from the provider's standard URL. It may be an address of this machine.
    #[serde(default)]
    pub(crate) url: Option<String>,
    /// File that contains its key and that other users cannot read (mode 0600).
    #[serde(default)]
    pub(crate) key_file: Option<String>,
    /// Environment variable that contains its key. Default BRAVE_API_KEY or TAVILY_API_KEY.
    #[serde(default)]
    pub(crate) key_variable: Option<String>,
}

// Written by hand, because an untagged derive reports every error as "did not match any variant".
impl<'de> Deserialize<'de> for ProviderEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ProviderEntryVisitor)
    }
}

struct ProviderEntryVisitor;

impl<'de> Visitor<'de> for ProviderEntryVisitor {
    type Value = ProviderEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a provider, or a mapping with `name`")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<ProviderEntry, E> {
        SearchProvider::deserialize(StrDeserializer::new(name)).map(ProviderEntry::Name)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ProviderEntry, A::Error> {
        ProviderFile::deserialize(MapAccessDeserializer::new(map)).map(ProviderEntry::Full)
    }
}

pub(super) fn check(
    document: &Document,
    file: &WebFile,
    user_home: Option<&Path>,
) -> Result<WebSettings, DocumentError> {
    let usual = WebSettings::default();
    let providers = match &file.search.providers {
        Some(entries) => entries
            .iter()
            .map(|entry| check_provider(document, entry, user_home))
            .collect::<Result<_, _>>()?,
        None => usual.providers,
    };
    let ca_file = file.ca_file.as_ref().map(|path| {
        let refuse = |reason: &str| {
            document.error_at(path.line, path.column, &format!("the file `{}` {reason}", path.value))
        };
        expand_path(&path.value, user_home).map_err(refuse)
    });
    Ok(WebSettings {
        user_agent: file.user_agent.as_ref().map(|text| check_user_agent(document, text)).transpose()?,
        robots: file.robots,
        ca_file: ca_file.transpose()?,
        providers,
    })
}

fn check_user_agent(document: &Document, text: &Located<String>) -> Result<String, DocumentError> {
    let is_header = !text.value.is_empty() && text.value.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    match is_header {
        true => Ok(text.value.clone()),
        false => Err(document.error_at(text.line, text.column, "user_agent must be printable ASCII")),
    }
}

fn check_provider(
    document: &Document,
    entry: &Located<ProviderEntry>,
    user_home: Option<&Path>,
) -> Result<ProviderSetting, DocumentError> {
    let refuse = |reason: &str| document.error_at(entry.line, entry.column, reason);
    let file = match &entry.value {
        ProviderEntry::Full(file) => file.clone(),
        ProviderEntry::Name(name) => {
            ProviderFile { name: *name, url: None, key_file: None, key_variable: None }
        }
    };
    match &file.url {
        Some(url) => check_url(url, file.name)
            .map_err(|reason| refuse(&format!("the url `{}` {reason}", without_credentials(url))))?,
        None if file.name == SearchProvider::Searxng => {
            let problem = refuse("searxng needs a `url`: the address of your instance");
            return Err(problem.with_suggestion("{name: searxng, url: \"http://localhost:8888\"}"));
        }
        None => {}
    }
    let key_file = file.key_file.as_deref().map(|path| {
        expand_path(path, user_home).map_err(|reason| refuse(&format!("the key file `{path}` {reason}")))
    });
    Ok(ProviderSetting {
        name: file.name,
        url: file.url,
        key_file: key_file.transpose()?,
        key_variable: file.key_variable,
    })
}

/// Strips the parts of a URL that may contain a credential.
fn without_credentials(url: &str) -> &str {
    let end = url.split(['?', '#']).next().unwrap_or_default();
    end.rsplit_once('@').map_or(end, |(_, rest)| rest)
}

fn check_url(text: &str, name: SearchProvider) -> Result<(), &'static str> {
    let url = Url::parse(text).map_err(|_| "is not an address such as https://example.org/search")?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err("is not an address such as https://example.org/search");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("has a user and password, which belong in a key file");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must have no query: Sinew adds one for each search");
    }
    let has_key = matches!(name, SearchProvider::Brave | SearchProvider::Tavily);
    match has_key && url.scheme() == "http" && !is_loopback(&url) {
        true => Err("is not https, and the key would be sent unencrypted"),
        false => Ok(()),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

pub(super) fn expand_path(text: &str, user_home: Option<&Path>) -> Result<PathBuf, &'static str> {
    let path = match (text.strip_prefix("~/"), user_home) {
        (Some(rest), Some(home)) => home.join(rest),
        (Some(_), None) => return Err("cannot be expanded"),
        (None, _) => PathBuf::from(text),
    };
    if path.is_absolute() { Ok(path) } else { Err("is not an absolute path") }
}
