//! Developer tasks of the repository, as `cargo xtask TASK`. Only parses the command line and calls the
//! module of the task.

mod bench;
mod chromium;
mod ci;
mod clients;
mod conformance;
mod dist;
mod docs;
mod fleet_sim;
mod left_out;
mod macos;
mod marked_part;
mod nats;
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
use clap::{Parser, Subcommand};

use crate::tree::Root;

/// Developer tasks of the repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

/// Task that the command line selects.
#[derive(Debug, PartialEq, Eq, Subcommand)]
enum Task {
    /// Build sinew and run every test
    Test {
        /// Arguments of the test runner
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run every check that must pass before a change is merged
    Ci {
        /// Run only this step
        #[arg(long, value_name = "STEP", value_parser = ci::step_names())]
        only: Option<String>,
    },
    /// Install the MCP conformance suite and run it over the HTTP bridge
    Conformance,
    /// Check the project rules that no compiler checks
    Tidy,
    /// Regenerate docs/tools, docs/schemas, docs/cli.md, docs/protocol.md and the types of the clients
    Docs {
        /// Take the screenshots of the web console instead; needs Chromium
        #[arg(long)]
        screenshots: bool,
    },
    /// Run real MCP clients against the daemon and print a table of client and check
    Clients(clients::ClientsOptions),
    /// Measure the cost of a governed call on a release build
    Bench(bench::BenchOptions),
    /// Act as the other end of a measurement
    #[command(name = bench::ECHO, hide = true)]
    Echo(bench::OtherEnd),
    /// Run the long campaigns, whose figures are in docs/assurance.md
    Soak(soak::SoakOptions),
    /// Simulate a fleet of hosts with partitions, repeats, reorders and power cuts
    FleetSim(fleet_sim::FleetSimOptions),
    /// Build the files of a release: archives, packages, bill of materials, installer, formula, checksums
    Dist(dist::DistOptions),
    /// Install, upgrade under load and remove the Debian package in a clean system (needs root and debootstrap)
    PackageTest(dist::PackageTestOptions),
}

fn main() -> ExitCode {
    match run(Cli::parse().task) {
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
        Task::Test { arguments } => test::command(&root, &arguments),
        Task::Conformance => conformance::command(&root),
        Task::Ci { only } => ci::command(&root, only.as_deref()),
        Task::Tidy => tidy::command(&root),
        Task::Docs { screenshots: false } => docs::command(&root),
        Task::Docs { screenshots: true } => docs::take_screenshots(&root),
        Task::Clients(options) => clients::command(&root, &options),
        Task::Bench(options) => bench::command(&root, &options),
        Task::Echo(end) => end.serve_replies(),
        Task::Soak(options) => soak::command(&root, &options),
        Task::FleetSim(options) => fleet_sim::command(&root, &options),
        Task::Dist(options) => dist::command(&root, &options),
        Task::PackageTest(options) => dist::test_package(&root, &options),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn check(line: &str, expect: Result<Task, &str>) {
        let parsed = Cli::try_parse_from(["xtask"].into_iter().chain(line.split_whitespace()));
        match (parsed, expect) {
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{line}: {error}"),
            (parsed, expect) => assert_eq!(parsed.ok().map(|cli| cli.task), expect.ok(), "{line}"),
        }
    }

    #[test]
    fn arguments_select_tasks() {
        Cli::command().debug_assert();
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        check("test -p ledger", Ok(Task::Test { arguments: words("-p ledger") }));
        check(
            "test --workspace -- --nocapture",
            Ok(Task::Test { arguments: words("--workspace -- --nocapture") }),
        );
        check("ci", Ok(Task::Ci { only: None }));
        check("ci --only fmt", Ok(Task::Ci { only: Some("fmt".to_owned()) }));
        check("ci --only clipy", Err("fmt, clippy, tidy, test"));
        check("tidy", Ok(Task::Tidy));
        check("tidy now", Err("unexpected argument 'now'"));
        check("answer-lines 900", Ok(Task::Echo(bench::OtherEnd::echo(900))));
        check("answer-lines soon", Err("'soon'"));
        check("answer-lines 900 file", Err("2 values required"));
        check("bench --check --save", Err("cannot be used with"));
        check("clients --only codex --save", Err("cannot be used with"));
        check("bench --only read --save", Err("cannot be used with"));
        check("bench --only all", Err("read, telemetry"));
        check("soak --minutes 0", Err("'0'"));
        check("soak --campaign kill", Err("fuzz, mutants, kills"));
        check("soak --count 5", Err("--campaign <NAME>"));
        check("soak --list --save", Err("cannot be used with"));
        check("fleet-sim --broken all", Err("repeat-after-window"));
        check("fleet-sim --hosts 0", Err("'0'"));
        check("dist --target vax", Err("aarch64-apple-darwin"));
        check("dist --profile-guided --target aarch64-apple-darwin", Err("cannot be used with"));
        check("bake", Err("unrecognized subcommand 'bake'"));
    }
}
