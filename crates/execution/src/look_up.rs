//! Look-up of the tool that a call names, and suggestions for unknown names.

use std::sync::Arc;

use registry::Tool;
use serde_json::Value;
use tool::{LONGEST_WORD, Refusal, RefusalCode, shorten};

use crate::World;
use crate::call::{Call, CuratedMap};

/// Finds the tool by its exact name. The refusal of an unknown name suggests the nearest one.
pub(crate) fn look_up<'c>(call: &'c Call, arguments: &Value) -> Result<&'c Arc<Tool>, Box<Refusal>> {
    let world = &call.world;
    world.registry.get(&call.tool_name).ok_or_else(|| {
        if let Some(name) = guardrail::without_markup(&call.tool_name) {
            return glued(world, name);
        }
        let asked = call.curated_map == CuratedMap::Asked;
        let opinion = || world.guarded(|guard| guard.check_unknown(&call.tool_name, arguments));
        asked.then(opinion).flatten().unwrap_or_else(|| Box::new(not_found(world, &call.tool_name)))
    })
}

fn not_found(world: &World, name: &str) -> Refusal {
    let shown = shorten(name, LONGEST_WORD);
    let reason = format!("Tool {} not found", shown.escape_debug());
    let refusal = Refusal::new(&shown, RefusalCode::UnknownTool, reason);
    if let Some(instead) = world.curated.deprecation(name) {
        let example = world.guarded(|guard| guard.example_of_unknown(name));
        let hint = format!("`{shown}` is deprecated and no longer available: {instead}");
        return Refusal { example, ..refusal.detail("deprecated_tool").hint(hint) };
    }
    let bare = guardrail::without_host(name).and_then(|bare| world.registry.get(bare));
    match bare.map(|tool| tool.definition().name().as_str()).or_else(|| world.registry.nearest(&shown)) {
        Some(near) => refusal.hint(format!("did you mean `{near}`?")),
        None => refusal.hint("run `sinew tools list` to see the available tools"),
    }
}

/// Refusal of a name with markup or arguments attached. The attached text is not repeated, because it may
/// contain a secret.
fn glued(world: &World, name: &str) -> Box<Refusal> {
    let shown = shorten(name, LONGEST_WORD);
    let known = world.registry.get(name).map(|tool| tool.definition().name().to_string());
    let meant = known.clone().or_else(|| world.registry.nearest(&shown).map(str::to_owned));
    let meant = meant.unwrap_or_else(|| shown.to_string());
    let reason =
        format!("⚠️ Invalid tool name: markup or arguments are attached to `{shown}`. Call `{meant}`");
    let refusal = Refusal::new(&format!("{shown}…"), RefusalCode::UnknownTool, reason);
    let hint = format!("send `{meant}` alone as the name and everything else in `arguments`");
    let example = known.and_then(|name| {
        let tool = world.registry.get(&name)?;
        world.guarded(|guard| guard.example(crate::world::known(tool)))
    });
    Box::new(Refusal { example, ..refusal.detail("malformed_name").hint(hint) })
}
