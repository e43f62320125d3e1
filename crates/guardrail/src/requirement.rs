//! Declarative checks of a validator, which need no function: present fields, string formats and forbidden
//! values.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::Value;
use tool::definition::TextFormat;
use tool::refusal::ArgumentProblem;
use tool::{Arguments, ToolDefinition};

use crate::problem::is_absent;

/// Declarative check of arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// Each of these fields is present and not empty.
    Present(Vec<String>),
    /// This argument has this format; without a name, every argument that is named after the format or
    /// declares it.
    Format(Option<String>, TextFormat),
    /// None of these values begins with `-`, because a program would read it as an option.
    NotAnOption(Vec<String>),
    /// No object inside the arguments has this key, because the code that runs the call would interpret it.
    ForbiddenKey(&'static str),
}

impl Requirement {
    pub(crate) fn problems(
        &self,
        definition: &ToolDefinition,
        arguments: &Arguments,
    ) -> Vec<ArgumentProblem> {
        match self {
            Requirement::Present(fields) => {
                let absent = fields.iter().filter(|field| is_absent(arguments.get(*field)));
                let missing = |field: &String| {
                    ArgumentProblem::missing(
                        format!("/{field}"),
                        "a value",
                        format!("Required field '{field}' is missing"),
                    )
                };
                absent.map(missing).collect()
            }
            Requirement::Format(Some(field), form) => {
                format_problem(*form, field, arguments.get(field)).into_iter().collect()
            }
            Requirement::NotAnOption(fields) => {
                let present = fields.iter().filter_map(|field| Some((field, arguments.get(field)?)));
                let options = present.filter(|(_, value)| is_option(value));
                let refused = |(field, _): (&String, &Value)| {
                    let message =
                        format!("Field '{field}' must not begin with '-': it would be taken for an option");
                    ArgumentProblem::new(format!("/{field}"), "no option", "an option", message)
                };
                options.map(refused).collect()
            }
            Requirement::ForbiddenKey(key) => {
                let refused = |(field, _): (&String, &Value)| {
                    let message = format!("Field '{field}' must not contain the key '{key}' at any depth");
                    ArgumentProblem::new(format!("/{field}"), format!("no key {key}"), "that key", message)
                };
                arguments.iter().filter(|(_, value)| has_key(value, key)).map(refused).collect()
            }
            Requirement::Format(None, form) => {
                let of_form =
                    |name: &&String| is_named_after(name, *form) || declares_format(definition, name, *form);
                let named = arguments.keys().filter(of_form);
                named.filter_map(|name| format_problem(*form, name, arguments.get(name))).collect()
            }
        }
    }
}

fn is_option(value: &Value) -> bool {
    match value {
        Value::String(text) => text.starts_with('-'),
        // Some programs read a negative number as an option.
        Value::Number(number) => number.to_string().starts_with('-'),
        Value::Array(items) => items.iter().any(is_option),
        _ => false,
    }
}

fn has_key(value: &Value, key: &str) -> bool {
    match value {
        Value::Object(fields) => fields.contains_key(key) || fields.values().any(|inner| has_key(inner, key)),
        Value::Array(items) => items.iter().any(|inner| has_key(inner, key)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn declares_format(definition: &ToolDefinition, name: &str, form: TextFormat) -> bool {
    let parameter = definition.parameters().iter().find(|parameter| parameter.name == name);
    parameter.is_some_and(|parameter| parameter.format.as_deref() == Some(form.as_str()))
}

/// Returns true if an argument of this name is expected to have the format: `email`, `recipient_email`.
fn is_named_after(name: &str, format: TextFormat) -> bool {
    let (name, word) = (name.to_ascii_lowercase().replace('-', "_"), format.as_str().replace('-', "_"));
    name == word || name.strip_suffix(&word).is_some_and(|before| before.ends_with('_'))
}

/// Returns the problem of a value that lacks the format. An absent value is not a problem here; `Present` checks
/// that.
fn format_problem(format: TextFormat, name: &str, value: Option<&Value>) -> Option<ArgumentProblem> {
    if is_absent(value) || value.and_then(Value::as_str).is_some_and(|text| matches_format(format, text)) {
        return None;
    }
    let word = format.as_str();
    let message = format!("Field '{name}' is not a valid {word}");
    Some(ArgumentProblem::new(format!("/{name}"), word, "something else", message))
}

fn matches_format(format: TextFormat, text: &str) -> bool {
    match format {
        TextFormat::Email => is_email(text),
        TextFormat::Uri => is_uri(text),
        TextFormat::Date => is_date(text),
        TextFormat::Time => is_time(text),
        TextFormat::DateTime => {
            text.split_once(['T', 't']).is_some_and(|(date, time)| is_date(date) && is_time(time))
        }
        TextFormat::Uuid => is_uuid(text),
        TextFormat::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
        TextFormat::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
        TextFormat::Hostname => is_hostname(text),
    }
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let plain = |c: char| {
        c.is_ascii_alphanumeric() || ".!#$%&'*+/=?^_`{|}~-".contains(c) || !c.is_ascii() && !c.is_control()
    };
    let local_fits = !local.is_empty() && local.len() <= 64 && local.chars().all(plain);
    local_fits
        && !local.starts_with('.')
        && !local.ends_with('.')
        && !local.contains("..")
        && domain.contains('.')
        && is_hostname(domain)
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        (1..=63).contains(&label.len())
            && label.chars().all(plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    let scheme_fits = scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(plain);
    let rest_fits = rest.chars().all(|c| c.is_ascii_graphic() && !"\"<>\\^`{|}".contains(c));
    scheme_fits && !rest.is_empty() && rest != "//" && rest_fits
}

fn is_uuid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// Parses a number of exactly `length` digits.
fn parse_digits(text: &str, length: usize) -> Option<u32> {
    let digits = text.len() == length && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let (Some(year), Some(month), Some(day)) =
        (parse_digits(year, 4), parse_digits(month, 2), parse_digits(day, 2))
    else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// Returns true for a time with a time zone, as JSON Schema requires it.
fn is_time(text: &str) -> bool {
    let Some(at) = text.find(['Z', 'z', '+', '-']) else { return false };
    let (clock, zone) = text.split_at(at);
    let (clock, fraction) = clock.split_once('.').map_or((clock, None), |(clock, rest)| (clock, Some(rest)));
    let fits = |clock: &str, limits: &[u32]| {
        let parts: Vec<&str> = clock.split(':').collect();
        parts.len() == limits.len()
            && parts
                .iter()
                .zip(limits)
                .all(|(part, limit)| parse_digits(part, 2).is_some_and(|n| n <= *limit))
    };
    let fraction_fits =
        fraction.is_none_or(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
    let zone_fits = matches!(zone, "Z" | "z") || zone.get(1..).is_some_and(|offset| fits(offset, &[23, 59]));
    fits(clock, &[23, 59, 60]) && fraction_fits && zone_fits
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{Category, RiskLevel, ToolSpec};

    use super::*;

    #[test]
    fn formats_accept_only_matching_text() {
        let check = |word: &str, good: &[&str], bad: &[&str]| {
            let form: TextFormat = serde_json::from_value(json!(word)).unwrap();
            good.iter().for_each(|text| assert!(matches_format(form, text), "{word}: {text}"));
            bad.iter().for_each(|text| assert!(!matches_format(form, text), "{word}: {text}"));
        };
        check(
            "email",
            &["ada@example.org", "a.b+c@d-e.co.uk", "ü@example.org"],
            &[
                "ada",
                "@example.org",
                "ada@",
                "ada@localhost",
                "a b@example.org",
                "a..b@example.org",
                ".a@example.org",
                "a.@example.org",
                "a@-x.org",
            ],
        );
        check(
            "uri",
            &["https://example.org/a?b=c", "mailto:a@b.c", "urn:isbn:1"],
            &["example.org", "http://", "a b:c", ":x", "http://a b"],
        );
        check(
            "date",
            &["2026-02-28", "2024-02-29", "2000-02-29", "2026-01-31", "2026-12-31", "2026-04-30"],
            &[
                "2026-02-29",
                "1900-02-29",
                "2026-13-01",
                "2026-00-10",
                "26-01-01",
                "2026-1-1",
                "2026-+1-01",
                "2026-01-00",
                "2026-01-32",
                "2026-04-31",
                "2026-11-31",
            ],
        );
        check(
            "time",
            &["10:20:30Z", "23:59:60+01:00", "01:02:03.456-05:30"],
            &["10:20:30", "24:00:00Z", "10:20Z", "10:20:30.Z", "10:20:30.4xZ", "10:20:30+1"],
        );
        check(
            "date-time",
            &["2026-02-28T10:20:30Z"],
            &["2026-02-28", "2026-02-30T10:20:30Z", "2026-02-28 10:20:30Z"],
        );
        check(
            "uuid",
            &["123e4567-e89b-12d3-a456-426614174000"],
            &["123e4567", "123e4567-e89b-12d3-a456-42661417400g", "123e4567e89b-12d3-a456-426614174000-"],
        );
        check("ipv4", &["127.0.0.1"], &["127.0.0", "256.0.0.1", "127.0.0.01"]);
        check("ipv6", &["::1", "fe80::1"], &["127.0.0.1", ":::1"]);
        check("hostname", &["example.org", "localhost"], &["-a.org", "a..b", "a_b"]);
        assert!(serde_json::from_value::<TextFormat>(json!("zip")).is_err());
        // Maximum lengths, and one character more.
        let label = "a".repeat(63);
        let host = |last: usize| format!("{label}.{label}.{label}.{}", "a".repeat(last));
        check("hostname", &[&host(61), &label], &[&host(62), &format!("{label}a")]);
        let mail = |length: usize| format!("{}@example.org", "a".repeat(length));
        check("email", &[&mail(64)], &[&mail(65)]);
    }

    #[test]
    fn format_without_field_applies_to_arguments_named_after_it() {
        for (name, named) in [
            ("email", true),
            ("recipient_email", true),
            ("recipient-email", true),
            ("emails", false),
            ("email_body", false),
        ] {
            assert_eq!(is_named_after(name, TextFormat::Email), named, "{name}");
        }
        assert!(is_named_after("due_date", TextFormat::Date) && !is_named_after("update", TextFormat::Date));
        assert!(is_named_after("start_date_time", TextFormat::DateTime));
    }

    #[test]
    fn forbidden_key_is_found_at_any_depth_but_not_in_text() {
        let definition = ToolSpec::new("t", "A tool", Category::READ_ONLY, RiskLevel::Low).check().unwrap();
        let check = |value: Value, expect: usize| {
            let arguments: Arguments = [("a".to_owned(), value.clone())].into_iter().collect();
            let problems = Requirement::ForbiddenKey("$from").problems(&definition, &arguments);
            assert_eq!(problems.len(), expect, "{value}");
        };
        check(json!({"$from": "x"}), 1);
        check(json!([[{"b": [{"$from": 1, "c": 2}]}]]), 1);
        check(json!(["$from", {"from": "$from"}]), 0);
    }

    #[test]
    fn format_without_field_applies_to_arguments_declaring_it() {
        let mut spec = ToolSpec::new("t", "A tool", Category::READ_ONLY, RiskLevel::Low);
        spec.input_schema = Some(json!({"type": "object", "properties": {
            "other": {"type": "string"}, "contact": {"type": "string", "format": "email"},
            "home": {"type": "string", "format": "uri"}}}));
        let definition = spec.check().unwrap();
        let arguments: Arguments =
            ["other", "contact", "home"].map(|name| (name.to_owned(), json!("?"))).into_iter().collect();
        let check = |form: TextFormat, expect: &str| {
            let problems = Requirement::Format(None, form).problems(&definition, &arguments);
            let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
            assert_eq!(messages, [expect]);
        };
        check(TextFormat::Email, "Field 'contact' is not a valid email");
        check(TextFormat::Uri, "Field 'home' is not a valid uri");
    }
}
