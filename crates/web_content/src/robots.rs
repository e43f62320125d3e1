//! `robots.txt` (RFC 9309): the longest matching rule decides; among equally long rules, the one that allows.

/// Product token to which rules refer.
const PRODUCT_TOKEN: &str = "sinew";
/// Maximum number of bytes that are parsed; the minimum that the RFC requires.
const MAX_ROBOTS_BYTES: usize = 500 * 1024;

/// Returns true if the file allows this path.
pub(crate) fn allows(bytes: &[u8], path: &str) -> bool {
    let text = String::from_utf8_lossy(bytes.get(..MAX_ROBOTS_BYTES.min(bytes.len())).unwrap_or_default());
    let groups = parse_groups(&text);
    let groups_for = |name: &'static str| groups.iter().filter(move |group| group.is_for(name));
    let specific_groups: Vec<&RobotsGroup> = groups_for(PRODUCT_TOKEN).collect();
    let holding = if specific_groups.is_empty() { groups_for("*").collect() } else { specific_groups };
    let rules = holding.iter().flat_map(|group| &group.rules).filter(|rule| matches(&rule.pattern, path));
    let strongest = rules.max_by_key(|rule| (rule.pattern.len(), rule.allows));
    path == "/robots.txt" || strongest.is_none_or(|rule| rule.allows)
}

#[derive(Default)]
struct RobotsGroup {
    agents: Vec<String>,
    rules: Vec<RobotsRule>,
}

impl RobotsGroup {
    fn is_for(&self, name: &str) -> bool {
        self.agents.iter().any(|agent| agent == name)
    }
}

struct RobotsRule {
    pattern: String,
    allows: bool,
}

fn parse_groups(text: &str) -> Vec<RobotsGroup> {
    let mut groups: Vec<RobotsGroup> = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let Some((key, value)) = line.split_once(':') else { continue };
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        match key.as_str() {
            "user-agent" => {
                if groups.last().is_none_or(|group| !group.rules.is_empty()) {
                    groups.push(RobotsGroup::default());
                }
                let agent = value.split('/').next().unwrap_or_default().to_ascii_lowercase();
                groups.last_mut().into_iter().for_each(|group| group.agents.push(agent.clone()));
            }
            "allow" | "disallow" if !value.is_empty() => {
                let rule = |pattern: &str| RobotsRule { pattern: pattern.to_owned(), allows: key == "allow" };
                groups.last_mut().into_iter().for_each(|group| group.rules.push(rule(value)));
            }
            _ => {}
        }
    }
    groups
}

/// Returns true if a pattern with `*` and a final `$` matches the beginning of a path.
fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, to_the_end) = match pattern.strip_suffix('$') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut parts = pattern.split('*');
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts = parts.peekable();
    let mut is_open = false;
    while let Some(part) = parts.next() {
        is_open = part.is_empty();
        if to_the_end && parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.split_once(part) {
            Some((_, after)) if !part.is_empty() => rest = after,
            Some(_) => {}
            None => return false,
        }
    }
    !to_the_end || rest.is_empty() || is_open
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, path: &str, expect: bool) {
        assert_eq!(allows(text.as_bytes(), path), expect, "{path} in {text}");
    }

    #[test]
    fn longest_matching_rule_decides() {
        let text = "User-agent: *\nDisallow: /private # all of it\nAllow: /private/open\nDisallow: /*.cgi$\n";
        check(text, "/", true);
        check(text, "/private/x", false);
        check(text, "/private/open/x", true);
        check(text, "/a/b.cgi", false);
        check(text, "/a/b.cgi?x", true);
        check(text, "/robots.txt", true);
        check("", "/x", true);
        check("User-agent: *\nDisallow:\n", "/x", true);
        check("User-agent: *\nDisallow: /\n", "/x", false);
        check("User-agent: *\nAllow: /x\nDisallow: /x\n", "/x", true);
    }

    #[test]
    fn own_group_replaces_the_wildcard_group() {
        let text = "User-agent: other\nUser-agent: Sinew/1\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n";
        check(text, "/a", false);
        check(text, "/b", true);
        check("User-agent: sinewy\nDisallow: /\n", "/a", true);
        check("Disallow: /\n", "/a", true);
        check("\u{feff}garbage\n\0\nUser-agent: *\nDisallow: /a*b*c", "/axxbxxc1", false);
    }
}
