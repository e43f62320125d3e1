//! Tests of the archive with a small stand-in for the program: its contents, reproducibility and
//! installation.

use std::os::unix::fs::PermissionsExt;

use super::archive::Entry;
use super::*;

/// Script that answers the commands that `contents` runs.
const STAND_IN: &str = r##"#!/bin/sh
case "$1" in
  --version) echo "sinew 9.8.7" ;;
  completions) echo "completions for $2" ;;
  manual) mkdir -p "$2"; echo page > "$2/sinew.1"; echo page > "$2/sinew-call.1" ;;
  service) echo "# $4: $0 serve" ;;
  *) exit 9 ;;
esac
"##;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Writes the stand-in for the program into `folder`.
fn stand_in(folder: &Path) -> PathBuf {
    let program = folder.join("sinew");
    std::fs::write(&program, STAND_IN).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// Builds the archive and unpacks it.
fn unpacked(folder: &Path) -> PathBuf {
    let program = stand_in(folder);
    let entries = contents::gather(&root(), &program, &program, "{}").unwrap();
    write_archive(folder, "sinew-9.8.7-here", &entries).unwrap();
    process::capture(
        Command::new("tar").arg("-xzf").arg(folder.join("sinew-9.8.7-here.tar.gz")).current_dir(folder),
    )
    .unwrap();
    folder.join("sinew-9.8.7-here")
}

#[test]
fn the_archive_contains_every_file_with_its_mode() {
    let folder = tempfile::tempdir().unwrap();
    let unpacked = unpacked(folder.path());
    for name in [
        "bin/sinew",
        "install.sh",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "SHA256SUMS",
        "share/bash-completion/completions/sinew",
        "share/zsh/site-functions/_sinew",
        "share/fish/vendor_completions.d/sinew.fish",
        "share/man/man1/sinew.1",
        "share/man/man1/sinew-call.1",
        "share/doc/sinew/README.md",
        "share/sinew/service/launchd.plist.example",
        "share/sinew/service/systemd.units.example",
    ] {
        assert!(unpacked.join(name).is_file(), "{name}");
    }
    let mode = |name: &str| unpacked.join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("bin/sinew"), mode("install.sh"), mode("SHA256SUMS")), (0o755, 0o755, 0o644));
    let example =
        std::fs::read_to_string(unpacked.join("share/sinew/service/launchd.plist.example")).unwrap();
    assert_eq!(example, "# launchd: /home/you/.local/bin/sinew serve\n", "no path of this machine");
    let sum = std::fs::read_to_string(folder.path().join("sinew-9.8.7-here.sha256")).unwrap();
    let bytes = std::fs::read(folder.path().join("sinew-9.8.7-here.tar.gz")).unwrap();
    assert_eq!(sum, format!("{}  sinew-9.8.7-here.tar.gz\n", archive::sha256(&bytes)));
}

#[test]
fn equal_files_in_any_order_give_equal_bytes() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let packed = folders.each_ref().map(|folder| {
        let program = stand_in(folder.path());
        contents::gather(&root(), &program, &program, "{}").unwrap()
    });
    let [first, mut second] = packed;
    second.reverse();
    assert_eq!(archive::pack("a", &first).unwrap(), archive::pack("a", &second).unwrap());
    second.push(Entry::document("another", "x"));
    assert_ne!(archive::pack("a", &first).unwrap(), archive::pack("a", &second).unwrap());
}

#[test]
fn a_name_too_long_for_the_header_is_refused() {
    let long = Entry::document("x".repeat(100), "");
    assert!(archive::pack("a", &[long]).unwrap_err().to_string().contains("too long"));
}

fn install(unpacked: &Path, prefix: &Path) -> std::process::Output {
    let mut command = Command::new("sh");
    command.arg(unpacked.join("install.sh")).arg("--prefix").arg(prefix).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("HOME", prefix).output().unwrap()
}

#[test]
fn the_archive_installs_twice_below_a_prefix() {
    let folder = tempfile::tempdir().unwrap();
    let (unpacked, prefix) = (unpacked(folder.path()), folder.path().join("a prefix"));
    for _ in 0..2 {
        let output = install(&unpacked, &prefix);
        assert!(output.status.success(), "{output:?}");
        for name in ["bin/sinew", "share/man/man1/sinew.1", "share/zsh/site-functions/_sinew"] {
            assert!(prefix.join(name).is_file(), "{name}: {output:?}");
        }
        let text = process::capture(Command::new(prefix.join("bin/sinew")).arg("--version")).unwrap();
        assert_eq!(text, "sinew 9.8.7\n");
    }
    assert!(!prefix.join("install.sh").exists() && !prefix.join("SHA256SUMS").exists());
}

/// Files and folders below a folder.
fn listing(folder: &Path) -> Vec<String> {
    let listed = process::capture(Command::new("find").arg(folder).arg("-mindepth").arg("1")).unwrap();
    let mut lines: Vec<String> = listed.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn uninstall_leaves_only_files_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let (unpacked, prefix) = (unpacked(folder.path()), folder.path().join("prefix"));
    for name in ["share/man/man1/other.1", "share/sinew-other", "bin/other"] {
        std::fs::create_dir_all(prefix.join(name).parent().unwrap()).unwrap();
        std::fs::write(prefix.join(name), "other").unwrap();
    }
    let before = listing(&prefix);
    let uninstall = || {
        let script = if prefix.join("share/sinew/install.sh").exists() {
            &prefix.join("share/sinew/install.sh")
        } else {
            &unpacked.join("install.sh")
        };
        let mut command = Command::new("sh");
        command.arg(script).arg("--uninstall").arg("--prefix").arg(&prefix).env_clear();
        command.env("PATH", "/usr/bin:/bin").env("HOME", folder.path()).output().unwrap()
    };
    assert!(!uninstall().status.success(), "nothing was installed there");
    assert!(install(&unpacked, &prefix).status.success());
    let asked = folder.path().join("asked");
    // The program removes hooks and service first; if it fails, nothing is removed.
    std::fs::write(prefix.join("bin/sinew"), "#!/bin/sh\nexit 1\n").unwrap();
    let installed = listing(&prefix);
    assert!(!uninstall().status.success());
    assert_eq!(listing(&prefix), installed);
    let script = format!("#!/bin/sh\necho \"$@\" > '{}'\n", asked.display());
    std::fs::write(prefix.join("bin/sinew"), script).unwrap();
    let output = uninstall();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(std::fs::read_to_string(asked).unwrap(), "uninstall --yes\n");
    assert_eq!(listing(&prefix), before);
}

/// Serves the files of a folder over HTTP until the test ends. Returns the base URL.
fn serve(folder: PathBuf) -> String {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let request = lines.next().unwrap_or_default();
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let name = request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
            let (status, body) = match std::fs::read(folder.join(name)) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = (&stream).write_all(head.as_bytes()).and_then(|()| (&stream).write_all(&body));
        }
    });
    format!("http://{address}")
}

/// Release of stand-ins for these targets, in a folder.
fn release_of(folder: &Path, names: &[&'static str]) -> String {
    let program = stand_in(folder);
    let entries = contents::gather(&root(), &program, &program, "{}").unwrap();
    for name in names {
        write_archive(folder, &format!("sinew-9.8.7-{name}"), &entries).unwrap();
    }
    serve(folder.to_owned())
}

#[test]
fn the_installer_installs_only_what_has_the_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let machine = process::capture(Command::new("uname").arg("-m")).unwrap();
    let name =
        targets::NAMES.into_iter().find(|name| name.starts_with(machine.trim()) && name.contains("linux"));
    let Some(name) = name.filter(|_| cfg!(target_os = "linux")) else { return };
    let base = release_of(folder.path(), &[name]);
    write_release_files(folder.path(), "9.8.7", Some(&base)).unwrap();
    let (script, prefix) = (folder.path().join("install.sh"), folder.path().join("prefix"));
    let install = || {
        let text = std::fs::read(&script).unwrap();
        // From standard input, as `curl … | sh` runs it.
        let mut command = Command::new("sh");
        command.args(["-s", "--", "--prefix"]).arg(&prefix).env_clear().env("PATH", "/usr/bin:/bin");
        command.env("HOME", folder.path()).current_dir("/");
        if crate::ordinary_user::is_root() {
            // The installer refuses root.
            command = {
                let mut unprivileged = Command::new("setpriv");
                unprivileged.args([
                    "--reuid=65534",
                    "--regid=65534",
                    "--clear-groups",
                    "sh",
                    "-s",
                    "--",
                    "--prefix",
                ]);
                unprivileged
                    .arg(&prefix)
                    .env_clear()
                    .env("PATH", "/usr/bin:/bin")
                    .env("HOME", "/tmp")
                    .current_dir("/");
                unprivileged
            };
        }
        let stdin = std::process::Stdio::piped();
        let mut child = command
            .stdin(stdin)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), &text).unwrap();
        child.wait_with_output().unwrap()
    };
    std::fs::create_dir(&prefix).unwrap();
    for open in [folder.path(), &prefix] {
        std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let archive = folder.path().join(format!("sinew-9.8.7-{name}.tar.gz"));
    let good = std::fs::read(&archive).unwrap();
    let mut changed = good.clone();
    *changed.last_mut().unwrap() ^= 1;
    std::fs::write(&archive, changed).unwrap();
    let output = install();
    assert!(String::from_utf8_lossy(&output.stderr).contains("nothing was installed"), "{output:?}");
    assert!(!output.status.success() && listing(&prefix).is_empty(), "{output:?}");
    std::fs::remove_file(&archive).unwrap();
    let output = install();
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot download"), "{output:?}");
    std::fs::write(&archive, good).unwrap();
    let output = install();
    assert!(output.status.success(), "{output:?}");
    assert!(prefix.join("bin/sinew").is_file() && prefix.join("share/sinew/install.sh").is_file());
}

#[test]
fn every_file_of_a_release_names_the_same_archives() {
    let folder = tempfile::tempdir().unwrap();
    let names = [targets::NAMES[0], targets::NAMES[2]];
    let base = "https://example.org/sinew/releases/download/v9.8.7";
    release_of(folder.path(), &names);
    write_release_files(folder.path(), "9.8.7", Some(base)).unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let [script, formula, sums, recipe] = ["install.sh", "sinew.rb", "SHA256SUMS", "Containerfile"].map(read);
    for name in names {
        let file = format!("sinew-9.8.7-{name}.tar.gz");
        let sum = sha256(&std::fs::read(folder.path().join(&file)).unwrap());
        assert!(script.contains(&format!("    {name}) printf '%s\\n' '{file} {sum}' ;;\n")), "{script}");
        assert!(formula.contains(&format!("url \"{base}/{file}\"\n      sha256 \"{sum}\"")), "{formula}");
        assert!(sums.contains(&format!("{sum}  {file}\n")), "{sums}");
        assert_eq!(recipe.contains(&sum), name == names[0], "{recipe}");
    }
    assert!(
        !script.contains("x86_64-apple-darwin)") && !formula.contains("x86_64-apple"),
        "not in this release"
    );
    for text in [script, formula, recipe] {
        assert!(!text.contains('@') || !text.contains("ARCHIVES") && !text.contains("@VERSION"), "{text}");
    }
    let refused = write_release_files(folder.path(), "9.8.7", Some("https://example.org/';rm")).unwrap_err();
    assert!(refused.to_string().contains("a shell"), "{refused}");
}

#[test]
fn the_debian_package_is_read_by_dpkg_and_reproducible() {
    let folder = tempfile::tempdir().unwrap();
    let program = stand_in(folder.path());
    let mut entries = contents::gather(&root(), &program, &program, "{}").unwrap();
    let package = debian::package("9.8.7", "amd64", "2.31", &entries).unwrap();
    entries.reverse();
    assert_eq!(debian::package("9.8.7", "amd64", "2.31", &entries).unwrap(), package);
    let path = folder.path().join("sinew.deb");
    std::fs::write(&path, package).unwrap();
    let dpkg = |words: &[&str]| process::capture(Command::new("dpkg-deb").args(words).arg(&path));
    if !process::works(Command::new("dpkg-deb").arg("--version")) {
        println!("LEFT OUT: dpkg-deb is not installed");
        return;
    }
    let fields = dpkg(&["--field"]).unwrap();
    assert!(fields.contains("Package: sinew\nVersion: 9.8.7\nArchitecture: amd64\n"), "{fields}");
    assert!(fields.contains("Depends: libc6 (>= 2.31)\n"), "{fields}");
    let files = dpkg(&["--contents"]).unwrap();
    for name in [
        "-rwxr-xr-x root/root",
        "./usr/bin/sinew\n",
        "./usr/lib/systemd/user/sinew.service\n",
        "./usr/lib/systemd/user/sinew.socket\n",
        "./usr/share/man/man1/sinew.1.gz\n",
        "./usr/share/zsh/vendor-completions/_sinew\n",
        "./usr/share/bash-completion/completions/sinew\n",
        "./usr/share/fish/vendor_completions.d/sinew.fish\n",
        "./usr/share/sinew/tools/ripgrep.yaml\n",
        "./usr/share/doc/sinew/copyright\n",
        "./usr/share/doc/sinew/docs/operations.md\n",
    ] {
        assert!(files.contains(name), "{name}: {files}");
    }
}

#[test]
fn needed_libc_is_the_newest_version_in_the_program() {
    let program = b"..GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.4\0GLIBC_PRIVATE..";
    assert_eq!(debian::needed_libc(program).unwrap(), "2.34");
    assert!(debian::needed_libc(b"static").is_err());
}

#[test]
fn the_bill_lists_what_is_linked_and_nothing_else() {
    let package = |name: &str| serde_json::json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0"});
    let dependency =
        |name: &str, kind: Option<&str>| serde_json::json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
    let packages = ["sinew", "used", "deeper", "build", "tests", "other"].map(package);
    let metadata = serde_json::json!({
        "packages": packages,
        "resolve": {"nodes": [
            {"id": "sinew", "deps": [dependency("used", None), dependency("tests", Some("dev"))]},
            {"id": "used", "deps": [dependency("deeper", None), dependency("build", Some("build"))]},
            {"id": "deeper", "deps": []}, {"id": "build", "deps": []}, {"id": "tests", "deps": []},
            {"id": "other", "deps": []},
        ]},
    });
    let text = sbom::bill(&metadata, "here", "9.8.7").unwrap();
    let bill: serde_json::Value = serde_json::from_str(&text).unwrap();
    let names: Vec<&str> =
        bill["components"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["build", "deeper", "used"]);
    assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
    assert_eq!(sbom::bill(&metadata, "here", "9.8.7").unwrap(), text, "equal input gives equal bytes");
    assert_ne!(sbom::bill(&metadata, "here", "9.8.8").unwrap(), text);
}

#[test]
fn a_modified_archive_is_not_installed() {
    let folder = tempfile::tempdir().unwrap();
    let (unpacked, prefix) = (unpacked(folder.path()), folder.path().join("prefix"));
    std::fs::write(unpacked.join("bin/sinew"), "#!/bin/sh\necho other\n").unwrap();
    let output = install(&unpacked, &prefix);
    assert!(!output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("bin/sinew"), "{output:?}");
    assert!(!prefix.join("bin/sinew").exists());
}

#[test]
fn program_has_a_maximum_size() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let check = |bytes: u64| {
        file.as_file().set_len(bytes).unwrap();
        super::check_size("x86_64-unknown-linux-gnu", file.path())
    };
    assert!(check(35_000_000).is_ok());
    let error = check(35_000_001).unwrap_err().to_string();
    assert!(error.contains("35000001 bytes"), "{error}");
}
