//! Trait that every tool implements, and the types it exchanges with the pipeline.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use governance::Permit;
use ledger::Intent;
use serde_json::Value;
use tool::{Arguments, Failure, Progress, ToolOutput};

/// Permission to run: a permit whose decision is already recorded in the ledger.
///
/// Only one stage of the pipeline can create each layer of this type. A `RecordedPermit` therefore proves
/// that its call was checked, opened, judged and recorded, and it contains the opened files of that call.
pub type RecordedPermit = Intent<Permit>;

/// Future of a running tool.
pub type ExecutorFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, Failure>> + Send>>;

/// Preview of a call for its approval request. The operator sees its content, and the approval is bound to
/// it: if any of it differs when the call runs, the approval is not valid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallPreview {
    /// Files whose content the call would change.
    pub changes: Vec<FileChange>,
    /// Facts that arguments and paths do not show, such as the resolved program of a command or the content
    /// of a script.
    pub facts: Vec<(String, String)>,
    /// Arguments as the tool would receive them, if the tool rewrites them. An approved call runs with these:
    /// `Permit::previewed_arguments`.
    pub rewritten: Option<Arguments>,
    /// Component that does the work.
    pub execution_site: ExecutionSite,
}

/// Component that does the work of a call, for the limits in the approval request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecutionSite {
    /// As in the definition: the daemon itself, or a program in a sandbox.
    #[default]
    AsDefined,
    /// The daemon sends requests to hosts, and a sandboxed process without network or folders parses the
    /// responses.
    HttpGateway,
    /// A remote server. The daemon sends it requests and parses its JSON responses itself.
    RemoteServer,
}

/// Scope of resources that an executor retains between calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheScope<'a> {
    /// Resources of all sessions.
    All,
    /// Resources for the worker of this session.
    Session(&'a str),
}

/// File whose content a call would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// Canonical path.
    pub path: std::path::PathBuf,
    /// Current content; `None` if the file does not exist.
    pub before: Option<Vec<u8>>,
    /// New content; `None` if the file would be removed.
    pub after: Option<Vec<u8>>,
}

/// Service that a tool sends requests to, named by the settings and not by the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredService {
    /// Name in the settings.
    pub name: String,
    /// Address.
    pub url: String,
}

/// Implementation of a tool.
pub trait ToolExecutor: Send + Sync + 'static {
    /// Describes what a call would do beyond its arguments and paths. Changes nothing, and may block. A call
    /// whose preview fails cannot be approved.
    fn preview(&self, _permit: &Permit) -> Result<CallPreview, Failure> {
        Ok(CallPreview::default())
    }

    /// Returns the tool description of an external server, as the operator accepted it or as it was first
    /// received. A reload with another description waits for the operator.
    fn pinned_description(&self) -> Option<Value> {
        None
    }

    /// Describes the program with its arguments, or the address, behind a tool, for the operator who accepts
    /// a new tool. Empty for built-in tools.
    fn backing(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Returns the services of which every call needs one. If the policy refuses all of them, the call is refused.
    fn services(&self) -> Vec<ConfiguredService> {
        Vec::new()
    }

    /// Releases resources retained for the next call, such as an idle process, because they must not be used
    /// any more. Running calls continue, and their resources are released when they end.
    fn release(&self, _owner: CacheScope<'_>) {}

    /// Runs the tool. The permit is shared, because a thread blocked in a system call outlives its deadline
    /// and needs its handles until it returns.
    fn run(&self, recorded_permit: Arc<RecordedPermit>) -> ExecutorFuture;

    /// Returns true if the tool makes calls on behalf of its caller. Such a tool is stopped at its deadline,
    /// and makes no calls for a caller that has disconnected.
    fn makes_inner_calls(&self) -> bool {
        false
    }

    /// Like `run`, for a tool that reports progress. Most tools do not.
    fn run_with_progress(&self, recorded_permit: Arc<RecordedPermit>, _progress: Progress) -> ExecutorFuture {
        self.run(recorded_permit)
    }
}
