//! `fleet join` and `fleet leave`: the host's side of the membership.

use std::fs;
use std::os::unix::fs::DirBuilderExt;

use fleet::link::{
    ConnectionKey, ConnectionSettings, EnrolmentRequest, FleetConnection, FleetMembership, JoinToken,
};
use fleet::servers::Role;
use fleet::{FleetError, Purpose, SigningKey, Subjects};
use server::settings::Settings;

use super::failed;
use crate::command::init;
use crate::command_context::{CommandContext, serve_error};
use crate::exit::{CommandError, ExitKind};
use crate::fleet::fleet_dir;
use crate::terminal::{print_message, print_result_line};

/// Joins a fleet with a token.
pub(super) fn join(context: &CommandContext, token: &str) -> Result<ExitKind, CommandError> {
    let token = JoinToken::parse(token).map_err(|error| CommandError::usage(error.to_string()))?;
    let folder = fleet_dir(context);
    if let Ok(Some(member)) = FleetMembership::read(&folder) {
        let problem = CommandError::usage(format!("this host is a member of `{}` already", member.fleet));
        return Err(problem.with_hint("run `sinew fleet leave` first"));
    }
    context.home().prepare().map_err(|error| serve_error(&error))?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(CommandError::failed)?;
    let connection = ConnectionKey::generate().map_err(failed)?;
    let (signing, seed) = SigningKey::generate().map_err(failed)?;
    let request = EnrolmentRequest {
        fleet: token.fleet.clone(),
        host: token.host.clone(),
        invitation: token.invitation.clone(),
        nkey: connection.public().to_owned(),
        signing_key: signing.public(),
    };
    send(context, &token, &signing, &request)?;
    let membership = FleetMembership {
        fleet: token.fleet.clone(),
        host: token.host,
        group: token.group,
        servers: token.servers,
        signing_keys: token.signing_keys,
        policy_signatures: token.policy_signatures,
        has_ca: token.ca.is_some(),
    };
    membership
        .write(&folder, (&connection, &seed), token.ca.as_deref())
        .map_err(|error| CommandError::failed(format!("{} cannot be written: {error}", folder.display())))?;
    add_settings(context, token.fleet.as_str())?;
    print_result_line(format!("fingerprint {}", request.fingerprint()))?;
    let host = &membership.host;
    print_message(format!("pass it to the operator of the fleet, who runs `sinew fleet admit {host}`"));
    if context.is_daemon_ready() {
        print_message("then run `sinew restart` here: the daemon reads the membership at its start");
    }
    Ok(ExitKind::Done)
}

/// Sends the enrolment request with the key of the invitation.
fn send(
    context: &CommandContext,
    token: &JoinToken,
    signing: &SigningKey,
    request: &EnrolmentRequest,
) -> Result<(), CommandError> {
    let ca = tempfile::NamedTempFile::new().map_err(CommandError::failed)?;
    if let Some(text) = &token.ca {
        fs::write(ca.path(), text).map_err(CommandError::failed)?;
    }
    let role = Role::Invited { host: token.host.clone(), invitation: token.invitation.clone() };
    let settings = ConnectionSettings {
        servers: token.servers.clone(),
        ca_file: token.ca.is_some().then(|| ca.path().to_owned()),
        user: role.user(),
        seed: token.seed.clone(),
    };
    let signed = signing.sign(Purpose::Enrolment, request).map_err(failed)?;
    let subject = Subjects::enrolment(&token.host, &token.invitation);
    super::runtime(context)?.block_on(async {
        let connection = FleetConnection::open(&settings).await.map_err(failed)?;
        // The first request counts, so a token that was copied cannot replace it.
        match connection.store(&subject, (None, signed.to_bytes()), Some(0)).await {
            Ok(_) => Ok(()),
            Err(FleetError::Conflict) => {
                let problem = CommandError::new(ExitKind::Refused, "this token has been used already");
                Err(problem
                    .with_hint("if it was not you, tell the operator of the fleet; else ask for a new token"))
            }
            Err(error) => Err(failed(error)),
        }
    })
}

/// Adds the section to sinew.yaml, unless it has one.
fn add_settings(context: &CommandContext, fleet: &str) -> Result<(), CommandError> {
    if init::is_uninitialised(context) {
        init::write_settings(context)?;
    }
    let path = context.home().settings_file();
    let text = fs::read_to_string(&path)
        .map_err(|error| CommandError::failed(format!("{}: {error}", path.display())))?;
    match Settings::parse(context.home(), &text).map_err(|error| serve_error(&error))?.fleet {
        Some(known) if known.name == fleet => return Ok(()),
        Some(known) => {
            let message = format!("{} names another fleet, `{}`", path.display(), known.name);
            return Err(CommandError::configuration(message).with_hint(format!("change it to `{fleet}`")));
        }
        None => {}
    }
    let changed = format!("{}\n\n# Added by `sinew fleet join`.\nfleet:\n  name: {fleet}\n", text.trim_end());
    Settings::parse(context.home(), &changed).map_err(|error| serve_error(&error))?;
    strict_yaml::replace_private_file(&path, changed.as_bytes())
        .map_err(|error| CommandError::failed(format!("{} cannot be written: {error}", path.display())))
}

/// Removes the keys and the state of the membership. The settings are the operator's to change.
pub(super) fn leave(context: &CommandContext) -> Result<ExitKind, CommandError> {
    let folder = fleet_dir(context);
    let Some(member) = FleetMembership::read(&folder).map_err(CommandError::failed)? else {
        return Err(CommandError::usage("this host is not a member of a fleet"));
    };
    for path in FleetMembership::files(&folder).into_iter().chain(crate::fleet::state_files(&folder)) {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(CommandError::failed(format!("{} cannot be removed: {error}", path.display())));
            }
            _ => {}
        }
    }
    print_result_line(format!("this host has left {}; its policy files stay", member.fleet))?;
    print_message("remove `fleet:` from sinew.yaml and run `sinew restart`");
    print_message(format!("the operator of the fleet runs `sinew fleet remove {}`", member.host));
    Ok(ExitKind::Done)
}
