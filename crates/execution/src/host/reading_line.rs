//! Permits lines of a host's shell that only read, such as `grep -n TODO src/main.rs | head -5`.
//!
//! The host runs the line without Sinew's sandbox, where `cat` could read everything the user can. So the rules of
//! `run_command` must permit each command, and the rules of `read_file` every word that can name a file.
//! Any other line keeps the verdict of its tool. See decision 133.

use governance::rules::is_read_only_program;
use governance::{Permit, Verdict};
use serde_json::{Value, json};

use super::command_line::split_pipeline;
use super::directory_contents;
use super::reading_programs::ReadingProgram;
use crate::call::PipelineCall;
use crate::pipeline::{self, JudgeCapacity};

/// Maximum number of words and parts of options that are judged as paths.
const MAX_JUDGED_PATHS: usize = 256;

/// Path that a line can read.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ReadPath {
    path: String,
    /// True if the names or contents below a folder can be shown.
    lists: bool,
}

/// Permits of a line that only reads.
pub(super) struct LinePermits {
    /// Permit of its last command.
    pub(super) run: Permit,
    commands: u32,
    /// Permit of a file or folder that it reads, and the number of those.
    read: Option<Permit>,
    files: u32,
}

impl LinePermits {
    /// Returns the permit of each tool whose rules permitted the line, and how often the line uses it.
    pub(super) fn uses(&self) -> Vec<(&Permit, u32)> {
        let read = self.read.iter().map(|permit| (permit, self.files));
        read.chain([(&self.run, self.commands)]).collect()
    }
}

/// Returns the permits of a line that only reads, else `None`. `system_programs` are the programs that the PATH of
/// the host finds in a folder of the system.
pub(super) async fn permit(
    capacity: JudgeCapacity<'_>,
    call: &PipelineCall,
    line: &str,
    system_programs: &[String],
) -> Option<LinePermits> {
    let commands = split_pipeline(line)?;
    let is_reader = |words: &Vec<String>| {
        let program = words.first();
        program.is_some_and(|name| system_programs.contains(name)) && only_reads(words)
    };
    if !commands.iter().all(is_reader) {
        return None;
    }
    let (mut read, mut files) = (None, 0_u32);
    for path in read_paths(&commands)? {
        let mut permit = judged(capacity, call, "read_file", json!({"path": path.path})).await?;
        if path.lists {
            permit = directory_contents::permit_listing(capacity.opening_slots, call, permit).await?;
        }
        // A word that names nothing, such as a part of an option, reads nothing.
        if permit.paths().iter().any(|opened| opened.metadata().is_some()) {
            (read, files) = (Some(permit), files.saturating_add(1));
        }
    }
    let (mut run, count) = (None, u32::try_from(commands.len()).ok()?);
    for words in commands {
        run = Some(judged(capacity, call, "run_command", json!({"command": words})).await?);
    }
    run.map(|run| LinePermits { run, commands: count, read, files })
}

/// Judges a call of one of Sinew's tools. Returns its permit, and `None` for any other verdict.
async fn judged(
    capacity: JudgeCapacity<'_>,
    call: &PipelineCall,
    tool: &str,
    arguments: Value,
) -> Option<Permit> {
    let tool = call.snapshot.registry.get(tool)?;
    let valid = guardrail::check(tool.definition(), tool.schema(), arguments).ok()?;
    match pipeline::judge_only(capacity, call, valid).await.ok()? {
        Verdict::Permit(permit) => Some(permit),
        Verdict::ApprovalRequired(_) | Verdict::Denial(_) => None,
    }
}

/// Returns true if a command starts nothing, writes nothing, and reads only files that its words name.
fn only_reads(words: &[String]) -> bool {
    let Some((name, arguments)) = words.split_first() else { return false };
    let Some(program) = ReadingProgram::find(name) else { return false };
    is_read_only_program(name) && arguments.iter().all(|word| program.knows(word))
}

/// Returns every path that the commands could read: each word, each part of an option that could be its value, and
/// the working directory of programs that list it. Returns `None` if there are too many.
fn read_paths(commands: &[Vec<String>]) -> Option<Vec<ReadPath>> {
    let mut paths = Vec::new();
    for (position, words) in commands.iter().enumerate() {
        let Some((name, arguments)) = words.split_first() else { continue };
        let program = ReadingProgram::find(name)?;
        let lists = program.lists();
        if program.lists_working_directory(arguments, position > 0) {
            paths.push(ReadPath { path: ".".to_owned(), lists });
        }
        for word in arguments.iter().filter(|word| !word.is_empty()) {
            let values = word.char_indices().skip(1).filter_map(|(start, _)| word.get(start..));
            let values = values.filter(|_| word.starts_with('-')).chain([word.as_str()]);
            let path = |value: &str| ReadPath { path: value.to_owned(), lists };
            paths.extend(values.map(path));
        }
        if paths.len() > MAX_JUDGED_PATHS {
            return None;
        }
    }
    paths.sort();
    paths.dedup();
    Some(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn only_programs_of_the_list_with_known_options_read() {
        for line in ["ls -la", "grep -rn x src", "wc -l a", "cat --", "head -c 5 a"] {
            assert!(only_reads(&words(line)), "{line}");
        }
        for line in ["git status", "sort -o x", "jq .", "/bin/ls", "./ls", "md5sum -c a", "grep -R x ."] {
            assert!(!only_reads(&words(line)), "{line}");
        }
    }

    #[test]
    fn every_word_that_can_name_a_file_is_judged() {
        let check = |line: &str, expect: &[&str]| {
            let commands: Vec<_> = line.split(" | ").map(words).collect();
            let paths = read_paths(&commands).unwrap();
            let paths: Vec<String> = paths
                .iter()
                .map(|read| format!("{}{}", read.path, if read.lists { "/" } else { "" }))
                .collect();
            assert_eq!(paths, expect, "{line}");
        };
        check("cat a /etc/x", &["/etc/x", "a"]);
        check("head -n5 a", &["-n5", "5", "a", "n5"]);
        // ugrep searches the working directory, unless its input is a pipe.
        check("grep x", &["./", "x/"]);
        check("grep -n x", &["-n/", "./", "n/", "x/"]);
        check("cat a | grep x", &["a", "x/"]);
        check("cat a | grep -r x", &["-r/", "./", "a", "r/", "x/"]);
        check("grep x src", &["src/", "x/"]);
        check("ls src", &["src/"]);
        check("ls -I src", &["-I/", "./", "I/", "src/"]);
        check("grep -r x src", &["-r/", "r/", "src/", "x/"]);
        check("grep -r -e x src", &["-e/", "-r/", "./", "e/", "r/", "src/", "x/"]);
        check("grep -r x", &["-r/", "./", "r/", "x/"]);
        check("ls", &["./"]);
        assert!(read_paths(&[words("grep --file=/etc/x")]).unwrap().iter().any(|read| read.path == "/etc/x"));
        assert!(read_paths(&[words("grep -f/etc/x")]).unwrap().iter().any(|read| read.path == "/etc/x"));
        assert_eq!(read_paths(&[words(&format!("cat -{}", "a".repeat(300)))]), None);
    }
}
