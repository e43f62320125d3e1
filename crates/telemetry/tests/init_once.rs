//! Telemetry can be set up once per process, also inside an async runtime; a second setup is an error.

use telemetry::{LogTarget, OtlpSettings, TelemetryError, TelemetrySettings, init};

#[test]
fn second_setup_is_refused_and_the_first_continues() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let home = tempfile::tempdir().unwrap();
    runtime.block_on(async {
        // Nothing listens on this port; creating, using and dropping the client must still not disturb the
        // runtime.
        let otlp =
            OtlpSettings { endpoint: Some("http://127.0.0.1:9".to_owned()), ..OtlpSettings::default() };
        let settings = TelemetrySettings { otlp, ..TelemetrySettings::default() };
        let target = LogTarget::Directory(home.path().join("log"));
        let guard = init(&settings, &target).unwrap();
        let again = init(&settings, &LogTarget::Directory(home.path().join("other"))).unwrap_err();
        assert!(matches!(again, TelemetryError::AlreadyInitialised), "{again}");
        assert!(!home.path().join("other").exists(), "the refused setup creates no files");
        tracing::info!("still here");
        assert_eq!(guard.dropped_lines(), 0);
        drop(guard);
    });
    let text = std::fs::read_to_string(home.path().join("log/sinew.log")).unwrap();
    assert!(text.contains("still here"), "{text}");
}
