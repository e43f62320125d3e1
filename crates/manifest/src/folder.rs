//! Many manifests at once, and what must hold between them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use document::{Document, DocumentError};

use crate::checked::Manifest;
use crate::diagnostic::{Code, Diagnostic};
use crate::load::{CheckSyntax, load};
use crate::spread::spread;

/// What became of a number of files.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Those in which nothing is wrong, in the order of the files.
    pub manifests: Vec<Manifest>,
    /// What is to be said, in the order of the files.
    pub diagnostics: Vec<Diagnostic>,
}

/// Loads files that `read` reads. A broken one stops only itself. `known` says whether a tool of another kind has a
/// name: what a meta tool calls must be there.
pub fn load_all(
    files: &[PathBuf],
    read: &(dyn Fn(&Path) -> Result<Document, DocumentError> + Sync),
    syntax: &CheckSyntax<'_>,
    known: &dyn Fn(&str) -> bool,
) -> Loaded {
    let one = |path: &PathBuf| match read(path) {
        Ok(document) => load(&document, syntax),
        Err(place) => (None, vec![Diagnostic::unreadable(place)]),
    };
    let mut loaded = Loaded::default();
    for (manifest, diagnostics) in spread(files, one) {
        loaded.manifests.extend(manifest);
        loaded.diagnostics.extend(diagnostics);
    }
    loaded.unique_ids();
    loaded.aggregates(known);
    loaded.nesting();
    loaded
}

/// A meta tool may call meta tools, which may call none.
const MOST_NESTED: usize = 2;

impl Loaded {
    /// The first file of an id keeps it. Ids are compared as the names of tools and of files are made of them.
    fn unique_ids(&mut self) {
        let mut seen: HashMap<String, PathBuf> = HashMap::new();
        let mut twice = Vec::new();
        self.manifests.retain(|manifest| {
            let Some(first) = seen.insert(manifest.callable_id(), manifest.path().to_owned()) else {
                return true;
            };
            let message = format!("the id `{}` is taken by {}", shown(manifest.id()), first.display());
            let place = manifest.error_at(manifest.places().id, &message).suggest("rename one of the two");
            twice.push(Diagnostic { code: Code::DuplicateId, field: "tool.id".to_owned(), place });
            seen.insert(manifest.callable_id(), first);
            false
        });
        self.diagnostics.extend(twice);
    }

    /// No meta tool leads back to itself, and none through so many others that nobody can foresee what it calls.
    fn nesting(&mut self) {
        let metas: Vec<&Manifest> = self.manifests.iter().filter(|one| one.meta().is_some()).collect();
        let mut too_deep = names_of(&metas);
        // One round for each level that is allowed: whoever calls one that is still there is too deep, or comes round.
        for _ in 1..MOST_NESTED {
            let outer = metas.iter().copied().filter(|meta| called(meta, &too_deep).is_some());
            too_deep = names_of(&outer.collect::<Vec<_>>());
        }
        let mut refused: HashMap<String, Diagnostic> = HashMap::new();
        for manifest in &metas {
            let Some(inner) = called(manifest, &too_deep) else { continue };
            let message = format!(
                "it calls `{inner}`, which calls meta tools: {MOST_NESTED} within one another are the most, and none may \
                 come back to itself"
            );
            let place = manifest.places().aggregates.first().copied().unwrap_or(manifest.places().id);
            let place = manifest.error_at(place, &message).suggest("name the tools themselves");
            let (code, field) = (Code::InvalidValue, "tool.meta_specific.aggregates".to_owned());
            refused.insert(manifest.id().to_owned(), Diagnostic { code, field, place });
        }
        self.manifests.retain(|manifest| match refused.remove(manifest.id()) {
            Some(diagnostic) => {
                self.diagnostics.push(diagnostic);
                false
            }
            None => true,
        });
    }

    /// A meta tool calls tools that are there: others' commands, other manifests, or what `known` knows.
    fn aggregates(&mut self, known: &dyn Fn(&str) -> bool) {
        let mut names: HashSet<String> =
            self.manifests.iter().map(|manifest| manifest.id().to_owned()).collect();
        let tools = self.manifests.iter().flat_map(Manifest::tools);
        names.extend(tools.flat_map(|(command, tool)| [tool.name().to_string(), command.name.clone()]));
        let mut missing = Vec::new();
        self.manifests.retain(|manifest| {
            let aggregates = manifest.meta().map(|meta| meta.aggregates.as_slice()).unwrap_or_default();
            let mut complete = true;
            for (name, place) in aggregates.iter().zip(&manifest.places().aggregates) {
                if names.contains(name) || known(name) {
                    continue;
                }
                complete = false;
                let near = tool::nearest(name, names.iter().map(String::as_str));
                let fix = near.map_or("name a tool, `id` or `id.command`".to_owned(), |near| {
                    format!("did you mean `{near}`?")
                });
                let place =
                    manifest.error_at(*place, &format!("`{}` names no tool that is there", shown(name)));
                let (code, field) = (Code::UnresolvedReference, "tool.meta_specific.aggregates".to_owned());
                missing.push(Diagnostic { code, field, place: place.suggest(fix) });
            }
            complete
        });
        self.diagnostics.extend(missing);
    }
}

/// By what names the tools of these can be called, and whose each is.
fn names_of<'m>(manifests: &[&'m Manifest]) -> HashMap<&'m str, &'m str> {
    let of = |manifest: &&'m Manifest| {
        let (manifest, id) = (*manifest, manifest.id());
        let tools =
            manifest.tools().flat_map(|(command, tool)| [tool.name().as_str(), command.name.as_str()]);
        tools.chain([id]).map(move |name| (name, id))
    };
    manifests.iter().flat_map(of).collect()
}

/// The first of these that a meta tool calls.
fn called<'m>(manifest: &Manifest, names: &HashMap<&str, &'m str>) -> Option<&'m str> {
    let aggregates = manifest.meta().map(|meta| meta.aggregates.as_slice()).unwrap_or_default();
    aggregates.iter().find_map(|name| names.get(name.as_str()).copied())
}

fn shown(name: &str) -> std::borrow::Cow<'_, str> {
    tool::shorten(name, tool::LONGEST_WORD)
}
