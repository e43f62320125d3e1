//! Checked settings of the web tools.

use std::path::PathBuf;

use governance::reserved_ports::ReservedPorts;
use web_content::SearchEngine;

/// Default user agent. It is constant, because some engines tie their responses to it.
const USER_AGENT: &str = concat!("Mozilla/5.0 (compatible; Sinew/", env!("CARGO_PKG_VERSION"), ")");

/// Settings of the web tools.
#[derive(Clone, Debug)]
pub struct WebOptions {
    /// User agent that is sent.
    pub user_agent: String,
    /// Handling of robots.txt.
    pub robots: RobotsPolicy,
    /// File with certificates to trust in addition to the public roots.
    pub ca_file: Option<PathBuf>,
    /// Search providers, in the order in which they are queried.
    pub providers: Vec<ProviderOptions>,
    /// Ports of this machine that no call may reach.
    pub reserved_ports: ReservedPorts,
}

impl Default for WebOptions {
    fn default() -> Self {
        WebOptions {
            user_agent: USER_AGENT.to_owned(),
            robots: RobotsPolicy::Ignore,
            ca_file: None,
            providers: [SearchEngine::DuckduckgoHtml, SearchEngine::DuckduckgoLite]
                .map(ProviderOptions::default_for)
                .to_vec(),
            reserved_ports: ReservedPorts::default(),
        }
    }
}

/// Handling of `robots.txt`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RobotsPolicy {
    /// Ignores it: each page is fetched on request, not crawled.
    #[default]
    Ignore,
    /// Respects its rules.
    Respect,
}

/// Search provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderOptions {
    /// Protocol of the provider.
    pub engine: SearchEngine,
    /// Endpoint URL.
    pub url: String,
    /// File of mode 0600 with the API key.
    pub key_file: Option<PathBuf>,
    /// Environment variable with the API key.
    pub key_variable: Option<String>,
}

impl ProviderOptions {
    /// Returns the default settings of a provider; SearXNG has no default URL.
    pub fn default_for(engine: SearchEngine) -> Self {
        let (url, variable) = match engine {
            SearchEngine::DuckduckgoHtml => ("https://html.duckduckgo.com/html/", None),
            SearchEngine::DuckduckgoLite => ("https://lite.duckduckgo.com/lite/", None),
            SearchEngine::Searxng => ("", None),
            SearchEngine::Brave => ("https://api.search.brave.com/res/v1/web/search", Some("BRAVE_API_KEY")),
            SearchEngine::Tavily => ("https://api.tavily.com/search", Some("TAVILY_API_KEY")),
        };
        ProviderOptions {
            engine,
            url: url.to_owned(),
            key_file: None,
            key_variable: variable.map(str::to_owned),
        }
    }
}
