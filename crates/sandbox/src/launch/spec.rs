//! Run specification for a launcher, as one message. It is sent over a socket, because a command line would
//! be visible to every process of the machine.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use governance::files::NetworkAccess;
use tool::result::SandboxTier;

use crate::launch::wire_format::{self, MessageWriter};
use crate::scan::file_identity::ExpectedFile;

/// The program to run, and the sandbox around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunSpec {
    pub(crate) tier: SandboxTier,
    pub(crate) network: NetworkAccess,
    /// Canonical path of the program, and device and inode of the file that must be there.
    pub(crate) program: PathBuf,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) variables: Vec<OsString>,
    pub(crate) folder: PathBuf,
    /// Writable folders, and folders that are only readable.
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) readable: Vec<PathBuf>,
    /// Paths in them that must not be visible, and paths that must not change.
    pub(crate) hidden: Vec<ExpectedFile>,
    pub(crate) protected: Vec<ExpectedFile>,
    /// Folders that must not be renamed, although their contents may change.
    pub(crate) pinned: Vec<PathBuf>,
    pub(crate) limits: RunLimits,
}

/// Resource limits of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunLimits {
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

impl RunSpec {
    pub(crate) fn to_frame(&self) -> Vec<u8> {
        let mut writer = MessageWriter::default();
        writer.put("tier", self.tier.as_str());
        writer.put("network", network_name(self.network));
        writer.put("program", &self.program);
        writer.put_number("device", self.device);
        writer.put_number("inode", self.inode);
        writer.put("folder", &self.folder);
        self.arguments.iter().for_each(|word| writer.put("argument", word));
        self.variables.iter().for_each(|word| writer.put("variable", word));
        self.writable.iter().for_each(|path| writer.put("writable", path));
        self.readable.iter().for_each(|path| writer.put("readable", path));
        self.hidden.iter().for_each(|expected| write_expected_file(&mut writer, "hidden", expected));
        self.protected.iter().for_each(|expected| write_expected_file(&mut writer, "protected", expected));
        self.pinned.iter().for_each(|path| writer.put("pinned", path));
        self.limits.write_fields(&mut writer);
        writer.into_frame()
    }

    /// Parses a message without its length prefix. An unknown field is an error, because it could be a layer
    /// that would not be built.
    pub(crate) fn parse(body: &[u8]) -> io::Result<RunSpec> {
        let mut spec = RunSpec::empty();
        let mut pairs = wire_format::parse_pairs(body)?.into_iter();
        while let Some((name, value)) = pairs.next() {
            match name.as_str() {
                "tier" => spec.tier = parse_tier(&value)?,
                "network" => spec.network = parse_network(&value)?,
                "program" => spec.program = value.into(),
                "device" => spec.device = wire_format::parse_number(&value)?,
                "inode" => spec.inode = wire_format::parse_number(&value)?,
                "folder" => spec.folder = value.into(),
                "argument" => spec.arguments.push(value),
                "variable" => spec.variables.push(value),
                "writable" => spec.writable.push(value.into()),
                "readable" => spec.readable.push(value.into()),
                "hidden" => spec.hidden.push(read_expected_file(value, &mut pairs)?),
                "protected" => spec.protected.push(read_expected_file(value, &mut pairs)?),
                "pinned" => spec.pinned.push(value.into()),
                _ => spec.limits.set_field(&name, &value)?,
            }
        }
        match spec.arguments.is_empty() || !spec.limits.are_complete() {
            true => Err(invalid("a field is missing".to_owned())),
            false => Ok(spec),
        }
    }

    /// Specification without a program and without any grants.
    pub(crate) fn empty() -> RunSpec {
        RunSpec {
            tier: SandboxTier::Full,
            network: NetworkAccess::Off,
            program: PathBuf::new(),
            device: 0,
            inode: 0,
            arguments: Vec::new(),
            variables: Vec::new(),
            folder: PathBuf::new(),
            writable: Vec::new(),
            readable: Vec::new(),
            hidden: Vec::new(),
            protected: Vec::new(),
            pinned: Vec::new(),
            limits: RunLimits::default(),
        }
    }
}

impl RunLimits {
    /// Serialises the limits alone, for the watcher, which does not need the rest.
    pub(crate) fn to_frame(self) -> Vec<u8> {
        let mut writer = MessageWriter::default();
        self.write_fields(&mut writer);
        writer.into_frame()
    }

    /// Parses a message without its length prefix.
    pub(crate) fn parse(body: &[u8]) -> io::Result<RunLimits> {
        let mut limits = RunLimits::default();
        for (name, value) in wire_format::parse_pairs(body)? {
            limits.set_field(&name, &value)?;
        }
        match limits.are_complete() {
            true => Ok(limits),
            false => Err(invalid("a limit is missing".to_owned())),
        }
    }

    fn write_fields(&self, writer: &mut MessageWriter) {
        writer.put_number("time", u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX));
        writer.put_number("grace", u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX));
        writer.put_number("memory", self.memory_bytes);
        writer.put_number("processes", self.processes);
        writer.put_number("cpu", self.cpu_seconds);
        writer.put_number("file", self.file_bytes);
        writer.put_number("files", self.open_files);
    }

    fn set_field(&mut self, name: &str, value: &std::ffi::OsStr) -> io::Result<()> {
        let number = wire_format::parse_number(value);
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
    fn are_complete(&self) -> bool {
        self.memory_bytes != 0 && self.processes != 0
    }
}

/// Writes a path, followed by the file that must be there.
fn write_expected_file(writer: &mut MessageWriter, name: &str, expected: &ExpectedFile) {
    writer.put(name, &expected.path);
    writer.put_number("of", expected.file.0);
    writer.put_number("of", expected.file.1);
}

fn read_expected_file(
    path: OsString,
    rest: &mut impl Iterator<Item = (String, OsString)>,
) -> io::Result<ExpectedFile> {
    let mut number = || match rest.next() {
        Some((name, value)) if name == "of" => wire_format::parse_number(&value),
        _ => Err(invalid("a path without its file".to_owned())),
    };
    Ok(ExpectedFile { path: path.into(), file: (number()?, number()?) })
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// Parses a tier. There is no text for `none`.
pub(crate) fn parse_tier(word: &std::ffi::OsStr) -> io::Result<SandboxTier> {
    let known = [SandboxTier::Full, SandboxTier::Reduced].into_iter().find(|tier| word == tier.as_str());
    known.ok_or_else(|| invalid("unknown tier".to_owned()))
}

fn network_name(network: NetworkAccess) -> &'static str {
    match network {
        NetworkAccess::Off => "off",
        NetworkAccess::Loopback => "loopback",
        NetworkAccess::Full => "full",
    }
}

fn parse_network(word: &std::ffi::OsStr) -> io::Result<NetworkAccess> {
    let all = [NetworkAccess::Off, NetworkAccess::Loopback, NetworkAccess::Full];
    let known = all.into_iter().find(|network| word == network_name(*network));
    known.ok_or_else(|| invalid("unknown network".to_owned()))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    pub(crate) fn spec() -> RunSpec {
        RunSpec {
            network: NetworkAccess::Loopback,
            tier: SandboxTier::Reduced,
            program: "/bin/echo".into(),
            device: 7,
            inode: u64::MAX,
            arguments: vec!["echo".into(), OsString::from_vec(vec![0xff, b'\n', b'='])],
            variables: vec!["A=b c".into()],
            folder: "/w".into(),
            writable: vec!["/w".into()],
            readable: vec!["/r".into(), "/r2".into()],
            hidden: vec![ExpectedFile { path: "/w/.env".into(), file: (7, u64::MAX) }],
            protected: vec![ExpectedFile { path: "/w/.git/hooks".into(), file: (8, 9) }],
            pinned: vec!["/w/.git".into()],
            limits: RunLimits {
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
        assert_eq!(RunSpec::parse(&spec().to_frame()[wire_format::LENGTH_BYTES..]).unwrap(), spec());
        assert_eq!(
            RunLimits::parse(&spec().limits.to_frame()[wire_format::LENGTH_BYTES..]).unwrap(),
            spec().limits
        );
    }

    #[test]
    fn unknown_or_missing_field_is_refused() {
        let mut writer = MessageWriter::default();
        writer.put("unknown", "none");
        assert!(
            RunSpec::parse(&writer.into_frame()[wire_format::LENGTH_BYTES..])
                .unwrap_err()
                .to_string()
                .contains("`unknown`")
        );
        let unlimited = RunSpec { limits: RunLimits { memory_bytes: 0, ..spec().limits }, ..spec() };
        assert!(RunSpec::parse(&unlimited.to_frame()[wire_format::LENGTH_BYTES..]).is_err());
        assert!(RunLimits::parse(&unlimited.limits.to_frame()[wire_format::LENGTH_BYTES..]).is_err());
        assert!(parse_tier(std::ffi::OsStr::new("none")).is_err(), "no message can ask for no sandbox");
    }
}
