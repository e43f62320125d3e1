//! Reader of what `strace -f -y` lists: the calls that change files, make them durable, or answer a client.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Change of the files, or an answer, in the order in which the calls ended.
#[derive(Debug)]
pub(super) enum Event {
    /// File opened; created if it did not exist.
    Open {
        path: PathBuf,
        descriptor: u64,
        create: bool,
        truncate: bool,
        append: bool,
    },
    /// Bytes written at an offset, or at the position of the descriptor.
    Write {
        path: PathBuf,
        descriptor: u64,
        offset: Option<u64>,
        data: Vec<u8>,
    },
    Resize {
        path: PathBuf,
        length: u64,
    },
    /// File or folder synced. Changes that began after `since` are not covered.
    Sync {
        path: PathBuf,
        since: usize,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
        exchange: bool,
    },
    Link {
        from: PathBuf,
        to: PathBuf,
    },
    Remove {
        path: PathBuf,
    },
    CreateFolder {
        path: PathBuf,
    },
    /// Message to a client.
    Reply {
        text: Vec<u8>,
    },
}

/// Parses a log.
pub(super) fn parse(text: &str) -> Vec<Event> {
    let mut unfinished: HashMap<&str, (String, usize)> = HashMap::new();
    let mut events = Vec::new();
    for line in text.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        if let Some(begun) = call.strip_suffix("<unfinished ...>") {
            unfinished.insert(thread, (begun.trim_end().to_owned(), events.len()));
            continue;
        }
        let (whole, since) = match call.strip_prefix("<... ").and_then(|rest| rest.split_once("resumed>")) {
            Some((_, rest)) => {
                let Some((begun, since)) = unfinished.remove(thread) else { continue };
                (begun + rest, since)
            }
            None => (call.to_owned(), events.len()),
        };
        events.extend(Call::parse(&whole).and_then(|call| call.event(since)));
    }
    events
}

/// One call: its name, its arguments as written, and its result.
struct Call<'a> {
    name: &'a str,
    arguments: Vec<&'a str>,
    result: &'a str,
}

impl<'a> Call<'a> {
    fn parse(line: &'a str) -> Option<Call<'a>> {
        let (name, rest) = line.split_once('(')?;
        let (arguments, result) = rest.rsplit_once(" = ")?;
        let arguments = arguments.trim_end().strip_suffix(')')?;
        (!result.starts_with('-')).then(|| Call { name, arguments: split(arguments), result })
    }

    fn event(&self, since: usize) -> Option<Event> {
        let path = |at: usize| self.arguments.get(at).and_then(|text| descriptor_path(text));
        let number = |at: usize| self.arguments.get(at)?.parse::<u64>().ok();
        let joined = |at: usize| {
            let name = PathBuf::from(String::from_utf8(unquote(self.arguments.get(at + 1)?)?).ok()?);
            Some(if name.is_absolute() { name } else { path(at)?.join(name) })
        };
        Some(match self.name {
            "openat" | "openat2" => {
                let flags = self.arguments.get(2)?;
                let has = |flag: &str| flags.contains(flag);
                let (descriptor, path) = (leading_number(self.result)?, descriptor_path(self.result)?);
                let (create, truncate) = (has("O_CREAT"), has("O_TRUNC"));
                Event::Open { path, descriptor, create, truncate, append: has("O_APPEND") }
            }
            "write" | "pwrite64" => {
                let mut data = unquote(self.arguments.get(1)?)?;
                data.truncate(usize::try_from(leading_number(self.result)?).ok()?);
                let (path, descriptor) = (path(0)?, leading_number(self.arguments.first()?)?);
                Event::Write { path, descriptor, offset: number(3), data }
            }
            "ftruncate" => Event::Resize { path: path(0)?, length: number(1)? },
            "fallocate" if self.arguments.get(1) == Some(&"0") => {
                Event::Resize { path: path(0)?, length: number(2)? + number(3)? }
            }
            "fsync" | "fdatasync" => Event::Sync { path: path(0)?, since },
            "renameat" | "renameat2" => {
                let exchange = self.arguments.get(4).is_some_and(|flags| flags.contains("EXCHANGE"));
                Event::Rename { from: joined(0)?, to: joined(2)?, exchange }
            }
            "linkat" => Event::Link { from: joined(0)?, to: joined(2)? },
            "unlinkat" => Event::Remove { path: joined(0)? },
            "unlink" | "rename" | "mkdir" => {
                let plain = |at: usize| {
                    Some(PathBuf::from(String::from_utf8(unquote(self.arguments.get(at)?)?).ok()?))
                };
                match self.name {
                    "unlink" => Event::Remove { path: plain(0)? },
                    "mkdir" => Event::CreateFolder { path: plain(0)? },
                    _ => Event::Rename { from: plain(0)?, to: plain(1)?, exchange: false },
                }
            }
            "mkdirat" => Event::CreateFolder { path: joined(0)? },
            "sendto" => Event::Reply { text: unquote(self.arguments.get(1)?)? },
            _ => return None,
        })
    }
}

/// Splits arguments at the commas outside of quotes and brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quoted, mut escaped) = (Vec::new(), 0, 0_i32, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' | b'<' => depth += 1,
            b'}' | b']' | b'>' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

fn leading_number(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text[..digits].parse().ok()
}

/// Path in `5</path>` or `AT_FDCWD</path>`.
fn descriptor_path(text: &str) -> Option<PathBuf> {
    let inside = text.split_once('<')?.1.strip_suffix('>')?;
    let inside = inside.strip_suffix(" (deleted)").unwrap_or(inside);
    Some(Path::new(inside).to_owned()).filter(|path| path.is_absolute())
}

/// Bytes of a quoted string.
fn unquote(text: &str) -> Option<Vec<u8>> {
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    let (mut bytes, mut rest) = (Vec::with_capacity(inside.len()), inside.bytes().peekable());
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next()? {
            b'n' => bytes.push(b'\n'),
            b't' => bytes.push(b'\t'),
            b'r' => bytes.push(b'\r'),
            b'v' => bytes.push(11),
            b'f' => bytes.push(12),
            digit @ b'0'..=b'7' => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    let Some(more) = rest.next_if(|byte| (b'0'..=b'7').contains(byte)) else { break };
                    value = value * 8 + u32::from(more - b'0');
                }
                bytes.push(u8::try_from(value).ok()?);
            }
            other => bytes.push(other),
        }
    }
    Some(bytes)
}

#[test]
fn calls_in_two_parts_are_joined_and_strings_decoded() {
    let log = "7  fsync(5</a/b> <unfinished ...>\n\
               8  write(6</a/c>, \"x\\n\\0012\\\"\", 5) = 5\n\
               7  <... fsync resumed>)              = 0\n\
               8  renameat2(3</a>, \"c\", 4</d>, \"e\", RENAME_NOREPLACE) = 0\n\
               8  unlinkat(3</a>, \"c\", 0) = -1 ENOENT (No such file or directory)\n";
    let events = parse(log);
    let [
        Event::Write { data, offset: None, .. },
        Event::Sync { path, since: 0 },
        Event::Rename { from, to, .. },
    ] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!((data.as_slice(), path.as_path()), (&b"x\n\x012\""[..], Path::new("/a/b")));
    assert_eq!((from.as_path(), to.as_path()), (Path::new("/a/c"), Path::new("/d/e")));
}
