//! Registers the commands of manifests as tools.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use guardrail::{InputSchema, Validators};
use knowledge::{Function, Workers};
use manifest::{Command, Manifest, McpSection, OutputForm, Transport};
use outbound::Gatekeeper;
use registry::{Order, Running, Tool, ToolExecutor, ToolRegistry};
use sandbox::Sandbox;
use serde_json::Value;
use tool::{Failure, FailureKind, ToolDefinition, ToolName};

use crate::before::Before;
use crate::behind_walls::Program;
use crate::cli::Cli;
use crate::local::{Local, Script};
use crate::mcp::{
    HealthCall, HostKeys, Mcp, Pins, Reach, ServerCommand, ServerKey, Upstream, Upstreams, sendable,
};
use crate::meta::Meta;
use crate::payload::After;
use crate::pinned::{Pin, Programs, origin};
use crate::road::Road;
use crate::teaching::{self, Shared};

/// Registrar of the tools of manifests.
#[derive(Clone, Debug)]
pub struct Connectors {
    sandbox: Sandbox,
    workers: Workers,
    gatekeeper: Gatekeeper,
    road: Road,
    upstreams: Option<Upstreams>,
    accepted: Arc<HashMap<String, String>>,
    keys: Arc<HostKeys>,
}

/// Tool that was not registered, with the reason.
#[derive(Debug)]
pub struct Skipped {
    /// Tool name.
    pub name: String,
    /// Reason.
    pub why: String,
}

/// Executor with the origin digest of its tool.
type Body = (Arc<dyn ToolExecutor>, String);

impl Connectors {
    /// Creates a registrar. Programs run in this sandbox, functions in these workers, outbound requests go
    /// through this gateway, and inner calls enter this pipeline.
    pub fn new(sandbox: &Sandbox, workers: &Workers, gatekeeper: &Gatekeeper, road: &Road) -> Self {
        let (sandbox, workers) = (sandbox.clone(), workers.clone());
        Connectors {
            sandbox,
            workers,
            gatekeeper: gatekeeper.clone(),
            road: road.clone(),
            upstreams: None,
            accepted: Arc::default(),
            keys: Arc::default(),
        }
    }

    /// Sets the store of MCP tool definitions. Without it, pins last only as long as the registered tools.
    pub fn pinning(self, upstreams: Upstreams) -> Self {
        Connectors { upstreams: Some(upstreams), ..self }
    }

    /// Sets the accepted origin digests by tool name. A tool with another origin cannot be called.
    pub fn accepting(self, accepted: HashMap<String, String>) -> Self {
        Connectors { accepted: Arc::new(accepted), ..self }
    }

    /// Sets the keys for servers on the network. Without it, no key is sent.
    pub fn with_keys(self, keys: HostKeys) -> Self {
        Connectors { keys: Arc::new(keys), ..self }
    }

    /// Registers every command of every manifest as `id.command`, and as `command` if no other tool has that
    /// name.
    pub fn register(&self, manifests: &[Manifest], registry: &mut ToolRegistry) -> Vec<Skipped> {
        let mut wanted: HashMap<&str, usize> = HashMap::new();
        for (command, _) in manifests.iter().flat_map(Manifest::tools) {
            *wanted.entry(command.name.as_str()).or_default() += 1;
        }
        let spelt: HashSet<ToolName> =
            manifests.iter().flat_map(Manifest::tools).flat_map(|(_, tool)| tool.spellings()).collect();
        let known = &*registry;
        let is_free = |name: &str| {
            let is_new = |name: ToolName| !spelt.contains(&name) && known.get(name.as_str()).is_none();
            wanted.get(name) == Some(&1) && ToolName::new(name).is_ok_and(is_new)
        };
        // Reading and checking takes most of the time and runs in parallel; only adding is sequential.
        let programs = Programs::default();
        let made = manifest::spread(manifests, |manifest| self.tools((manifest, &programs), is_free));
        let mut skipped = Vec::new();
        for (name, tool) in made.into_iter().flatten() {
            let added = tool.and_then(|tool| registry.add(tool).map_err(|error| error.to_string()));
            skipped.extend(added.err().map(|why| Skipped { name, why }));
        }
        skipped
    }

    /// Builds the tools of one manifest, with the short name as an alias if it is free.
    fn tools(
        &self,
        (manifest, programs): (&Manifest, &Programs),
        is_free: impl Fn(&str) -> bool,
    ) -> Vec<(String, Result<Tool, String>)> {
        let (behind, shared) = (self.behind(manifest, programs), Shared::of(manifest));
        let one = |command: &Command| {
            let alias = Some(command.name.clone()).filter(|name| is_free(name));
            self.one((manifest, &shared), command, alias, behind.as_ref())
        };
        manifest.tools().map(|(command, tool)| (tool.name().to_string(), one(command))).collect()
    }

    /// Reads the program, script, server or tools that all commands of a manifest share.
    fn behind(&self, manifest: &Manifest, programs: &Programs) -> Result<Behind, String> {
        if let Some(section) = manifest.cli() {
            return Ok(Behind::Program(programs.pin(&section.executable)));
        }
        if let Some(section) = manifest.mcp() {
            return self.server((manifest, section), programs);
        }
        if let Some(section) = manifest.meta() {
            return Ok(Behind::Tools(section.aggregates.clone().into()));
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

    /// Prepares the server of a manifest. It is started on demand.
    fn server(
        &self,
        (manifest, section): (&Manifest, &McpSection),
        programs: &Programs,
    ) -> Result<Behind, String> {
        let (reach, pinned) = match (section.transport, &section.server_command, &section.url) {
            (Transport::Stdio, Some(command), _) => {
                let command = ServerCommand::read(command)?;
                let pin = programs.pin(command.program());
                let pinned = format!("{} {}", pin.as_str(), command.pinned());
                let guide =
                    Some(format!("install `{}`, the server of `{}`", command.program(), manifest.id()));
                let sandbox = self.sandbox.clone();
                let program = Program { sandbox, pin, output: OutputForm::Text, guide };
                (Reach::Started(Arc::new(command), program), pinned)
            }
            (Transport::StreamableHttp, _, Some(url)) => (Reach::Address(url.clone()), String::new()),
            (Transport::Sse, _, Some(url)) => (Reach::Stream(url.clone()), String::new()),
            (Transport::Websocket, _, Some(url)) => (Reach::Socket(url.clone()), String::new()),
            _ => return Ok(Behind::Nothing),
        };
        let pins = Pins::of(self.upstreams.as_ref(), &manifest.callable_id());
        let health = HealthCall::of(manifest, section);
        let key = match (&section.key, &section.url) {
            (Some(wish), Some(url)) => Some(ServerKey::of(wish, url, &self.keys)?),
            _ => None,
        };
        let upstream = Upstream::new(&self.sandbox, &self.gatekeeper, (health, key), pins);
        Ok(Behind::Server(Arc::new(upstream), reach, pinned))
    }

    fn one(
        &self,
        (manifest, shared): (&Manifest, &Shared),
        command: &Command,
        alias: Option<String>,
        behind: Result<&Behind, &String>,
    ) -> Result<Tool, String> {
        let (executor, origin) = self.body((manifest, shared), command, behind.map_err(Clone::clone)?)?;
        let mut spec = manifest.spec(command);
        spec.aliases.extend(alias);
        let (executor, origin) = self.accepted(&spec.name, executor, origin);
        spec.origin = Some(origin);
        let definition: ToolDefinition = spec.check().map_err(|error| error.to_string())?;
        let lore = Arc::new(teaching::lore(manifest, command, shared));
        let rules = teaching::rules(manifest, command, shared);
        let workers = self.workers.clone();
        let tool = Tool::new(definition, executor, |schema| {
            let schema = schema.taught_by(Arc::clone(&lore));
            match rules.is_empty() {
                true => schema,
                false => schema.validated_by(Arc::new(Validators::new(rules, lore, workers))),
            }
        });
        tool.map_err(|error| error.to_string())
    }

    /// Replaces the executor of a tool whose origin differs from the accepted one by one that fails.
    fn accepted(&self, tool: &str, executor: Arc<dyn ToolExecutor>, origin: String) -> Body {
        match self.accepted.get(tool) {
            Some(accepted) if *accepted != origin => {
                let why = format!("the program of `{tool}` is not the accepted one");
                let hint = "it was replaced while no daemon ran; review it, then run `sinew reload --accept`"
                    .to_owned();
                (Arc::new(Uncallable { why, hint }), format!("not {origin}"))
            }
            _ => (executor, origin),
        }
    }

    fn body(
        &self,
        (manifest, shared): (&Manifest, &Shared),
        command: &Command,
        behind: &Behind,
    ) -> Result<Body, String> {
        let after = self.after(shared, command)?;
        let before = self.before(shared, command);
        let (text, sandbox) = (manifest.text(), &self.sandbox);
        Ok(match (behind, manifest.cli()) {
            (Behind::Program(pin), Some(section)) => {
                let cli = Cli::new(sandbox, section, command, (before, after), pin.clone());
                (Arc::new(cli), origin(&[text, pin.as_str()]))
            }
            (Behind::Script(script, pin), _) => {
                let local = Local::new(sandbox, script, command, (before, after), pin.clone());
                (Arc::new(local), origin(&[text, pin.as_str(), &script.pinned]))
            }
            (Behind::Server(upstream, reach, pinned), _) => {
                (Arc::new(Mcp::new(upstream, reach, command, (before, after))), origin(&[text, pinned]))
            }
            (Behind::Tools(aggregates), _) => {
                let orchestration = orchestration(manifest, shared);
                let (road, workers) = (self.road.clone(), self.workers.clone());
                let aggregates = Arc::clone(aggregates);
                (Arc::new(Meta { road, aggregates, orchestration, workers, after }), origin(&[text]))
            }
            (Behind::Program(_) | Behind::Nothing, _) => (Arc::new(uncallable(manifest)), origin(&[text])),
        })
    }

    fn before(&self, shared: &Shared, command: &Command) -> Before {
        let processor = command.process_input.as_deref().and_then(|id| shared.processor(id));
        Before { processor, workers: self.workers.clone() }
    }

    fn after(&self, shared: &Shared, command: &Command) -> Result<After, String> {
        let schema = command.output_schema.clone().map(Value::Object);
        let schema = schema
            .map(|schema| InputSchema::compile(&schema).map_err(|error| format!("its output: {error}")));
        Ok(After {
            api: Arc::clone(&shared.api),
            fields: Arc::clone(&shared.fields),
            processor: command.process_output.as_deref().and_then(|id| shared.processor(id)),
            schema: schema.transpose()?.map(Arc::new),
            workers: self.workers.clone(),
        })
    }
}

/// Returns the orchestration helper of a meta tool. The manifest loader has checked that it exists.
fn orchestration(manifest: &Manifest, shared: &Shared) -> Option<Function> {
    shared.helper(manifest.meta()?.orchestration.as_deref()?.strip_prefix("helpers.")?)
}

/// Finds the commands of manifests that could not be registered on any machine.
pub fn left_out(manifests: &[Manifest]) -> Vec<(&Manifest, Skipped)> {
    let mut registry = ToolRegistry::new();
    let mut found = Vec::new();
    for manifest in manifests {
        for (command, definition) in manifest.tools() {
            let schema = command.output_schema.clone().map(Value::Object);
            let promised = schema.map_or(Ok(()), |schema| InputSchema::compile(&schema).map(drop));
            let promised = promised.map_err(|error| format!("its output: {error}"));
            let wish = manifest.mcp().and_then(|section| section.key.as_ref());
            let promised = promised.and(wish.map_or(Ok(()), sendable));
            let body = Arc::new(uncallable(manifest));
            let registered = registry.register(definition.clone(), body).map_err(|error| error.to_string());
            if let Err(why) = promised.and(registered) {
                found.push((manifest, Skipped { name: definition.name().to_string(), why }));
            }
        }
    }
    found
}

/// Implementation that the commands of a manifest share.
enum Behind {
    Program(Pin),
    Script(Arc<Script>, Pin),
    Server(Arc<Upstream>, Reach, String),
    Tools(Arc<[String]>),
    Nothing,
}

fn uncallable(manifest: &Manifest) -> Uncallable {
    let (kind, id) = (manifest.kind().as_str(), manifest.id());
    let hint = match manifest.mcp().map(|section| section.transport) {
        Some(Transport::Stdio) => "a server on `stdio` needs `server_command:`".to_owned(),
        Some(Transport::Sse | Transport::StreamableHttp | Transport::Websocket) => {
            "a server on the network needs `url:`".to_owned()
        }
        None => format!("add `{kind}_specific:` to {}", manifest.path().display()),
    };
    Uncallable { why: format!("the manifest `{id}` does not state how the tool runs"), hint }
}

/// Executor of a tool that is listed but cannot be called, and the reason.
struct Uncallable {
    why: String,
    hint: String,
}

impl ToolExecutor for Uncallable {
    fn run(&self, _: Arc<Order>) -> Running {
        let failure = Failure::new(FailureKind::NotFound, self.why.clone()).hint(self.hint.clone());
        Box::pin(async move { Err(failure) })
    }
}
