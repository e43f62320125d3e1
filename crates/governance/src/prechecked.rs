//! Call that passed the pre-check: its paths may be opened, but it is not permitted yet.

use std::sync::Arc;
use std::time::Duration;

use file_access::{HardLinkSearch, PathRequest, PathSource};
use guardrail::ValidCall;

use crate::built_in_denials::BuiltInDenials;
use crate::glob::PathGlobs;
use crate::judge::NamedTargets;
use crate::situation::Workspaces;

/// Valid call that its mode, category, rate limits and names as typed do not deny. Only `precheck` creates
/// one.
///
/// It is not a permit, because the objects that its names lead to have not been examined. The content is
/// boxed, because the value moves through every stage of the pipeline and each future on the way would grow
/// by its size.
#[derive(Debug)]
pub struct Prechecked(Box<PrecheckedParts>);

#[derive(Debug)]
struct PrecheckedParts {
    call: ValidCall,
    named_targets: NamedTargets,
    link_search_scope: HardLinkSearchScope,
    timeout: Duration,
}

/// Forbidden paths and workspaces, in which the other names of a hard-linked file are searched.
#[derive(Debug)]
pub(crate) struct HardLinkSearchScope {
    pub(crate) built_in_denials: Arc<BuiltInDenials>,
    pub(crate) forbidden_paths: Vec<Arc<PathGlobs>>,
    pub(crate) workspaces: Workspaces,
}

impl Prechecked {
    pub(crate) fn new(
        call: ValidCall,
        named: NamedTargets,
        link_search_scope: HardLinkSearchScope,
        timeout: Duration,
    ) -> Self {
        Prechecked(Box::new(PrecheckedParts { call, named_targets: named, link_search_scope, timeout }))
    }

    /// Returns the call.
    pub fn call(&self) -> &ValidCall {
        &self.0.call
    }

    /// Returns the timeout of the call, which includes the time for opening its paths.
    pub fn timeout(&self) -> Duration {
        self.0.timeout
    }

    pub(crate) fn named_targets(&self) -> &NamedTargets {
        &self.0.named_targets
    }
}

impl PathSource for Prechecked {
    fn path_requests(&self) -> Vec<PathRequest> {
        self.0.named_targets.path_requests.clone()
    }

    fn link_search(&self) -> Option<HardLinkSearch> {
        let guard = &self.0.link_search_scope;
        let forbidden = guard.forbidden_paths.iter().flat_map(|list| list.patterns());
        let forbidden = forbidden.map(|written| written.literal_prefix.clone());
        Some(HardLinkSearch {
            likely_folders: guard.workspaces.iter().map(|workspace| workspace.root().to_owned()).collect(),
            guarded_folders: guard.built_in_denials.own_folders().iter().cloned().chain(forbidden).collect(),
        })
    }
}
