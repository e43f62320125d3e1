//! Manifests into a registry, each command a tool.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use guardrail::Validators;
use knowledge::{Kind, Workers};
use manifest::{Command, Manifest};
use registry::{ToolExecutor, ToolRegistry};
use sandbox::Sandbox;
use tool::{ToolDefinition, ToolName};

use crate::cli::Cli;
use crate::local::{Local, Script};
use crate::payload::After;
use crate::pinned::{Pin, origin};
use crate::teaching;
use crate::uncallable::Uncallable;

/// What runs the tools of manifests.
#[derive(Clone, Debug)]
pub struct Connectors {
    sandbox: Sandbox,
    workers: Workers,
}

/// A tool that was not registered, and why.
#[derive(Debug)]
pub struct Skipped {
    /// The tool.
    pub name: String,
    /// Why.
    pub why: String,
}

/// A body, and the digest of what stands behind it.
type Body = (Arc<dyn ToolExecutor>, String);

impl Connectors {
    /// Programs run in this sandbox, functions in these workers.
    pub fn new(sandbox: &Sandbox, workers: &Workers) -> Self {
        Connectors { sandbox: sandbox.clone(), workers: workers.clone() }
    }

    /// Registers every command of every manifest as `id.command`, and as `command` where nothing else has that name.
    pub fn register(&self, manifests: &[Manifest], registry: &mut ToolRegistry) -> Vec<Skipped> {
        let mut wanted: HashMap<&str, usize> = HashMap::new();
        for (command, _) in manifests.iter().flat_map(Manifest::tools) {
            *wanted.entry(command.name.as_str()).or_default() += 1;
        }
        let mut skipped = Vec::new();
        for manifest in manifests {
            let shared = self.shared(manifest);
            for (command, definition) in manifest.tools() {
                let is_unique = wanted.get(command.name.as_str()) == Some(&1);
                let alias = is_unique.then(|| command.name.clone());
                let alias =
                    alias.filter(|alias| ToolName::new(alias).is_ok() && registry.get(alias).is_none());
                if let Err(why) = self.one(manifest, command, alias, shared.as_ref(), registry) {
                    skipped.push(Skipped { name: definition.name().to_string(), why });
                }
            }
        }
        skipped
    }

    /// What all commands of a manifest run, read once.
    fn shared(&self, manifest: &Manifest) -> Result<Behind, String> {
        if let Some(section) = manifest.cli() {
            return Ok(Behind::Program(Pin::of(section.executable.as_ref())));
        }
        match manifest.local() {
            Some(section) => {
                let folder = manifest.path().parent().unwrap_or(Path::new("/"));
                let script = Script::read(section, folder)?;
                let pin = script.pin();
                Ok(Behind::Script(Arc::new(script), pin))
            }
            None => Ok(Behind::Nothing),
        }
    }

    fn one(
        &self,
        manifest: &Manifest,
        command: &Command,
        alias: Option<String>,
        behind: Result<&Behind, &String>,
        registry: &mut ToolRegistry,
    ) -> Result<(), String> {
        let (executor, origin) = self.body(manifest, command, behind.map_err(Clone::clone)?);
        let mut spec = manifest.spec(command);
        spec.aliases.extend(alias);
        spec.origin = Some(origin);
        let definition: ToolDefinition = spec.check().map_err(|error| error.to_string())?;
        let lore = Arc::new(teaching::lore(manifest, command));
        let rules = teaching::rules(manifest, command);
        let workers = self.workers.clone();
        let registered = registry.register_with(definition, executor, |schema| {
            let schema = schema.taught_by(Arc::clone(&lore));
            match rules.is_empty() {
                true => schema,
                false => schema.validated_by(Arc::new(Validators::new(rules, lore, workers))),
            }
        });
        registered.map_err(|error| error.to_string())
    }

    fn body(&self, manifest: &Manifest, command: &Command, behind: &Behind) -> Body {
        let after = self.after(manifest, command);
        let (text, sandbox) = (manifest.text(), &self.sandbox);
        match (behind, manifest.cli()) {
            (Behind::Program(pin), Some(section)) => {
                let cli = Cli::new(sandbox, section, command, after, pin.clone());
                (Arc::new(cli), origin(&[text, pin.as_str()]))
            }
            (Behind::Script(script, pin), _) => {
                let local = Local::new(sandbox, script, command, after, pin.clone());
                (Arc::new(local), origin(&[text, pin.as_str(), &script.pinned]))
            }
            (Behind::Program(_) | Behind::Nothing, _) => (Arc::new(uncallable(manifest)), origin(&[text])),
        }
    }

    fn after(&self, manifest: &Manifest, command: &Command) -> After {
        let processor = command.process_output.as_ref().and_then(|id| {
            let found = manifest.processors().find(|processor| processor.id == *id)?;
            Some(teaching::function(Kind::Processor, &found, &teaching::helpers(manifest)))
        });
        After { api: Arc::new(manifest.api().clone()), processor, workers: self.workers.clone() }
    }
}

/// What the commands of a manifest run.
enum Behind {
    Program(Pin),
    Script(Arc<Script>, Pin),
    Nothing,
}

fn uncallable(manifest: &Manifest) -> Uncallable {
    let (kind, id) = (manifest.kind().as_str(), manifest.id());
    let has_section = manifest.mcp().is_some() || manifest.meta().is_some();
    if has_section {
        let why = format!("`{id}` is of type `{kind}`, which is listed and cannot be run yet");
        return Uncallable { why, hint: "tools of type `cli` and `local` can".to_owned() };
    }
    let hint = format!("add `{kind}_specific:` to {}", manifest.path().display());
    Uncallable { why: format!("`{id}` does not say how it is run"), hint }
}
