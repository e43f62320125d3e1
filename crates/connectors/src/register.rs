//! Manifests into a registry, each command a tool.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use guardrail::Validators;
use knowledge::{Kind, Workers};
use manifest::{Command, Manifest, McpSection, OutputForm, Transport};
use outbound::Gatekeeper;
use registry::{ToolExecutor, ToolRegistry};
use sandbox::Sandbox;
use tool::{ToolDefinition, ToolName};

use crate::behind_walls::Program;
use crate::cli::Cli;
use crate::local::{Local, Script};
use crate::mcp::{Mcp, Pins, Reach, ServerCommand, Upstream, Upstreams};
use crate::payload::After;
use crate::pinned::{Pin, origin};
use crate::teaching;
use crate::uncallable::Uncallable;

/// What runs the tools of manifests.
#[derive(Clone, Debug)]
pub struct Connectors {
    sandbox: Sandbox,
    workers: Workers,
    gatekeeper: Gatekeeper,
    upstreams: Option<Upstreams>,
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
    /// Programs run in this sandbox, functions in these workers, and what goes out goes through this gatekeeper.
    pub fn new(sandbox: &Sandbox, workers: &Workers, gatekeeper: &Gatekeeper) -> Self {
        let (sandbox, workers) = (sandbox.clone(), workers.clone());
        Connectors { sandbox, workers, gatekeeper: gatekeeper.clone(), upstreams: None }
    }

    /// The same, where it is kept what servers say of their tools. Without, it is held for as long as these tools are.
    pub fn pinning(self, upstreams: Upstreams) -> Self {
        Connectors { upstreams: Some(upstreams), ..self }
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
        if let Some(section) = manifest.mcp() {
            return self.server(manifest, section);
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

    /// The server of a manifest, which is not started before it is needed.
    fn server(&self, manifest: &Manifest, section: &McpSection) -> Result<Behind, String> {
        let (reach, pinned) = match (section.transport, &section.server_command, &section.url) {
            (Transport::Stdio, Some(command), _) => {
                let command = ServerCommand::read(command)?;
                let pin = Pin::of(command.program().as_ref());
                let pinned = format!("{} {}", pin.as_str(), command.pinned());
                let guide =
                    Some(format!("install `{}`, the server of `{}`", command.program(), manifest.id()));
                let sandbox = self.sandbox.clone();
                let program = Program { sandbox, pin, output: OutputForm::Text, guide };
                (Reach::Started(Arc::new(command), program), pinned)
            }
            (Transport::StreamableHttp, _, Some(url)) => (Reach::Address(url.clone()), String::new()),
            _ => return Ok(Behind::Nothing),
        };
        let pins = Pins::of(self.upstreams.as_ref(), &manifest.callable_id());
        let upstream = Upstream::new(&self.sandbox, &self.gatekeeper, section.health_check.clone(), pins);
        Ok(Behind::Server(Arc::new(upstream), reach, pinned))
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
            (Behind::Server(upstream, reach, pinned), _) => {
                (Arc::new(Mcp::new(upstream, reach, command, after)), origin(&[text, pinned]))
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
    Server(Arc<Upstream>, Reach, String),
    Nothing,
}

fn uncallable(manifest: &Manifest) -> Uncallable {
    let (kind, id) = (manifest.kind().as_str(), manifest.id());
    if manifest.meta().is_some() {
        let why = format!("`{id}` is of type `{kind}`, which is listed and cannot be run yet");
        return Uncallable { why, hint: "tools of type `cli`, `local` and `mcp` can".to_owned() };
    }
    let hint = match manifest.mcp().map(|section| section.transport) {
        Some(Transport::Sse | Transport::Websocket) => {
            "its transport is not spoken here: most such servers also speak `streamable_http`, or `stdio`"
                .to_owned()
        }
        Some(Transport::Stdio) => "a server on `stdio` needs `server_command:`".to_owned(),
        Some(Transport::StreamableHttp) => "a server on `streamable_http` needs `url:`".to_owned(),
        None => format!("add `{kind}_specific:` to {}", manifest.path().display()),
    };
    Uncallable { why: format!("`{id}` does not say how it is run"), hint }
}
