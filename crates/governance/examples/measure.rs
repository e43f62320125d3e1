//! Measures the cost of a decision: `cargo run --release -p governance --example measure -- [calls]`.
//!
//! Prints the median time of one call in `precheck` and in `judge`, without the time to open its paths. The
//! call is judged under the shipped policy and under a policy of 1,000 tools with 100 patterns each; the
//! ratio of the two is printed too. With `count judge N` it runs N calls through `precheck`, open and `judge`
//! under the shipped policy and prints nothing, for use under an instruction counter.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use governance::policy_environment::{NameComparison, PathVariables, PolicyEnvironment, ProtectedFolders};
use governance::{Policy, RateCounts, Situation, Verdict, Workspace, WorkspaceAccess, Workspaces};
use guardrail::InputSchema;
use serde_json::json;
use tool::{Category, Mode, RiskLevel, ToolDefinition, ToolSpec};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const TOOLS: usize = 1000;
const PATTERNS: usize = 100;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (calls, counting): (u32, bool) = match words.as_slice() {
        [] => (100_000, false),
        [calls] => (calls.parse()?, false),
        ["count", "judge", calls] => (calls.parse()?, true),
        other => return Err(format!("unexpected arguments: {other:?}").into()),
    };
    let folder = std::env::temp_dir().join("governance-measure");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("work"))?;
    std::fs::write(folder.join("work/notes.txt"), "remember")?;
    let around = PolicyEnvironment {
        variables: PathVariables::with_home(&folder),
        protected: ProtectedFolders { folders: vec![folder.join("sinew")] },
        name_comparison: NameComparison::for_this_system(),
    };
    let shipped = Policy::embedded(&around)?;
    let workspace = Workspace::open(&folder.join("work"), WorkspaceAccess::ReadWrite)?;
    let workspaces = Workspaces::new(vec![workspace]);
    let small = measure(&shipped, "read_file", &workspaces, calls)?;
    if counting {
        return Ok(());
    }
    let begun = Instant::now();
    let large = large(&folder, &around)?;
    println!("a policy of {TOOLS} tools and {PATTERNS} patterns each loads in {:?}", begun.elapsed());
    let large_times = measure(&large, "tool_500", &workspaces, calls)?;
    println!("shipped policy: precheck {:?}, judge {:?}", small.0, small.1);
    let times = ratio(large_times, small);
    println!(
        "large policy: precheck {:?}, judge {:?}, {times:.2} times the shipped policy",
        large_times.0, large_times.1
    );
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn ratio(large_times: (Duration, Duration), small_times: (Duration, Duration)) -> f64 {
    (large_times.0 + large_times.1).as_secs_f64() / (small_times.0 + small_times.1).as_secs_f64()
}

/// Writes and loads a policy with many tools and many patterns for each.
fn large(folder: &Path, around: &PolicyEnvironment) -> Result<Policy> {
    let config = folder.join("policy");
    std::fs::create_dir_all(&config)?;
    for (name, text) in governance::EMBEDDED_FILES {
        std::fs::write(config.join(name), text)?;
    }
    let mut tools = "tools:\n".to_owned();
    for tool in 0..TOOLS {
        write!(tools, "  tool_{tool}:\n    forbidden_paths: [")?;
        for pattern in 0..PATTERNS {
            // Short patterns keep the file below the size limit of the YAML reader.
            match pattern % 4 {
                0 => write!(tools, "/s{pattern},")?,
                1 => write!(tools, "/o{pattern}/**,")?,
                2 => write!(tools, "/x/**/h{pattern},")?,
                _ => write!(tools, "/v{pattern}/*,")?,
            }
        }
        tools.push_str("]\n");
    }
    std::fs::write(config.join("tools.yaml"), tools)?;
    Ok(Policy::load(&config, around)?)
}

fn definition(name: &str) -> Result<Arc<ToolDefinition>> {
    let mut spec = ToolSpec::new(name, "a tool to measure with", Category::READ_ONLY, RiskLevel::Low);
    let path = json!({"type": "string", "format": "path"});
    spec.input_schema = Some(json!({"type": "object", "properties": {"path": path}}));
    Ok(Arc::new(spec.check()?))
}

/// Returns the median times of `precheck` and `judge`. The median ignores calls that the scheduler
/// interrupted.
fn measure(policy: &Policy, tool: &str, workspaces: &Workspaces, calls: u32) -> Result<(Duration, Duration)> {
    let definition = definition(tool)?;
    let schema = InputSchema::compile(definition.input_schema())?;
    let situation = Situation { mode: Mode::Normal, workspaces, counts: RateCounts::default() };
    let (mut clearing, mut judging) = (Vec::new(), Vec::new());
    for _ in 0..calls {
        let call =
            guardrail::check(&definition, &schema, json!({"path": "notes.txt"})).map_err(|r| r.reason)?;
        let begun = Instant::now();
        let prechecked = governance::precheck(policy, &situation, call)
            .map_err(|denial| denial.refusal().reason.clone())?;
        clearing.push(begun.elapsed());
        let opened = file_access::open(prechecked)?;
        let begun = Instant::now();
        let verdict = governance::judge(policy, &situation, opened);
        judging.push(begun.elapsed());
        if !matches!(verdict, Verdict::Permit(_)) {
            return Err(format!("not permitted: {verdict:?}").into());
        }
    }
    Ok((median(clearing), median(judging)))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
