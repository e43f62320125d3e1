//! Tables of `docs/assurance.md` and of `SECURITY.md`, from the list of campaigns and the saved results.

use anyhow::{Context, Result};

use crate::marked_part;
use crate::tidy::Finding;
use crate::tree::{Root, Tree};

use super::campaign::{CAMPAIGNS, Campaign};
use super::summary::CampaignResult;

/// Page of the campaigns, and the saved results.
pub(crate) const PAGE: &str = "docs/assurance.md";
pub(crate) const DATA: &str = "docs/assurance.ndjson";
/// Page of the promises, which name the campaigns.
const PROMISES: &str = "SECURITY.md";

const MARKS: (&str, &str) =
    ("<!-- written by `cargo xtask soak --save` -->", "<!-- end of the written part -->");

/// Function that writes the part of a page from all results.
type PageWriter = fn(&[CampaignResult]) -> String;

/// Pages with a written part, and the function that writes it.
const PAGES: [(&str, PageWriter); 2] = [(PAGE, tables), (PROMISES, last_runs)];

/// Saves a result and writes the tables of the page.
pub(crate) fn save(root: &Root, result: &CampaignResult) -> Result<()> {
    let data = root.path().join(DATA);
    let saved = std::fs::read_to_string(&data).unwrap_or_default();
    let results = merge(parse(&saved)?, result);
    let lines: String = results.iter().map(|result| result.line() + "\n").collect();
    std::fs::write(&data, lines)?;
    for (name, write) in PAGES {
        let page = root.path().join(name);
        let text = std::fs::read_to_string(&page).with_context(|| format!("no page at `{name}`"))?;
        let text = marked_part::replace(&text, MARKS, &write(&results))
            .with_context(|| format!("`{name}` lacks one of its two marks"))?;
        std::fs::write(page, text)?;
    }
    Ok(())
}

/// Reports pages whose tables are not those of the saved results.
pub(crate) fn drift(tree: &Tree) -> Vec<Finding> {
    let Some(data) = tree.file(DATA) else { return Vec::new() };
    let results = match parse(&data.text) {
        Ok(results) => results,
        Err(error) => return vec![Finding::error(DATA, 1, format!("`{DATA}`: {error:#}"))],
    };
    let pages = PAGES.iter().filter_map(|(name, write)| Some((*name, write, tree.file(name)?)));
    let drifted = pages.filter(|(_, write, page)| {
        marked_part::replace(&page.text, MARKS, &write(&results)).as_ref() != Some(&page.text)
    });
    let message = "the tables are not those of the saved results: save a campaign again";
    drifted.map(|(name, ..)| Finding::error(name, 1, message.to_owned())).collect()
}

fn parse(text: &str) -> Result<Vec<CampaignResult>> {
    text.lines().map(CampaignResult::parse).collect()
}

/// Puts the result in the place of the earlier one of its campaign, whose total it continues.
fn merge(mut results: Vec<CampaignResult>, result: &CampaignResult) -> Vec<CampaignResult> {
    let mut result = result.clone();
    if let Some(earlier) = results.iter().find(|one| one.campaign == result.campaign) {
        result.total += earlier.total;
    }
    results.retain(|one| one.campaign != result.campaign);
    results.push(result);
    let campaign_index = |one: &CampaignResult| CAMPAIGNS.iter().position(|known| known.name == one.campaign);
    results.sort_by_key(campaign_index);
    results
}

fn tables(results: &[CampaignResult]) -> String {
    let mut text =
        "| campaign | promise | to reach | reached in all saved runs | last saved run | seed | date |\n\
                    |---|---|---:|---:|---|---:|---|\n"
            .to_owned();
    for campaign in CAMPAIGNS {
        let result = results.iter().find(|result| result.campaign == campaign.name);
        text.push_str(&row(campaign, result));
    }
    text.push_str(
        "\n| campaign | guard that was removed on purpose, and what the campaign found |\n|---|---|\n",
    );
    for campaign in CAMPAIGNS {
        let guard = if campaign.guard.is_empty() { "not tried yet" } else { campaign.guard };
        text.push_str(&format!("| {} | {guard} |\n", campaign.name));
    }
    text
}

/// Last run of each campaign, for the page whose promises name them.
fn last_runs(results: &[CampaignResult]) -> String {
    let mut text = "| campaign | last run | in all saved runs | date |\n|---|---:|---:|---|\n".to_owned();
    for campaign in CAMPAIGNS {
        let name = campaign.name;
        match results.iter().find(|result| result.campaign == name) {
            None => text.push_str(&format!("| {name} | not run yet | | |\n")),
            Some(result) => {
                let (last, total) = (grouped(result.figure), grouped(result.total));
                text.push_str(&format!(
                    "| {name} | {last} {} | {total} | {} |\n",
                    campaign.unit, result.date
                ));
            }
        }
    }
    text
}

fn row(campaign: &Campaign, result: Option<&CampaignResult>) -> String {
    let target = format!("{} {}", grouped(campaign.target), campaign.unit);
    let Some(result) = result else {
        return format!("| {} | {} | {target} | not run yet | | | |\n", campaign.name, campaign.promise);
    };
    let notes = if result.notes.is_empty() { String::new() } else { format!("; {}", result.notes) };
    let last =
        format!("{} in {}, {} build{notes}", grouped(result.figure), duration(result.seconds), result.build);
    format!(
        "| {} | {} | {target} | {} | {last} | {} | {} |\n",
        campaign.name,
        campaign.promise,
        grouped(result.total),
        result.seed,
        result.date
    )
}

fn duration(seconds: u64) -> String {
    if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds / 60) }
}

/// Number with a comma after each group of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    fn result(campaign: &str, figure: u64) -> CampaignResult {
        CampaignResult {
            campaign: campaign.to_owned(),
            figure,
            total: figure,
            seed: 4,
            date: "2026-01-02".to_owned(),
            seconds: 300,
            build: "dev".to_owned(),
            notes: String::new(),
        }
    }

    #[test]
    fn a_later_run_continues_the_total_of_its_campaign() {
        let results = merge(vec![result("kills", 5)], &result("fuzz", 1000));
        let results = merge(results, &result("kills", 7));
        let figures: Vec<_> = results.iter().map(|one| (&*one.campaign, one.figure, one.total)).collect();
        assert_eq!(figures, [("fuzz", 1000, 1000), ("kills", 7, 12)]);
        let table = tables(&results);
        assert!(
            table.contains("| 1,000,000,000 inputs | 1,000 | 1,000 in 5 min, dev build | 4 |"),
            "{table}"
        );
        assert!(table.contains("| not run yet |"), "{table}");
    }

    #[test]
    fn a_table_changed_by_hand_is_reported() {
        let saved = result("kills", 5).line() + "\n";
        let page = format!("{}{}", MARKS.0, MARKS.1);
        let right = marked_part::replace(&page, MARKS, &tables(&parse(&saved).unwrap())).unwrap();
        let check = |page: &str, expect: &[(&str, usize, &str)]| {
            assert_findings(&drift(&Tree::of(&[(PAGE, page), (DATA, &saved)])), expect);
        };
        check(&right, &[]);
        check(&right.replace(" 5 in ", " 6 in "), &[(PAGE, 1, "save a campaign again")]);
        let promises = marked_part::replace(&page, MARKS, &last_runs(&parse(&saved).unwrap())).unwrap();
        let both = [(PAGE, &*right), (PROMISES, &*promises), (DATA, &saved)];
        assert_findings(&drift(&Tree::of(&both)), &[]);
        let stale = promises.replace("| kills | 5 ", "| kills | 6 ");
        let both = [(PAGE, &*right), (PROMISES, &*stale), (DATA, &saved)];
        assert_findings(&drift(&Tree::of(&both)), &[(PROMISES, 1, "save a campaign again")]);
        assert_findings(&drift(&Tree::of(&[(PAGE, ""), (DATA, "x\n")])), &[(DATA, 1, "not JSON")]);
    }
}
