//! Calls of one tool: arguments with the paths, commands and hosts of a question, and everything else as in the
//! example of the tool.

use std::path::Path;
use std::sync::Arc;

use governance::dry_run::{DryRunResult, ProgramAccess, dry_run, dry_run_verdict};
use governance::files::VerdictKind;
use governance::{Policy, RateCounts, Situation, Workspaces};
use guardrail::{InputSchema, ValidCall};
use serde_json::{Value, json};
use tool::definition::ExternalTargetKind;
use tool::{Arguments, Mode, ToolDefinition};

use super::Incomplete;

/// Calls of one tool.
pub(super) struct ToolCalls {
    pub(super) definition: Arc<ToolDefinition>,
    schema: InputSchema,
    /// Arguments that the policy does not judge.
    fixed: Arguments,
}

impl ToolCalls {
    pub(super) fn new(definition: &Arc<ToolDefinition>) -> Result<Self, Incomplete> {
        let schema = InputSchema::compile(definition.input_schema())
            .map_err(|error| Incomplete(format!("its schema cannot be compiled: {error}")))?;
        let judged = |key: &str| {
            definition.path_arguments().iter().any(|argument| argument.key == key)
                || definition.external_target_arguments().iter().any(|argument| argument.key == key)
        };
        let example = definition.example().and_then(Value::as_object);
        // The curated map may require more than the schema, and the example has it.
        let stated = example.into_iter().flatten().filter(|(key, _)| !judged(key));
        let mut fixed: Arguments = stated.map(|(key, value)| (key.clone(), value.clone())).collect();
        for key in required_keys(definition).filter(|key| !judged(key)) {
            let property = definition.input_schema().get("properties").and_then(|all| all.get(key));
            fixed.entry(key).or_insert_with(|| plain_value(property));
        }
        Ok(ToolCalls { definition: Arc::clone(definition), schema, fixed })
    }

    /// Returns true if every call has the argument.
    pub(super) fn requires(&self, key: &str) -> bool {
        required_keys(&self.definition).any(|required| required == key)
    }

    /// Returns the arguments that the policy does not judge.
    pub(super) fn fixed(&self) -> Arguments {
        self.fixed.clone()
    }

    /// Sets a path argument.
    pub(super) fn set_path(&self, arguments: &mut Arguments, key: &str, path: &str) {
        let many = self.definition.path_arguments().iter().any(|one| one.key == key && one.many);
        arguments.insert(key.to_owned(), if many { json!([path]) } else { json!(path) });
    }

    /// Sets a command argument. `None` if its form cannot hold the words.
    pub(super) fn set_command(&self, arguments: &mut Arguments, key: &str, words: &[String]) -> Option<()> {
        let mut targets = self.definition.external_target_arguments().iter();
        let target = targets.find(|one| one.key == key && one.kind == ExternalTargetKind::Command)?;
        let words = words.strip_prefix(target.prefix.as_slice())?;
        let value = match self.holds_items(key) {
            true => json!(words),
            false if target.prefix.is_empty() && !words.iter().any(|word| word.contains(' ')) => {
                json!(words.join(" "))
            }
            false => return None,
        };
        arguments.insert(key.to_owned(), value);
        Some(())
    }

    /// Sets a network address.
    pub(super) fn set_host(&self, arguments: &mut Arguments, key: &str, host: &str) {
        let url = format!("https://{host}/");
        arguments.insert(key.to_owned(), if self.holds_items(key) { json!([url]) } else { json!(url) });
    }

    fn holds_items(&self, key: &str) -> bool {
        let schema = self.definition.input_schema().get("properties").and_then(|all| all.get(key));
        schema.is_some_and(|schema| schema.get("items").is_some())
    }

    /// Checks a call. Fails if the arguments are not valid.
    pub(super) fn check(&self, arguments: Arguments) -> Result<ValidCall, Incomplete> {
        guardrail::check(&self.definition, &self.schema, Value::Object(arguments))
            .map_err(|refusal| Incomplete(format!("no valid call could be written: {}", refusal.reason)))
    }
}

/// Keys that every call has.
fn required_keys(definition: &ToolDefinition) -> impl Iterator<Item = &str> {
    let required = definition.input_schema().get("required").and_then(Value::as_array);
    required.into_iter().flatten().filter_map(Value::as_str)
}

/// Returns a value of the stated type.
fn plain_value(schema: Option<&Value>) -> Value {
    let keyword = |name: &str| schema.and_then(|schema| schema.get(name));
    if let Some(first) = keyword("enum").and_then(|list| list.get(0)).or(keyword("default")) {
        return first.clone();
    }
    let length = keyword("minLength").and_then(Value::as_u64).and_then(|least| usize::try_from(least).ok());
    match keyword("type").and_then(Value::as_str) {
        Some("integer" | "number") => keyword("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("boolean") => json!(false),
        Some("array") => match keyword("items") {
            Some(items) if keyword("minItems").is_some() => json!([plain_value(Some(items))]),
            _ => json!([]),
        },
        Some("object") => json!({}),
        _ => json!("x".repeat(length.unwrap_or(1).max(1))),
    }
}

/// Judges a call of a caller that works in `base`.
pub(super) fn judge(
    policy: &Policy,
    workspaces: &Workspaces,
    base: &Path,
    mode: Mode,
    call: &ValidCall,
) -> DryRunResult {
    let workspaces = workspaces.with_base(Some(base));
    dry_run(policy, &situation(&workspaces, mode), call)
}

/// Returns the verdict of `judge` alone.
pub(super) fn verdict(
    policy: &Policy,
    workspaces: &Workspaces,
    base: &Path,
    mode: Mode,
    call: &ValidCall,
) -> VerdictKind {
    let workspaces = workspaces.with_base(Some(base));
    dry_run_verdict(policy, &situation(&workspaces, mode), call)
}

/// Returns the access of the program of a permitted call.
pub(super) fn program_access(
    policy: &Policy,
    workspaces: &Workspaces,
    mode: Mode,
    call: &ValidCall,
) -> Option<ProgramAccess> {
    ProgramAccess::of_call(policy, &situation(workspaces, mode), call)
}

fn situation(workspaces: &Workspaces, mode: Mode) -> Situation<'_> {
    Situation { mode, workspaces, counts: RateCounts::default() }
}
