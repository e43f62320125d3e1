//! Reports the output of a tool's program as progress, line by line, while the program runs.

use manifest::OutputForm;
use sandbox::{OutputChunk, OutputListener, OutputStream};
use serde_json::json;
use tool::text::{escape_invisible_line, shorten};
use tool::{Progress, ProgressNote};

/// Bytes of output reported as progress. The result contains the rest.
const MAX_PROGRESS_BYTES: usize = 256 * 1024;
/// Length limit of a line in a progress message, in characters.
const MAX_LINE_CHARS: usize = 400;

/// Returns a callback that reports complete lines, if a client follows the call. Standard output in JSON is
/// the result itself, so only standard error is reported then.
pub(crate) fn line_listener(progress: &Progress, output: OutputForm) -> Option<OutputListener> {
    let mut lines =
        LineProgress { progress: progress.clone(), partial: [Vec::new(), Vec::new()], reported: 0 };
    progress.has_listener().then(|| -> OutputListener {
        Box::new(move |chunk: OutputChunk<'_>| {
            if output == OutputForm::Text || chunk.stream == OutputStream::Stderr {
                lines.receive(chunk);
            }
        })
    })
}

/// Output that is not reported yet, for standard output and standard error.
struct LineProgress {
    progress: Progress,
    partial: [Vec<u8>; 2],
    reported: usize,
}

impl LineProgress {
    fn receive(&mut self, chunk: OutputChunk<'_>) {
        if self.reported > MAX_PROGRESS_BYTES {
            return;
        }
        self.reported = self.reported.saturating_add(chunk.bytes.len());
        let [stdout, stderr] = &mut self.partial;
        let partial = if chunk.stream == OutputStream::Stderr { stderr } else { stdout };
        partial.extend_from_slice(chunk.bytes);
        let Some(end) = partial.iter().rposition(|byte| *byte == b'\n') else { return };
        let rest = partial.split_off(end + 1);
        let lines = std::mem::replace(partial, rest);
        for line in String::from_utf8_lossy(&lines).lines().filter(|line| !line.trim().is_empty()) {
            self.progress.report(ProgressNote {
                message: escape_invisible_line(&shorten(line, MAX_LINE_CHARS)),
                done_of_total: None,
                // The screening for secrets joins the contents of successive notes.
                data: Some(json!({"source": chunk.stream.as_str(), "content": format!("{line}\n")})),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    fn reported(output: OutputForm, chunks: &[(OutputStream, &str)]) -> Vec<String> {
        let received = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&received);
        let progress = Progress::with_listener(move |note| sink.lock().unwrap().push(note.message));
        let mut listener = line_listener(&progress, output).unwrap();
        for (sequence, (stream, text)) in (0..).zip(chunks) {
            listener(OutputChunk { sequence, stream: *stream, bytes: text.as_bytes() });
        }
        received.lock().unwrap().clone()
    }

    #[test]
    fn lines_are_reported_once_they_are_complete() {
        let (out, err) = (OutputStream::Stdout, OutputStream::Stderr);
        let chunks = [(out, "on"), (err, "warn\n"), (out, "e\ntwo\n\nthr"), (out, "ee")];
        assert_eq!(reported(OutputForm::Text, &chunks), ["warn", "one", "two"]);
        assert_eq!(reported(OutputForm::Json, &chunks), ["warn"], "standard output is the result");
        assert!(line_listener(&Progress::default(), OutputForm::Text).is_none());
    }

    #[test]
    fn endless_output_is_not_reported_without_end() {
        let line = format!("{}\n", "x".repeat(1023));
        let chunks = vec![(OutputStream::Stdout, line.as_str()); 1000];
        let lines = reported(OutputForm::Text, &chunks);
        assert_eq!(lines.len(), MAX_PROGRESS_BYTES / 1024 + 1);
        assert!(lines.iter().all(|line| line.chars().count() <= MAX_LINE_CHARS + 1));
    }
}
