//! Tools by name, alias and major version.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use guardrail::{InputSchema, SchemaError};
use serde_json::Value;
use tool::refusal::ArgumentProblem;
use tool::text::nearest_word;
use tool::{Category, Mode, ToolDefinition, ToolName};

use crate::ToolExecutor;

/// A registered tool.
pub struct Tool {
    definition: Arc<ToolDefinition>,
    schema: InputSchema,
    /// Compiled on first use, because only debug builds use it.
    output_schema: OnceLock<Result<InputSchema, SchemaError>>,
    executor: Arc<dyn ToolExecutor>,
}

impl Tool {
    /// Creates a tool. `more` can add requirements and guidance to its schema. Fails if the tool would refuse
    /// its own example, because refusals promise that the example is accepted.
    pub fn new(
        definition: ToolDefinition,
        executor: Arc<dyn ToolExecutor>,
        more: impl FnOnce(InputSchema) -> InputSchema,
    ) -> Result<Self, RegistryError> {
        let definition = Arc::new(definition);
        let schema = InputSchema::compile(definition.input_schema())
            .map_err(|cause| RegistryError::Schema { name: definition.name().clone(), cause })?;
        let schema = more(schema);
        check_example(&definition, &schema)?;
        Ok(Tool { definition, schema, output_schema: OnceLock::new(), executor })
    }

    /// Returns the definition.
    pub fn definition(&self) -> &Arc<ToolDefinition> {
        &self.definition
    }

    /// Returns the compiled input schema.
    pub fn schema(&self) -> &InputSchema {
        &self.schema
    }

    /// Returns the first violation of the tool's output schema in one of its outputs.
    pub fn output_violation(&self, output: &Value) -> Option<String> {
        let schema = self.definition.output_schema()?;
        match self.output_schema.get_or_init(|| InputSchema::compile(schema)) {
            Ok(schema) => schema.first_error(output),
            Err(error) => Some(format!("the output schema cannot be compiled: {error}")),
        }
    }

    /// Returns the executor.
    pub fn executor(&self) -> &Arc<dyn ToolExecutor> {
        &self.executor
    }
}

/// All tools of one configuration snapshot.
#[derive(Clone, Default)]
pub struct ToolRegistry {
    /// Highest major version of each tool.
    tools: BTreeMap<ToolName, Arc<Tool>>,
    /// Lower major versions, which only `name@major` addresses.
    lower_versions: BTreeMap<(ToolName, u64), Arc<Tool>>,
    /// Every alias and other spelling, with the name of its tool.
    aliases: HashMap<ToolName, ToolName>,
}

impl ToolRegistry {
    /// Creates an empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a tool without additional guidance, and adds it.
    pub fn register(
        &mut self,
        definition: ToolDefinition,
        executor: Arc<dyn ToolExecutor>,
    ) -> Result<(), RegistryError> {
        self.add(Tool::new(definition, executor, |schema| schema)?)
    }

    /// Adds a tool. Major versions of one tool share its names. Fails if another tool has one of its names or
    /// aliases, or if its version exists, and leaves the registry unchanged.
    pub fn add(&mut self, tool: Tool) -> Result<(), RegistryError> {
        let (definition, name) = (&tool.definition, tool.definition.name().clone());
        let is_known =
            self.versions(name.as_str()).any(|known| known.definition.major() == definition.major());
        for taken in definition.callable_names() {
            if let Some(holder) = self.holder(&taken).filter(|holder| is_known || **holder != name) {
                return Err(RegistryError::NameTaken { holder: holder.clone(), name: taken });
            }
        }
        let others = definition.callable_names().filter(|spelling| *spelling != name);
        self.aliases.extend(others.map(|alias| (alias, name.clone())));
        let highest = self.tools.get(&name).map(|known| known.definition.major());
        let lower = match highest.is_some_and(|highest| highest > definition.major()) {
            true => Some(Arc::new(tool)),
            false => self.tools.insert(name.clone(), Arc::new(tool)),
        };
        self.lower_versions.extend(lower.map(|tool| ((name, tool.definition.major()), tool)));
        Ok(())
    }

    /// Returns the versions of the tool with this name or alias, the highest first.
    pub fn versions(&self, name: &str) -> impl Iterator<Item = &Arc<Tool>> {
        let name = ToolName::new(name).ok().and_then(|name| self.holder(&name).cloned());
        let highest = name.as_ref().and_then(|name| self.tools.get(name));
        let lower = name.into_iter().flat_map(|name| {
            self.lower_versions.range((name.clone(), 0)..=(name, u64::MAX)).rev().map(|(_, tool)| tool)
        });
        highest.into_iter().chain(lower)
    }

    /// Returns the registered tool of a definition.
    pub fn tool_of(&self, definition: &ToolDefinition) -> Option<&Arc<Tool>> {
        let mut versions = self.versions(definition.name().as_str());
        versions.find(|tool| tool.definition.major() == definition.major())
    }

    fn holder(&self, name: &ToolName) -> Option<&ToolName> {
        self.tools.get_key_value(name).map(|(name, _)| name).or_else(|| self.aliases.get(name))
    }

    /// Finds a tool by its name, an alias, or `name@major`, ignoring case. A name without version means the
    /// highest one. Never matches a part of a name.
    pub fn get(&self, wanted: &str) -> Option<&Arc<Tool>> {
        // Common case: the caller uses the exact name, so no `ToolName` is allocated.
        if let Some(tool) = self.tools.get(wanted) {
            return Some(tool);
        }
        let name = wanted.split_once('@').map_or(wanted, |(name, _)| name);
        self.versions(name).find(|tool| tool.definition.matches_name(wanted))
    }

    /// Keeps only the tools for which `keep` returns true, with their aliases.
    pub fn retain(&mut self, keep: impl Fn(&ToolDefinition) -> bool) {
        self.tools.retain(|_, tool| keep(&tool.definition));
        self.lower_versions.retain(|(name, _), tool| self.tools.contains_key(name) && keep(&tool.definition));
        self.aliases.retain(|_, name| self.tools.contains_key(name));
    }

    /// Returns the registered name that is most similar to a misspelled one.
    pub fn nearest(&self, wanted: &str) -> Option<&str> {
        nearest_word(wanted, self.tools.keys().map(ToolName::as_str))
    }

    /// Returns every version of every tool.
    pub fn all_versions(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.values().chain(self.lower_versions.values())
    }

    /// Returns the definitions of the highest versions, sorted by name.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<ToolDefinition>> {
        self.tools.values().map(|tool| &tool.definition)
    }

    /// Returns the definitions that are allowed in this mode, sorted by name.
    pub fn list(&self, mode: Mode) -> impl Iterator<Item = &Arc<ToolDefinition>> {
        self.definitions().filter(move |definition| definition.allowed_modes().contains(&mode))
    }

    /// Returns the definitions of one category, sorted by name.
    pub fn filter(&self, category: &Category) -> impl Iterator<Item = &Arc<ToolDefinition>> {
        self.definitions().filter(move |definition| definition.category() == category)
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Returns true if the registry has no tools.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

fn check_example(definition: &Arc<ToolDefinition>, schema: &InputSchema) -> Result<(), RegistryError> {
    let Some(example) = definition.example() else { return Ok(()) };
    match guardrail::check_schema(definition, schema, example.clone()) {
        Ok(_) => Ok(()),
        Err(refusal) => {
            let name = definition.name().clone();
            Err(RegistryError::Example { name, problems: refusal.problems })
        }
    }
}

/// Reason why a tool was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Another tool has the name.
    #[error("tool name `{name}` is already registered (by `{holder}`)")]
    NameTaken {
        /// Name that is taken.
        name: ToolName,
        /// Tool that has the name.
        holder: ToolName,
    },
    /// The input schema cannot be compiled.
    #[error("tool `{name}`: {cause}")]
    Schema {
        /// The tool.
        name: ToolName,
        /// Error of the schema.
        cause: SchemaError,
    },
    /// The tool would refuse its own example.
    #[error("tool `{name}`: its example does not fit its input schema: {}", messages(.problems))]
    Example {
        /// The tool.
        name: ToolName,
        /// Errors of the example.
        problems: Vec<ArgumentProblem>,
    },
}

fn messages(problems: &[ArgumentProblem]) -> String {
    problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{RiskLevel, ToolSpec};

    use super::*;
    use crate::{ExecutorFuture, RecordedPermit};

    struct IdleTool;

    impl ToolExecutor for IdleTool {
        fn run(&self, _: Arc<RecordedPermit>) -> ExecutorFuture {
            Box::pin(async { Ok(tool::ToolOutput::default()) })
        }
    }

    fn spec(name: &str) -> ToolSpec {
        ToolSpec::new(name, "Does nothing", Category::READ_ONLY, RiskLevel::Low)
    }

    fn registry(specs: impl IntoIterator<Item = ToolSpec>) -> ToolRegistry {
        let mut registry = ToolRegistry::new();
        for spec in specs {
            registry.register(spec.check().unwrap(), Arc::new(IdleTool)).unwrap();
        }
        registry
    }

    #[test]
    fn a_taken_name_is_an_error_and_the_first_stays() {
        let mut first = spec("read_file");
        (first.description, first.aliases) = ("the first".into(), vec!["cat".into()]);
        let mut registry = registry([first]);
        for taken in ["read_file", "READ_FILE", "cat"] {
            let error = registry.register(spec(taken).check().unwrap(), Arc::new(IdleTool)).unwrap_err();
            assert!(
                matches!(&error, RegistryError::NameTaken { holder, .. } if holder.as_str() == "read_file"),
                "{error}"
            );
        }
        let mut shadow = spec("other");
        shadow.aliases = vec!["Read_File".into()];
        assert!(registry.register(shadow.check().unwrap(), Arc::new(IdleTool)).is_err());
        assert_eq!(registry.len(), 1);
        assert_eq!(registry.get("read_file").unwrap().definition().description(), "the first");
    }

    #[test]
    fn tools_are_found_by_name_alias_and_major_version() {
        let mut tool = spec("git.status");
        (tool.aliases, tool.version) = (vec!["gs".into()], "2.1.0".into());
        let registry = registry([tool, spec("write")]);
        for found in ["git.status", "GIT.Status", "gs", "git.status@2", "gs@2", "git__status"] {
            assert!(registry.get(found).is_some(), "{found}");
        }
        for absent in [
            "git.status@1",
            "git.status@",
            "git.status@x",
            "git.status@+2",
            "status",
            "overwrite",
            "",
            "git status",
        ] {
            assert!(registry.get(absent).is_none(), "{absent}");
        }
        assert_eq!(registry.nearest("git_statsu"), Some("git.status"));
    }

    #[test]
    fn two_majors_of_one_tool_are_addressed_side_by_side() {
        let version = |version: &str, alias: &str| {
            let mut spec = spec("git.status");
            (spec.version, spec.aliases) = (version.into(), vec![alias.into()]);
            spec
        };
        for order in [["1.4.0", "2.1.0"], ["2.1.0", "1.4.0"]] {
            let mut registry = registry(order.map(|number| version(number, "gs")));
            let found = |name: &str| registry.get(name).map(|tool| tool.definition().version().to_owned());
            for (name, expect) in [
                ("git.status", Some("2.1.0")),
                ("gs", Some("2.1.0")),
                ("GIT.status@1", Some("1.4.0")),
                ("gs@1", Some("1.4.0")),
                ("git__status@2", Some("2.1.0")),
                ("git.status@3", None),
            ] {
                assert_eq!(found(name).as_deref(), expect, "{name}");
            }
            assert_eq!((registry.definitions().count(), registry.all_versions().count()), (1, 2));
            let again = version("1.9.0", "other").check().unwrap();
            assert!(registry.register(again, Arc::new(IdleTool)).is_err(), "one tool for each major");
            let shadow = ToolSpec { aliases: vec!["gs".into()], ..spec("other") };
            assert!(registry.register(shadow.check().unwrap(), Arc::new(IdleTool)).is_err());
            registry.retain(|definition| definition.major() == 2);
            assert_eq!(registry.all_versions().count(), 1);
        }
    }

    #[test]
    fn a_schema_that_cannot_be_compiled_is_refused() {
        let mut bad = spec("bad");
        bad.input_schema = Some(json!({"type": "object", "properties": {"a": {"type": "nonsense"}}}));
        let error = ToolRegistry::new().register(bad.check().unwrap(), Arc::new(IdleTool)).unwrap_err();
        assert!(matches!(error, RegistryError::Schema { .. }), "{error}");
    }

    #[test]
    fn tool_with_a_refused_example_is_not_registered() {
        let register = |example: serde_json::Value| {
            let mut tool = spec("t");
            tool.input_schema = Some(json!({"type": "object", "required": ["a", "b"], "properties": {
                "a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "integer", "default": 1}}}));
            tool.example = Some(example);
            let mut registry = ToolRegistry::new();
            let registered = registry.register(tool.check().unwrap(), Arc::new(IdleTool));
            (registered.map_err(|error| error.to_string()), registry.len())
        };
        assert_eq!(register(json!({"a": 1, "b": "x"})), (Ok(()), 1));
        let error = "tool `t`: its example does not fit its input schema: `b` is required; \
            /a must be integer, not string";
        assert_eq!(register(json!({"a": "1"})), (Err(error.to_owned()), 0));
        let error = register(json!([])).0.unwrap_err();
        assert!(error.contains("must be an object, not array"), "{error}");
    }

    #[test]
    fn outputs_are_compared_with_the_output_schema() {
        let tool = |schema: Option<Value>| {
            let definition = ToolSpec { output_schema: schema, ..spec("t") }.check().unwrap();
            Tool::new(definition, Arc::new(IdleTool), |schema| schema).unwrap()
        };
        let violation = |schema: Option<Value>, output: Value| tool(schema).output_violation(&output);
        let schema = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}});
        assert_eq!(violation(Some(schema.clone()), json!({"a": 1})), None);
        assert!(violation(Some(schema.clone()), json!({})).unwrap().contains("required"));
        assert!(violation(Some(schema), json!({"a": "1"})).unwrap().contains("at /a"));
        assert_eq!(violation(None, json!(5)), None);
        assert!(
            violation(Some(json!({"type": "nonsense"})), json!({})).unwrap().contains("cannot be compiled")
        );
    }

    #[test]
    fn definitions_are_listed_by_mode_and_category_in_order() {
        let mut quiet = spec("b_lockdown_only");
        quiet.allowed_modes = vec![Mode::Lockdown];
        let mut writer = spec("a_writer");
        (writer.category, writer.allowed_modes) = (Category::SYSTEM_WRITE, vec![Mode::Normal]);
        let registry = registry([quiet, writer, spec("c_any")]);
        let names =
            |list: Vec<&Arc<ToolDefinition>>| list.iter().map(|d| d.name().to_string()).collect::<Vec<_>>();
        assert_eq!(names(registry.list(Mode::Normal).collect()), ["a_writer", "c_any"]);
        assert_eq!(names(registry.list(Mode::Lockdown).collect()), ["b_lockdown_only", "c_any"]);
        assert_eq!(names(registry.filter(&Category::SYSTEM_WRITE).collect()), ["a_writer"]);
    }

    #[test]
    fn ten_thousand_tools_are_listed_in_order() {
        let registry = registry((0..10_000).rev().map(|n| spec(&format!("tool_{n:05}"))));
        assert_eq!(registry.len(), 10_000);
        let names: Vec<_> = registry.definitions().map(|d| d.name().to_string()).collect();
        assert!(names.is_sorted());
        assert!(registry.get("tool_09999").is_some() && registry.get("tool_10000").is_none());
    }
}
