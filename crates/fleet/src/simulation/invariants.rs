//! Invariants of a fleet, examined at the end of a run.

use super::SimulationReport;
use super::world::World;
use crate::mirroring::Auditor;

/// Examines all invariants and returns the report.
pub(crate) fn examine(mut world: World) -> SimulationReport {
    let mut violations = Vec::new();
    let mut mirrored = 0;
    for number in 0..world.hosts.len() {
        mirrored += examine_mirror(&world, number, &mut violations);
        examine_mode(&world, number, &mut violations);
    }
    for (key, count) in world.effects.iter().filter(|(_, count)| **count > 1) {
        violations.push(format!("call {key} had {count} effects under one key"));
    }
    violations.into_iter().for_each(|violation| world.violate(violation));
    world.report.mirrored = mirrored;
    world.report
}

/// Every synced record is in the mirror once, in order, and with its seal; the auditor has no alarm.
fn examine_mirror(world: &World, number: usize, violations: &mut Vec<String>) -> u64 {
    let Some(host) = world.hosts.get(number) else { return 0 };
    let (mut auditor, mut next) = (Auditor::default(), 1);
    for batch in world.engine.batches(number) {
        if batch.first < next {
            violations.push(format!(
                "{}: records {} to {} are mirrored twice",
                host.name,
                batch.first,
                next - 1
            ));
        } else if batch.first > next {
            violations.push(format!("{}: record {next} is missing in the mirror", host.name));
        }
        if host.seal(batch.last.seq).as_ref() != Some(&batch.last.hash) {
            violations.push(format!("{}: the mirror has another record {}", host.name, batch.last.seq));
        }
        next = batch.last.seq + 1;
        let alarms = auditor.batch(batch, world.now);
        violations
            .extend(alarms.iter().map(|alarm| format!("{}: alarm without a cause: {alarm}", host.name)));
    }
    if next != host.synced + 1 {
        violations.push(format!(
            "{}: the mirror ends at {}, the ledger at {}",
            host.name,
            next - 1,
            host.synced
        ));
    }
    next - 1
}

/// After the network has healed, every host follows the newest beacon.
fn examine_mode(world: &World, number: usize, violations: &mut Vec<String>) {
    let (Some(host), Some((newest, _))) = (world.hosts.get(number), world.beacons.last()) else { return };
    if host.lease.fleet_mode() != (newest.mode, newest.epoch) {
        violations.push(format!("{} does not follow the mode of the fleet", host.name));
    }
}
