//! Rules while calls are recorded to learn what a project needs: without the allowlists of the tools.
//!
//! Everything that forbids, asks, limits or is built in stays in force, and so do the policies of projects and a
//! change that waits for the operator.

use std::path::Path;

use tool::canonical;

use crate::policy::Policy;
use crate::situation::Workspaces;

impl Policy {
    /// Returns this policy without the lists of allowed paths, commands and hosts of its tools. The verdict of the
    /// whole rules is recorded with each call that it permits.
    pub fn for_recording(&self) -> Policy {
        let tools = self.tools.iter().map(|(name, rules)| (name.clone(), rules.without_allowlists()));
        let hash = canonical::sha256_hex([&*self.hash, "recording"].join("\n").as_bytes());
        let mut recording = self.clone();
        recording.tools = tools.collect();
        recording.hash = hash.into();
        recording.is_recording = true;
        recording
    }

    /// Describes what `for_recording` makes possible in the workspace at `root`, one line per tool and list. Projects that
    /// restrict calls there are named, because their policies stay in force.
    pub fn recording_effects(&self, root: &Path) -> Vec<String> {
        let overlaps = |project: &Path| project.starts_with(root) || root.starts_with(project);
        let projects = self.project_policies().map(|(project, _)| project).filter(|one| overlaps(one));
        let projects: Vec<String> = projects.map(|one| one.display().to_string()).collect();
        let but = match projects.as_slice() {
            [] => String::new(),
            list => format!(", as far as the policy of the project {} permits it", list.join(", ")),
        };
        let root = root.display();
        let mut effects = Vec::new();
        for (name, rules) in self.tools.iter().filter(|(_, rules)| rules.shadow.is_none()) {
            if rules.allowed_paths.is_some() {
                effects.push(format!("{name}: every path in {root} that no rule forbids{but}"));
            }
            if rules.commands.allowed.is_some() {
                effects.push(format!(
                    "{name}: every program that no rule forbids, in a sandbox that can change only {root}{but}"
                ));
            }
            if rules.hosts.is_some() {
                effects.push(format!("{name}: every host that the outbound gateway allows{but}"));
            }
        }
        effects
    }
}

impl Workspaces {
    /// Returns the workspaces at and below `root`. Relative paths start where they did.
    pub fn within(&self, root: &Path) -> Workspaces {
        let inside = self.iter().filter(|folder| folder.root().starts_with(root)).cloned();
        Workspaces::new(inside.collect()).with_base(self.base())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tool::Mode;

    use crate::judge::tests::fixture::{VerdictSummary, machine, valid_call};
    use crate::{Policy, Situation, Verdict, judge, precheck};

    const TOOLS: &str = "\
forbidden_paths: [\"**/.env\"]
tools:
  read_file: {allowed_paths: [$ROOT/ws/a.txt], forbidden_paths: [$ROOT/ws/sub]}
  write_file: {allowed_paths: [$ROOT/ws/w], requires_approval: true}
  run: {allowed_commands: [ls], forbidden_commands: [sudo]}
";

    #[test]
    fn recording_lifts_allowlists_and_nothing_else() {
        let machine = machine(TOOLS);
        let policy = machine.policy();
        let recorded = policy.for_recording();
        let check = |tool: &str, arguments: Value, mode: Mode, expect: [&str; 2]| {
            let found = [&policy, &recorded].map(|policy: &Policy| {
                let situation = Situation { mode, workspaces: &machine.workspaces, counts: machine.counts };
                let verdict = match precheck(policy, &situation, valid_call(tool, arguments.clone())) {
                    Ok(prechecked) => judge(policy, &situation, file_access::open(prechecked).unwrap()),
                    Err(denial) => Verdict::Denial(denial),
                };
                if let Verdict::Permit(permit) = &verdict {
                    assert_eq!(permit.facts()["recording"] == json!(true), policy.is_recording);
                    assert!(!policy.is_recording || permit.facts()["would_deny"].is_object());
                }
                VerdictSummary::of(verdict).verdict
            });
            assert_eq!(found, expect, "{tool} {arguments}");
        };
        let normal = Mode::Normal;
        let path = |path: &str| json!({"path": path});
        check("read_file", path("sub/../new.txt"), normal, ["path_forbidden forbidden_path"; 2]);
        check("read_file", path("new.txt"), normal, ["path_not_allowed not_listed", "permit"]);
        check("read_file", path("sub/b.txt"), normal, ["path_forbidden forbidden_path"; 2]);
        check("read_file", path(".env"), normal, ["path_forbidden forbidden_path"; 2]);
        check(
            "read_file",
            path("../other/o.txt"),
            normal,
            ["path_not_allowed not_listed", "path_not_allowed outside_workspaces"],
        );
        let write = |path: &str| json!({"path": path, "content": "x"});
        check("write_file", write("w"), normal, ["ask"; 2]);
        check("write_file", write("x"), normal, ["path_not_allowed not_listed", "ask"]);
        check("write_file", write(".git/config"), normal, ["path_forbidden built_in"; 2]);
        check("run", json!({"argv": ["cat"]}), normal, ["command_not_allowed not_listed", "permit"]);
        check("run", json!({"argv": ["/bin/sudo"]}), normal, ["command_not_allowed forbidden_command"; 2]);
        check("run", json!({"line": "cat; id"}), normal, ["command_not_allowed needs_a_shell"; 2]);
        assert_ne!(policy.hash(), recorded.hash());
    }

    /// The effects that the operator consents to are all that a recording permits.
    #[test]
    fn tool_without_a_command_list_starts_nothing() {
        let machine = machine("tools: {run: {forbidden_commands: [sudo]}}\n");
        let recorded = machine.policy().for_recording();
        assert!(recorded.recording_effects(&machine.path("ws")).is_empty());
        let situation =
            Situation { mode: Mode::Normal, workspaces: &machine.workspaces, counts: Default::default() };
        let call = valid_call("run", json!({"argv": ["cat"]}));
        let refusal = match precheck(&recorded, &situation, call) {
            Err(denial) => denial.refusal().code,
            Ok(_) => panic!("it may start `cat`"),
        };
        assert_eq!(refusal, tool::RefusalCode::CommandNotAllowed);
    }
}
