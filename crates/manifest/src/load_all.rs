//! Loading of many manifests, and the checks between them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use strict_yaml::{Document, DocumentError};

use crate::checked_manifest::Manifest;
use crate::diagnostic::{Diagnostic, DiagnosticCode};
use crate::load::{CheckSyntax, load};

/// Result of loading several files.
#[derive(Debug, Default)]
pub struct ManifestLoadResult {
    /// Number of files.
    pub file_count: usize,
    /// Manifests that can be used, in the order of the files.
    pub manifests: Vec<Manifest>,
    /// Diagnostics: those of each file in file order, then those between files.
    pub diagnostics: Vec<Diagnostic>,
}

/// Loads the files with `read`. A broken file does not affect others. `known` returns true for the name of a
/// tool from another source, because every tool that a meta tool calls must exist.
pub fn load_all(
    files: &[PathBuf],
    read: &(dyn Fn(&Path) -> Result<Document, DocumentError> + Sync),
    syntax: &CheckSyntax<'_>,
    known: &dyn Fn(&str) -> bool,
) -> ManifestLoadResult {
    let one = |path: &PathBuf| match read(path) {
        Ok(document) => load(&document, syntax),
        Err(error) => (None, vec![Diagnostic::unreadable(error)]),
    };
    let mut loaded = ManifestLoadResult { file_count: files.len(), ..ManifestLoadResult::default() };
    for (manifest, diagnostics) in parallel_map(files, one) {
        loaded.manifests.extend(manifest);
        loaded.diagnostics.extend(diagnostics);
    }
    loaded.reject_duplicate_ids();
    loaded.reject_unknown_aggregates(known);
    loaded.reject_deep_nesting();
    loaded.report_empty();
    loaded
}

/// Maximum nesting of meta tools: a meta tool may call meta tools, but those may not call further ones.
const MAX_META_NESTING: usize = 2;

impl ManifestLoadResult {
    /// Rejects a second file with the same id and major version. Ids are compared in the form used in tool and
    /// file names.
    fn reject_duplicate_ids(&mut self) {
        let mut seen: HashMap<String, PathBuf> = HashMap::new();
        let mut twice = Vec::new();
        self.manifests.retain(|manifest| {
            let Some(first) = seen.insert(manifest.version_key(), manifest.path().to_owned()) else {
                return true;
            };
            let message =
                format!("the id `{}` is already used by {}", shortened_name(manifest.id()), first.display());
            let error = manifest
                .error_at(manifest.positions().id, &message)
                .with_suggestion("rename one of the two, or give one another major version");
            twice.push(Diagnostic { code: DiagnosticCode::DuplicateId, field: "tool.id".to_owned(), error });
            seen.insert(manifest.version_key(), first);
            false
        });
        self.diagnostics.extend(twice);
    }

    /// Reports manifests without commands, which add no tool.
    fn report_empty(&mut self) {
        for manifest in self.manifests.iter().filter(|manifest| manifest.tools().next().is_none()) {
            let message = format!("`{}` has no commands, so it adds no tool", shortened_name(manifest.id()));
            let error = manifest.error_at(manifest.positions().id, &message);
            self.diagnostics.push(Diagnostic {
                code: DiagnosticCode::NoCommands,
                field: "tool.commands".to_owned(),
                error: error.with_suggestion("list them: `commands: [NAME]`"),
            });
        }
    }

    /// Rejects meta tools that call themselves indirectly or nest too deeply.
    fn reject_deep_nesting(&mut self) {
        let metas: Vec<&Manifest> = self.manifests.iter().filter(|one| one.meta().is_some()).collect();
        let mut too_deep = callable_names(&metas);
        // One round per allowed level: a tool that calls one still in the set is too deep, or part of a
        // cycle.
        for _ in 1..MAX_META_NESTING {
            let outer = metas.iter().copied().filter(|meta| first_called(meta, &too_deep).is_some());
            too_deep = callable_names(&outer.collect::<Vec<_>>());
        }
        let mut refused: HashMap<String, Diagnostic> = HashMap::new();
        for manifest in &metas {
            let Some(inner) = first_called(manifest, &too_deep) else { continue };
            let message = format!(
                "it calls `{inner}`, which calls meta tools: meta tools may be nested at most {MAX_META_NESTING} levels deep, without \
                 cycles"
            );
            let position =
                manifest.positions().aggregates.first().copied().unwrap_or(manifest.positions().id);
            let error =
                manifest.error_at(position, &message).with_suggestion("list the inner tools directly");
            let (code, field) = (DiagnosticCode::InvalidValue, "tool.meta_specific.aggregates".to_owned());
            refused.insert(manifest.id().to_owned(), Diagnostic { code, field, error });
        }
        self.manifests.retain(|manifest| match refused.remove(manifest.id()) {
            Some(diagnostic) => {
                self.diagnostics.push(diagnostic);
                false
            }
            None => true,
        });
    }

    /// Rejects meta tools that call a tool that is in no manifest and that `known` does not know.
    fn reject_unknown_aggregates(&mut self, known: &dyn Fn(&str) -> bool) {
        let mut names: HashSet<String> =
            self.manifests.iter().map(|manifest| manifest.id().to_owned()).collect();
        let tools = self.manifests.iter().flat_map(Manifest::tools);
        names.extend(tools.flat_map(|(command, tool)| [tool.name().to_string(), command.name.clone()]));
        let mut missing = Vec::new();
        self.manifests.retain(|manifest| {
            let aggregates = manifest.meta().map(|meta| meta.aggregates.as_slice()).unwrap_or_default();
            let mut complete = true;
            for (name, position) in aggregates.iter().zip(&manifest.positions().aggregates) {
                if names.contains(name) || known(name) {
                    continue;
                }
                complete = false;
                let near = tool::text::nearest_word(name, names.iter().map(String::as_str));
                let fix = near.map_or("name a tool, `id` or `id.command`".to_owned(), |near| {
                    format!("did you mean `{near}`?")
                });
                let error =
                    manifest.error_at(*position, &format!("`{}` is not a known tool", shortened_name(name)));
                let (code, field) =
                    (DiagnosticCode::UnresolvedReference, "tool.meta_specific.aggregates".to_owned());
                missing.push(Diagnostic { code, field, error: error.with_suggestion(fix) });
            }
            complete
        });
        self.diagnostics.extend(missing);
    }
}

/// Maps each name by which a tool of these manifests can be called to the id of its manifest.
fn callable_names<'m>(manifests: &[&'m Manifest]) -> HashMap<&'m str, &'m str> {
    let of = |manifest: &&'m Manifest| {
        let (manifest, id) = (*manifest, manifest.id());
        let tools =
            manifest.tools().flat_map(|(command, tool)| [tool.name().as_str(), command.name.as_str()]);
        tools.chain([id]).map(move |name| (name, id))
    };
    manifests.iter().flat_map(of).collect()
}

/// Returns the id of the first of these manifests that a meta tool calls.
fn first_called<'m>(manifest: &Manifest, names: &HashMap<&str, &'m str>) -> Option<&'m str> {
    let aggregates = manifest.meta().map(|meta| meta.aggregates.as_slice()).unwrap_or_default();
    aggregates.iter().find_map(|name| names.get(name.as_str()).copied())
}

fn shortened_name(name: &str) -> std::borrow::Cow<'_, str> {
    tool::text::shorten(name, tool::text::MAX_QUOTED_CHARS)
}

/// Applies `work` to each item, with one thread per processor, and returns the results in order. A panic in `work` propagates to the caller.
pub fn parallel_map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let share = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return done };
            done.push((index, work(item)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len().max(1));
    let mut all = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(share)).collect();
        let mut all = share();
        for other in others {
            // Propagates the panic: a partial result would look complete.
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_item_order() {
        let numbers: Vec<usize> = (0..1000).collect();
        let doubled = parallel_map(&numbers, |number| number * 2);
        assert_eq!(doubled, numbers.iter().map(|number| number * 2).collect::<Vec<_>>());
        assert!(parallel_map(&[] as &[usize], |number| *number).is_empty());
    }
}
