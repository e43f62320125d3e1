//! Benchmark page: puts the measured figures between two marks and keeps the text around them. Also describes
//! the machine of the run.

use std::path::Path;

use anyhow::{Context, Result};

use super::results::Results;
use super::{chart, table};
use crate::marked_part;

const FROM: &str = "<!-- measured: written by `cargo xtask bench --save` -->";
const TO: &str = "<!-- end of the measured part -->";

/// Writes the tables into the page, and the chart beside it.
pub(crate) fn write(
    page: &Path,
    picture: &Path,
    results: &Results,
    (machine, groups): (&str, &[&str]),
) -> Result<()> {
    let text = std::fs::read_to_string(page).with_context(|| format!("no page at `{}`", page.display()))?;
    let measured = format!(
        "![Medians of one run](benchmarks/chart.svg)\n\nMeasured on {machine}.\n\n{}",
        table::markdown(results)
    );
    let text = marked_part::replace(&text, (FROM, TO), &measured)
        .with_context(|| format!("`{}` lacks one of its two marks", page.display()))?;
    std::fs::write(page, text)?;
    Ok(std::fs::write(picture, chart::svg(results, groups))?)
}

/// Describes the processors, the memory and the system: enough to know which figures are comparable, and
/// nothing that identifies the machine.
pub(crate) fn machine_class() -> String {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let processors = if count == 1 { "processor" } else { "processors" };
    let (model, memory) = (model(&read("/proc/cpuinfo")), memory(&read("/proc/meminfo")));
    let kernel = read("/proc/sys/kernel/osrelease");
    let kernel = kernel.split('-').next().unwrap_or_default().trim();
    format!("{count} {processors} ({model}), {memory}, {} {kernel}", std::env::consts::OS)
}

fn model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim().to_owned());
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn memory(meminfo: &str) -> String {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    kib.map_or_else(|| "memory unknown".to_owned(), |kib| format!("{:.0} GiB", kib / 1024.0 / 1024.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_and_memory_are_parsed_from_proc() {
        assert_eq!(model("processor\t: 0\nmodel name\t: A Processor @ 2.0GHz\n"), "A Processor @ 2.0GHz");
        assert_eq!(model(""), std::env::consts::ARCH);
        assert_eq!(memory("MemTotal:       16384000 kB\nMemFree: 1 kB\n"), "16 GiB");
        assert_eq!(memory(""), "memory unknown");
    }
}
