//! Checked rules of `safety.yaml`: rate limits by mode, the outbound gateway, and calls that require
//! approval.

use std::sync::Arc;
use std::time::Duration;

use regex::RegexBuilder;
use serde::de::IgnoredAny;
use strict_yaml::{Document, Located, LocatedMap};
use tool::{Category, Mode, RiskLevel, RuleRef};

use crate::host_rules::GatewayRules;
use crate::mode_rules::{self, ApprovalSubject, PerMode};
use crate::problems::FileInspection;
use crate::safety_file::{REQUIRED_SECTIONS, SafetyFile};
use crate::tool_rules;

const DEFAULT_APPROVAL_TIMEOUT: Duration = Duration::from_secs(300);
/// Memory limit of a compiled secret pattern.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// Limits and safeguards that apply to all tools.
#[derive(Clone, Debug)]
pub struct SafetyRules {
    /// Limit of all calls in a mode.
    pub calls_per_minute: PerMode<Option<(u32, RuleRef)>>,
    /// Limit of outbound calls in a mode.
    pub outbound_per_hour: PerMode<Option<(u32, RuleRef)>>,
    /// Rules of the outbound gateway.
    pub gateway: Arc<GatewayRules>,
    /// Calls that require approval by risk and category.
    pub approvals: Vec<ApprovalRule>,
    /// Time after which an unanswered approval request expires.
    pub approval_timeout: Duration,
}

/// Rule that requires approval by risk and category.
#[derive(Clone, Debug)]
pub struct ApprovalRule {
    risk: Option<RiskLevel>,
    category: Option<Category>,
    modes: Vec<Mode>,
    /// Location in the policy file.
    pub rule: RuleRef,
}

impl ApprovalRule {
    pub(crate) fn applies(&self, subject: &ApprovalSubject<'_>, mode: Mode) -> bool {
        self.modes.contains(&mode)
            && self.risk.is_none_or(|risk| risk == subject.risk)
            && self.category.as_ref().is_none_or(|category| category == subject.category)
    }
}

impl std::fmt::Display for ApprovalRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let risk = self.risk.map(|risk| format!("risk {risk}"));
        let category = self.category.as_ref().map(|category| format!("category {category}"));
        let what: Vec<String> = risk.into_iter().chain(category).collect();
        let modes: Vec<&str> = self.modes.iter().map(|mode| mode.as_str()).collect();
        write!(f, "{} in {}", what.join(" and "), modes.join(", "))
    }
}

pub(crate) fn check(
    file: &SafetyFile,
    document: &Document,
    known: &[Category],
    inspection: &mut FileInspection<'_>,
) -> SafetyRules {
    let (mut calls_per_minute, mut outbound_per_hour) = (PerMode::default(), PerMode::default());
    for (key, entry) in file.rate_limits.iter() {
        let Some(mode) = inspection.parse_mode(key) else { continue };
        let limit = |number: &Option<Located<u32>>, key: &str| {
            let number = number.as_ref()?;
            Some((number.value, inspection.rule_ref(number, format!("rate_limits.{mode}.{key}"))))
        };
        *calls_per_minute.get_mut(mode) = limit(&entry.tool_calls_per_minute, "tool_calls_per_minute");
        *outbound_per_hour.get_mut(mode) = limit(&entry.outbound_calls_per_hour, "outbound_calls_per_hour");
    }
    check_secret_patterns(file, inspection);
    require_sections(document, inspection);
    let timeout = tool_rules::check_timeout(
        &file.human_approval.timeout_seconds,
        "human_approval.timeout_seconds",
        inspection,
    );
    SafetyRules {
        calls_per_minute,
        outbound_per_hour,
        gateway: Arc::new(GatewayRules::compile(&file.outbound_gateway, inspection)),
        approvals: check_approvals(file, known, inspection),
        approval_timeout: timeout.unwrap_or(DEFAULT_APPROVAL_TIMEOUT),
    }
}

fn check_approvals(
    file: &SafetyFile,
    known: &[Category],
    inspection: &mut FileInspection<'_>,
) -> Vec<ApprovalRule> {
    let mut rules = Vec::new();
    for entry in &file.human_approval.rules {
        if entry.risk_level.is_none() && entry.category.is_none() {
            let suggestion = Some("state `risk_level`, `category` or both".to_owned());
            inspection.error(entry, "an approval rule names neither a risk nor a category", suggestion);
        }
        let rule = inspection.rule_ref(entry, "human_approval.rules");
        let modes = inspection.parse_modes(&entry.modes, "human_approval.rules.modes");
        let category =
            entry.category.as_ref().and_then(|word| mode_rules::find_category(word, known, inspection));
        let modes = modes.into_iter().map(|(mode, _)| mode).collect();
        rules.push(ApprovalRule { risk: entry.risk_level, category, modes, rule });
    }
    rules
}

/// Reports missing sections. A safeguard cannot be disabled by omitting its section; the file has to state
/// that it is off.
fn require_sections(document: &Document, inspection: &mut FileInspection<'_>) {
    // A file that is not a mapping was refused before.
    let Ok(sections) = document.parse::<LocatedMap<IgnoredAny>>() else { return };
    for (section, how) in REQUIRED_SECTIONS {
        if !sections.iter().any(|(key, _)| key.as_str() == section) {
            let start = Located { value: (), line: 1, column: 1 };
            let suggestion = format!("copy it from the shipped file (`sinew init` writes it); {how}");
            inspection.error(&start, &format!("the section `{section}` is missing"), Some(suggestion));
        }
    }
}

/// Checks the secret patterns, which only the redactor uses.
fn check_secret_patterns(file: &SafetyFile, inspection: &mut FileInspection<'_>) {
    for secret in &file.content_filtering.secret_patterns {
        let compiled = RegexBuilder::new(&secret.pattern).size_limit(MAX_PATTERN_BYTES).build();
        if let Err(error) = compiled {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let message = format!("the pattern of `{}` cannot be used: {last}", secret.name);
            inspection.error(&secret.pattern, &message, None);
        }
    }
}
