//! Cache of results, for tools whose entry in `tools.yaml` sets `cache_seconds`.
//!
//! A call is checked, opened, judged and recorded before its result is looked up, so a cached result never
//! escapes the policy. The key covers everything that the result depends on: the definition, the policy, the
//! arguments, the opened files and, unless the scope is `all`, the caller. A changed file has another key.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use file_access::{ObjectKind, OpenedPath};
use governance::Permit;
use governance::files::ResultCacheScope;
use registry::{RecordedPermit, Tool};
use serde_json::{Value, json};
use tool::definition::PathAccess;
use tool::{CallId, ToolOutput, canonical};

use crate::call::PipelineCall;
use crate::pipeline::BoundedOutput;

/// Maximum size of all cached results.
const MAX_TOTAL_BYTES: usize = 16 << 20;
/// Maximum size of one cached result.
const MAX_RESULT_BYTES: usize = 1 << 20;
/// Age below which a change of a file may share its timestamp with a later change. Some file systems count in
/// steps of two seconds.
const MIN_FILE_AGE: Duration = Duration::from_secs(2);

/// Cached results of all tools.
#[derive(Default)]
pub(crate) struct ResultCache {
    entries: Mutex<HashMap<String, CachedResult>>,
}

/// Result of an earlier call.
pub(crate) struct CachedResult {
    expires: Instant,
    pub(crate) call_id: CallId,
    value: Value,
    canonical: Vec<u8>,
    truncated: Option<tool::result::Truncation>,
    content: Vec<Value>,
}

/// Place of a result in the cache.
pub(crate) struct ResultKey {
    digest: String,
    ttl: Duration,
}

impl ResultKey {
    /// Returns the key of a permitted call, or `None` if its result must not be cached.
    pub(crate) fn of(call: &PipelineCall, tool: &Tool, permit: &Permit) -> Option<ResultKey> {
        let definition = tool.definition();
        let rule = call.snapshot.policy.result_cache(definition.name())?;
        let is_cacheable = definition.annotations().read_only_hint && !tool.executor().makes_inner_calls();
        let files: Option<Vec<Value>> = permit.paths().iter().map(file_identity).collect();
        let files = files.filter(|_| is_cacheable)?;
        let caller = match rule.scope {
            ResultCacheScope::Caller => Some(call.header.caller.instance_digest()),
            ResultCacheScope::All => None,
        };
        let key = json!({
            "definition": definition.hash(),
            "policy": call.snapshot.policy.hash(),
            "arguments": permit.call().arguments(),
            "files": files,
            "caller": caller,
        });
        Some(ResultKey { digest: canonical::digest(&key), ttl: rule.ttl })
    }
}

/// Identifies the content of an opened file. `None` for anything else, because the content of a directory can
/// change without a trace on the directory itself, and for a file that has just been changed.
fn file_identity(path: &OpenedPath) -> Option<Value> {
    let facts = path.metadata().filter(|_| path.kind() == ObjectKind::File)?;
    let is_settled = SystemTime::now().duration_since(facts.changed).is_ok_and(|age| age >= MIN_FILE_AGE);
    let since_epoch = |time: &SystemTime| {
        let time = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(json!([time.as_secs(), time.subsec_nanos()]))
    };
    (is_settled && path.access() == PathAccess::Read).then(|| {
        json!({
            "key": path.key(),
            "name": path.canonical().to_string_lossy(),
            "identity": [facts.identity.device, facts.identity.inode],
            "size": facts.size,
            "changed": since_epoch(&facts.changed),
            "modified": since_epoch(&facts.modified),
        })
    })
}

impl ResultCache {
    /// Returns the result of an equal call that has not expired.
    pub(crate) fn get(&self, key: &ResultKey) -> Option<(CallId, BoundedOutput)> {
        let entries = self.lock();
        let found = entries.get(&key.digest).filter(|found| found.expires > Instant::now())?;
        let output = ToolOutput {
            value: found.value.clone(),
            truncated: found.truncated.clone(),
            content: found.content.clone(),
            ..ToolOutput::default()
        };
        Some((found.call_id, BoundedOutput { output, canonical: found.canonical.clone() }))
    }

    /// Keeps the result of a call. Expired results are removed, then those that expire first.
    pub(crate) fn put(&self, key: ResultKey, recorded_permit: &RecordedPermit, result: &BoundedOutput) {
        let BoundedOutput { output, canonical } = result;
        if canonical.len() > MAX_RESULT_BYTES {
            return;
        }
        let now = Instant::now();
        let mut entries = self.lock();
        entries.retain(|_, cached| cached.expires > now);
        while entries.values().map(|cached| cached.canonical.len()).sum::<usize>() + canonical.len()
            > MAX_TOTAL_BYTES
        {
            let oldest =
                entries.iter().min_by_key(|(_, cached)| cached.expires).map(|(digest, _)| digest.clone());
            let Some(oldest) = oldest else { return };
            entries.remove(&oldest);
        }
        let cached = CachedResult {
            expires: now + key.ttl,
            call_id: recorded_permit.call_id(),
            value: output.value.clone(),
            canonical: canonical.clone(),
            truncated: output.truncated.clone(),
            content: output.content.clone(),
        };
        entries.insert(key.digest, cached);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, CachedResult>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
