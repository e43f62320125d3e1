//! The edges between the modes. There are no others, whatever a file or a person says.

use tool::Mode;

const EDGES: [(Mode, Mode); 9] = [
    (Mode::Normal, Mode::Alert),
    (Mode::Normal, Mode::Degraded),
    (Mode::Alert, Mode::Normal),
    (Mode::Alert, Mode::Degraded),
    (Mode::Alert, Mode::Lockdown),
    (Mode::Degraded, Mode::Normal),
    (Mode::Degraded, Mode::Lockdown),
    (Mode::Lockdown, Mode::Recovery),
    (Mode::Recovery, Mode::Normal),
];

/// Whether a rule may lead from one mode to the other.
pub(crate) fn a_rule_may_lead(from: Mode, to: Mode) -> bool {
    EDGES.contains(&(from, to))
}

/// Where a rule may lead from this mode.
pub(crate) fn ways_by_rule(from: Mode) -> impl Iterator<Item = Mode> {
    EDGES.into_iter().filter(move |(start, _)| *start == from).map(|(_, end)| end)
}

/// Whether a human may lead from one mode to the other: along the edges, and into LOCKDOWN from anywhere.
pub fn a_human_may_lead(from: Mode, to: Mode) -> bool {
    a_rule_may_lead(from, to) || (to == Mode::Lockdown && from != to)
}

/// The modes a human may set from this one.
pub fn ways_out(from: Mode) -> impl Iterator<Item = Mode> {
    Mode::ALL.into_iter().filter(move |to| a_human_may_lead(from, *to))
}

/// Whether only a human may lead out of this mode.
pub(crate) fn only_a_human_leaves(mode: Mode) -> bool {
    matches!(mode, Mode::Lockdown | Mode::Recovery)
}

/// How far a mode is from the strictest one. Where several rules fire, the strictest mode is entered.
pub(crate) fn mildness(mode: Mode) -> u8 {
    match mode {
        Mode::Lockdown => 0,
        Mode::Degraded => 1,
        Mode::Alert => 2,
        Mode::Recovery => 3,
        Mode::Normal => 4,
    }
}
