//! Agreement of the largest message with the largest file: a write that the policy permits must fit into a
//! message.

use governance::Policy;
use server::settings::Settings;
use strict_yaml::DocumentError;
use tool::ToolDefinition;

/// Length of a request apart from the content that it writes.
const REQUEST_BYTES: u64 = 64 * 1024;

/// Returns a warning for each tool whose largest permitted content does not fit into a message, even if no
/// character of it needs an escape.
pub(crate) fn check<'a>(
    settings: &Settings,
    settings_file: &str,
    policy: &Policy,
    definitions: impl IntoIterator<Item = &'a ToolDefinition>,
) -> Vec<DocumentError> {
    let most = settings.limits.max_line_bytes as u64;
    let place = match settings.max_line_bytes_line {
        Some(line) => format!("{settings_file}:{line}"),
        None => "the default".to_owned(),
    };
    let check = |definition: &ToolDefinition| {
        let (content, rule) = policy.max_content_bytes(definition)?;
        let needed = content + REQUEST_BYTES;
        let message = format!(
            "`{}` permits {} MiB, but no message may be longer than {most} bytes (`limits.max_line_bytes`, {place}), \
             so the largest permitted write cannot be sent",
            rule.id,
            content >> 20,
        );
        let fix = format!(
            "set `limits.max_line_bytes` in sinew.yaml to at least {needed}, or lower `max_file_size_mb`"
        );
        (needed > most).then(|| policy.error_at(rule, &message).with_suggestion(fix))
    };
    definitions.into_iter().filter_map(check).collect()
}
