//! Programs that a sed script starts: its command `e`, and the flag `e` of `s`, which runs the resulting
//! text.
//!
//! Any word may be a script, so every word is read as one; a text that sed could not take has nothing started. What the text
//! of a file adds to a script's own is not seen here.

use std::collections::BTreeSet;

/// The lines that are started if one of these words is a script.
pub(super) fn started(words: &[String]) -> BTreeSet<String> {
    let lines = scripts(words).into_iter().flat_map(|script| started_by(&script));
    lines.filter(|line| line.contains(char::is_alphanumeric)).collect()
}

fn started_by(script: &str) -> Vec<String> {
    // Whether a `/` between brackets ends an expression is told otherwise by older editors: both are looked at.
    let ways: &[Brackets] = if script.contains('[') { &Brackets::ALL } else { &[Brackets::Plain] };
    let read = ways.iter().map(|brackets| Script::read(script, *brackets));
    read.flat_map(Script::started).map(str::to_owned).collect()
}

/// The scripts that the words of a line may hold: each word, what is behind the letter or the name of its option, what stands
/// between quotes, and all of them together, since sed puts its pieces together line by line.
fn scripts(words: &[String]) -> Vec<String> {
    let bare: Vec<&str> =
        words.iter().map(|word| without_option(word)).filter(|word| !word.is_empty()).collect();
    let quotes: [&[char]; 3] = [&['\''], &['"'], &['\'', '"', '`', '\\']];
    let quoted = quotes.into_iter().flat_map(|quotes| {
        words.iter().filter(move |word| word.contains(quotes)).flat_map(move |word| word.split(quotes))
    });
    let each = words.iter().map(String::as_str).chain(bare.iter().copied()).chain(quoted);
    each.map(str::to_owned).chain([bare.join("\n")]).collect()
}

/// A word without the option that stands before it: `-ne1d` and `--expression=1d` say `1d`.
fn without_option(word: &str) -> &str {
    let Some(option) = word.strip_prefix('-') else { return word };
    let parted = match option.strip_prefix('-') {
        Some(long) => long.split_once('='),
        None => option.split_once('e').filter(|(letters, _)| letters.chars().all(char::is_alphabetic)),
    };
    parted.map_or("", |(_, script)| script)
}

/// Interpretation of a `[` in an expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Brackets {
    /// As any other character.
    Plain,
    /// Text between brackets ends nothing.
    Kept,
}

impl Brackets {
    const ALL: [Brackets; 2] = [Brackets::Plain, Brackets::Kept];
}

/// A script, read so far.
struct Script<'s> {
    rest: &'s str,
    brackets: Brackets,
    /// Arguments of `e`.
    commands: Vec<&'s str>,
    /// Texts between delimiters, which may become the text that is run.
    texts: Vec<&'s str>,
    runs_its_text: bool,
}

impl<'s> Script<'s> {
    fn read(script: &'s str, brackets: Brackets) -> Self {
        let mut read =
            Script { rest: script, brackets, commands: Vec::new(), texts: Vec::new(), runs_its_text: false };
        while !read.rest.is_empty() {
            let line = read.rest;
            // Editors differ in where a label ends, so that a line none of them may take is no end of the script.
            if read.command().is_none() {
                read.rest = line;
                read.rest_of_line();
            }
        }
        read
    }

    fn started(self) -> impl Iterator<Item = &'s str> {
        let texts = if self.runs_its_text { self.texts } else { Vec::new() };
        self.commands.into_iter().chain(texts)
    }

    /// Reads one command with what it is for, or nothing where there is none that an editor would take.
    fn command(&mut self) -> Option<()> {
        self.addresses()?;
        match self.take() {
            None | Some(';' | '{' | '}' | '\n') => {}
            Some('e') => {
                let command = self.rest_of_line();
                self.runs_its_text |= command.chars().all(|c| c.is_whitespace() || ";}".contains(c));
                self.commands.push(command);
            }
            Some('#' | 'a' | 'c' | 'i' | 'r' | 'R' | 'w' | 'W') => drop(self.rest_of_line()),
            Some(':' | 'b' | 't' | 'T' | 'v') => {
                self.skip(char::is_whitespace);
                self.skip(|c| !c.is_whitespace() && !";}".contains(c));
            }
            Some('s') => self.substitution()?,
            Some('y') => {
                let mark = self.take()?;
                self.two_texts(mark)?;
                self.end()?;
            }
            Some('l' | 'L' | 'q' | 'Q') => {
                self.skip(|c| c == ' ' || c.is_ascii_digit());
                self.end()?;
            }
            Some('=' | 'd' | 'D' | 'F' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z') => {
                self.end()?
            }
            Some(_) => return None,
        }
        Some(())
    }

    /// The lines that a command is for: numbers, and expressions between marks.
    fn addresses(&mut self) -> Option<()> {
        loop {
            self.skip(|c| c.is_whitespace() || c.is_ascii_digit() || "$,~+!".contains(c));
            let mark = match self.rest.chars().next() {
                Some('/') => self.take()?,
                Some('\\') => (self.take()?, self.take()?).1,
                _ => return Some(()),
            };
            self.text_up_to(mark)?;
            self.skip(|c| "IM".contains(c));
        }
    }

    fn substitution(&mut self) -> Option<()> {
        let mark = self.take().filter(|mark| !['\n', '\\'].contains(mark))?;
        self.two_texts(mark)?;
        let flags = self.skip(|c| "gpiImMe".contains(c) || c.is_ascii_digit());
        self.runs_its_text |= flags.contains('e');
        if self.rest.starts_with('w') {
            self.rest_of_line();
        }
        self.end()
    }

    fn two_texts(&mut self, mark: char) -> Option<()> {
        self.text_up_to(mark)?;
        self.text_up_to(mark)
    }

    /// Keeps what stands before the next mark of its own. A line that ends first is no text.
    fn text_up_to(&mut self, mark: char) -> Option<()> {
        let (mut is_escaped, mut in_brackets) = (false, 0_usize);
        for (at, c) in self.rest.char_indices() {
            // In brackets the first place is for a `]` that ends nothing, behind a `^` too.
            let is_first = in_brackets == 1 || (in_brackets == 2 && self.rest.get(..at)?.ends_with('^'));
            match c {
                _ if is_escaped => is_escaped = false,
                '\n' => return None,
                c if c == mark && in_brackets == 0 => {
                    self.texts.push(self.rest.get(..at)?);
                    self.rest = self.rest.get(at + c.len_utf8()..)?;
                    return Some(());
                }
                '\\' => is_escaped = true,
                ']' if in_brackets > 0 && !is_first => in_brackets = 0,
                '[' if in_brackets == 0 && self.brackets == Brackets::Kept => in_brackets = 1,
                _ if in_brackets > 0 => in_brackets += 1,
                _ => {}
            }
        }
        None
    }

    /// A command is over: nothing but the next one, or what it is among, may follow.
    fn end(&mut self) -> Option<()> {
        self.skip(|c| c.is_whitespace() && c != '\n');
        self.rest.chars().next().is_none_or(|c| ";}#\n".contains(c)).then_some(())
    }

    fn take(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let first = chars.next()?;
        self.rest = chars.as_str();
        Some(first)
    }

    fn skip(&mut self, is_passed: impl Fn(char) -> bool) -> &'s str {
        let (passed, rest) = split_where(self.rest, |c| !is_passed(c));
        self.rest = rest;
        passed
    }

    /// Up to a line's end that no `\` takes back.
    fn rest_of_line(&mut self) -> &'s str {
        let mut is_escaped = false;
        let (line, rest) = split_where(self.rest, |c| {
            let ends = c == '\n' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        self.rest = rest.strip_prefix('\n').unwrap_or(rest);
        line
    }
}

fn split_where(text: &str, is_end: impl FnMut(char) -> bool) -> (&str, &str) {
    text.find(is_end).and_then(|at| text.split_at_checked(at)).unwrap_or((text, ""))
}
