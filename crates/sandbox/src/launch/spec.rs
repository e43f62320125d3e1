//! Run specification for a launcher, as one message. It is sent over a socket, because a command line would
//! be visible to every process of the machine.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use governance::Network;
use tool::SandboxTier;

use crate::launch::wire_format::{self, Writer};
use crate::scan::file_identity::Held;

/// The program to run, and the sandbox around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) tier: SandboxTier,
    pub(crate) network: Network,
    /// Canonical path of the program, and device and inode of the file that must be there.
    pub(crate) program: PathBuf,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) words: Vec<OsString>,
    pub(crate) variables: Vec<OsString>,
    pub(crate) folder: PathBuf,
    /// Writable folders, and folders that are only readable.
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) readable: Vec<PathBuf>,
    /// Paths in them that must not be visible, and paths that must not change.
    pub(crate) hidden: Vec<Held>,
    pub(crate) kept: Vec<Held>,
    /// Folders that must not be renamed, although their contents may change.
    pub(crate) pinned: Vec<PathBuf>,
    pub(crate) limits: Limits,
}

/// Resource limits of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) time: Duration,
    /// Time between the request to terminate and the kill.
    pub(crate) grace: Duration,
    pub(crate) memory_bytes: u64,
    pub(crate) processes: u64,
    /// Processor time of one process; 0 means no separate limit.
    pub(crate) cpu_seconds: u64,
    /// Largest file; 0 means no separate limit.
    pub(crate) file_bytes: u64,
    pub(crate) open_files: u64,
}

impl Spec {
    pub(crate) fn framed(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.put("tier", self.tier.as_str());
        writer.put("network", network_word(self.network));
        writer.put("program", &self.program);
        writer.number("device", self.device);
        writer.number("inode", self.inode);
        writer.put("folder", &self.folder);
        self.words.iter().for_each(|word| writer.put("word", word));
        self.variables.iter().for_each(|word| writer.put("variable", word));
        self.writable.iter().for_each(|path| writer.put("writable", path));
        self.readable.iter().for_each(|path| writer.put("readable", path));
        self.hidden.iter().for_each(|held| put_held(&mut writer, "hidden", held));
        self.kept.iter().for_each(|held| put_held(&mut writer, "kept", held));
        self.pinned.iter().for_each(|path| writer.put("pinned", path));
        self.limits.put(&mut writer);
        writer.framed()
    }

    /// Parses a message without its length prefix. An unknown field is an error, because it could be a layer
    /// that would not be built.
    pub(crate) fn read(body: &[u8]) -> io::Result<Spec> {
        let mut spec = Spec::empty();
        let mut pairs = wire_format::pairs(body)?.into_iter();
        while let Some((name, value)) = pairs.next() {
            match name.as_str() {
                "tier" => spec.tier = tier(&value)?,
                "network" => spec.network = network(&value)?,
                "program" => spec.program = value.into(),
                "device" => spec.device = wire_format::number(&value)?,
                "inode" => spec.inode = wire_format::number(&value)?,
                "folder" => spec.folder = value.into(),
                "word" => spec.words.push(value),
                "variable" => spec.variables.push(value),
                "writable" => spec.writable.push(value.into()),
                "readable" => spec.readable.push(value.into()),
                "hidden" => spec.hidden.push(held(value, &mut pairs)?),
                "kept" => spec.kept.push(held(value, &mut pairs)?),
                "pinned" => spec.pinned.push(value.into()),
                _ => spec.limits.take(&name, &value)?,
            }
        }
        match spec.words.is_empty() || !spec.limits.are_set() {
            true => Err(invalid("a field is missing".to_owned())),
            false => Ok(spec),
        }
    }

    /// Specification without a program and without any grants.
    pub(crate) fn empty() -> Spec {
        Spec {
            tier: SandboxTier::Full,
            network: Network::Off,
            program: PathBuf::new(),
            device: 0,
            inode: 0,
            words: Vec::new(),
            variables: Vec::new(),
            folder: PathBuf::new(),
            writable: Vec::new(),
            readable: Vec::new(),
            hidden: Vec::new(),
            kept: Vec::new(),
            pinned: Vec::new(),
            limits: Limits::default(),
        }
    }
}

impl Limits {
    /// Serialises the limits alone, for the watcher, which does not need the rest.
    pub(crate) fn framed(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        self.put(&mut writer);
        writer.framed()
    }

    /// Parses a message without its length prefix.
    pub(crate) fn read(body: &[u8]) -> io::Result<Limits> {
        let mut limits = Limits::default();
        for (name, value) in wire_format::pairs(body)? {
            limits.take(&name, &value)?;
        }
        match limits.are_set() {
            true => Ok(limits),
            false => Err(invalid("a limit is missing".to_owned())),
        }
    }

    fn put(&self, writer: &mut Writer) {
        writer.number("time", u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX));
        writer.number("grace", u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX));
        writer.number("memory", self.memory_bytes);
        writer.number("processes", self.processes);
        writer.number("cpu", self.cpu_seconds);
        writer.number("file", self.file_bytes);
        writer.number("files", self.open_files);
    }

    fn take(&mut self, name: &str, value: &std::ffi::OsStr) -> io::Result<()> {
        let number = wire_format::number(value);
        match name {
            "time" => self.time = Duration::from_millis(number?),
            "grace" => self.grace = Duration::from_millis(number?),
            "memory" => self.memory_bytes = number?,
            "processes" => self.processes = number?,
            "cpu" => self.cpu_seconds = number?,
            "file" => self.file_bytes = number?,
            "files" => self.open_files = number?,
            _ => return Err(invalid(format!("unknown field `{name}`"))),
        }
        Ok(())
    }

    /// Returns true if the mandatory limits are set.
    fn are_set(&self) -> bool {
        self.memory_bytes != 0 && self.processes != 0
    }
}

/// Writes a path, followed by the file that must be there.
fn put_held(writer: &mut Writer, name: &str, held: &Held) {
    writer.put(name, &held.path);
    writer.number("of", held.file.0);
    writer.number("of", held.file.1);
}

fn held(path: OsString, rest: &mut impl Iterator<Item = (String, OsString)>) -> io::Result<Held> {
    let mut number = || match rest.next() {
        Some((name, value)) if name == "of" => wire_format::number(&value),
        _ => Err(invalid("a path without its file".to_owned())),
    };
    Ok(Held { path: path.into(), file: (number()?, number()?) })
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Parses a tier. There is no text for `none`.
pub(crate) fn tier(word: &std::ffi::OsStr) -> io::Result<SandboxTier> {
    let known = [SandboxTier::Full, SandboxTier::Reduced].into_iter().find(|tier| word == tier.as_str());
    known.ok_or_else(|| invalid("unknown tier".to_owned()))
}

fn network_word(network: Network) -> &'static str {
    match network {
        Network::Off => "off",
        Network::Loopback => "loopback",
        Network::Full => "full",
    }
}

fn network(word: &std::ffi::OsStr) -> io::Result<Network> {
    let all = [Network::Off, Network::Loopback, Network::Full];
    let known = all.into_iter().find(|network| word == network_word(*network));
    known.ok_or_else(|| invalid("unknown network".to_owned()))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    pub(crate) fn spec() -> Spec {
        Spec {
            network: Network::Loopback,
            tier: SandboxTier::Reduced,
            program: "/bin/echo".into(),
            device: 7,
            inode: u64::MAX,
            words: vec!["echo".into(), OsString::from_vec(vec![0xff, b'\n', b'='])],
            variables: vec!["A=b c".into()],
            folder: "/w".into(),
            writable: vec!["/w".into()],
            readable: vec!["/r".into(), "/r2".into()],
            hidden: vec![Held { path: "/w/.env".into(), file: (7, u64::MAX) }],
            kept: vec![Held { path: "/w/.git/hooks".into(), file: (8, 9) }],
            pinned: vec!["/w/.git".into()],
            limits: Limits {
                time: Duration::from_millis(1500),
                grace: Duration::from_millis(40),
                memory_bytes: 1,
                processes: 2,
                cpu_seconds: 3,
                file_bytes: 4,
                open_files: 5,
            },
        }
    }

    #[test]
    fn run_spec_round_trips() {
        assert_eq!(Spec::read(&spec().framed()[wire_format::HEAD..]).unwrap(), spec());
        assert_eq!(Limits::read(&spec().limits.framed()[wire_format::HEAD..]).unwrap(), spec().limits);
    }

    #[test]
    fn unknown_or_missing_field_is_refused() {
        let mut writer = Writer::default();
        writer.put("wall", "none");
        assert!(
            Spec::read(&writer.framed()[wire_format::HEAD..]).unwrap_err().to_string().contains("`wall`")
        );
        let unlimited = Spec { limits: Limits { memory_bytes: 0, ..spec().limits }, ..spec() };
        assert!(Spec::read(&unlimited.framed()[wire_format::HEAD..]).is_err());
        assert!(Limits::read(&unlimited.limits.framed()[wire_format::HEAD..]).is_err());
        assert!(tier(std::ffi::OsStr::new("none")).is_err(), "no message can ask for no sandbox");
    }
}
