//! Settings of approvals: notification of the operator.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Approval requests to the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalSettings {
    /// Notification of a new request: `desktop`, `off`, or a program with its arguments. The program gets two
    /// more arguments: a title, and the call in one line.
    pub notify: NotifyMethod,
}

/// Notification of the operator about a new approval request.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum NotifyMethod {
    /// Desktop notification, where there is a desktop.
    #[default]
    #[schemars(with = "String")]
    Desktop,
    /// No notification.
    #[schemars(with = "String")]
    Off,
    /// Program to run, with its arguments.
    Program(Vec<String>),
}

// Written by hand, because an untagged derive reports every error as "did not match any variant".
impl<'de> Deserialize<'de> for NotifyMethod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NotifyVisitor)
    }
}

struct NotifyVisitor;

impl<'de> Visitor<'de> for NotifyVisitor {
    type Value = NotifyMethod;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`desktop`, `off`, or a list: a program and its arguments")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<NotifyMethod, E> {
        match word {
            "desktop" => Ok(NotifyMethod::Desktop),
            "off" => Ok(NotifyMethod::Off),
            _ => Err(E::custom(format!("unknown word `{word}`: write desktop, off, or a list"))),
        }
    }

    // YAML reads a bare `off` as a boolean.
    fn visit_bool<E: Error>(self, on: bool) -> Result<NotifyMethod, E> {
        Ok(if on { NotifyMethod::Desktop } else { NotifyMethod::Off })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<NotifyMethod, A::Error> {
        let mut words = Vec::new();
        while let Some(word) = list.next_element::<String>()? {
            words.push(word);
        }
        match words.is_empty() {
            true => Err(A::Error::custom("the list is empty: name a program, or write off")),
            false => Ok(NotifyMethod::Program(words)),
        }
    }
}
