//! What the documentation says is tried: the blocks of the cookbook load, and their examples hold.

use std::path::Path;

use tests::Home;

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The fenced blocks of a language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).filter_map(|rest| rest.split_once("\n```").map(|(block, _)| block)).collect()
}

#[test]
fn every_recipe_of_the_cookbook_loads_and_keeps_its_examples() {
    let page = page("docs/cookbook.md");
    let recipes = blocks(&page, "yaml");
    assert!(recipes.len() >= 8, "{}", recipes.len());
    for recipe in recipes {
        let name =
            recipe.lines().next().and_then(|line| line.strip_prefix("# ")).expect("a block names its file");
        let home = Home::initialised();
        home.configure(name, &format!("{recipe}\n"));
        let checked = home.run(&["check", "--json"]);
        assert!(checked.output.status.success(), "{recipe}\n{checked}");
    }
}

#[test]
fn an_example_that_does_not_hold_is_found() {
    let page = page("docs/cookbook.md");
    let recipe = blocks(&page, "yaml").remove(0).replacen("expect: deny", "expect: allow", 1);
    let home = Home::initialised();
    home.configure("governance/tools.yaml", &format!("{recipe}\n"));
    home.run(&["check"]).must_exit(7);
}

#[test]
fn the_commands_of_the_cookbook_work_as_they_stand() {
    let page = page("docs/cookbook.md");
    let home = Home::initialised();
    for line in blocks(&page, "sh").iter().flat_map(|block| block.lines()) {
        let (command, remark) = line.split_once('#').unwrap_or((line, ""));
        let Some(words) = command.trim().strip_prefix("sinew ") else {
            panic!("not a command of ours: {line}")
        };
        let code = remark.split("exit code ").nth(1).and_then(|rest| rest.get(..1));
        let expect = code.map_or(0, |code| code.parse().expect("a code is a number"));
        home.run(&words.split_whitespace().collect::<Vec<_>>()).must_exit(expect);
    }
}
