//! Raw types of the telemetry section of the settings file. The standard environment variables override it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// Logging and OpenTelemetry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetrySettings {
    /// The log of the daemon.
    pub log: LogSettings,
    /// OpenTelemetry export; off unless an endpoint is set.
    pub otlp: OtlpSettings,
    /// Write arguments, redacted, to logs and spans. If off, only their digest is written.
    pub capture_content: bool,
}

/// The log of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// A level (`error`, `warn`, `info`, `debug`, `trace`) or `target=level` pairs; `SINEW_LOG` overrides it.
    pub level: String,
    /// Calls that have lines in the log. The ledger and OpenTelemetry have every call.
    pub calls: LoggedCalls,
    /// Size in bytes at which a log file is rotated.
    #[schemars(range(min = 4096))]
    pub max_bytes: u64,
    /// Number of log files to keep, including the open one.
    #[schemars(range(min = 1, max = 1000))]
    pub files: u32,
}

impl Default for LogSettings {
    fn default() -> Self {
        LogSettings {
            level: "info".to_owned(),
            calls: LoggedCalls::Failed,
            max_bytes: 10 * 1024 * 1024,
            files: 5,
        }
    }
}

/// Calls that have lines in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoggedCalls {
    /// Calls that failed or were refused.
    Failed,
    /// Every call, with its start and its end.
    All,
}

/// OpenTelemetry export over OTLP/HTTP. Each key corresponds to the environment variable named with it.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OtlpSettings {
    /// `OTEL_SDK_DISABLED`: nothing is exported.
    pub disabled: bool,
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`: base URL of the collector, such as `http://localhost:4318`.
    pub endpoint: Option<String>,
    /// `OTEL_EXPORTER_OTLP_HEADERS`: sent with every export.
    #[serde(serialize_with = "serialize_header_names")]
    pub headers: BTreeMap<String, String>,
    /// `OTEL_EXPORTER_OTLP_PROTOCOL`.
    pub protocol: Protocol,
    /// `OTEL_EXPORTER_OTLP_TIMEOUT`, in milliseconds.
    #[schemars(range(min = 1))]
    pub timeout_ms: u64,
    /// `OTEL_EXPORTER_OTLP_COMPRESSION`.
    pub compression: Compression,
    /// `OTEL_SERVICE_NAME`.
    pub service_name: String,
    /// `OTEL_RESOURCE_ATTRIBUTES`.
    pub resource_attributes: BTreeMap<String, String>,
    /// `OTEL_TRACES_SAMPLER`.
    pub traces_sampler: Sampler,
    /// `OTEL_TRACES_SAMPLER_ARG`: the ratio, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub traces_sampler_arg: f64,
    /// `OTEL_METRIC_EXPORT_INTERVAL`, in milliseconds.
    #[schemars(range(min = 100))]
    pub metric_export_interval_ms: u64,
    /// Exported signals (`OTEL_TRACES_EXPORTER` and its siblings: `otlp` or `none`).
    pub signals: Vec<TelemetrySignal>,
}

impl Default for OtlpSettings {
    fn default() -> Self {
        OtlpSettings {
            disabled: false,
            endpoint: None,
            headers: BTreeMap::new(),
            protocol: Protocol::HttpProtobuf,
            timeout_ms: 10_000,
            compression: Compression::None,
            service_name: "sinew".to_owned(),
            resource_attributes: BTreeMap::new(),
            traces_sampler: Sampler::ParentbasedAlwaysOn,
            traces_sampler_arg: 1.0,
            metric_export_interval_ms: 60_000,
            signals: vec![TelemetrySignal::Traces, TelemetrySignal::Metrics, TelemetrySignal::Logs],
        }
    }
}

/// Shows only the names of headers, because their values are often credentials.
impl std::fmt::Debug for OtlpSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OtlpSettings")
            .field("disabled", &self.disabled)
            .field(
                "endpoint",
                &self.endpoint.as_deref().map(|url| crate::redact::shared().redact_text(url).into_owned()),
            )
            .field("headers", &self.headers.keys())
            .field("service_name", &self.service_name)
            .field("signals", &self.signals)
            .finish_non_exhaustive()
    }
}

fn serialize_header_names<S: Serializer>(
    headers: &BTreeMap<String, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(headers.keys().map(|name| (name, "[redacted:header]")))
}

/// Environment variable that overrides a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingVariable {
    /// Key of the setting in `sinew.yaml`, with dots.
    pub key: &'static str,
    /// Name of the variable.
    pub name: &'static str,
    /// Signal that the variable applies to, if not to all.
    pub signal: Option<&'static str>,
}

/// Every variable that overrides a setting if it is set and not empty.
pub const VARIABLES: [SettingVariable; 30] = {
    const fn of(key: &'static str, name: &'static str) -> SettingVariable {
        SettingVariable { key, name, signal: None }
    }
    const fn part(key: &'static str, name: &'static str, part: &'static str) -> SettingVariable {
        SettingVariable { key, name, signal: Some(part) }
    }
    [
        of("log.level", "SINEW_LOG"),
        of("otlp.disabled", "OTEL_SDK_DISABLED"),
        of("otlp.endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        part("otlp.endpoint", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "traces"),
        part("otlp.endpoint", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "metrics"),
        part("otlp.endpoint", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "logs"),
        of("otlp.headers", "OTEL_EXPORTER_OTLP_HEADERS"),
        part("otlp.headers", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "traces"),
        part("otlp.headers", "OTEL_EXPORTER_OTLP_METRICS_HEADERS", "metrics"),
        part("otlp.headers", "OTEL_EXPORTER_OTLP_LOGS_HEADERS", "logs"),
        of("otlp.protocol", "OTEL_EXPORTER_OTLP_PROTOCOL"),
        part("otlp.protocol", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "traces"),
        part("otlp.protocol", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "metrics"),
        part("otlp.protocol", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "logs"),
        of("otlp.timeout_ms", "OTEL_EXPORTER_OTLP_TIMEOUT"),
        part("otlp.timeout_ms", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "traces"),
        part("otlp.timeout_ms", "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "metrics"),
        part("otlp.timeout_ms", "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "logs"),
        of("otlp.compression", "OTEL_EXPORTER_OTLP_COMPRESSION"),
        part("otlp.compression", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "traces"),
        part("otlp.compression", "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "metrics"),
        part("otlp.compression", "OTEL_EXPORTER_OTLP_LOGS_COMPRESSION", "logs"),
        of("otlp.service_name", "OTEL_SERVICE_NAME"),
        of("otlp.resource_attributes", "OTEL_RESOURCE_ATTRIBUTES"),
        of("otlp.traces_sampler", "OTEL_TRACES_SAMPLER"),
        of("otlp.traces_sampler_arg", "OTEL_TRACES_SAMPLER_ARG"),
        of("otlp.metric_export_interval_ms", "OTEL_METRIC_EXPORT_INTERVAL"),
        part("otlp.signals", "OTEL_TRACES_EXPORTER", "traces"),
        part("otlp.signals", "OTEL_METRICS_EXPORTER", "metrics"),
        part("otlp.signals", "OTEL_LOGS_EXPORTER", "logs"),
    ]
};

/// Transport of OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Protocol {
    /// Protocol buffers over HTTP.
    #[serde(rename = "http/protobuf")]
    HttpProtobuf,
}

/// Compression of exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// No compression.
    None,
    /// gzip.
    Gzip,
}

/// Sampler of traces, by its standard name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the names are the standard's
pub enum Sampler {
    AlwaysOn,
    AlwaysOff,
    Traceidratio,
    ParentbasedAlwaysOn,
    ParentbasedAlwaysOff,
    ParentbasedTraceidratio,
}

/// Kind of telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TelemetrySignal {
    /// Spans.
    Traces,
    /// Measurements.
    Metrics,
    /// Events and log lines.
    Logs,
}
