//! Checks of external services: search providers and the telemetry collector. Only the collector is
//! contacted.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use server::{ProviderSetting, Settings};

use super::row::Row;

const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn rows(settings: &Settings) -> Vec<Row> {
    let mut rows: Vec<Row> = settings.web.providers.iter().map(provider).collect();
    rows.push(collector(settings));
    rows
}

fn provider(provider: &ProviderSetting) -> Row {
    let name = provider.name.as_str();
    if !provider.name.wants_key() {
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

fn collector(settings: &Settings) -> Row {
    let (area, what) = ("telemetry", "collector");
    let from_variable = std::env::var("OTEL_EXPORTER_OTLP_ENDPOINT").ok().filter(|url| !url.is_empty());
    let Some(endpoint) = from_variable.or_else(|| settings.telemetry.otlp.endpoint.clone()) else {
        return Row::good(area, what, "not configured: nothing is exported");
    };
    let Some((host, port)) = place(&endpoint) else {
        return Row::bad(area, what, "its endpoint is not an http or https URL")
            .remedy("use an endpoint such as http://localhost:4318");
    };
    let shown = format!("{host}:{port}");
    let reached = (host.as_str(), port).to_socket_addrs().ok().into_iter().flatten();
    match reached.into_iter().any(|address| TcpStream::connect_timeout(&address, PATIENCE).is_ok()) {
        true => Row::good(area, what, format!("{shown} answers")),
        false => Row::note(
            area,
            what,
            format!("{shown} does not answer: calls still run, but nothing is exported"),
        )
        .remedy("start it, or remove the endpoint"),
    }
}

fn place(endpoint: &str) -> Option<(String, u16)> {
    let url = url::Url::parse(endpoint).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    Some((url.host_str()?.trim_matches(['[', ']']).to_owned(), url.port_or_known_default()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_is_parsed_into_host_and_port() {
        let check = |endpoint: &str, expect: Option<(&str, u16)>| {
            let expect = expect.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(place(endpoint), expect, "{endpoint}");
        };
        check("http://localhost:4318", Some(("localhost", 4318)));
        check("https://user:secret@collector.example/v1", Some(("collector.example", 443)));
        check("http://[::1]:4318", Some(("::1", 4318)));
        check("localhost:4318", None);
        check("", None);
    }
}
