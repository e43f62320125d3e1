//! JSON form of the decision facts: nested structs are written into one object, field by field.
//!
//! The output equals that of `#[serde(flatten)]`, without its intermediate map, which would delay every call.

use serde::ser::{Serialize, SerializeStruct, Serializer};
use tool::json_text::write_some;

use super::{Moment, ObjectSeen, PathSeen, Sighting};

/// Minimum number of fields, as the length hint for `serde`.
const FIELDS: usize = 5;

impl Serialize for Sighting<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Sighting { moment, paths, content_bytes, commands, hosts, would_deny } = self;
        let Moment { mode, policy, counts } = moment;
        let mut out = serializer.serialize_struct("DecisionFacts", FIELDS)?;
        out.serialize_field("mode", mode)?;
        out.serialize_field("policy", policy)?;
        out.serialize_field("counts", counts)?;
        out.serialize_field("paths", paths)?;
        out.serialize_field("content_bytes", content_bytes)?;
        write_some(&mut out, "commands", Some(commands).filter(|commands| !commands.is_empty()))?;
        write_some(&mut out, "hosts", Some(hosts).filter(|hosts| !hosts.is_empty()))?;
        write_some(&mut out, "would_deny", would_deny.as_ref())?;
        out.end()
    }
}

impl Serialize for PathSeen<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let PathSeen { key, typed, canonical, access, kind, object, .. } = self;
        let PathSeen { other_names, missing_folders, git_entry, base, .. } = self;
        let mut out = serializer.serialize_struct("PathFacts", FIELDS)?;
        out.serialize_field("key", key)?;
        out.serialize_field("typed", typed)?;
        write_some(&mut out, "canonical", canonical.as_ref())?;
        out.serialize_field("access", access)?;
        out.serialize_field("kind", kind)?;
        if let Some(ObjectSeen { size, links }) = object {
            out.serialize_field("size", size)?;
            out.serialize_field("links", links)?;
        }
        write_some(&mut out, "other_names", Some(other_names).filter(|names| !names.is_empty()))?;
        write_some(&mut out, "missing_folders", Some(missing_folders).filter(|names| !names.is_empty()))?;
        write_some(&mut out, "git_entry", git_entry.as_ref())?;
        write_some(&mut out, "base", base.as_ref())?;
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use serde::Serialize;
    use serde_json::Value;
    use tool::{Mode, Refusal, RefusalCode};

    use super::super::{CommandSeen, HostSeen};
    use super::*;
    use crate::situation::Counts;

    /// Reference implementation with `flatten`.
    #[derive(Serialize)]
    struct FlatSighting<'a> {
        #[serde(flatten)]
        moment: &'a Moment<'a>,
        paths: Vec<FlatPath<'a>>,
        content_bytes: Option<u64>,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        commands: &'a [CommandSeen<'a>],
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        hosts: &'a [HostSeen],
        #[serde(skip_serializing_if = "Option::is_none")]
        would_deny: Option<&'a Refusal>,
    }

    #[derive(Serialize)]
    struct FlatPath<'a> {
        key: &'a str,
        typed: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        canonical: Option<&'a str>,
        access: &'a str,
        kind: &'a str,
        #[serde(flatten)]
        object: Option<&'a ObjectSeen>,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        other_names: &'a [Cow<'a, str>],
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        missing_folders: &'a [String],
        #[serde(skip_serializing_if = "Option::is_none")]
        git_entry: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        base: Option<&'a str>,
    }

    fn flat<'a>(path: &'a PathSeen<'a>) -> FlatPath<'a> {
        FlatPath {
            key: path.key,
            typed: &path.typed,
            canonical: path.canonical.as_deref(),
            access: path.access,
            kind: path.kind,
            object: path.object.as_ref(),
            other_names: &path.other_names,
            missing_folders: &path.missing_folders,
            git_entry: path.git_entry,
            base: path.base.as_deref(),
        }
    }

    #[track_caller]
    fn check(sighting: &Sighting<'_>) {
        let expect = FlatSighting {
            moment: &sighting.moment,
            paths: sighting.paths.iter().map(flat).collect(),
            content_bytes: sighting.content_bytes,
            commands: &sighting.commands,
            hosts: &sighting.hosts,
            would_deny: sighting.would_deny,
        };
        let expect = serde_json::to_string(&expect).unwrap();
        assert_eq!(tool::json_text::write(sighting).unwrap().as_str(), expect);
        let value = sighting.value();
        assert_eq!(value.to_string(), expect, "as a value too");
        assert_eq!(value, serde_json::from_str::<Value>(&expect).unwrap());
    }

    #[test]
    fn output_equals_that_of_serde_flatten() {
        let counts = Counts { tool_last_hour: 1, all_last_minute: 2, outbound_last_hour: Counts::UNKNOWN };
        let moment = || Moment { mode: Mode::Alert, policy: "p", counts };
        let text = |name: &'static str| Cow::Borrowed(name);
        let whole = || PathSeen {
            key: "key",
            typed: text("typed \"é\""),
            canonical: Some(text("/canonical")),
            access: "write",
            kind: "file",
            object: Some(ObjectSeen { size: Some(7), links: None }),
            other_names: vec![text("one"), text("other")],
            missing_folders: vec!["missing".to_owned()],
            git_entry: Some("existing"),
            base: Some(text("/base")),
        };
        let bare = || PathSeen {
            canonical: None,
            object: None,
            other_names: Vec::new(),
            missing_folders: Vec::new(),
            git_entry: None,
            base: None,
            ..whole()
        };
        let (words, refusal) = (["ls".to_owned()], Refusal::new("t", RefusalCode::Busy, "reason"));
        check(&Sighting {
            moment: moment(),
            paths: vec![whole(), bare()],
            content_bytes: Some(3),
            commands: vec![CommandSeen::Words(&words), CommandSeen::ForAShell("a | b")],
            hosts: vec![HostSeen::Named("a.org".to_owned()), HostSeen::Unusable { unusable: "bad" }],
            would_deny: Some(&refusal),
        });
        check(&Sighting {
            moment: moment(),
            paths: Vec::new(),
            content_bytes: None,
            commands: Vec::new(),
            hosts: Vec::new(),
            would_deny: None,
        });
    }
}
