//! Names of policy files as agents see them: relative to the configuration folder, whose location agents do not need.
//! The ledger and the operator get the absolute names.

use std::path::Path;

use tool::caller::EndpointParty;
use tool::{Refusal, RuleRef, ToolResult};

use crate::call::PipelineCall;
use crate::explain::{ExplainedVerdict, Explanation};

/// Number of components of a policy file's name that agents see: `governance/tools.yaml`.
const SHOWN_COMPONENTS: usize = 2;

/// Shortens the names of policy files in the result of an agent's call.
pub(crate) fn shorten_in_result(call: &PipelineCall, result: &mut ToolResult) {
    if call.header.caller.endpoint.party() != EndpointParty::Agents {
        return;
    }
    if let Some(refusal) = &mut result.metadata.refusal {
        if let (Some(folder), Some(error)) = (folder_of(refusal.rule.as_ref()), &mut result.error) {
            *error = error.replace(&folder, "");
        }
        shorten_in_refusal(refusal);
    }
}

/// Shortens the names of policy files in an explanation for an agent.
pub(crate) fn shorten_in_explanation(explanation: &mut Explanation) {
    explanation.rules.iter_mut().for_each(shorten_rule);
    match &mut explanation.finding {
        ExplainedVerdict::Permit => {}
        ExplainedVerdict::Ask { refusal, asked_by } => {
            shorten_in_refusal(refusal);
            asked_by.iter_mut().for_each(shorten_rule);
        }
        ExplainedVerdict::Deny { refusal } => shorten_in_refusal(refusal),
    }
}

fn shorten_in_refusal(refusal: &mut Refusal) {
    let Some(folder) = folder_of(refusal.rule.as_ref()) else { return };
    refusal.reason = refusal.reason.replace(&folder, "");
    if let Some(hint) = &mut refusal.hint {
        *hint = hint.replace(&folder, "");
    }
    refusal.rule.iter_mut().for_each(shorten_rule);
}

fn shorten_rule(rule: &mut RuleRef) {
    if let Some(folder) = folder_of(Some(rule))
        && let Some(short) = rule.file.strip_prefix(&folder)
    {
        rule.file = short.into();
    }
}

/// Configuration folder of a rule's file, with its final slash. `None` if the name is not absolute, and for the policy of
/// a project, which callers work in.
fn folder_of(rule: Option<&RuleRef>) -> Option<String> {
    let file = Path::new(&*rule?.file);
    if file.ends_with(governance::files::PROJECT_POLICY) {
        return None;
    }
    let folder = file.is_absolute().then(|| file.ancestors().nth(SHOWN_COMPONENTS)).flatten()?;
    let folder = folder.to_str()?.trim_end_matches('/');
    Some(format!("{folder}/"))
}

#[cfg(test)]
mod tests {
    use tool::RefusalCode;

    use super::*;

    #[test]
    fn only_the_place_of_the_configuration_is_removed() {
        let rule = |file: &str| RuleRef { file: file.into(), line: 7, id: "a.allowed_paths".into() };
        let refusal = Refusal::new("a", RefusalCode::PathNotAllowed, "see /home/u/cfg/governance/tools.yaml")
            .with_hint("`x` (/home/u/cfg/governance/safety.yaml line 3), not /home/u/work");
        let mut refusal = Refusal { rule: Some(rule("/home/u/cfg/governance/tools.yaml")), ..refusal };
        shorten_in_refusal(&mut refusal);
        assert_eq!(refusal.rule, Some(rule("governance/tools.yaml")));
        assert_eq!(refusal.reason, "see governance/tools.yaml");
        let hint = "`x` (governance/safety.yaml line 3), not /home/u/work";
        assert_eq!(refusal.hint.as_deref(), Some(hint));
        let mut built_in = Refusal { rule: Some(rule("built-in")), ..refusal.clone() };
        shorten_in_refusal(&mut built_in);
        assert_eq!((built_in.rule, built_in.reason), (Some(rule("built-in")), refusal.reason.clone()));
        let project = rule("/home/u/work/.sinew/policy.yaml");
        let mut of_project = Refusal { rule: Some(project.clone()), ..refusal };
        of_project.reason = "Path /home/u/work/a is forbidden".into();
        shorten_in_refusal(&mut of_project);
        assert_eq!(
            (of_project.rule, &*of_project.reason),
            (Some(project), "Path /home/u/work/a is forbidden")
        );
    }
}
