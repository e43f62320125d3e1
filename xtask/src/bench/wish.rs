//! Parses the arguments of `bench`.

/// Options of a benchmark run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) length: Length,
    pub(crate) peers: Peers,
    pub(crate) afterwards: Afterwards,
    /// The only part to measure, if one is named.
    pub(crate) only: Option<Part>,
}

/// Part of the benchmark that `--only` can select.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Read,
    Telemetry,
    Spawn,
    Validator,
    Hook,
    Life,
    Growth,
    Instructions,
    Stages,
}

pub(crate) const PARTS: [(&str, Part); 9] = [
    ("read", Part::Read),
    ("telemetry", Part::Telemetry),
    ("spawn", Part::Spawn),
    ("validator", Part::Validator),
    ("hook", Part::Hook),
    ("life", Part::Life),
    ("growth", Part::Growth),
    ("instructions", Part::Instructions),
    ("stages", Part::Stages),
];

/// Length of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Length {
    #[default]
    Full,
    /// Two minutes: fewer rounds, and shorter axes.
    Quick,
}

/// Choice to measure other programs as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Peers {
    #[default]
    LeftOut,
    Beside,
}

/// Use of the results, besides showing them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Afterwards {
    #[default]
    Shown,
    /// Compared with the baseline; a regression is an error.
    Checked,
    /// Written as the baseline, the page and its chart.
    Saved,
}

impl Length {
    /// Number of rounds for this length: `full`, or a fifth of it.
    pub(crate) fn of(self, full: usize) -> usize {
        match self {
            Length::Full => full,
            Length::Quick => full.div_ceil(5),
        }
    }
}

impl Wish {
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let mut wish = Wish::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--quick" => wish.length = Length::Quick,
                "--peers" => wish.peers = Peers::Beside,
                "--check" if wish.afterwards != Afterwards::Saved => wish.afterwards = Afterwards::Checked,
                "--save" if wish.afterwards != Afterwards::Checked => wish.afterwards = Afterwards::Saved,
                "--check" | "--save" => return Err("`bench` takes --check or --save, not both".to_owned()),
                "--only" => {
                    let part = words.next().ok_or("`--only` needs the name of a part")?;
                    let found = PARTS.iter().find(|(name, _)| name == part).map(|(_, part)| *part);
                    let known = PARTS.map(|(name, _)| name).join(", ");
                    wish.only = Some(found.ok_or(format!("`{part}` is none of {known}"))?);
                }
                other => {
                    return Err(format!(
                        "`bench` takes --quick, --peers, --only PART, --check and --save, not `{other}`"
                    ));
                }
            }
        }
        if wish.only.is_some() && wish.afterwards == Afterwards::Saved {
            return Err("a part is no baseline: leave out --only or --save".to_owned());
        }
        Ok(wish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: Result<(Length, Peers, Afterwards), &str>) {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let expect = expect.map(|(length, peers, afterwards)| Wish { length, peers, afterwards, only: None });
        assert_eq!(Wish::parse(&words), expect.map_err(str::to_owned), "{line}");
    }

    #[test]
    fn arguments_select_length_peers_and_use() {
        check("", Ok((Length::Full, Peers::LeftOut, Afterwards::Shown)));
        check("--quick --check", Ok((Length::Quick, Peers::LeftOut, Afterwards::Checked)));
        check("--peers --save", Ok((Length::Full, Peers::Beside, Afterwards::Saved)));
        check("--check --save", Err("`bench` takes --check or --save, not both"));
        check("--save --check", Err("`bench` takes --check or --save, not both"));
        check("--fast", Err("`bench` takes --quick, --peers, --only PART, --check and --save, not `--fast`"));
        check("--only", Err("`--only` needs the name of a part"));
        check("--only read --save", Err("a part is no baseline: leave out --only or --save"));
    }

    #[test]
    fn every_part_is_selected_by_its_name() {
        for (name, part) in PARTS {
            let wish = Wish::parse(&["--only".to_owned(), name.to_owned()]).unwrap();
            assert_eq!(wish.only, Some(part), "{name}");
        }
        let none = Wish::parse(&["--only".to_owned(), "all".to_owned()]).unwrap_err();
        assert!(none.contains("`all` is none of read, telemetry"), "{none}");
    }

    #[test]
    fn a_quick_run_does_a_fifth_and_at_least_one_round() {
        assert_eq!((Length::Full.of(20), Length::Quick.of(20), Length::Quick.of(1)), (20, 4, 1));
    }
}
