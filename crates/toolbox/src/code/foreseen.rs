//! Determines which program of a project would run, before it runs: for the approval request, and for the run
//! itself, which fails if it finds another program. Reads names and digests only; runs nothing.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use governance::{Permit, SYSTEM_FOLDERS};
use registry::Preview;
use sandbox::{Command, Foresight, Workplace, find_program};
use serde_json::json;
use tool::{Failure, FailureKind};

use super::toolchain::Tooling;
use super::{folder_of, project};

/// Project as a sandboxed program would see it.
pub(super) struct Foreseen {
    folder: PathBuf,
    /// Granted directories.
    roots: Vec<PathBuf>,
    /// Extra program directories named by the policy.
    shelves: Vec<PathBuf>,
}

impl Foreseen {
    pub(super) fn of(permit: &Permit) -> Result<Foreseen, Failure> {
        let roots = permit.folders().iter().map(|granted| granted.root().to_owned()).collect();
        let shelves = permit.program_folders().to_vec();
        Ok(Foreseen { folder: folder_of(permit)?, roots, shelves })
    }

    /// Returns true if the project has a file of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.file(&self.folder.join(name)).is_some()
    }

    /// Returns the program of this name in the nearest virtual environment.
    fn in_environment(&self, name: &str) -> Option<PathBuf> {
        let roots = self.roots.iter().filter(|root| self.folder.starts_with(root));
        let top = roots.max_by_key(|root| root.components().count())?;
        let folders = self.folder.ancestors().take_while(|folder| folder.starts_with(top));
        let environments = folders.flat_map(|folder| [folder.join(".venv"), folder.join("venv")]);
        let is_program = |path: &PathBuf| {
            let facts = self.file(path).and_then(|file| file.metadata().ok());
            facts.is_some_and(|facts| facts.permissions().mode() & 0o111 != 0)
        };
        let whole = environments.filter(|folder| self.file(&folder.join("pyvenv.cfg")).is_some());
        whole.map(|folder| folder.join("bin").join(name)).find(is_program)
    }

    /// Returns the canonical file of a path, if a sandboxed program can see it.
    fn file(&self, path: &Path) -> Option<PathBuf> {
        let file = path.canonicalize().ok().filter(|file| file.is_file())?;
        let is_seen = self.roots.iter().chain(&self.shelves).any(|root| file.starts_with(root))
            || SYSTEM_FOLDERS.iter().any(|folder| file.starts_with(folder));
        is_seen.then_some(file)
    }

    /// Previews running this program with these arguments. An approval is bound to the returned facts.
    /// `settings` is the file by which the program was chosen, if there is one.
    pub(super) fn preview(
        &self,
        permit: &Permit,
        name: &str,
        settings: Option<&str>,
        words: Vec<OsString>,
    ) -> Result<Preview, Failure> {
        let own = self.in_environment(name);
        let command_line = json!(
            [name.into()]
                .iter()
                .chain(&words)
                .map(|word: &OsString| word.to_string_lossy())
                .collect::<Vec<_>>()
        );
        // Files that the program loads from its environment: the interpreter and its configuration.
        let beside = own.iter().flat_map(|own| {
            let environment = own.parent().and_then(Path::parent).map(|folder| folder.join("pyvenv.cfg"));
            [Some(own.clone()), Some(own.with_file_name("python")), environment].into_iter().flatten()
        });
        let settings = settings.map(|settings| self.folder.join(settings));
        let named = beside.chain(settings).map(PathBuf::into_os_string);
        let command = Command {
            workplace: Workplace::In(self.folder.clone()),
            variables: project::variables(permit),
            ..Command::read_only(
                own.as_ref().map_or(name, |_| "sh"),
                named.chain(words).collect(),
                Instant::now() + permit.timeout(),
            )
        };
        let mut command_preview = Foresight::of(permit, &command)?;
        if let Some(own) = &own {
            command_preview.program = find_program(own.as_os_str())?;
        }
        let facts = [("runs".to_owned(), command_line.to_string())];
        let facts = facts.into_iter().chain(command_preview.facts()).collect();
        Ok(Preview { facts, ..Preview::default() })
    }

    /// Resolves the runner and its program with `choice`, on the blocking pool because disk access may block.
    pub(super) async fn choose<R: Send + 'static>(
        self,
        choice: impl FnOnce(&Foreseen) -> (R, &'static str) + Send + 'static,
    ) -> Result<Chosen<R>, Failure> {
        let resolve = move || {
            let (runner, program) = choice(&self);
            Chosen { runner, own: self.in_environment(program) }
        };
        let resolved = tokio::task::spawn_blocking(resolve).await;
        resolved.map_err(|_| Failure::new(FailureKind::Crashed, "inspecting the project failed"))
    }
}

/// Runner resolved before the run.
pub(super) struct Chosen<R> {
    pub(super) runner: R,
    /// Program of the runner in the project's virtual environment.
    own: Option<PathBuf>,
}

impl<R> Chosen<R> {
    /// Checks that the program found in the sandbox is the one that was resolved before; otherwise nothing
    /// runs.
    pub(super) fn agrees(&self, found: &Tooling) -> Result<(), Failure> {
        match (found.from_project, &self.own) {
            (false, None) => Ok(()),
            (true, Some(own)) if own == Path::new(&found.path) => Ok(()),
            _ => {
                let message = "the project changed since it was inspected: another program would run";
                let failure = Failure::new(FailureKind::Conflict, message);
                Err(failure.hint("nothing of the project was run; try again"))
            }
        }
    }
}
