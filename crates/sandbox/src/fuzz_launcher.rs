//! Properties of messages between daemon and launcher, for the fuzz target `launcher_messages`.

use crate::launch::spec::{RunLimits, RunSpec};
use crate::launch::status::LauncherStatus;
use crate::launch::wire_format::{LENGTH_BYTES, parse_length, read_body};

/// Asserts that every accepted message means the same after it was written and parsed again.
pub fn fuzz_launcher_messages(data: &[u8]) {
    if let Ok(spec) = RunSpec::parse(data) {
        check_round_trip(&spec.to_frame(), |body| RunSpec::parse(body).map(|again| again.to_frame()));
    }
    if let Ok(limits) = RunLimits::parse(data) {
        check_round_trip(&limits.to_frame(), |body| RunLimits::parse(body).map(RunLimits::to_frame));
    }
    if let Ok(status) = LauncherStatus::parse(data) {
        check_round_trip(&status.to_frame(), |body| {
            LauncherStatus::parse(body).map(|again| again.to_frame())
        });
    }
    if let Some((head, mut rest)) = data.split_first_chunk::<LENGTH_BYTES>()
        && let Ok(length) = parse_length(*head)
    {
        assert_eq!(read_body(&mut rest, length).is_ok(), data.len() - LENGTH_BYTES >= length);
    }
}

fn check_round_trip(frame: &[u8], parse: impl Fn(&[u8]) -> std::io::Result<Vec<u8>>) {
    let body = frame.get(LENGTH_BYTES..).unwrap_or_default();
    assert_eq!(parse(body).ok().as_deref(), Some(frame));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_messages_mean_the_same_again() {
        let spec = crate::launch::spec::tests::spec().to_frame();
        fuzz_launcher_messages(&spec);
        fuzz_launcher_messages(&spec[LENGTH_BYTES..]);
        fuzz_launcher_messages(br#"{"Failed":{"step":"Mounts","what":"x","code":2}}"#);
        fuzz_launcher_messages(b"memory\0x\0");
        fuzz_launcher_messages(&[255; 8]);
    }
}
