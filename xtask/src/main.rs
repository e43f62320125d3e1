//! Developer tasks of the repository, as `cargo xtask TASK`. Only parses the command line and calls the
//! module of the task.

mod bench;
mod ci;
mod dist;
mod docs;
mod left_out;
mod macos;
mod node;
mod ordinary_user;
mod process;
mod profile;
mod programs;
mod project;
mod python;
mod soak;
mod test;
mod tidy;
mod tree;

use std::process::ExitCode;

use anyhow::Result;

use crate::tree::Root;

const USAGE: &str = "\
usage: cargo xtask TASK

  test [ARGS…]      build sinew and run every test; ARGS go to the test runner
  ci [--only STEP]  everything that must hold before a change is merged
  tidy              the rules of the house that no compiler checks
  docs              regenerate docs/tools, docs/schemas, docs/cli.md and docs/protocol.md
  bench [--quick] [--peers] [--only PART] [--check | --save]
                    what a governed call costs here, on a release build: --peers installs others and measures them beside
                    it, --quick takes two minutes, --check fails where something is worse than the committed baseline,
                    --save makes this run the baseline and docs/benchmarks.md
  soak [--minutes N] [--life]
                    the long campaigns: a bad neighbourhood, N minutes of faults (20 if not said), a thousand crashes, a
                    million records; --life: only the first two
  dist [--target T | --profile-guided]
                    build the release archive for this system, or for aarch64-apple-darwin through zig;
                    --profile-guided: record an optimisation profile first and compile with it
  help              this text
";

/// Task that the command line selects.
#[derive(Debug, PartialEq, Eq)]
enum Task {
    Test(Vec<String>),
    Ci(ci::Selection),
    Tidy,
    Docs,
    Bench(bench::Wish),
    /// Internal: the other end of a measurement.
    Echo(bench::OtherEnd),
    Soak(soak::Wish),
    Dist(dist::Wish),
    Help,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let task = match parse(&words) {
        Ok(task) => task,
        Err(wrong) => {
            eprintln!("error: {wrong}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let root = Root::find()?;
    match task {
        Task::Test(arguments) => test::command(&root, &arguments),
        Task::Ci(selection) => ci::command(&root, &selection),
        Task::Tidy => tidy::command(&root),
        Task::Docs => docs::command(&root),
        Task::Bench(wish) => bench::command(&root, &wish),
        Task::Echo(end) => end.answer(),
        Task::Soak(wish) => soak::command(&root, &wish),
        Task::Dist(wish) => dist::command(&root, &wish),
        Task::Help => {
            print!("{USAGE}");
            Ok(())
        }
    }
}

fn parse(words: &[String]) -> Result<Task, String> {
    let Some((task, rest)) = words.split_first() else { return Ok(Task::Help) };
    match task.as_str() {
        "test" => Ok(Task::Test(rest.to_vec())),
        "ci" => ci::Selection::parse(rest).map(Task::Ci),
        "tidy" if rest.is_empty() => Ok(Task::Tidy),
        "docs" if rest.is_empty() => Ok(Task::Docs),
        "bench" => bench::Wish::parse(rest).map(Task::Bench),
        bench::ECHO => bench::OtherEnd::parse(rest).map(Task::Echo),
        "soak" => soak::Wish::parse(rest).map(Task::Soak),
        "dist" => dist::Wish::parse(rest).map(Task::Dist),
        "help" | "-h" | "--help" => Ok(Task::Help),
        "tidy" | "docs" => Err(format!("`{task}` takes no arguments, got `{}`", rest.join(" "))),
        other => Err(format!("there is no task `{other}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: Result<Task, &str>) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        assert_eq!(parse(&words), expect.map_err(str::to_owned), "{line}");
    }

    #[test]
    fn arguments_select_tasks() {
        check("", Ok(Task::Help));
        check("--help", Ok(Task::Help));
        check("test -p ledger", Ok(Task::Test(vec!["-p".into(), "ledger".into()])));
        check("ci", Ok(Task::Ci(ci::Selection::All)));
        check("ci --only fmt", Ok(Task::Ci(ci::Selection::Only("fmt"))));
        check("tidy", Ok(Task::Tidy));
        check("bench", bench::Wish::parse(&[]).map(Task::Bench).map_err(|_| ""));
        check("answer-lines 900", bench::OtherEnd::parse(&["900".into()]).map(Task::Echo).map_err(|_| ""));
        check("answer-lines soon", Err("`soon` is no number of bytes"));
        check("soak", soak::Wish::parse(&[]).map(Task::Soak).map_err(|_| ""));
        check("dist", dist::Wish::parse(&[]).map(Task::Dist).map_err(|_| ""));
        check("tidy now", Err("`tidy` takes no arguments, got `now`"));
        check("bake", Err("there is no task `bake`"));
    }
}
