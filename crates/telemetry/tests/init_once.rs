//! Telemetry is set up once a process, from inside an async runtime too, and says so when asked again.

use telemetry::{LogTarget, OtlpSettings, TelemetryError, TelemetrySettings, init};

#[test]
fn a_second_set_up_is_refused_and_the_first_goes_on() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let home = tempfile::tempdir().unwrap();
    runtime.block_on(async {
        // Nobody listens there; making, using and dropping the client must still not disturb the runtime.
        let otlp =
            OtlpSettings { endpoint: Some("http://127.0.0.1:9".to_owned()), ..OtlpSettings::default() };
        let settings = TelemetrySettings { otlp, ..TelemetrySettings::default() };
        let target = LogTarget::Directory(home.path().join("log"));
        let guard = init(&settings, &target).unwrap();
        let again = init(&settings, &LogTarget::Directory(home.path().join("other"))).unwrap_err();
        assert!(matches!(again, TelemetryError::AlreadyInitialised), "{again}");
        assert!(!home.path().join("other").exists(), "it touches nothing");
        tracing::info!("still here");
        assert_eq!(guard.dropped_lines(), 0);
        drop(guard);
    });
    let text = std::fs::read_to_string(home.path().join("log/sinew.log")).unwrap();
    assert!(text.contains("still here"), "{text}");
}
