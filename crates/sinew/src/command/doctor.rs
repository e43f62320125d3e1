//! `sinew doctor`: what this machine can do for Sinew, found out by doing it.

use sandbox::{Finding, Sandbox};
use serde_json::json;
use tool::SandboxTier;

use crate::cli::JsonArgs;
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::Setting;
use crate::terminal::{BAD, GOOD, NOTE, paint, say, visible_line};

pub(crate) fn run(output: JsonArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let sandbox = Sandbox::of_this_process();
    let unusable = |error| Problem::new(Exit::Failed, format!("the sandbox cannot be tried: {error}"));
    let own = tempfile::tempdir().map_err(unusable)?;
    // Where nobody has started Sinew yet it has no folder of its own.
    let state = setting.home().state();
    let found = sandbox.check(if state.is_dir() { state } else { own.path() }).map_err(unusable)?;
    let availability = sandbox.availability();
    let is_sound = availability.tier != SandboxTier::None && found.iter().all(|finding| finding.held);
    if output.json {
        let wall = |finding: &Finding| json!({"cannot": finding.what, "held": finding.held, "cause": finding.cause, "remedy": finding.remedy});
        let walls: Vec<_> = found.iter().map(wall).collect();
        let tier = availability.tier.as_str();
        let sandbox = json!({"tier": tier, "missing": availability.missing, "walls": walls});
        let pin = execution::Pin::at(setting.home().state()).is_set();
        say(render::versioned(json!({"sandbox": sandbox, "operator_pin": pin})))?;
    } else {
        let colour = if is_sound { GOOD } else { BAD };
        say(format!("sandbox   {}", paint(colour, availability.tier.as_str())))?;
        for missing in &availability.missing {
            say(format!("          {}", paint(NOTE, visible_line(missing))))?;
        }
        for finding in &found {
            let word = if finding.held { paint(GOOD, "cannot") } else { paint(BAD, "CAN") };
            let cause = paint(NOTE, format!("({})", visible_line(&finding.cause)));
            say(format!("          a confined program {word} {} {cause}", finding.what))?;
            if let Some(remedy) = finding.remedy {
                say(format!("          {} {remedy}", paint(GOOD, "try:")))?;
            }
        }
    }
    if !output.json {
        let set = execution::Pin::at(setting.home().state()).is_set();
        let told = if set {
            paint(GOOD, "set: nothing is approved without it")
        } else {
            paint(NOTE, "none: any process that runs as you can approve (`sinew pin set`)")
        };
        say(format!("PIN       {told}"))?;
    }
    Ok(if is_sound { Exit::Done } else { Exit::Failed })
}
