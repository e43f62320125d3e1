//! Nothing in the repository names the machine it was written on: a clone elsewhere has no such folder or
//! host. The names are put together from pieces, so that this file does not contain them itself.

use crate::tidy::Finding;
use crate::tree::Tree;

/// Package hosts, which belong into the settings of each machine. The lock file may name them.
const HOSTS: &[&str] = &[
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("pypi.", "org"),
    concat!("files.", "pythonhosted.org"),
    concat!("registry.", "npmjs.org"),
];

/// Folders of one machine, absolute or beside the repository.
const FOLDERS: &[&str] = &[concat!("/", "work"), concat!("/", "root"), concat!("../", "shared")];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files().filter(|file| file.path != "Cargo.lock") {
        for (number, line) in file.lines() {
            let hosts = HOSTS.iter().filter(|host| line.contains(**host));
            findings.extend(hosts.map(|host| {
                let message =
                    format!("`{host}` is a package host: leave it to cargo, in an example use example.org");
                Finding::error(&file.path, number, message)
            }));
            let folders = FOLDERS.iter().filter(|folder| has_folder(line, folder));
            findings.extend(folders.map(|folder| {
                let message = format!(
                    "`{folder}` exists on one machine only: use a relative path or a temporary folder"
                );
                Finding::error(&file.path, number, message)
            }));
        }
    }
    findings
}

/// Returns true if the line contains the path by itself, not as the end or the beginning of another name.
fn has_folder(line: &str, folder: &str) -> bool {
    let in_name = |c: char| c.is_alphanumeric() || "_-.~$}*".contains(c);
    line.match_indices(folder).any(|(at, _)| {
        let absolute = folder.starts_with('/');
        let before =
            absolute && line.get(..at).is_some_and(|before| before.trim_end_matches('/').ends_with(in_name));
        let after = line.get(at + folder.len()..).is_some_and(|after| after.starts_with(in_name));
        !before && !after
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    fn check_line(line: &str, expect: &[(&str, usize, &str)]) {
        assert_findings(&check(&Tree::of(&[("docs/a.md", &format!("first\n{line}\n"))])), expect);
    }

    #[test]
    fn folders_of_one_machine_are_found() {
        check_line(concat!("see /", "work/main"), &[("docs/a.md", 2, "exists on one machine only")]);
        check_line(concat!("file:///", "work/a"), &[("docs/a.md", 2, "one machine")]);
        check_line(concat!("\"/", "root\""), &[("docs/a.md", 2, "one machine")]);
        check_line(concat!("a/../../", "shared"), &[("docs/a.md", 2, "one machine")]);
        check_line(concat!("../", "shared/design"), &[("docs/a.md", 2, "one machine")]);
        check_line(concat!("https://pypi.", "org/simple"), &[("docs/a.md", 2, "a package host")]);
    }

    #[test]
    fn similar_names_are_not_reported() {
        check_line("/workspace /workflows src/work/a $HOME/work ~/work /proc/self//root /rootless", &[]);
        check_line("https://crates.io/crates/serde", &[]);
    }

    #[test]
    fn the_lock_file_may_name_package_hosts() {
        let lock = concat!("source = \"https://index.", "crates.io\"\n");
        assert_findings(&check(&Tree::of(&[("Cargo.lock", lock)])), &[]);
    }
}
