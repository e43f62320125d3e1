//! Converts the settings of the web tools into their options.

use std::sync::OnceLock;

use server::{ProviderSetting, RobotsSetting, SearchProvider, Settings, WebSettings};
use toolbox::{Provider, Robots, Web, WebOptions};
use web_content::Engine;

use crate::exit::Problem;

/// Returns the web client of the web tools. There is one per process: its page cache and provider state
/// survive a reload, so a change of its settings takes effect at the next start.
pub(crate) fn web(settings: &Settings) -> Result<&'static Web, Problem> {
    static SHARED: OnceLock<Web> = OnceLock::new();
    match SHARED.get() {
        Some(web) => Ok(web),
        None => {
            let web = Web::new(options(&settings.web)).map_err(Problem::configuration)?;
            Ok(SHARED.get_or_init(|| web))
        }
    }
}

fn options(settings: &WebSettings) -> WebOptions {
    let usual = WebOptions::default();
    let provider = |setting: &ProviderSetting| {
        let provider = Provider::of(match setting.name {
            SearchProvider::DuckduckgoHtml => Engine::DuckduckgoHtml,
            SearchProvider::DuckduckgoLite => Engine::DuckduckgoLite,
            SearchProvider::Searxng => Engine::Searxng,
            SearchProvider::Brave => Engine::Brave,
            SearchProvider::Tavily => Engine::Tavily,
        });
        Provider {
            url: setting.url.clone().unwrap_or(provider.url),
            key_file: setting.key_file.clone(),
            key_variable: setting.key_variable.clone().or(provider.key_variable),
            ..provider
        }
    };
    WebOptions {
        user_agent: settings.user_agent.clone().unwrap_or(usual.user_agent),
        robots: match settings.robots {
            RobotsSetting::Ignore => Robots::Ignore,
            RobotsSetting::Respect => Robots::Respect,
        },
        ca_file: settings.ca_file.clone(),
        providers: settings.providers.iter().map(provider).collect(),
        cache_for: settings.cache_for,
    }
}
