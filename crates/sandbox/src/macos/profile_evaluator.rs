//! Evaluator of the policy language of `sandbox-exec`, for tests: decides an operation by a generated profile,
//! as macOS does. The last rule that matches wins.
//!
//! It knows the operations and filters that the generator uses. An unknown filter is a panic, so that a new
//! rule cannot be ignored by a test.

use std::ffi::OsStr;
use std::path::Path;

use super::profile::SandboxProfile;

/// Parsed element of the policy language.
#[derive(Debug, PartialEq)]
pub(crate) enum ProfileTerm {
    Word(String),
    Text(String),
    List(Vec<ProfileTerm>),
}

/// Operation of a sandboxed program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation<'a> {
    /// Operation on a file, such as `file-read-data`.
    File(&'a str, &'a Path),
    /// Connection to an address, `host:port`.
    Connect(&'a str),
    /// Lookup of a Mach service.
    Service(&'a str),
}

/// Parses a text; returns `None` if it is not well-formed.
pub(crate) fn parse(text: &str) -> Option<Vec<ProfileTerm>> {
    let mut open: Vec<Vec<ProfileTerm>> = vec![Vec::new()];
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            ';' => while rest.next_if(|c| *c != '\n').is_some() {},
            '(' => open.push(Vec::new()),
            ')' => {
                let list = open.pop()?;
                open.last_mut()?.push(ProfileTerm::List(list));
            }
            '"' => {
                let mut inner = String::new();
                loop {
                    match rest.next()? {
                        '"' => break,
                        '\\' => inner.push(rest.next()?),
                        c => inner.push(c),
                    }
                }
                open.last_mut()?.push(ProfileTerm::Text(inner));
            }
            c if c.is_whitespace() => {}
            c => {
                let mut word = c.to_string();
                while let Some(c) = rest.next_if(|c| !c.is_whitespace() && !"()\";".contains(*c)) {
                    word.push(c);
                }
                open.last_mut()?.push(ProfileTerm::Word(word));
            }
        }
    }
    let terms = open.pop()?;
    open.is_empty().then_some(terms)
}

/// Returns true if the profile allows the operation.
pub(crate) fn is_allowed(profile: &SandboxProfile, operation: Operation<'_>) -> bool {
    let rules = parse(&profile.text).expect("a well-formed profile");
    let mut allowed = false;
    for rule in &rules {
        let ProfileTerm::List(parts) = rule else { panic!("{rule:?} is not a rule") };
        let Some(ProfileTerm::Word(action)) = parts.first() else { panic!("{rule:?} has no action") };
        if action == "version" {
            continue;
        }
        let is_word = |part: &&ProfileTerm| matches!(part, ProfileTerm::Word(_));
        let names: Vec<_> = parts[1..].iter().take_while(is_word).collect();
        let filters = &parts[1 + names.len()..];
        // Filters of a rule are alternatives; a rule without filters applies to every object.
        let applies = names.iter().any(|name| covers(name, operation))
            && (filters.is_empty() || filters.iter().any(|filter| matches(profile, filter, operation)));
        if applies {
            allowed = action == "allow";
        }
    }
    allowed
}

/// Returns true if a rule for this operation, such as `file-read*`, covers the operation.
fn covers(name: &ProfileTerm, operation: Operation<'_>) -> bool {
    let ProfileTerm::Word(name) = name else { return false };
    let actual = match operation {
        Operation::File(file_operation, _) => file_operation,
        Operation::Connect(_) => "network-outbound",
        Operation::Service(_) => "mach-lookup",
    };
    match name.strip_suffix('*') {
        Some(prefix) => actual.starts_with(prefix),
        None => name == actual || name == "default",
    }
}

fn matches(profile: &SandboxProfile, filter: &ProfileTerm, operation: Operation<'_>) -> bool {
    let ProfileTerm::List(parts) = filter else { panic!("{filter:?} is not a filter") };
    let Some(ProfileTerm::Word(kind)) = parts.first() else { panic!("{filter:?} has no kind") };
    let text = || match parts.last() {
        Some(ProfileTerm::Text(text)) => Some(OsStr::new(text)),
        Some(ProfileTerm::List(parameter)) => match parameter.as_slice() {
            [ProfileTerm::Word(word), ProfileTerm::Text(name)] if word == "param" => {
                profile.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
            }
            _ => None,
        },
        _ => None,
    };
    match (kind.as_str(), operation) {
        ("literal", Operation::File(_, path)) => text().expect("a path") == path.as_os_str(),
        ("subpath", Operation::File(_, path)) => path.starts_with(text().expect("a path")),
        ("global-name", Operation::Service(name)) => text().expect("a name") == name,
        ("remote", Operation::Connect(address)) => match text().and_then(OsStr::to_str) {
            Some("localhost:*") => address.starts_with("127.0.0.1:") || address.starts_with("[::1]:"),
            Some(other) => panic!("the address `{other}` is unknown here"),
            None => true,
        },
        ("literal" | "subpath" | "global-name" | "remote", _) => false,
        _ => panic!("the filter `{kind}` is unknown here"),
    }
}
