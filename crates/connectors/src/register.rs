//! Registers the commands of manifests as tools.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use guardrail::{InputSchema, Validators};
use knowledge::{KnowledgeFunction, WorkerPool};
use manifest::{CommandLine, Manifest, ManifestCommandSpec, McpSection, McpServerTransport, OutputForm};
use outbound::HttpGateway;
use registry::{ExecutorFuture, RecordedPermit, Tool, ToolExecutor, ToolRegistry};
use sandbox::Sandbox;
use serde_json::Value;
use tool::{Failure, FailureKind, ToolDefinition, ToolName};

use crate::cli::CliTool;
use crate::file_pin::{FilePin, ProgramPinCache, origin_digest};
use crate::input_processor::InputProcessor;
use crate::manifest_knowledge::{self, ManifestKnowledge};
use crate::mcp::{
    ConfiguredKeys, McpTool, PinStore, ServerCommand, ServerEndpoint, ServerHealthCheck, ServerKey,
    ServerPins, ServerVariables, Upstream, check_key_header,
};
use crate::meta::MetaTool;
use crate::output_processor::OutputProcessor;
use crate::pipeline_entry::PipelineEntry;
use crate::sandboxed_program::ToolProgram;
use crate::script::{LocalScript, ScriptTool};

/// Registrar of the tools of manifests.
#[derive(Clone, Debug)]
pub struct Connectors {
    sandbox: Sandbox,
    workers: WorkerPool,
    gateway: HttpGateway,
    pipeline: PipelineEntry,
    pin_store: Option<PinStore>,
    accepted_origins: Arc<HashMap<String, String>>,
    keys: Arc<ConfiguredKeys>,
}

/// Tool that was not registered, with the reason.
#[derive(Debug)]
pub struct SkippedTool {
    /// Tool name.
    pub name: String,
    /// Reason.
    pub reason: String,
}

/// Executor with the origin digest of its tool.
type ToolBody = (Arc<dyn ToolExecutor>, String);

impl Connectors {
    /// Creates a registrar. Programs run in this sandbox, functions in these workers, outbound requests go
    /// through this gateway, and inner calls enter this pipeline.
    pub fn new(
        sandbox: &Sandbox,
        workers: &WorkerPool,
        gateway: &HttpGateway,
        pipeline_entry: &PipelineEntry,
    ) -> Self {
        let (sandbox, workers) = (sandbox.clone(), workers.clone());
        Connectors {
            sandbox,
            workers,
            gateway: gateway.clone(),
            pipeline: pipeline_entry.clone(),
            pin_store: None,
            accepted_origins: Arc::default(),
            keys: Arc::default(),
        }
    }

    /// Sets the store of MCP tool definitions. Without it, pins last only as long as the registered tools.
    pub fn with_pin_store(self, upstreams: PinStore) -> Self {
        Connectors { pin_store: Some(upstreams), ..self }
    }

    /// Sets the accepted origin digests by the version key of the tool. A tool with another origin cannot be called.
    pub fn with_accepted_origins(self, accepted: HashMap<String, String>) -> Self {
        Connectors { accepted_origins: Arc::new(accepted), ..self }
    }

    /// Sets the keys for servers on the network. Without it, no key is sent.
    pub fn with_keys(self, keys: ConfiguredKeys) -> Self {
        Connectors { keys: Arc::new(keys), ..self }
    }

    /// Registers every command of every manifest as `id.command`, and as `command` if no other tool has that
    /// name.
    pub fn register(&self, manifests: &[Manifest], registry: &mut ToolRegistry) -> Vec<SkippedTool> {
        // The versions of one tool share its short name.
        let mut wanted: HashMap<&str, HashSet<&ToolName>> = HashMap::new();
        for (command, tool) in manifests.iter().flat_map(Manifest::tools) {
            wanted.entry(command.name.as_str()).or_default().insert(tool.name());
        }
        let spelt: HashSet<ToolName> =
            manifests.iter().flat_map(Manifest::tools).flat_map(|(_, tool)| tool.callable_names()).collect();
        let known = &*registry;
        let is_free = |name: &str| {
            let is_new = |name: ToolName| !spelt.contains(&name) && known.get(name.as_str()).is_none();
            wanted.get(name).is_some_and(|tools| tools.len() == 1) && ToolName::new(name).is_ok_and(is_new)
        };
        // Reading and checking takes most of the time and runs in parallel; only adding is sequential.
        let programs = ProgramPinCache::default();
        let made =
            manifest::parallel_map(manifests, |manifest| self.build_tools((manifest, &programs), is_free));
        let mut skipped = Vec::new();
        for (name, tool) in made.into_iter().flatten() {
            let added = tool.and_then(|tool| registry.add(tool).map_err(|error| error.to_string()));
            skipped.extend(added.err().map(|reason| SkippedTool { name, reason }));
        }
        skipped
    }

    /// Builds the tools of one manifest, with the short name as an alias if it is free.
    fn build_tools(
        &self,
        (manifest, programs): (&Manifest, &ProgramPinCache),
        is_free: impl Fn(&str) -> bool,
    ) -> Vec<(String, Result<Tool, String>)> {
        let (behind, shared) =
            (self.read_backend(manifest, programs), ManifestKnowledge::from_manifest(manifest));
        let one = |command: &ManifestCommandSpec| {
            let alias = Some(command.name.clone()).filter(|name| is_free(name));
            self.build_tool((manifest, &shared), command, alias, behind.as_ref())
        };
        manifest.tools().map(|(command, tool)| (tool.name().to_string(), one(command))).collect()
    }

    /// Reads the program, script, server or tools that all commands of a manifest share.
    fn read_backend(
        &self,
        manifest: &Manifest,
        programs: &ProgramPinCache,
    ) -> Result<ManifestBackend, String> {
        if let Some(section) = manifest.cli() {
            return Ok(ManifestBackend::Program(programs.pin(&section.executable)));
        }
        if let Some(section) = manifest.mcp() {
            return self.server_backend((manifest, section), programs);
        }
        if let Some(section) = manifest.meta() {
            return Ok(ManifestBackend::Tools(section.aggregates.clone().into()));
        }
        match manifest.local() {
            Some(section) => {
                let folder = manifest.path().parent().unwrap_or(Path::new("/"));
                let script = LocalScript::read(section, folder)?;
                let pin = script.pin();
                Ok(ManifestBackend::Script(Arc::new(script), pin))
            }
            None => Ok(ManifestBackend::Undefined),
        }
    }

    /// Prepares the server of a manifest. It is started on demand.
    fn server_backend(
        &self,
        (manifest, section): (&Manifest, &McpSection),
        programs: &ProgramPinCache,
    ) -> Result<ManifestBackend, String> {
        let (reach, pinned) = match (section.transport, &section.server_command, &section.url) {
            (McpServerTransport::Stdio, Some(command), _) => {
                let mut command = ServerCommand::parse(command, &section.server_args)?;
                command.variables = ServerVariables::resolve(manifest, section, &self.keys);
                let pin = programs.pin(command.program());
                let pinned = format!("{} {}", pin.as_str(), command.pin_text());
                let guide = Some(command.install_guide(manifest.id()));
                let sandbox = self.sandbox.clone();
                let program = ToolProgram { sandbox, pin, output: OutputForm::Text, install_guide: guide };
                (ServerEndpoint::Process(Arc::new(command), program), pinned)
            }
            (McpServerTransport::StreamableHttp, _, Some(url)) => {
                (ServerEndpoint::Http(url.clone()), String::new())
            }
            (McpServerTransport::Sse, _, Some(url)) => (ServerEndpoint::Sse(url.clone()), String::new()),
            (McpServerTransport::Websocket, _, Some(url)) => {
                (ServerEndpoint::WebSocket(url.clone()), String::new())
            }
            _ => return Ok(ManifestBackend::Undefined),
        };
        let pins = ServerPins::load(self.pin_store.as_ref(), &manifest.version_key());
        let health = ServerHealthCheck::from_manifest(manifest, section);
        let key = match (&section.key, &section.url) {
            (Some(key_requirement), Some(url)) => Some(ServerKey::resolve(key_requirement, url, &self.keys)?),
            _ => None,
        };
        let mut upstream = Upstream::new(&self.sandbox, &self.gateway, (health, key), pins);
        if let ServerEndpoint::Process(command, _) = &reach {
            upstream.start_guide = command.downloads().then(|| command.install_guide(manifest.id()));
        }
        Ok(ManifestBackend::Server(Arc::new(upstream), reach, pinned))
    }

    fn build_tool(
        &self,
        (manifest, shared): (&Manifest, &ManifestKnowledge),
        command: &ManifestCommandSpec,
        alias: Option<String>,
        behind: Result<&ManifestBackend, &String>,
    ) -> Result<Tool, String> {
        let (executor, origin) =
            self.build_body((manifest, shared), command, behind.map_err(Clone::clone)?)?;
        let mut spec = manifest.spec(command);
        spec.aliases.extend(alias);
        let key = spec.clone().check().map_err(|error| error.to_string())?.version_key();
        let (executor, origin) = self.check_origin(&key, executor, origin);
        spec.origin = Some(origin);
        let definition: ToolDefinition = spec.check().map_err(|error| error.to_string())?;
        let guidance = Arc::new(manifest_knowledge::tool_guidance(manifest, command, shared));
        let rules = manifest_knowledge::validators(manifest, command, shared);
        let workers = self.workers.clone();
        let tool = Tool::new(definition, executor, |schema| {
            let schema = schema.with_guidance(Arc::clone(&guidance));
            match rules.is_empty() {
                true => schema,
                false => schema.with_validators(Arc::new(Validators::new(rules, guidance, workers))),
            }
        });
        tool.map_err(|error| error.to_string())
    }

    /// Replaces the executor of a tool whose origin differs from the accepted one by one that fails.
    fn check_origin(&self, tool: &str, executor: Arc<dyn ToolExecutor>, origin: String) -> ToolBody {
        match self.accepted_origins.get(tool) {
            Some(accepted) if *accepted != origin => {
                let reason = format!("the program of `{tool}` is not the accepted one");
                let hint = "it was replaced while no daemon ran; review it, then run `sinew reload --accept`"
                    .to_owned();
                (Arc::new(Uncallable { reason, hint }), format!("not {origin}"))
            }
            _ => (executor, origin),
        }
    }

    fn build_body(
        &self,
        (manifest, shared): (&Manifest, &ManifestKnowledge),
        command: &ManifestCommandSpec,
        behind: &ManifestBackend,
    ) -> Result<ToolBody, String> {
        let after = self.output_processor(shared, command)?;
        let before = self.input_processor(shared, command);
        let (text, sandbox) = (manifest.text(), &self.sandbox);
        Ok(match (behind, manifest.cli()) {
            (ManifestBackend::Program(pin), Some(section)) => {
                let implicit_args = match manifest.command_line(command) {
                    CommandLine::Declared => None,
                    CommandLine::Implicit(args) => Some(args),
                    CommandLine::Unclear => {
                        return Ok((Arc::new(unclear(manifest, command)), origin_digest(&[text])));
                    }
                };
                let line = (command, implicit_args);
                let cli = CliTool::new(sandbox, section, line, (before, after), pin.clone());
                (Arc::new(cli), origin_digest(&[text, pin.as_str()]))
            }
            (ManifestBackend::Script(script, pin), _) => {
                let local = ScriptTool::new(sandbox, script, command, (before, after), pin.clone());
                (Arc::new(local), origin_digest(&[text, pin.as_str(), &script.pinned_text]))
            }
            (ManifestBackend::Server(upstream, reach, pinned), _) => (
                Arc::new(McpTool::new(upstream, reach, command, (before, after))),
                origin_digest(&[text, pinned]),
            ),
            (ManifestBackend::Tools(aggregates), _) => {
                let orchestration = orchestration(manifest, shared);
                let (pipeline, workers) = (self.pipeline.clone(), self.workers.clone());
                let aggregates = Arc::clone(aggregates);
                (
                    Arc::new(MetaTool {
                        pipeline,
                        aggregates,
                        orchestration,
                        workers,
                        output_processor: after,
                    }),
                    origin_digest(&[text]),
                )
            }
            (ManifestBackend::Program(_) | ManifestBackend::Undefined, _) => {
                (Arc::new(uncallable(manifest)), origin_digest(&[text]))
            }
        })
    }

    fn input_processor(&self, shared: &ManifestKnowledge, command: &ManifestCommandSpec) -> InputProcessor {
        let processor = command.process_input.as_deref().and_then(|id| shared.processor(id));
        InputProcessor { processor, workers: self.workers.clone() }
    }

    fn output_processor(
        &self,
        shared: &ManifestKnowledge,
        command: &ManifestCommandSpec,
    ) -> Result<OutputProcessor, String> {
        let schema = command.output_schema.clone().map(Value::Object);
        let schema = schema
            .map(|schema| InputSchema::compile(&schema).map_err(|error| format!("its output: {error}")));
        Ok(OutputProcessor {
            api: Arc::clone(&shared.api),
            fields: Arc::clone(&shared.fields),
            processor: command.process_output.as_deref().and_then(|id| shared.processor(id)),
            schema: schema.transpose()?.map(Arc::new),
            workers: self.workers.clone(),
        })
    }
}

/// Returns the orchestration helper of a meta tool. The manifest loader has checked that it exists.
fn orchestration(manifest: &Manifest, shared: &ManifestKnowledge) -> Option<KnowledgeFunction> {
    shared.helper(manifest.meta()?.orchestration.as_deref()?.strip_prefix("helpers.")?)
}

/// Finds the commands of manifests that could not be registered on any machine.
pub fn find_unregistrable(manifests: &[Manifest]) -> Vec<(&Manifest, SkippedTool)> {
    let mut registry = ToolRegistry::new();
    let mut found = Vec::new();
    for manifest in manifests {
        for (command, definition) in manifest.tools() {
            let schema = command.output_schema.clone().map(Value::Object);
            let promised = schema.map_or(Ok(()), |schema| InputSchema::compile(&schema).map(drop));
            let promised = promised.map_err(|error| format!("its output: {error}"));
            let key_requirement = manifest.mcp().and_then(|section| section.key.as_ref());
            let promised = promised.and(key_requirement.map_or(Ok(()), check_key_header));
            let body = Arc::new(uncallable(manifest));
            let registered = registry.register(definition.clone(), body).map_err(|error| error.to_string());
            if let Err(reason) = promised.and(registered) {
                found.push((manifest, SkippedTool { name: definition.name().to_string(), reason }));
            }
        }
    }
    found
}

/// Implementation that the commands of a manifest share.
enum ManifestBackend {
    Program(FilePin),
    Script(Arc<LocalScript>, FilePin),
    Server(Arc<Upstream>, ServerEndpoint, String),
    Tools(Arc<[String]>),
    Undefined,
}

fn uncallable(manifest: &Manifest) -> Uncallable {
    let (kind, id) = (manifest.kind().as_str(), manifest.id());
    let hint = match manifest.mcp().map(|section| section.transport) {
        Some(McpServerTransport::Stdio) => "a server on `stdio` needs `server_command:`".to_owned(),
        Some(
            McpServerTransport::Sse | McpServerTransport::StreamableHttp | McpServerTransport::Websocket,
        ) => "a server on the network needs `url:`".to_owned(),
        None => format!("add `{kind}_specific:` to {}", manifest.path().display()),
    };
    Uncallable { reason: format!("the manifest `{id}` does not state how the tool runs"), hint }
}

/// Returns the executor of a command whose arguments are not stated.
fn unclear(manifest: &Manifest, command: &ManifestCommandSpec) -> Uncallable {
    Uncallable {
        reason: format!(
            "nothing was run: the command `{}` does not state the arguments of its program",
            command.name
        ),
        hint: format!("add to it in {}: {}", manifest.path().display(), manifest.suggested_argv(command)),
    }
}

/// Executor of a tool that is listed but cannot be called, and the reason.
struct Uncallable {
    reason: String,
    hint: String,
}

impl ToolExecutor for Uncallable {
    fn run(&self, _: Arc<RecordedPermit>) -> ExecutorFuture {
        let failure = Failure::new(FailureKind::NotFound, self.reason.clone()).with_hint(self.hint.clone());
        Box::pin(async move { Err(failure) })
    }
}
