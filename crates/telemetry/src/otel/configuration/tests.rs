//! Resolution of settings and environment variables.

use super::*;

fn resolve_with(
    settings: &OtlpSettings,
    variables: &[(&str, &str)],
) -> Result<Option<ExportConfiguration>, TelemetryError> {
    let environment =
        |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    resolve(settings, &environment)
}

fn settings_with_endpoint(endpoint: &str) -> OtlpSettings {
    OtlpSettings { endpoint: Some(endpoint.to_owned()), ..OtlpSettings::default() }
}

#[test]
fn nothing_is_exported_by_default() {
    assert_eq!(resolve_with(&OtlpSettings::default(), &[]).unwrap(), None);
    let disabled = OtlpSettings { disabled: true, ..settings_with_endpoint("http://c:4318") };
    assert_eq!(resolve_with(&disabled, &[]).unwrap(), None);
    assert_eq!(
        resolve_with(&settings_with_endpoint("http://c:4318"), &[("OTEL_SDK_DISABLED", "TRUE")]).unwrap(),
        None
    );
    assert!(resolve_with(&disabled, &[("OTEL_SDK_DISABLED", "false")]).unwrap().is_some());
    let empty = [("OTEL_EXPORTER_OTLP_ENDPOINT", " ")];
    assert_eq!(
        resolve_with(&OtlpSettings::default(), &empty).unwrap(),
        None,
        "an empty variable counts as unset"
    );
}

#[test]
fn endpoints_follow_the_specification() {
    let urls = |settings: &OtlpSettings, variables: &[(&str, &str)]| -> Vec<String> {
        let configuration = resolve_with(settings, variables).unwrap().unwrap();
        assert_eq!(configuration.warnings, [] as [&str; 0]);
        configuration.signals.into_iter().map(|(_, to)| to.url).collect()
    };
    assert_eq!(
        urls(&settings_with_endpoint("http://c:4318/"), &[]),
        ["http://c:4318/v1/traces", "http://c:4318/v1/metrics", "http://c:4318/v1/logs"]
    );
    assert_eq!(
        urls(&settings_with_endpoint("http://c:4318"), &[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://e/x")]),
        ["https://e/x/v1/traces", "https://e/x/v1/metrics", "https://e/x/v1/logs"]
    );
    let variables = [("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t/own"), ("OTEL_LOGS_EXPORTER", "none")];
    assert_eq!(
        urls(&settings_with_endpoint("http://c"), &variables),
        ["http://t/own", "http://c/v1/metrics"]
    );
    assert_eq!(urls(&OtlpSettings::default(), &variables[..1]), ["http://t/own"]);
    let some = OtlpSettings { signals: vec![TelemetrySignal::Logs], ..settings_with_endpoint("http://c") };
    assert_eq!(urls(&some, &[]), ["http://c/v1/logs"]);
    assert_eq!(
        urls(&some, &[("OTEL_METRICS_EXPORTER", "console,otlp")]),
        ["http://c/v1/metrics", "http://c/v1/logs"]
    );
}

#[test]
fn other_options_come_from_settings_and_variables() {
    let mut settings = settings_with_endpoint("http://c");
    settings.resource_attributes = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
    settings.traces_sampler = Sampler::AlwaysOff;
    let plain = resolve_with(&settings, &[]).unwrap().unwrap();
    assert_eq!(plain.sampler, (Sampler::AlwaysOff, 1.0));
    assert_eq!(plain.resource["service.name"], "sinew");
    let configuration = resolve_with(
        &settings,
        &[
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
            ("OTEL_SERVICE_NAME", "mine"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other, team=b%20c,bad,x=%zz%"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "250"),
            ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "500"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "1000"),
        ],
    );
    let configuration = configuration.unwrap().unwrap();
    assert_eq!(configuration.warnings, [] as [&str; 0]);
    assert_eq!(configuration.sampler, (Sampler::ParentbasedTraceidratio, 0.25));
    let resource: Vec<_> = configuration.resource.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(resource, [("service.name", "mine"), ("team", "b c"), ("x", "%zz%")]);
    let timeouts: Vec<u128> = configuration.signals.iter().map(|(_, to)| to.timeout.as_millis()).collect();
    assert_eq!(timeouts, [250, 250, 500]);
    assert!(configuration.signals.iter().all(|(_, to)| to.compression == Compression::Gzip));
    assert_eq!(configuration.metric_interval, Duration::from_secs(1));
}

#[test]
fn invalid_variable_is_a_warning() {
    for (variable, value, expected) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "only http/protobuf"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", "only http/protobuf"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318", "not a valid endpoint"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://x", "not a valid endpoint"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "milliseconds"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "only gzip and none"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote", "not a standard sampler"),
        ("OTEL_TRACES_SAMPLER_ARG", "2", "from 0 to 1"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "-1", "milliseconds"),
    ] {
        let configuration =
            resolve_with(&settings_with_endpoint("http://c"), &[(variable, value)]).unwrap().unwrap();
        let text = configuration.warnings.join("\n");
        assert!(text.contains(variable) && text.contains(expected), "{variable}={value}: {text}");
    }
}

#[test]
fn invalid_setting_is_an_error() {
    let check = |change: fn(&mut OtlpSettings), expected: &str| {
        let mut settings = settings_with_endpoint("http://c");
        change(&mut settings);
        let error = resolve_with(&settings, &[]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    };
    check(|s| s.endpoint = Some("collector".to_owned()), "`otlp.endpoint` cannot be `collector`");
    check(|s| s.endpoint = Some("ftp://u:hunter2@x".to_owned()), "such as http://localhost:4318");
    check(|s| s.timeout_ms = 0, "`otlp.timeout_ms` cannot be `0`");
    check(|s| s.metric_export_interval_ms = 1, "at least 100");
    check(|s| s.traces_sampler_arg = f64::NAN, "from 0 to 1");
    check(
        |s| drop(s.headers.insert("a b".to_owned(), "hunter2".to_owned())),
        "`otlp.headers` cannot be `a b`",
    );
    check(
        |s| drop(s.headers.insert("x".to_owned(), "hunter2\r\n".to_owned())),
        "`otlp.headers` cannot be `x`",
    );
}

#[test]
fn header_values_are_never_shown() {
    let mut settings = settings_with_endpoint("https://u:hunter2@c");
    settings.headers.insert("x-key".to_owned(), "hunter2".to_owned());
    let shown = format!("{settings:?}");
    assert!(shown.contains("x-key") && !shown.contains("hunter2"), "{shown}");
    let json = serde_json::to_value(&settings).unwrap();
    assert_eq!(json["headers"]["x-key"], "[redacted:header]");
}

#[test]
fn unknown_settings_and_values_are_refused() {
    let read = |text: &str| serde_json::from_str::<crate::TelemetrySettings>(text);
    let settings = read(
        r#"{"log": {"level": "debug", "files": 2}, "capture_content": true, "otlp": {"endpoint": "http://c",
            "traces_sampler": "parentbased_always_on", "protocol": "http/protobuf", "compression": "gzip",
            "signals": ["traces"]}}"#,
    )
    .unwrap();
    assert_eq!((settings.log.files, settings.log.max_bytes), (2, 10 * 1024 * 1024));
    assert_eq!(settings.otlp.signals, [TelemetrySignal::Traces]);
    for wrong in [
        r#"{"otlp": {"endpont": "x"}}"#,
        r#"{"log": {"lvl": 1}}"#,
        r#"{"otlp": {"protocol": "grpc"}}"#,
        r#"{"x": 1}"#,
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

/// `sinew config show` uses the list to report where a setting comes from.
#[test]
fn every_variable_read_is_listed_with_its_setting() {
    let queried = std::cell::RefCell::new(Vec::new());
    let environment = |name: &str| {
        queried.borrow_mut().push(name.to_owned());
        None
    };
    resolve(&settings_with_endpoint("http://c:4318"), &environment).unwrap();
    let queried = queried.into_inner();
    assert!(queried.len() > 10, "{queried:?}");
    let listed = |name: &String| crate::VARIABLES.iter().any(|known| known.name == name);
    assert_eq!(queried.iter().find(|name| !listed(name)), None);
    // The exporter reads the headers itself, and the log reads the filter.
    let elsewhere = |name: &str| name.ends_with("_HEADERS") || name == "SINEW_LOG";
    let unread = crate::VARIABLES
        .iter()
        .find(|known| !elsewhere(known.name) && !queried.iter().any(|name| name == known.name));
    assert_eq!(unread, None, "a listed variable is never read");
}
