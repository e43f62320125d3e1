//! `fleet invite`, `fleet admit` and `fleet remove`: the operator's side of the enrolment of hosts.

use std::path::Path;

use fleet::link::{ConnectionKey, EnrolmentRequest, JoinToken, random_id};
use fleet::servers::{HostEntry, Invitation, Role};
use fleet::{SubjectToken, Subjects};

use super::admin::FleetAdmin;
use super::failed;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::terminal::{confirm, is_interactive, print_message, print_result_line};

fn name(text: &str) -> Result<SubjectToken, CommandError> {
    text.parse().map_err(failed)
}

/// Creates an invitation and prints its token.
pub(super) fn invite(path: &Path, host: &str, group: &str) -> Result<ExitKind, CommandError> {
    let mut admin = FleetAdmin::open(path)?;
    let (host, group) = (name(host)?, name(group)?);
    if admin.roster.hosts.contains_key(&host) {
        let problem = CommandError::usage(format!("`{host}` is a member already"));
        return Err(problem.with_hint(format!("run `sinew fleet remove {host}` first")));
    }
    let (key, id) = (ConnectionKey::generate().map_err(failed)?, random_id().map_err(failed)?);
    let invitation = Invitation { id: id.clone(), nkey: key.public().to_owned(), group: group.clone() };
    admin.roster.invitations.insert(host.clone(), invitation);
    let token = JoinToken {
        fleet: admin.file.fleet.clone(),
        host,
        group,
        invitation: id,
        servers: admin.file.servers.clone(),
        ca: admin.ca()?,
        signing_keys: admin.roster.signing_keys.clone(),
        policy_signatures: admin.file.policy_signatures,
        seed: key.seed().to_owned(),
    };
    admin.save()?;
    print_result_line(token.to_text())?;
    print_reload(&admin);
    print_message(format!("then run `sinew fleet join TOKEN` on {}, with the line above", token.host));
    Ok(ExitKind::Done)
}

/// Admits a host after its fingerprint was compared.
pub(super) fn admit(
    context: &CommandContext,
    path: &Path,
    host: &str,
    fingerprint: Option<&str>,
) -> Result<ExitKind, CommandError> {
    let mut admin = FleetAdmin::open(path)?;
    let host = name(host)?;
    let Some(invitation) = admin.roster.invitations.get(&host).cloned() else {
        return Err(CommandError::usage(format!("there is no open invitation for `{host}`")));
    };
    let stored = super::runtime(context)?.block_on(async {
        let connection = admin.connect(&Role::Administrator).await?;
        connection.last("ENROL", &Subjects::enrolment(&host, &invitation.id)).await.map_err(failed)
    })?;
    let Some(stored) = stored else {
        let problem = CommandError::failed(format!("`{host}` has not used its token yet"));
        return Err(problem.with_hint("run `sinew fleet join TOKEN` on it first"));
    };
    let expected = (&admin.file.fleet, &host, &invitation.id);
    let request = EnrolmentRequest::verify(&stored.payload, expected).map_err(failed)?;
    let found = request.fingerprint();
    let is_same = match fingerprint {
        Some(given) => given.trim() == found,
        None => {
            print_message(format!("`{host}` asks to join with the fingerprint {found}"));
            is_interactive() && confirm("does the host show the same fingerprint?")
        }
    };
    if !is_same {
        let problem = CommandError::new(
            ExitKind::Refused,
            format!("`{host}` was not admitted: its fingerprint was not confirmed"),
        );
        return Err(problem.with_hint("pass what `sinew fleet join` printed on the host with --fingerprint; if it differs, remove the invitation"));
    }
    let entry = HostEntry { nkey: request.nkey, signing_key: request.signing_key, group: invitation.group };
    admin.roster.admit(&host, entry).map_err(failed)?;
    admin.save()?;
    print_result_line(format!("{host} is a member of {}", admin.file.fleet))?;
    print_reload(&admin);
    Ok(ExitKind::Done)
}

/// Removes a host or its invitation. Its mirrored ledger stays.
pub(super) fn remove(path: &Path, host: &str) -> Result<ExitKind, CommandError> {
    let mut admin = FleetAdmin::open(path)?;
    let host = name(host)?;
    let (member, invited) = (admin.roster.hosts.remove(&host), admin.roster.invitations.remove(&host));
    if member.is_none() && invited.is_none() {
        return Err(CommandError::usage(format!("`{host}` is neither a member nor invited")));
    }
    admin.save()?;
    print_result_line(format!("{host} is not a member any more; its mirrored ledger stays"))?;
    print_reload(&admin);
    Ok(ExitKind::Done)
}

/// Tells the operator to make the servers read the new permissions.
fn print_reload(admin: &FleetAdmin) {
    let config = admin.server_config_path();
    print_message(format!(
        "reload the servers with the new {}: `nats-server --signal reload`",
        config.display()
    ));
}
