//! Process list of a run, from `ps`: there is no namespace to kill them with.

/// One process of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedProcess {
    pub(crate) process: i32,
    pub(crate) parent: i32,
    pub(crate) memory_bytes: u64,
}

/// Parses the output of `ps -axo pid=,ppid=,rss=`. Lines in another format are skipped.
pub(crate) fn parse(text: &str) -> Vec<ListedProcess> {
    let line = |line: &str| {
        let mut columns = line.split_whitespace();
        Some(ListedProcess {
            process: columns.next()?.parse().ok()?,
            parent: columns.next()?.parse().ok()?,
            memory_bytes: columns.next()?.parse::<u64>().ok()? * 1024,
        })
    };
    text.lines().filter_map(line).collect()
}

/// Returns all descendants of a process.
pub(crate) fn descendants(of: i32, all: &[ListedProcess]) -> Vec<ListedProcess> {
    let (mut found, mut next): (Vec<ListedProcess>, Vec<i32>) = (Vec::new(), vec![of]);
    while let Some(parent) = next.pop() {
        for child in all.iter().filter(|one| one.parent == parent && one.process != parent) {
            if !found.contains(child) {
                found.push(*child);
                next.push(child.process);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_in_any_order() {
        let all = parse("  7  5  300\n 5 1 100\n 6 5 200\n 8 7 400\n 9 1 500\n 1 0 10\n 0 0 5\nnonsense\n");
        assert_eq!(all.len(), 7);
        let mut found: Vec<i32> = descendants(5, &all).iter().map(|one| one.process).collect();
        found.sort_unstable();
        assert_eq!(found, [6, 7, 8]);
        assert_eq!(descendants(5, &all).iter().map(|one| one.memory_bytes).sum::<u64>(), 900 * 1024);
        assert!(descendants(0, &all).len() >= 6, "a process that is its own parent causes no endless loop");
    }
}
