//! Export configuration: the settings, overridden by the standard environment variables.
//!
//! An invalid setting is an error. An invalid variable is a warning and switches its signal off: it may have
//! been set for another program, and telemetry must not keep the daemon from starting.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::TelemetryError;
use crate::redact;
use crate::settings::{Compression, OtlpSettings, Sampler, TelemetrySignal};

/// Lookup of environment variables.
pub(crate) type VariableLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Checked export configuration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExportConfiguration {
    pub(crate) signals: Vec<(TelemetrySignal, Destination)>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) resource: BTreeMap<String, String>,
    pub(crate) sampler: (Sampler, f64),
    pub(crate) metric_interval: Duration,
    /// Warnings, logged once the log is open.
    pub(crate) warnings: Vec<String>,
}

/// Destination of one signal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Destination {
    pub(crate) url: String,
    pub(crate) timeout: Duration,
    pub(crate) compression: Compression,
}

impl TelemetrySignal {
    /// Returns the name used in messages and URL paths.
    pub fn as_str(self) -> &'static str {
        match self {
            TelemetrySignal::Traces => "traces",
            TelemetrySignal::Metrics => "metrics",
            TelemetrySignal::Logs => "logs",
        }
    }
}

/// Resolves the configuration; `None` if nothing is to be exported.
pub(crate) fn resolve(
    settings: &OtlpSettings,
    environment: VariableLookup<'_>,
) -> Result<Option<ExportConfiguration>, TelemetryError> {
    check_settings(settings)?;
    let variable = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
    let disabled = match variable("OTEL_SDK_DISABLED") {
        Some(value) => value.eq_ignore_ascii_case("true"),
        None => settings.disabled,
    };
    if disabled {
        return Ok(None);
    }
    let mut warnings = Vec::new();
    let mut signals = Vec::new();
    for signal in [TelemetrySignal::Traces, TelemetrySignal::Metrics, TelemetrySignal::Logs] {
        match destination(signal, settings, &variable) {
            Ok(Some(destination)) => signals.push((signal, destination)),
            Ok(None) => {}
            Err(warning) => warnings.push(format!("{} are not exported: {warning}", signal.as_str())),
        }
    }
    if signals.is_empty() && warnings.is_empty() {
        return Ok(None);
    }
    let sampler = sampler(settings, &variable).unwrap_or_else(|warning| {
        warnings.push(warning);
        (settings.traces_sampler, settings.traces_sampler_arg)
    });
    let interval =
        variable_milliseconds(&variable, "OTEL_METRIC_EXPORT_INTERVAL").unwrap_or_else(|warning| {
            warnings.push(warning);
            None
        });
    Ok(Some(ExportConfiguration {
        signals,
        headers: settings.headers.clone(),
        resource: resource_attributes(settings, &variable),
        sampler,
        metric_interval: Duration::from_millis(interval.unwrap_or(settings.metric_export_interval_ms)),
        warnings,
    }))
}

fn check_settings(settings: &OtlpSettings) -> Result<(), TelemetryError> {
    let refused =
        |key, value: String, cause: &str| TelemetryError::Setting { key, value, cause: cause.to_owned() };
    if let Some(endpoint) = &settings.endpoint {
        let shown = redact::shared().redact_text(endpoint).into_owned();
        check_url(endpoint).map_err(|cause| refused("otlp.endpoint", shown, &cause))?;
    }
    if settings.timeout_ms == 0 {
        return Err(refused("otlp.timeout_ms", "0".to_owned(), "it must be at least 1"));
    }
    if settings.metric_export_interval_ms < 100 {
        let value = settings.metric_export_interval_ms.to_string();
        return Err(refused("otlp.metric_export_interval_ms", value, "it must be at least 100"));
    }
    if !(0.0..=1.0).contains(&settings.traces_sampler_arg) {
        let value = settings.traces_sampler_arg.to_string();
        return Err(refused("otlp.traces_sampler_arg", value, "it must be from 0 to 1"));
    }
    for (name, value) in &settings.headers {
        let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        let visible = |b: u8| (0x20..0x7f).contains(&b) || b == b'\t';
        if name.is_empty() || !name.bytes().all(token) || !value.bytes().all(visible) {
            return Err(refused(
                "otlp.headers",
                name.clone(),
                "a header needs a valid HTTP name and a value of visible ASCII",
            ));
        }
    }
    Ok(())
}

fn check_url(text: &str) -> Result<(), String> {
    let url = reqwest::Url::parse(text).map_err(|cause| cause.to_string())?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("it must be a URL such as http://localhost:4318".to_owned());
    }
    Ok(())
}

/// Returns the destination of a signal; `None` if it is not enabled or has no endpoint.
fn destination(
    signal: TelemetrySignal,
    settings: &OtlpSettings,
    variable: VariableLookup<'_>,
) -> Result<Option<Destination>, String> {
    let upper = signal.as_str().to_ascii_uppercase();
    let of_signal = |suffix: &str| {
        let (own, general) =
            (format!("OTEL_EXPORTER_OTLP_{upper}_{suffix}"), format!("OTEL_EXPORTER_OTLP_{suffix}"));
        variable(&own).map(|value| (own, value)).or_else(|| variable(&general).map(|value| (general, value)))
    };
    let wanted = match variable(&format!("OTEL_{upper}_EXPORTER")) {
        Some(list) => list.split(',').any(|name| name.trim() == "otlp"),
        None => settings.signals.contains(&signal),
    };
    if !wanted {
        return Ok(None);
    }
    let base = |url: &str| format!("{}/v1/{}", url.trim_end_matches('/'), signal.as_str());
    let (name, url) = match of_signal("ENDPOINT") {
        // By the OTLP specification, the variable of a signal is the complete URL, the general one is the
        // base.
        Some((name, url)) if name.contains(&upper) => (name, url),
        Some((name, url)) => (name, base(&url)),
        None => match &settings.endpoint {
            Some(url) => ("otlp.endpoint".to_owned(), base(url)),
            None => return Ok(None),
        },
    };
    check_url(&url).map_err(|cause| format!("{name} is not a valid endpoint: {cause}"))?;
    if let Some((name, value)) = of_signal("PROTOCOL").filter(|(_, value)| value != "http/protobuf") {
        return Err(format!("{name} is `{value}`, and only http/protobuf is supported"));
    }
    let compression = match of_signal("COMPRESSION") {
        None => settings.compression,
        Some((_, value)) if value.eq_ignore_ascii_case("gzip") => Compression::Gzip,
        Some((_, value)) if value.eq_ignore_ascii_case("none") => Compression::None,
        Some((name, value)) => {
            return Err(format!("{name} is `{value}`, and only gzip and none are supported"));
        }
    };
    let timeout = match of_signal("TIMEOUT") {
        None => settings.timeout_ms,
        Some((name, value)) => parse_milliseconds(&name, &value)?,
    };
    Ok(Some(Destination { url, timeout: Duration::from_millis(timeout), compression }))
}

fn parse_milliseconds(name: &str, value: &str) -> Result<u64, String> {
    let parsed = value.trim().parse().ok().filter(|number| *number > 0);
    parsed.ok_or_else(|| format!("{name} is `{value}`, not a number of milliseconds above 0"))
}

fn variable_milliseconds(variable: VariableLookup<'_>, name: &str) -> Result<Option<u64>, String> {
    variable(name).map(|value| parse_milliseconds(name, &value)).transpose()
}

fn sampler(settings: &OtlpSettings, variable: VariableLookup<'_>) -> Result<(Sampler, f64), String> {
    let name = match variable("OTEL_TRACES_SAMPLER") {
        None => settings.traces_sampler,
        Some(text) => serde_json::from_value(serde_json::Value::String(text.trim().to_owned()))
            .map_err(|_| format!("OTEL_TRACES_SAMPLER is `{text}`, which is not a standard sampler"))?,
    };
    let ratio = match variable("OTEL_TRACES_SAMPLER_ARG") {
        None => settings.traces_sampler_arg,
        Some(text) => text
            .trim()
            .parse()
            .ok()
            .filter(|ratio| (0.0..=1.0).contains(ratio))
            .ok_or_else(|| format!("OTEL_TRACES_SAMPLER_ARG is `{text}`, not a number from 0 to 1"))?,
    };
    Ok((name, ratio))
}

/// Returns the resource attributes. In rising precedence: service name and attributes of the settings,
/// `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME`.
fn resource_attributes(settings: &OtlpSettings, variable: VariableLookup<'_>) -> BTreeMap<String, String> {
    let mut resource = BTreeMap::from([("service.name".to_owned(), settings.service_name.clone())]);
    resource.extend(settings.resource_attributes.clone());
    let listed = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let pairs = listed.split(',').filter_map(|pair| pair.split_once('='));
    resource.extend(pairs.map(|(key, value)| (key.trim().to_owned(), percent_decode(value.trim()))));
    resource.extend(variable("OTEL_SERVICE_NAME").map(|name| ("service.name".to_owned(), name)));
    resource
}

fn percent_decode(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let digits: Vec<u8> = if byte == b'%' { bytes.clone().take(2).collect() } else { Vec::new() };
        let decoded = std::str::from_utf8(&digits).ok().filter(|hex| hex.len() == 2);
        match decoded.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                bytes.nth(1);
            }
            None => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests;
