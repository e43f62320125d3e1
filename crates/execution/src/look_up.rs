//! Look-up of the tool that a call names, and suggestions for unknown names.

use std::sync::Arc;

use registry::Tool;
use serde_json::Value;
use tool::text::{MAX_QUOTED_CHARS, shorten};
use tool::{Refusal, RefusalCode};

use crate::ConfigSnapshot;
use crate::call::{CuratedMapCheck, PipelineCall};

/// Finds the tool by its exact name. The refusal of an unknown name suggests the nearest one.
pub(crate) fn look_up<'c>(call: &'c PipelineCall, arguments: &Value) -> Result<&'c Arc<Tool>, Box<Refusal>> {
    let snapshot = &call.snapshot;
    snapshot.registry.get(&call.tool_name).ok_or_else(|| {
        if let Some(name) = guardrail::strip_markup(&call.tool_name) {
            return malformed_name(snapshot, name);
        }
        let applies = call.curated_map == CuratedMapCheck::Applied;
        let curated_refusal = || snapshot.with_guard(|guard| guard.check_unknown(&call.tool_name, arguments));
        applies
            .then(curated_refusal)
            .flatten()
            .unwrap_or_else(|| Box::new(not_found(snapshot, &call.tool_name)))
    })
}

fn not_found(snapshot: &ConfigSnapshot, name: &str) -> Refusal {
    let shown = shorten(name, MAX_QUOTED_CHARS);
    let reason = format!("Tool {} not found", shown.escape_debug());
    let refusal = Refusal::new(&shown, RefusalCode::UnknownTool, reason);
    let bare = name.split_once('@').map(|(bare, _)| bare);
    let versions: Vec<&Arc<Tool>> =
        bare.into_iter().flat_map(|bare| snapshot.registry.versions(bare)).collect();
    if let Some(highest) = versions.first() {
        let known = highest.definition().name();
        let numbers: Vec<&str> = versions.iter().map(|tool| tool.definition().version()).collect();
        let plural = if numbers.len() == 1 { "" } else { "s" };
        let hint = format!(
            "`{known}` has only version{plural} {} here: `{known}` without `@` is {}",
            numbers.join(" and "),
            highest.definition().version()
        );
        return refusal.with_detail("other_version").with_hint(hint);
    }
    let curated = &snapshot.curated;
    let deprecation = curated.deprecation(name).map(|instead| ("deprecated_tool", instead.to_owned()));
    let replacement = || Some(("replaced_tool", format!("use {}", curated.replacement(name)?)));
    if let Some((detail, instead)) = deprecation.or_else(replacement) {
        // The caller is about to send the replacement, so its example is of use, not that of the old name.
        let replacement = instead.split_whitespace().last().and_then(|name| snapshot.registry.get(name));
        let example = snapshot.with_guard(|guard| match replacement {
            Some(tool) => guard.example_for(crate::config_snapshot::known_tool(tool)),
            None => guard.example_for_unknown(name).filter(Value::is_object),
        });
        let hint = format!("`{shown}` is not available here: {instead}");
        return Refusal { example, ..refusal.with_detail(detail).with_hint(hint) };
    }
    let bare = guardrail::strip_host_prefix(name).and_then(|bare| snapshot.registry.get(bare));
    match bare.map(|tool| tool.definition().name().as_str()).or_else(|| snapshot.registry.nearest(&shown)) {
        Some(near) => refusal.with_hint(format!("did you mean `{near}`?")),
        None => refusal.with_hint("run `sinew tools list` to see the available tools"),
    }
}

/// Refusal of a name with markup or arguments attached. The attached text is not repeated, because it may
/// contain a secret.
fn malformed_name(snapshot: &ConfigSnapshot, name: &str) -> Box<Refusal> {
    let shown = shorten(name, MAX_QUOTED_CHARS);
    let known = snapshot.registry.get(name).map(|tool| tool.definition().name().to_string());
    let intended = known.clone().or_else(|| snapshot.registry.nearest(&shown).map(str::to_owned));
    let intended = intended.unwrap_or_else(|| shown.to_string());
    let reason =
        format!("⚠️ Invalid tool name: markup or arguments are attached to `{shown}`. Call `{intended}`");
    let refusal = Refusal::new(&format!("{shown}…"), RefusalCode::UnknownTool, reason);
    let hint = format!("send `{intended}` alone as the name and everything else in `arguments`");
    let example = known.and_then(|name| {
        let tool = snapshot.registry.get(&name)?;
        snapshot.with_guard(|guard| guard.example_for(crate::config_snapshot::known_tool(tool)))
    });
    Box::new(Refusal { example, ..refusal.with_detail("malformed_name").with_hint(hint) })
}
