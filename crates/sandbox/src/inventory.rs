//! What is in the granted folders that a confined program must not see, or must not change. Mounts need names that
//! exist, so the folders are looked through before each run, and again after it for what is new.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::SandboxError;
use crate::protected;

/// A folder larger than this is refused rather than looked through half: what was not seen would not be hidden.
const MOST_ENTRIES: usize = 400_000;

/// What was found in the granted folders.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    /// Names that may not be read.
    pub(crate) hidden: Vec<PathBuf>,
    /// Protected names, which may be read and not changed.
    pub(crate) kept: BTreeMap<PathBuf, Kept>,
    /// Folders that cannot be listed. Names in them can be opened all the same, by whoever knows them.
    pub(crate) unlisted: Vec<PathBuf>,
}

/// A protected name, and which file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    file: (u64, u64),
    folder: (u64, u64),
    is_link: bool,
}

impl Inventory {
    /// What a mount can hold in place, which a link is not.
    pub(crate) fn mountable(&self) -> impl Iterator<Item = &PathBuf> {
        self.kept.iter().filter(|(_, kept)| !kept.is_link).map(|(path, _)| path)
    }

    /// Adds what another folder has.
    pub(crate) fn extend(&mut self, other: Inventory) {
        self.hidden.extend(other.hidden);
        self.kept.extend(other.kept);
        self.unlisted.extend(other.unlisted);
    }

    /// Whether a protected name found later is the one that was here. Another file in the same folder is: a mount held
    /// the name, so only somebody outside can have replaced it. In another folder of that name it is not: the folder
    /// was put there to bring it.
    pub(crate) fn knew(&self, path: &Path, now: &Kept) -> bool {
        self.kept
            .get(path)
            .is_some_and(|before| before.file == now.file || (!before.is_link && before.folder == now.folder))
    }
}

impl Kept {
    fn of(path: &Path) -> io::Result<Kept> {
        let of = |path: &Path| path.symlink_metadata().map(|facts| ((facts.dev(), facts.ino()), facts));
        let (file, facts) = of(path)?;
        let (folder, _) = of(path.parent().unwrap_or(path))?;
        Ok(Kept { file, folder, is_link: facts.is_symlink() })
    }
}

/// Looks a folder through. Links are not followed; what is hidden or protected is not entered.
pub(crate) fn take(folder: &Path, shows: impl Fn(&Path) -> bool) -> Result<Inventory, SandboxError> {
    let unlisted = |cause| SandboxError::Unlisted { folder: folder.to_owned(), cause };
    let (mut found, mut open, mut seen) = (Inventory::default(), vec![folder.to_owned()], 0_usize);
    while let Some(next) = open.pop() {
        let entries = match std::fs::read_dir(&next) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                found.unlisted.push(next);
                continue;
            }
            Err(error) => return Err(unlisted(error)),
        };
        for entry in entries {
            let entry = entry.map_err(unlisted)?;
            seen += 1;
            if seen > MOST_ENTRIES {
                return Err(SandboxError::TooLarge { folder: folder.to_owned(), limit: MOST_ENTRIES });
            }
            let (path, kind) = (entry.path(), entry.file_type().map_err(unlisted)?);
            if !kind.is_symlink() && !shows(&path) {
                found.hidden.push(path);
            } else if protected::is_protected(&path) || (!kind.is_dir() && protected::leads_git(&path)) {
                found.kept.insert(path.clone(), Kept::of(&path).map_err(unlisted)?);
            } else if kind.is_dir() {
                open.push(path);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_and_protected_names_are_found_and_not_entered() {
        let root = std::env::temp_dir().join(format!("sinew-inventory-{}", std::process::id()));
        for folder in [".git/hooks/deep", "src", "secret/.vscode"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in [".git/config", ".git/HEAD", "src/.env", "src/main.rs", "secret/key"] {
            std::fs::write(root.join(file), "").unwrap();
        }
        std::os::unix::fs::symlink("/etc/profile", root.join(".profile")).unwrap();
        let shows = |path: &Path| !path.ends_with(".env") && !path.ends_with("secret");
        let found = take(&root, shows).unwrap();
        let mut hidden = found.hidden.clone();
        hidden.sort();
        assert_eq!(hidden, [root.join("secret"), root.join("src/.env")]);
        let kept: Vec<_> = found.mountable().cloned().collect();
        assert_eq!(kept, [root.join(".git/config"), root.join(".git/hooks")]);
        assert!(
            found.kept.contains_key(&root.join(".profile")),
            "a link is known, though no mount can hold it"
        );

        std::fs::write(root.join("src/.git"), "gitdir: ../elsewhere").unwrap();
        assert!(
            take(&root, shows).unwrap().kept.contains_key(&root.join("src/.git")),
            "it leads git elsewhere"
        );

        let config = root.join(".git/config");
        let known = |now: &Inventory| found.knew(&config, &now.kept[&config]);
        assert!(known(&take(&root, shows).unwrap()));
        std::fs::write(root.join("other"), "by the owner").unwrap();
        std::fs::rename(root.join("other"), &config).unwrap();
        assert!(known(&take(&root, shows).unwrap()), "replaced in its folder: from outside");
        std::fs::rename(root.join(".git"), root.join("moved")).unwrap();
        std::fs::create_dir(root.join(".git")).unwrap();
        std::fs::write(&config, "by another").unwrap();
        assert!(!known(&take(&root, shows).unwrap()), "the folder is another");
        std::fs::remove_dir_all(&root).unwrap();
    }
}
