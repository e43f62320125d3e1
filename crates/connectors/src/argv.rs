//! Builds a command line from its template: one placeholder is one argument. Nothing is joined, split or
//! quoted.

use std::ffi::OsString;

use governance::Permit;
use manifest::ArgvPart;
use serde_json::Value;
use tool::{Arguments, Failure, FailureKind};

/// Separator after which a program treats no argument as an option.
const END_OF_OPTIONS: &str = "--";

/// Returns the argument name of a placeholder word.
pub(crate) fn placeholder(word: &str) -> Option<&str> {
    word.strip_prefix('{')?.strip_suffix('}')
}

/// Returns the arguments placed where a program parses options: a value there that begins with `-` would be
/// one. A `--` in an optional part counts only for that part, because it may be absent.
pub(crate) fn option_position_arguments(template: &[ArgvPart]) -> Vec<String> {
    let mut exposed = Vec::new();
    for part in template {
        let template_args = part.arguments();
        let before = template_args.iter().take_while(|word| *word != END_OF_OPTIONS);
        exposed.extend(before.filter_map(|word| placeholder(word)).map(str::to_owned));
        let may_be_left_out = template_args.iter().any(|word| placeholder(word).is_some());
        if template_args.iter().any(|word| word == END_OF_OPTIONS) && !may_be_left_out {
            break;
        }
    }
    exposed
}

/// Builds the words of a call. Paths are the canonical paths that were opened, for every item of a list.
pub(crate) fn build_argv(
    template: &[ArgvPart],
    permit: &Permit,
    arguments: &Arguments,
) -> Result<Vec<OsString>, Failure> {
    let opened = |name: &str| {
        let of_name = permit.paths().iter().filter(|path| path.key() == name);
        of_name.map(|path| path.canonical().as_os_str().to_owned()).collect()
    };
    fill_template(template, arguments, &opened)
}

fn fill_template(
    template: &[ArgvPart],
    arguments: &Arguments,
    opened: &dyn Fn(&str) -> Vec<OsString>,
) -> Result<Vec<OsString>, Failure> {
    let mut argv: Vec<OsString> = Vec::new();
    let mut has_ended = false;
    for part in template {
        let names = || part.arguments().iter().filter_map(|word| placeholder(word));
        let argument_value = |name: &str| arguments.get(name).filter(|value| !value.is_null());
        let left_out = |name: &str| matches!(argument_value(name), None | Some(Value::Bool(false)));
        match part {
            ArgvPart::Optional(_) if names().any(left_out) => continue,
            ArgvPart::Optional(_) | ArgvPart::Word(_) => {}
        }
        for word in part.arguments() {
            let Some(name) = placeholder(word) else {
                has_ended |= word == END_OF_OPTIONS;
                argv.push(word.into());
                continue;
            };
            let paths = opened(name);
            let before = argv.len();
            match argument_value(name) {
                _ if !paths.is_empty() => argv.extend(paths),
                Some(value) => push_value(&mut argv, name, value, matches!(part, ArgvPart::Optional(_)))?,
                None => {
                    let message =
                        format!("the argument `{name}` is missing, but the command line requires it");
                    return Err(Failure::new(FailureKind::Crashed, message)
                        .with_hint("its manifest must require the argument or put it in an optional part"));
                }
            }
            // Checked again, because a processor may have changed the value since the validators ran.
            let mut added = argv.iter().skip(before);
            if !has_ended && added.any(|word| word.as_encoded_bytes().starts_with(b"-")) {
                let message = format!(
                    "the program was not started: the value of `{name}` would be parsed as an option"
                );
                return Err(Failure::new(FailureKind::WrongKind, message)
                    .with_hint("the value must not begin with `-` after the manifest's processor has run"));
            }
        }
    }
    Ok(argv)
}

fn push_value(argv: &mut Vec<OsString>, name: &str, value: &Value, is_optional: bool) -> Result<(), Failure> {
    match value {
        Value::String(text) => argv.push(text.into()),
        Value::Number(number) => argv.push(number.to_string().into()),
        // The value has already decided whether the part is present.
        Value::Bool(_) if is_optional => {}
        Value::Bool(value) => argv.push(value.to_string().into()),
        Value::Array(items) => items.iter().try_for_each(|item| push_value(argv, name, item, false))?,
        Value::Null | Value::Object(_) => {
            let message = format!("the argument `{name}` cannot be passed on a command line");
            return Err(Failure::new(FailureKind::WrongKind, message)
                .with_hint("use text, a number, or a list of them"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template() -> Vec<ArgvPart> {
        let word = |word: &str| ArgvPart::Word(word.to_owned());
        let list = |words: &[&str]| ArgvPart::Optional(words.iter().map(|word| (*word).to_owned()).collect());
        vec![
            list(&["--ignore-case", "{ignore_case}"]),
            list(&["--glob", "{glob}"]),
            word("-e"),
            word("{pattern}"),
            word("--"),
            word("{files}"),
        ]
    }

    #[track_caller]
    fn check(arguments: Value, expect: &[&str]) {
        let Value::Object(arguments) = arguments else { panic!("an object") };
        let opened = |_: &str| Vec::new();
        assert_eq!(fill_template(&template(), &arguments, &opened).unwrap(), expect);
    }

    #[test]
    fn an_argument_is_always_one_word() {
        check(
            json!({"pattern": "a b; rm -rf / $(x) `y` 'z'", "files": ["f"]}),
            &["-e", "a b; rm -rf / $(x) `y` 'z'", "--", "f"],
        );
        check(
            json!({"pattern": "{glob}", "files": ["a b", "-c"], "glob": "*.rs"}),
            &["--glob", "*.rs", "-e", "{glob}", "--", "a b", "-c"],
        );
        check(json!({"pattern": 5, "files": [], "ignore_case": true}), &["--ignore-case", "-e", "5", "--"]);
        check(json!({"pattern": "", "files": [], "ignore_case": false, "glob": null}), &["-e", "", "--"]);
    }

    #[test]
    fn missing_and_nested_arguments_are_errors() {
        let nothing = |_: &str| Vec::new();
        assert!(fill_template(&template(), &Arguments::new(), &nothing).is_err());
        let Value::Object(nested) = json!({"pattern": {"a": 1}, "files": []}) else { panic!("an object") };
        assert!(fill_template(&template(), &nested, &nothing).is_err());
    }

    #[test]
    fn paths_of_a_list_are_replaced_by_opened_paths() {
        let Value::Object(arguments) = json!({"pattern": "p", "files": ["a", "b"]}) else {
            panic!("an object")
        };
        let opened = |name: &str| match name {
            "files" => vec![OsString::from("/w/a"), OsString::from("/w/b")],
            _ => Vec::new(),
        };
        assert_eq!(
            fill_template(&template(), &arguments, &opened).unwrap(),
            ["-e", "p", "--", "/w/a", "/w/b"]
        );
    }

    #[test]
    fn arguments_before_the_separator_are_exposed() {
        assert_eq!(option_position_arguments(&template()), ["ignore_case", "glob", "pattern"]);
        let (word, list) = (
            |word: &str| ArgvPart::Word(word.to_owned()),
            |words: &[&str]| ArgvPart::Optional(words.iter().map(|word| (*word).to_owned()).collect()),
        );
        let may_be_left_out = [list(&["--", "{first}"]), word("{second}")];
        assert_eq!(option_position_arguments(&may_be_left_out), ["second"]);
        assert_eq!(option_position_arguments(&[list(&["--"]), word("{it}")]), Vec::<String>::new());
    }

    /// Checks the final words, independently of the earlier validators.
    #[test]
    fn a_value_that_becomes_an_option_is_refused() {
        let list = |words: &[&str]| ArgvPart::Optional(words.iter().map(|word| (*word).to_owned()).collect());
        let template = [list(&["--", "{first}"]), ArgvPart::Word("{second}".to_owned())];
        let check = |arguments: Value, expect: Option<&[&str]>| {
            let Value::Object(arguments) = arguments else { panic!("an object") };
            let filled = fill_template(&template, &arguments, &|_| Vec::new());
            let expect = expect.map(|words| words.iter().map(OsString::from).collect::<Vec<_>>());
            assert_eq!(filled.ok(), expect, "{arguments:?}");
        };
        check(json!({"second": ["a", "--output=x"]}), None);
        check(json!({"second": "--output=x"}), None);
        check(json!({"second": -1}), None);
        check(json!({"second": "a"}), Some(&["a"]));
        check(json!({"first": "-f", "second": "--output=x"}), Some(&["--", "-f", "--output=x"]));
    }
}
