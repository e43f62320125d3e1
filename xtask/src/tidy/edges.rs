//! Crate edges: the table in ARCHITECTURE.md lists the crates that each crate may import. The check reads
//! that page, so that the two cannot drift apart. Dev-dependencies are not edges.

use crate::project::Graph;
use crate::tidy::Finding;
use crate::tree::{File, Tree};

const MAP: &str = "ARCHITECTURE.md";
const HEAD: [&str; 4] = ["layer", "crate", "job", "may import"];

/// One row of the table of crates.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    line: usize,
    layer: u32,
    name: String,
    imports: Imports,
}

#[derive(Debug, PartialEq, Eq)]
enum Imports {
    Any,
    These(Vec<String>),
}

impl Imports {
    fn allow(&self, name: &str) -> bool {
        match self {
            Imports::Any => true,
            Imports::These(names) => names.iter().any(|allowed| allowed == name),
        }
    }
}

pub(crate) fn check(tree: &Tree, graph: &Graph) -> Vec<Finding> {
    let Some(map) = tree.file(MAP) else {
        return vec![Finding::error(MAP, 1, "the map of the crates is missing")];
    };
    let (rows, mut findings) = read_map(map);
    if rows.is_empty() {
        let head = HEAD.join(" | ");
        findings.push(Finding::error(MAP, 1, format!("no table with the columns `| {head} |`")));
        return findings;
    }
    findings.extend(disorder(&rows));
    findings.extend(strangers(&rows, graph));
    for edge in &graph.edges {
        let Some(row) = rows.iter().find(|row| row.name == edge.from) else { continue };
        if !row.imports.allow(&edge.to) {
            let line = tree.file(&edge.manifest).map_or(1, |manifest| line_naming(manifest, &edge.to));
            let message = format!(
                "`{}` may not import `{}`: {MAP}:{} does not list it; move the code to where it belongs, or change the map \
                 and say why in docs/decisions",
                edge.from, edge.to, row.line
            );
            findings.push(Finding::error(&edge.manifest, line, message));
        }
    }
    findings
}

/// Reads the rows of the table of crates; a row that cannot be parsed is a finding.
fn read_map(map: &File) -> (Vec<Row>, Vec<Finding>) {
    let (mut rows, mut findings) = (Vec::new(), Vec::new());
    let mut inside = false;
    for (number, line) in map.lines() {
        let cells = cells_of(line);
        if cells == HEAD {
            inside = true;
        } else if cells.is_empty() {
            inside = false;
        } else if inside && !line.contains("---") {
            match read_row(number, &cells) {
                Some(row) => rows.push(row),
                None => findings.push(Finding::error(
                    MAP,
                    number,
                    "cannot read this row: write | number | `name` | job | names, `any` or – |",
                )),
            }
        }
    }
    (rows, findings)
}

fn cells_of(line: &str) -> Vec<&str> {
    let inner = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|'));
    inner.map(|inner| inner.split('|').map(str::trim).collect()).unwrap_or_default()
}

fn read_row(line: usize, cells: &[&str]) -> Option<Row> {
    let [layer, name, _, imports] = cells else { return None };
    let name = name.strip_prefix('`')?.strip_suffix('`')?.to_owned();
    let imports = match *imports {
        "any" => Imports::Any,
        "–" => Imports::These(Vec::new()),
        "" => return None,
        names => {
            Imports::These(names.split_whitespace().map(|name| name.trim_matches('`').to_owned()).collect())
        }
    };
    Some(Row { line, layer: layer.parse().ok()?, name, imports })
}

/// Reports rows that import an unknown crate or one that is not in a lower layer. This keeps the graph
/// acyclic.
fn disorder(rows: &[Row]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for row in rows {
        let Imports::These(names) = &row.imports else { continue };
        for name in names {
            let message = match rows.iter().find(|other| other.name == *name) {
                None => format!("`{}` may import `{name}`, which is not in this table", row.name),
                Some(other) if other.layer >= row.layer => format!(
                    "`{}` (layer {}) may import `{name}` (layer {}): imports go to lower layers only",
                    row.name, row.layer, other.layer
                ),
                Some(_) => continue,
            };
            findings.push(Finding::error(MAP, row.line, message));
        }
    }
    findings
}

/// Reports packages that only the table or only the workspace contains.
fn strangers(rows: &[Row], graph: &Graph) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &graph.packages {
        if !rows.iter().any(|row| row.name == *package) {
            findings.push(Finding::error(
                MAP,
                1,
                format!("package `{package}` is not in the table of crates: add its row"),
            ));
        }
    }
    for row in rows {
        if !graph.packages.contains(&row.name) {
            let message = format!(
                "there is no package `{}`: the table shows what exists, plans go elsewhere",
                row.name
            );
            findings.push(Finding::error(MAP, row.line, message));
        }
    }
    findings
}

fn line_naming(manifest: &File, name: &str) -> usize {
    let names = |line: &str| {
        line.trim_start().strip_prefix(name).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
            || line.contains(&format!("package = \"{name}\""))
    };
    manifest.lines().find(|(_, line)| names(line)).map_or(1, |(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Edge;
    use crate::tidy::assert_findings;

    const TABLE: &str = "# Map\n\n| layer | crate | job | may import |\n|---|---|---|---|\n\
        | 0 | `tool` | words | – |\n| 1 | `ledger` | record | tool |\n| 9 | `sinew` | all | any |\n";

    fn graph(packages: &[&str], edges: &[(&str, &str)]) -> Graph {
        let edge = |(from, to): &(&str, &str)| Edge {
            from: (*from).to_owned(),
            manifest: format!("crates/{from}/Cargo.toml"),
            to: (*to).to_owned(),
        };
        Graph {
            packages: packages.iter().map(|name| (*name).to_owned()).collect(),
            edges: edges.iter().map(edge).collect(),
        }
    }

    fn check_map(map: &str, graph: &Graph, expect: &[(&str, usize, &str)]) {
        let manifest = "[dependencies]\ntoolbox.workspace = true\ntool.workspace = true\n";
        let tree = Tree::of(&[
            (MAP, map),
            ("crates/tool/Cargo.toml", "[dependencies]\nledger.workspace = true\n"),
            ("crates/ledger/Cargo.toml", manifest),
        ]);
        assert_findings(&check(&tree, graph), expect);
    }

    const ALL: [&str; 3] = ["tool", "ledger", "sinew"];

    #[test]
    fn an_edge_in_the_table_passes() {
        check_map(TABLE, &graph(&ALL, &[("ledger", "tool"), ("sinew", "ledger"), ("sinew", "tool")]), &[]);
    }

    #[test]
    fn any_other_edge_is_reported_with_its_line() {
        let wrong = graph(&ALL, &[("tool", "ledger"), ("ledger", "sinew")]);
        check_map(
            TABLE,
            &wrong,
            &[
                ("crates/tool/Cargo.toml", 2, "`tool` may not import `ledger`: ARCHITECTURE.md:5"),
                ("crates/ledger/Cargo.toml", 1, "`ledger` may not import `sinew`"),
            ],
        );
    }

    #[test]
    fn the_table_and_the_workspace_name_the_same_packages() {
        check_map(TABLE, &graph(&["tool", "sinew"], &[]), &[(MAP, 6, "there is no package `ledger`")]);
        check_map(
            TABLE,
            &graph(&["tool", "ledger", "sinew", "extra"], &[]),
            &[(MAP, 1, "`extra` is not in the table")],
        );
    }

    #[test]
    fn imports_go_down_only() {
        let upward = TABLE.replace("words | – |", "words | ledger |");
        check_map(&upward, &graph(&ALL, &[]), &[(MAP, 5, "imports go to lower layers only")]);
        let unknown = TABLE.replace("record | tool |", "record | tol |");
        check_map(&unknown, &graph(&ALL, &[]), &[(MAP, 6, "`tol`, which is not in this table")]);
    }

    #[test]
    fn a_map_without_the_table_does_not_pass() {
        check_map("# Map\n", &graph(&ALL, &[]), &[(MAP, 1, "no table with the columns")]);
        let broken = TABLE.replace("| 1 | `ledger`", "| one | `ledger`");
        check_map(&broken, &graph(&["tool", "sinew"], &[]), &[(MAP, 6, "cannot read this row")]);
        assert_findings(&check(&Tree::of(&[]), &graph(&ALL, &[])), &[(MAP, 1, "missing")]);
    }
}
