//! Words that the project does not use, because the field has another word for the same thing. The list is data
//! (`xtask/words.txt`), each word with its replacement. The rule reads documentation and all of the code: comments,
//! identifiers and string literals.

use crate::tidy::Finding;
use crate::tree::{File, Tree};

const LIST: &str = "xtask/words.txt";

/// One entry of the list: a phrase in lower case, and the words to use instead.
struct Phrase<'a> {
    words: Vec<&'a str>,
    text: &'a str,
    replacement: &'a str,
}

/// A file that may use a phrase, because the phrase has its ordinary meaning there.
struct Exception<'a> {
    line: usize,
    path: &'a str,
    phrase: &'a str,
}

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(list) = tree.file(LIST) else { return vec![Finding::error(LIST, 1, "the list is missing")] };
    let mut findings = Vec::new();
    let (phrases, exceptions) = read_list(list, &mut findings);
    let mut used = vec![false; exceptions.len()];
    for file in tree.files().filter(|file| is_checked(file)) {
        for (line, words) in file.lines().map(|(line, text)| (line, split_words(text))) {
            for phrase in phrases.iter().filter(|phrase| contains(&words, &phrase.words)) {
                let exception =
                    exceptions.iter().position(|e| e.path == file.path && e.phrase == phrase.text);
                match exception.and_then(|at| used.get_mut(at)) {
                    Some(used) => *used = true,
                    None => findings.push(Finding::error(
                        &file.path,
                        line,
                        format!("`{}` is not a term of the field: use {}", phrase.text, phrase.replacement),
                    )),
                }
            }
        }
    }
    let unused = exceptions.iter().zip(used).filter(|(_, used)| !used);
    findings.extend(unused.map(|(exception, _)| {
        let message = format!("`{}` does not use `{}`: delete this line", exception.path, exception.phrase);
        Finding::error(LIST, exception.line, message)
    }));
    findings
}

/// Reads `phrase = replacement` and `path: phrase: reason`, one per line.
fn read_list<'a>(list: &'a File, findings: &mut Vec<Finding>) -> (Vec<Phrase<'a>>, Vec<Exception<'a>>) {
    let (mut phrases, mut exceptions) = (Vec::new(), Vec::new());
    for (line, text) in list.lines().filter(|(_, text)| !text.trim().is_empty() && !text.starts_with('#')) {
        let fields: Vec<&str> = text.split(": ").collect();
        if let Some((phrase, replacement)) = text.split_once(" = ") {
            phrases.push(Phrase { words: phrase.split(' ').collect(), text: phrase, replacement });
        } else if let [path, phrase, _reason] = fields.as_slice() {
            exceptions.push(Exception { line, path, phrase });
        } else {
            findings.push(Finding::error(
                LIST,
                line,
                "write `phrase = replacement` or `path: phrase: reason`",
            ));
        }
    }
    (phrases, exceptions)
}

fn is_checked(file: &File) -> bool {
    file.path != "xtask/src/tidy/words.rs"
        && [".rs", ".md", ".yaml", ".yml", ".toml"].iter().any(|end| file.path.ends_with(end))
}

/// Words in lower case; `SignsOfLife` and `signs_of_life` are three words each.
fn split_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut previous_is_lower = false;
    for c in line.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && previous_is_lower) {
            words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
        }
        previous_is_lower = c.is_lowercase() || c.is_numeric();
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

fn contains(words: &[String], phrase: &[&str]) -> bool {
    words.windows(phrase.len()).any(|window| window.iter().zip(phrase).all(|(word, part)| word == part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    fn check_file(path: &str, text: &str, list: &str, expect: &[(&str, usize, &str)]) {
        assert_findings(&check(&Tree::of(&[(path, text), (LIST, list)])), expect);
    }

    #[test]
    fn replaced_words_are_found_with_their_replacement() {
        let list = "# comment\nporch = endpoint\nthe lane = the pipeline\n";
        let path = "crates/a/src/b.rs";
        check_file(path, "// The porch.\n", list, &[(path, 1, "use endpoint")]);
        check_file(path, "\n/// Opens `WorkerPorch`.\n", list, &[(path, 2, "`porch`")]);
        check_file(path, "fn open_porch() {}\n", list, &[(path, 1, "`porch`")]);
        check_file(path, "\nstruct WorkerPorch;\n", list, &[(path, 2, "`porch`")]);
        check_file(path, "fn walk_the_lane() {}\n", list, &[(path, 1, "`the lane`")]);
        check_file(path, "print(\"on the porch\");\n", list, &[(path, 1, "`porch`")]);
        check_file(path, "/// Along the\n/// lane.\n", list, &[]);
        check_file(path, "/// Along the lane.\n", list, &[(path, 1, "use the pipeline")]);
        check_file("docs/a.md", "A porch.\n", list, &[("docs/a.md", 1, "`porch`")]);
        check_file(path, "let porches = 1;\n", list, &[]);
    }

    #[test]
    fn exceptions_are_listed_and_needed() {
        let excepted = "porch = endpoint\ndocs/a.md: porch: the part of a house\n";
        check_file("docs/a.md", "A porch.\n", excepted, &[]);
        check_file("docs/a.md", "A house.\n", excepted, &[(LIST, 2, "does not use `porch`")]);
        check_file("docs/a.md", "A house.\n", "porch\n", &[(LIST, 1, "write `phrase")]);
        assert_findings(&check(&Tree::of(&[])), &[(LIST, 1, "missing")]);
    }
}
