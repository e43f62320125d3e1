//! HTTP client and exporters. They must be created, used and dropped off the async threads.

use std::collections::HashMap;

use opentelemetry_otlp::{
    LogExporter, MetricExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use reqwest::blocking::Client;
use reqwest::redirect::Policy;

use super::configuration::{Destination, ExportConfiguration};
use crate::TelemetryError;
use crate::settings::{Compression, TelemetrySignal};

/// Configures and builds an exporter. A macro, because the three builders share these steps but no public
/// trait.
macro_rules! build_exporter {
    ($builder:expr, $signal:expr, $destination:expr, $configuration:expr) => {{
        let builder = $builder
            .with_http()
            .with_http_client(http_client($signal, $destination)?)
            .with_endpoint(&$destination.url)
            .with_timeout($destination.timeout)
            .with_protocol(Protocol::HttpBinary)
            .with_headers(headers($configuration));
        let builder = match $destination.compression {
            Compression::None => builder,
            Compression::Gzip => builder.with_compression(opentelemetry_otlp::Compression::Gzip),
        };
        builder.build().map_err(|cause| exporter_error($signal, $destination, cause.to_string()))
    }};
}

pub(super) fn span_exporter(
    to: &Destination,
    configuration: &ExportConfiguration,
) -> Result<SpanExporter, TelemetryError> {
    build_exporter!(SpanExporter::builder(), TelemetrySignal::Traces, to, configuration)
}

pub(super) fn metric_exporter(
    to: &Destination,
    configuration: &ExportConfiguration,
) -> Result<MetricExporter, TelemetryError> {
    build_exporter!(MetricExporter::builder(), TelemetrySignal::Metrics, to, configuration)
}

pub(super) fn log_exporter(
    to: &Destination,
    configuration: &ExportConfiguration,
) -> Result<LogExporter, TelemetryError> {
    build_exporter!(LogExporter::builder(), TelemetrySignal::Logs, to, configuration)
}

fn http_client(signal: TelemetrySignal, to: &Destination) -> Result<Client, TelemetryError> {
    // No redirects, so that the headers, which may hold credentials, only go to the configured host.
    let mut builder = Client::builder().timeout(to.timeout).redirect(Policy::none());
    let url = reqwest::Url::parse(&to.url).map_err(|cause| exporter_error(signal, to, cause.to_string()))?;
    if is_loopback(&url) {
        // A proxy cannot reach the loopback interface of this machine.
        builder = builder.no_proxy();
    }
    let provider = rustls::crypto::ring::default_provider();
    if url.scheme() == "https" {
        // Fails if another part of the program has installed a provider; that one is used then.
        let _ = provider.install_default();
    } else {
        // Without TLS there is nothing to verify, so a machine without root certificates can export too.
        let plain = rustls::ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .map_err(|cause| exporter_error(signal, to, cause.to_string()))?
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        builder = builder.tls_backend_preconfigured(plain);
    }
    builder.build().map_err(|cause| exporter_error(signal, to, cause.to_string()))
}

fn is_loopback(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Escapes `%` in header values, because the exporter percent-decodes them as it does for the environment
/// variable, while a setting is literal.
fn headers(configuration: &ExportConfiguration) -> HashMap<String, String> {
    configuration.headers.iter().map(|(name, value)| (name.clone(), value.replace('%', "%25"))).collect()
}

fn exporter_error(signal: TelemetrySignal, to: &Destination, cause: String) -> TelemetryError {
    let endpoint = crate::redact::shared().redact_text(&to.url).into_owned();
    TelemetryError::Exporter { signal: signal.as_str(), endpoint, cause }
}
