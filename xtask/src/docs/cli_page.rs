//! docs/cli.md: the help of every command, found by reading the `Commands:` lists from the top down.

use anyhow::Result;

const HEAD: &str = "\
<!-- Written by `cargo xtask docs` from `sinew help`. Do not edit. -->

# The command line

";

/// Generates the page. `help` runs the program with the given words and returns its output.
pub(crate) fn page(help: impl Fn(&[&str]) -> Result<String>) -> Result<String> {
    let mut page = HEAD.to_owned();
    let mut waiting = vec![Vec::<String>::new()];
    while let Some(path) = waiting.pop() {
        let mut arguments = vec!["help"];
        arguments.extend(path.iter().map(String::as_str));
        let text = help(&arguments)?;
        let title: Vec<&str> = std::iter::once("sinew").chain(path.iter().map(String::as_str)).collect();
        page.push_str(&format!("## `{}`\n\n```text\n{}\n```\n\n", title.join(" "), tidied(&text)));
        // `waiting` is a stack: pushed in reverse, the subcommands come out in the order of the list.
        waiting.extend(subcommands(&text).into_iter().rev().map(|name| {
            let mut longer = path.clone();
            longer.push(name.to_owned());
            longer
        }));
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    Ok(page)
}

fn tidied(text: &str) -> String {
    text.trim_end().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Names in the `Commands:` lists, which are several in the overview. A line that is indented further continues a
/// description.
fn subcommands(help: &str) -> Vec<&str> {
    let mut is_list = false;
    let entries = help.lines().filter_map(|line| {
        if !line.starts_with(' ') && !line.is_empty() {
            is_list = line.to_lowercase().ends_with("commands:");
        }
        line.strip_prefix("  ").filter(|_| is_list)
    });
    let names =
        entries.filter(|entry| !entry.starts_with(' ')).filter_map(|entry| entry.split_whitespace().next());
    names.filter(|name| *name != "help").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: &str = "Does it.\n\nUsage: sinew <COMMAND>\n\nCommands:\n  tools  List the\n           tools\n  demo   Show\n  help   Print\n\nOptions:\n  -h, --help  Help\n";

    #[test]
    fn every_command_has_a_section_in_order() {
        let help = |arguments: &[&str]| {
            Ok(match arguments {
                ["help"] => TOP.to_owned(),
                ["help", "tools"] => "Tools.\n\nCommands:\n  list  All  \n".to_owned(),
                other => format!("of {}\n", other.join(" ")),
            })
        };
        let page = page(help).unwrap();
        let titles: Vec<&str> = page.lines().filter(|line| line.starts_with("## ")).collect();
        assert_eq!(titles, ["## `sinew`", "## `sinew tools`", "## `sinew tools list`", "## `sinew demo`"]);
        assert!(page.ends_with("```text\nof help demo\n```\n"), "{page}");
        assert!(page.contains("  list  All\n```"), "spaces at line ends are gone");
    }

    #[test]
    fn a_failing_program_stops_the_page() {
        assert!(page(|_| anyhow::bail!("no")).is_err());
    }
}
