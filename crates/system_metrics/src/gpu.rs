//! Graphics processors whose drivers publish their load without root.

use crate::snapshot::Gpu;

/// Parses `ioreg -r -d 1 -w 0 -c IOAccelerator` of macOS. Apple's processors share the system memory, so
/// there is no total.
#[cfg_attr(not(target_os = "macos"), allow(dead_code))]
pub(crate) fn parse_ioreg(text: &str) -> Vec<Gpu> {
    let number = |line: &str, key: &str| {
        let (_, rest) = line.split_once(&format!("\"{key}\"="))?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u64>().ok()
    };
    let mut found: Vec<Gpu> = Vec::new();
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("+-o ") {
            let name = rest.split_whitespace().next().unwrap_or("gpu").to_owned();
            found.push(Gpu { name, ..Gpu::default() });
        }
        let Some(gpu) = found.last_mut() else { continue };
        if line.contains("\"PerformanceStatistics\"") {
            // Drivers have been seen to report more than 100 %.
            #[allow(clippy::cast_precision_loss)] // clamped to a hundred
            let busy = number(line, "Device Utilization %").map(|percent| percent.min(100) as f64);
            gpu.busy_percent = busy;
            gpu.memory_used_bytes = number(line, "In use system memory");
        }
        if let Some((_, rest)) = line.split_once("\"model\" = ") {
            gpu.name = rest.trim_matches(['"', '<', '>']).to_owned();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ioreg_output_is_parsed() {
        let text = "+-o AGXAcceleratorG14X  <class AGXAcceleratorG14X, id 0x1000004d2, registered, matched, active>\n    {\n\
                    \x20     \"PerformanceStatistics\" = {\"In use system memory (driver)\"=0,\"Alloc system memory\"=8388608000,\
                    \"Tiler Utilization %\"=7,\"Device Utilization %\"=112,\"In use system memory\"=734003200}\n\
                    \x20     \"model\" = \"Apple M2 Pro\"\n    }\n";
        let expect = Gpu {
            name: "Apple M2 Pro".into(),
            busy_percent: Some(100.0),
            memory_used_bytes: Some(734_003_200),
            memory_total_bytes: None,
        };
        assert_eq!(parse_ioreg(text), [expect]);
        assert_eq!(parse_ioreg(""), []);
        assert_eq!(parse_ioreg("+-o X <class X>\n{ }\n")[0].busy_percent, None);
    }
}
