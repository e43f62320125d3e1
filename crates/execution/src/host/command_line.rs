//! Splits a shell line into the words of its commands. A line with any other shell syntax is not split.

/// Maximum length of a line. Longer lines are not split.
const MAX_LINE_BYTES: usize = 4096;
/// Characters, besides ASCII letters and digits, that every POSIX shell, bash and zsh use literally outside of
/// quotes. A line with any other unquoted character (globs, `~`, `#`, `\`, `^`, non-ASCII text) is not split.
const LITERAL_CHARACTERS: &str = "-_./:,@%+=";

/// Splits a line of plain words and pipes into the words of each command. Returns `None` if the line contains
/// anything that a shell expands, redirects, groups or assigns.
pub fn split_pipeline(line: &str) -> Option<Vec<Vec<String>>> {
    if line.len() > MAX_LINE_BYTES || line.contains(char::is_control) {
        return None;
    }
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '|' => {
                commands.last_mut()?.extend(word.take());
                if c == '|' {
                    commands.push(Vec::new());
                }
            }
            '\'' | '"' => {
                let inside = read_quoted(&mut rest, c)?;
                // With the option RC_QUOTES, zsh reads `''` inside of single quotes as one quote.
                if rest.as_str().starts_with(c) {
                    return None;
                }
                word.get_or_insert_default().push_str(&inside);
            }
            // zsh replaces `=name` by the path of the program `name`.
            '=' if word.is_none() => return None,
            c if c.is_ascii_alphanumeric() || LITERAL_CHARACTERS.contains(c) => {
                word.get_or_insert_default().push(c)
            }
            _ => return None,
        }
    }
    commands.last_mut()?.extend(word);
    commands.iter().all(|words| names_a_program(words)).then_some(commands)
}

/// Returns the text up to the closing quote. `None` if a shell would expand a character in it.
fn read_quoted(rest: &mut std::str::Chars<'_>, quote: char) -> Option<String> {
    let (inside, after) = rest.as_str().split_once(quote)?;
    let is_expanded = |c: char| matches!(c, '$' | '`' | '\\' | '!');
    if quote == '"' && inside.contains(is_expanded) {
        return None;
    }
    *rest = after.chars();
    Some(inside.to_owned())
}

/// Returns true if the first word names a program. A word with `=` is an assignment.
fn names_a_program(words: &[String]) -> bool {
    words.first().is_some_and(|first| !first.is_empty() && !first.contains('='))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Lines that are split, and their commands. The words of a command are joined by `,`.
    const SPLIT_LINES: [(&str, &[&str]); 13] = [
        ("ls", &["ls"]),
        ("  ls   -la  ", &["ls,-la"]),
        ("git status | head -5", &["git,status", "head,-5"]),
        ("cat a|head -n 5|wc -l", &["cat,a", "head,-n,5", "wc,-l"]),
        ("grep 'a b' \"c d\"", &["grep,a b,c d"]),
        ("grep '' x", &["grep,,x"]),
        ("grep \"\" x", &["grep,,x"]),
        ("grep a'b'\"c\"d x", &["grep,abcd,x"]),
        ("grep '$HOME;`x`|&*?~!\\' x", &["grep,$HOME;`x`|&*?~!\\,x"]),
        ("grep \"it's; a | b > c\" x", &["grep,it's; a | b > c,x"]),
        ("grep --color=never -e x=y", &["grep,--color=never,-e,x=y"]),
        ("cat 'größe'", &["cat,größe"]),
        ("cat a@b%c+d:e,f", &["cat,a@b%c+d:e,f"]),
    ];
    /// Lines with shell syntax, which are not split.
    const SHELL_ONLY_LINES: [&str; 55] = [
        "",
        " ",
        "|",
        "ls |",
        "| ls",
        "ls || ls",
        "ls |& cat",
        "ls; ls",
        "ls & ls",
        "ls && ls",
        "ls\nls",
        "ls\rls",
        "ls\tx",
        "ls \u{0}",
        "cat $HOME/x",
        "cat ${x}",
        "cat $(x)",
        "cat `x`",
        "cat \"$x\"",
        "cat \"`x`\"",
        "cat \"a\\b\"",
        "cat \"a!b\"",
        "cat a\\ b",
        "cat \\",
        "cat > x",
        "cat < x",
        "cat << x",
        "cat 2>x",
        "cat *.rs",
        "cat a?",
        "cat [ab]",
        "cat ]",
        "cat {a,b}",
        "cat ~/x",
        "cat a~",
        "(ls)",
        "ls (x)",
        "{ ls",
        "! ls",
        "ls !x",
        "ls # x",
        "ls #x",
        "A=b ls",
        "A= ls",
        "'A=b' ls",
        "ls | A=b cat",
        "cat =ls",
        "cat ^x",
        "cat größe",
        "cat \u{a0}x",
        "cat 'a",
        "cat \"a",
        "cat 'a''b'",
        "'' x",
        "cat x | '' y",
    ];

    #[test]
    fn only_plain_words_and_pipes_are_split() {
        for (line, expect) in SPLIT_LINES {
            let commands = split_pipeline(line).unwrap_or_else(|| panic!("not split: {line}"));
            let commands: Vec<String> = commands.iter().map(|words| words.join(",")).collect();
            assert_eq!(commands, expect, "{line}");
        }
        for line in SHELL_ONLY_LINES {
            assert_eq!(split_pipeline(line), None, "{line:?}");
        }
        assert_eq!(split_pipeline(&format!("cat {}", "a".repeat(MAX_LINE_BYTES))), None);
    }

    /// Returns the words that a shell passes to a command. `printf` takes the place of the command and prints them.
    fn words_of_shell(shell: &str, line: &str) -> Option<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "").unwrap();
        let mut command = Command::new(shell);
        command.args(["-c", &format!("printf '%s\\0' {line}")]).current_dir(folder.path());
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        Some(text.split_terminator('\0').map(str::to_owned).collect())
    }

    /// Compares the words of random lines with those of real shells.
    #[test]
    fn words_equal_those_of_real_shells() {
        let pieces = [
            "a", " ", "'", "\"", "-x", "=", "$", "*", "\\", "~", "#", "{a,b}", "'q w'", "\"e r\"", "ä", "/",
            "^",
        ];
        let random_number = |seed: &mut u64| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(*seed >> 33).unwrap()
        };
        let shells: Vec<&str> = ["sh", "bash", "zsh"]
            .into_iter()
            .filter(|shell| words_of_shell(shell, "a").is_some_and(|words| words == ["a"]))
            .collect();
        assert!(shells.contains(&"sh"), "every system has `sh`");
        let (mut seed, mut compared) = (27_u64, 0);
        for _ in 0..5000 {
            let count = 1 + random_number(&mut seed) % 6;
            let line: String = (0..count).map(|_| pieces[random_number(&mut seed) % pieces.len()]).collect();
            // The first word of a line names the program; here it is `printf`.
            let Some(commands) = split_pipeline(&format!("x {line}")) else { continue };
            let [words] = commands.as_slice() else { continue };
            let words = &words[1..];
            if words.is_empty() {
                continue;
            }
            compared += 1;
            for shell in &shells {
                assert_eq!(words_of_shell(shell, &line).as_deref(), Some(words), "{shell}: {line}");
            }
            if compared == 150 {
                return;
            }
        }
        panic!("only {compared} lines were compared");
    }
}
