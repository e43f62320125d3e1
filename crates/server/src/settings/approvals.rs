//! The settings of approvals: who is told that a human is asked.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Questions to a human.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApprovalSettings {
    /// Who is told of a new one: `desktop`, `off`, or a program with its arguments, which gets two more: a title, and the
    /// call in one line.
    pub notify: NotifyBy,
}

/// How a person is told that something waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub enum NotifyBy {
    /// By the desktop, where there is one.
    #[default]
    #[schemars(with = "String")]
    Desktop,
    /// Not at all.
    #[schemars(with = "String")]
    Off,
    /// By this program.
    Program(Vec<String>),
}

// By hand: an untagged derive would answer every mistake with "did not match any variant".
impl<'de> Deserialize<'de> for NotifyBy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NotifyVisitor)
    }
}

struct NotifyVisitor;

impl<'de> Visitor<'de> for NotifyVisitor {
    type Value = NotifyBy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`desktop`, `off`, or a list: a program and its arguments")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<NotifyBy, E> {
        match word {
            "desktop" => Ok(NotifyBy::Desktop),
            "off" => Ok(NotifyBy::Off),
            _ => Err(E::custom(format!("unknown word `{word}`: write desktop, off, or a list"))),
        }
    }

    // YAML takes a bare `off` for a boolean.
    fn visit_bool<E: Error>(self, on: bool) -> Result<NotifyBy, E> {
        Ok(if on { NotifyBy::Desktop } else { NotifyBy::Off })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<NotifyBy, A::Error> {
        let mut words = Vec::new();
        while let Some(word) = list.next_element::<String>()? {
            words.push(word);
        }
        match words.is_empty() {
            true => Err(A::Error::custom("an empty list names no program: write off")),
            false => Ok(NotifyBy::Program(words)),
        }
    }
}
