//! Command entries of `tools.yaml`: a program, or a program and its first or all arguments. Parsing only, no
//! matching.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A program, or a pattern for its arguments.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(untagged)]
pub enum CommandEntry {
    /// The program, with any arguments.
    Program(String),
    /// The program and its first arguments, or all of them.
    Pattern(CommandPattern),
}

/// A program and its first arguments, or all of them.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandPattern {
    /// Words of the command in order; a list is a choice of words.
    pub argv: Vec<WordEntry>,
    /// `true`: no further word may follow. Otherwise any arguments may follow.
    #[serde(default)]
    pub exact: bool,
    /// Reason for the rule.
    #[serde(default)]
    pub why: String,
    /// Commands it must match.
    #[serde(default, rename = "match")]
    pub matches: Vec<String>,
    /// Commands it must not match.
    #[serde(default)]
    pub not_match: Vec<String>,
}

/// One word of a command, or a choice of words.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(untagged)]
pub enum WordEntry {
    /// This word.
    Word(String),
    /// One of these.
    Choice(Vec<String>),
}

// Implemented by hand, because an untagged enum reports every mistake as "did not match any variant", without
// a location.
impl<'de> Deserialize<'de> for CommandEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CommandEntryVisitor;

        impl<'de> Visitor<'de> for CommandEntryVisitor {
            type Value = CommandEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a program such as `ruff`, or `{argv: [...]}`")
            }

            fn visit_str<E>(self, text: &str) -> Result<CommandEntry, E> {
                Ok(CommandEntry::Program(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CommandEntry, A::Error> {
                CommandPattern::deserialize(MapAccessDeserializer::new(map)).map(CommandEntry::Pattern)
            }
        }

        deserializer.deserialize_any(CommandEntryVisitor)
    }
}

impl<'de> Deserialize<'de> for WordEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CommandEntryVisitor;

        impl<'de> Visitor<'de> for CommandEntryVisitor {
            type Value = WordEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word, or a list of words to choose from")
            }

            fn visit_str<E>(self, text: &str) -> Result<WordEntry, E> {
                Ok(WordEntry::Word(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<WordEntry, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = items.next_element()? {
                    words.push(word);
                }
                Ok(WordEntry::Choice(words))
            }
        }

        deserializer.deserialize_any(CommandEntryVisitor)
    }
}
