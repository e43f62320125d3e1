//! Edges between the modes. Neither a file nor a person can add others.

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

/// Returns true if a rule may change the mode along this edge.
pub(crate) fn is_rule_edge(from: Mode, to: Mode) -> bool {
    EDGES.contains(&(from, to))
}

/// Returns the modes that a rule may change to from this mode.
pub(crate) fn rule_targets(from: Mode) -> impl Iterator<Item = Mode> {
    EDGES.into_iter().filter(move |(start, _)| *start == from).map(|(_, end)| end)
}

/// Returns true if a person may set this mode: along the edges, and LOCKDOWN from any other mode.
pub fn is_human_edge(from: Mode, to: Mode) -> bool {
    is_rule_edge(from, to) || (to == Mode::Lockdown && from != to)
}

/// Returns the modes that a person may set from this one.
pub fn modes_settable_from(from: Mode) -> impl Iterator<Item = Mode> {
    Mode::ALL.into_iter().filter(move |to| is_human_edge(from, *to))
}

/// Returns true if only a person may leave this mode.
pub(crate) fn needs_human_to_leave(mode: Mode) -> bool {
    matches!(mode, Mode::Lockdown | Mode::Recovery)
}

/// Returns the rank of a mode, 0 for the strictest. If several rules fire, the strictest mode is entered.
pub(crate) fn leniency(mode: Mode) -> u8 {
    match mode {
        Mode::Lockdown => 0,
        Mode::Degraded => 1,
        Mode::Alert => 2,
        Mode::Recovery => 3,
        Mode::Normal => 4,
    }
}
