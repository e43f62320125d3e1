//! Actions of the operator, and what each needs: nothing, a confirmation, or the PIN.

use execution::modes::ModeChangeResult;
use governance::transitions::modes_settable_from;
use serde::Serialize;
use tool::Mode;

/// Direction of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionEffect {
    /// Less is permitted afterwards: a session is enough.
    Tightens,
    /// More is permitted afterwards: needs the PIN each time.
    Loosens,
}

/// Mode that the operator can set now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ModeAction {
    /// New mode.
    pub to: Mode,
    /// Direction of the change.
    pub effect: ActionEffect,
}

/// Returns the modes that the operator can set, in the order of the specification.
pub fn mode_actions(from: Mode) -> Vec<ModeAction> {
    let action = |to| {
        let loosens = ModeChangeResult::needs_pin(from, to);
        ModeAction { to, effect: if loosens { ActionEffect::Loosens } else { ActionEffect::Tightens } }
    };
    modes_settable_from(from).map(action).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lockdown_is_offered_everywhere_and_leaving_it_loosens() {
        for from in Mode::ALL {
            let actions = mode_actions(from);
            let lockdown = actions.iter().find(|action| action.to == Mode::Lockdown);
            let expect = (from != Mode::Lockdown).then_some(ActionEffect::Tightens);
            assert_eq!(lockdown.map(|action| action.effect), expect, "{from}");
        }
        let leave = ModeAction { to: Mode::Recovery, effect: ActionEffect::Loosens };
        assert_eq!(mode_actions(Mode::Lockdown), [leave]);
        assert!(mode_actions(Mode::Recovery).contains(&ModeAction { to: Mode::Normal, ..leave }));
    }
}
