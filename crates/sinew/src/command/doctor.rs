//! `sinew doctor`: checks the installation and reports problems. It changes nothing, leaves no process
//! running, and connects to nothing on the network except the telemetry collector named in the settings.

mod daemon;
mod machine;
mod network;

use serde_json::{Value, json};

use crate::cli::JsonArgs;
use crate::command::check;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    ERROR_STYLE, SUCCESS_STYLE, WARNING_STYLE, escape_invisible_line, paint, print_result_line,
};

pub(crate) fn run(output: JsonArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let settings = context.settings().unwrap_or_default();
    let mut rows = machine::sandbox(&context)?;
    rows.extend(machine::folders(&context));
    rows.extend(daemon::sockets(&context));
    let usable = daemon::load_manifests(&context);
    let checked = check::check_configuration(&context);
    rows.extend(daemon::configuration(&context, &usable, &checked));
    rows.extend(machine::programs());
    let refused = checked.as_ref().map_or(&[][..], |report| &report.refused_services);
    rows.extend(network::services(&settings, refused));
    rows.extend(network::keys(&settings, usable.as_ref().map_or(&[], |(_, usable)| usable)));
    let is_sound = rows.iter().all(|row| row.standing != Standing::Bad);
    match output.json {
        true => {
            print_result_line(render::versioned_json(json!({"ok": is_sound, "checks": rows_json(&rows)})))?
        }
        false => show(&rows)?,
    }
    Ok(if is_sound { ExitKind::Done } else { ExitKind::Failed })
}

/// Returns the rows as JSON with secrets masked, because this output is meant to be shared.
fn rows_json(rows: &[Row]) -> Vec<Value> {
    let redactor = telemetry::redact::shared();
    let clean = |text: &str| redactor.redact_text(text).into_owned();
    let row = |row: &Row| {
        json!({"area": row.area, "check": row.what, "status": row.standing.as_str(), "found": clean(&row.found),
            "remedy": row.remedy.as_deref().map(clean)})
    };
    rows.iter().map(row).collect()
}

fn show(rows: &[Row]) -> Result<(), CommandError> {
    let mut area = "";
    for row in rows {
        let title = if row.area == area { "" } else { row.area };
        area = row.area;
        let (colour, mark) = match row.standing {
            Standing::Good => (SUCCESS_STYLE, "✓"),
            Standing::Note => (WARNING_STYLE, "–"),
            Standing::Bad => (ERROR_STYLE, "✗"),
        };
        let found = escape_invisible_line(&row.found);
        print_result_line(format!("{title:<14}{} {:<46} {found}", paint(colour, mark), row.what))?;
        if let Some(remedy) = &row.remedy {
            print_result_line(format!(
                "{:<16}{} {}",
                "",
                paint(SUCCESS_STYLE, "try:"),
                escape_invisible_line(remedy)
            ))?;
        }
    }
    let bad = rows.iter().filter(|row| row.standing == Standing::Bad).count();
    print_result_line(match bad {
        0 => paint(SUCCESS_STYLE, "no problems found"),
        1 => paint(ERROR_STYLE, "1 problem found"),
        more => paint(ERROR_STYLE, format!("{more} problems found")),
    })
}

/// Severity of a check result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// No problem.
    Good,
    /// Worth knowing, but nothing is broken.
    Note,
    /// Something does not work.
    Bad,
}

impl Standing {
    fn as_str(self) -> &'static str {
        match self {
            Standing::Good => "good",
            Standing::Note => "note",
            Standing::Bad => "bad",
        }
    }
}

/// Check result: area, name of the check, severity, finding, and remedy.
struct Row {
    area: &'static str,
    what: String,
    standing: Standing,
    found: String,
    remedy: Option<String>,
}

impl Row {
    fn good(area: &'static str, what: impl Into<String>, found: impl Into<String>) -> Row {
        Row { area, what: what.into(), standing: Standing::Good, found: found.into(), remedy: None }
    }

    fn note(area: &'static str, what: impl Into<String>, found: impl Into<String>) -> Row {
        Row { standing: Standing::Note, ..Row::good(area, what, found) }
    }

    fn bad(area: &'static str, what: impl Into<String>, found: impl Into<String>) -> Row {
        Row { standing: Standing::Bad, ..Row::good(area, what, found) }
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Row {
        self.remedy = Some(remedy.into());
        self
    }
}
