//! `sinew doctor`: checks the installation and reports problems. It changes nothing, leaves no process
//! running, and connects to nothing on the network except the telemetry collector named in the settings.

mod daemon;
mod machine;
mod network;

use serde_json::{Value, json};

use crate::cli::DoctorArgs;
use crate::command::check;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    DIM_STYLE, ERROR_STYLE, LiveLine, SUCCESS_STYLE, WARNING_STYLE, escape_invisible_line, paint,
    print_message, print_result_line,
};
use crate::units;

pub(crate) fn run(args: &DoctorArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let rows = checks(&context)?;
    let is_sound = rows.iter().all(|row| row.status != CheckStatus::Bad);
    match args.output.json {
        true => render::print_json(json!({"ok": is_sound, "checks": rows_json(&rows)}))?,
        false => show(&rows, args.verbose)?,
    }
    Ok(if is_sound { ExitKind::Done } else { ExitKind::Failed })
}

/// Runs all checks.
fn checks(context: &CommandContext) -> Result<Vec<Row>, CommandError> {
    let _line = LiveLine::start("checking the installation");
    let settings = context.settings().unwrap_or_default();
    let mut rows = machine::sandbox(context)?;
    rows.extend(machine::folders(context));
    rows.extend(daemon::sockets(context));
    let usable = daemon::load_manifests(context);
    let checked = check::check_configuration(context);
    rows.extend(daemon::configuration(context, &usable, &checked));
    rows.extend(machine::programs());
    let refused = checked.as_ref().map_or(&[][..], |report| &report.refused_services);
    rows.extend(network::services(&settings, refused));
    rows.extend(network::keys(&settings, usable.as_ref().map_or(&[], |(_, usable)| usable)));
    Ok(rows)
}

/// Returns the checks as JSON, for a bug report.
pub(crate) fn report(context: &CommandContext) -> Result<Value, CommandError> {
    checks(context).map(|rows| json!({"checks": rows_json(&rows)}))
}

/// Returns the rows as JSON with secrets masked, because this output is meant to be shared.
fn rows_json(rows: &[Row]) -> Vec<Value> {
    let redactor = telemetry::redact::shared();
    let clean = |text: &str| redactor.redact_text(text).into_owned();
    let row = |row: &Row| {
        json!({"area": row.area, "check": row.check, "status": row.status.as_str(), "found": clean(&row.found),
            "remedy": row.remedy.as_deref().map(clean)})
    };
    rows.iter().map(row).collect()
}

/// Prints one line for each area, then whatever did not pass in it; with `verbose`, every check.
fn show(rows: &[Row], verbose: bool) -> Result<(), CommandError> {
    let mut areas: Vec<&str> = Vec::new();
    for row in rows {
        // An area may begin again later in the rows.
        if !areas.contains(&row.area) {
            areas.push(row.area);
        }
    }
    for area in areas {
        let of_area: Vec<&Row> = rows.iter().filter(|row| row.area == area).collect();
        let worst = of_area.iter().map(|row| row.status).max().unwrap_or(CheckStatus::Good);
        let passed = of_area.iter().filter(|row| row.status == CheckStatus::Good).count();
        let passed = format!("{passed} of {} passed", units::count(of_area.len(), "check"));
        print_result_line(format!("{} {area:<14} {passed}", worst.sign()))?;
        for row in of_area.iter().filter(|row| verbose || row.status != CheckStatus::Good) {
            let found = escape_invisible_line(&row.found);
            print_result_line(format!("  {} {}: {found}", row.status.sign(), row.check))?;
            if let Some(remedy) = &row.remedy {
                let remedy = escape_invisible_line(remedy);
                print_result_line(format!("    {} {remedy}", paint(SUCCESS_STYLE, "try:")))?;
            }
        }
    }
    let count = |status| rows.iter().filter(|row| row.status == status).count();
    let (passed, notes, bad) = (count(CheckStatus::Good), count(CheckStatus::Note), count(CheckStatus::Bad));
    let problems = match bad {
        0 => paint(SUCCESS_STYLE, "no problems found"),
        bad => paint(ERROR_STYLE, units::count(bad, "problem") + " found"),
    };
    print_result_line(format!("{problems}, {}, {passed} passed", units::count(notes, "note")))?;
    if !verbose {
        print_message(paint(DIM_STYLE, "`sinew doctor --verbose` shows every check"));
    }
    Ok(())
}

/// Severity of a check result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CheckStatus {
    /// No problem.
    Good,
    /// Worth knowing, but nothing is broken.
    Note,
    /// Something does not work.
    Bad,
}

impl CheckStatus {
    /// Returns the sign in front of a line.
    fn sign(self) -> String {
        match self {
            CheckStatus::Good => paint(SUCCESS_STYLE, "✓"),
            CheckStatus::Note => paint(WARNING_STYLE, "–"),
            CheckStatus::Bad => paint(ERROR_STYLE, "✗"),
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            CheckStatus::Good => "good",
            CheckStatus::Note => "note",
            CheckStatus::Bad => "bad",
        }
    }
}

/// Check result: area, name of the check, severity, finding, and remedy.
struct Row {
    area: &'static str,
    check: String,
    status: CheckStatus,
    found: String,
    remedy: Option<String>,
}

impl Row {
    fn good(area: &'static str, check: impl Into<String>, found: impl Into<String>) -> Row {
        Row { area, check: check.into(), status: CheckStatus::Good, found: found.into(), remedy: None }
    }

    fn note(area: &'static str, check: impl Into<String>, found: impl Into<String>) -> Row {
        Row { status: CheckStatus::Note, ..Row::good(area, check, found) }
    }

    fn bad(area: &'static str, check: impl Into<String>, found: impl Into<String>) -> Row {
        Row { status: CheckStatus::Bad, ..Row::good(area, check, found) }
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Row {
        self.remedy = Some(remedy.into());
        self
    }
}
