//! Converts the settings of the web tools into their options.

use std::sync::OnceLock;

use governance::reserved_ports::ReservedPorts;
use server::settings::{ProviderSetting, RobotsSetting, SearchProvider, Settings, WebSettings};
use toolbox::{ProviderOptions, RobotsPolicy, WebAccess, WebOptions};
use web_content::SearchEngine;

use crate::exit::CommandError;

/// Returns the web client of the web tools. There is one per process: its page cache and provider state
/// survive a reload, so a change of its settings takes effect at the next start.
pub(crate) fn shared_web(settings: &Settings) -> Result<&'static WebAccess, CommandError> {
    static SHARED: OnceLock<WebAccess> = OnceLock::new();
    match SHARED.get() {
        Some(web) => Ok(web),
        None => {
            let web = WebAccess::new(web_options(&settings.web)).map_err(CommandError::configuration)?;
            Ok(SHARED.get_or_init(|| web))
        }
    }
}

/// Returns the ports that no call may reach. There is one list per process, as the web client is.
pub(crate) fn reserved_ports() -> ReservedPorts {
    static SHARED: OnceLock<ReservedPorts> = OnceLock::new();
    SHARED.get_or_init(ReservedPorts::default).clone()
}

fn web_options(settings: &WebSettings) -> WebOptions {
    let usual = WebOptions::default();
    let provider = |setting: &ProviderSetting| {
        let provider = ProviderOptions::default_for(match setting.name {
            SearchProvider::DuckduckgoHtml => SearchEngine::DuckduckgoHtml,
            SearchProvider::DuckduckgoLite => SearchEngine::DuckduckgoLite,
            SearchProvider::Searxng => SearchEngine::Searxng,
            SearchProvider::Brave => SearchEngine::Brave,
            SearchProvider::Tavily => SearchEngine::Tavily,
        });
        ProviderOptions {
            url: setting.url.clone().unwrap_or(provider.url),
            key_file: setting.key_file.clone(),
            key_variable: setting.key_variable.clone().or(provider.key_variable),
            ..provider
        }
    };
    WebOptions {
        user_agent: settings.user_agent.clone().unwrap_or(usual.user_agent),
        robots: match settings.robots {
            RobotsSetting::Ignore => RobotsPolicy::Ignore,
            RobotsSetting::Respect => RobotsPolicy::Respect,
        },
        ca_file: settings.ca_file.clone(),
        providers: settings.providers.iter().map(provider).collect(),
        reserved_ports: reserved_ports(),
    }
}
