//! What the settings say about the web tools, checked.

use std::path::PathBuf;
use std::time::Duration;

use page::Engine;

/// What an agent says it is. Constant: some engines tie their answers to it.
const USER_AGENT: &str = concat!("Mozilla/5.0 (compatible; Sinew/", env!("CARGO_PKG_VERSION"), ")");

/// How the web tools go out.
#[derive(Clone, Debug)]
pub struct WebOptions {
    /// What they say they are.
    pub user_agent: String,
    /// Whether a site's wish that robots stay away is heeded.
    pub robots: Robots,
    /// Certificates that are trusted besides those of the web.
    pub ca_file: Option<PathBuf>,
    /// Who is asked when something is searched, in this order.
    pub providers: Vec<Provider>,
    /// How long the answer to the same search is given again.
    pub cache_for: Duration,
}

impl Default for WebOptions {
    fn default() -> Self {
        WebOptions {
            user_agent: USER_AGENT.to_owned(),
            robots: Robots::Ignore,
            ca_file: None,
            providers: [Engine::DuckduckgoHtml, Engine::DuckduckgoLite].map(Provider::of).to_vec(),
            cache_for: Duration::from_secs(300),
        }
    }
}

/// What is made of `robots.txt`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Robots {
    /// Nothing: a page is fetched because somebody asked for it.
    #[default]
    Ignore,
    /// What it asks of robots is done.
    Respect,
}

/// Somebody who can be asked when something is searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// How it is spoken to.
    pub engine: Engine,
    /// Where it is.
    pub url: String,
    /// A file of mode 0600 with its key.
    pub key_file: Option<PathBuf>,
    /// The variable with its key.
    pub key_variable: Option<String>,
}

impl Provider {
    /// Where it usually is; a SearXNG is nowhere unless the settings say where.
    pub fn of(engine: Engine) -> Self {
        let (url, variable) = match engine {
            Engine::DuckduckgoHtml => ("https://html.duckduckgo.com/html/", None),
            Engine::DuckduckgoLite => ("https://lite.duckduckgo.com/lite/", None),
            Engine::Searxng => ("", None),
            Engine::Brave => ("https://api.search.brave.com/res/v1/web/search", Some("BRAVE_API_KEY")),
            Engine::Tavily => ("https://api.tavily.com/search", Some("TAVILY_API_KEY")),
        };
        Provider { engine, url: url.to_owned(), key_file: None, key_variable: variable.map(str::to_owned) }
    }
}
