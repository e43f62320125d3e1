//! Loopback ports of the operator's own servers, which no call may reach. This file opens no port.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Set of reserved loopback ports. Clones share the set.
#[derive(Clone, Debug, Default)]
pub struct ReservedPorts(Arc<Mutex<Vec<u16>>>);

/// Reservation of one port, which ends when it is dropped.
#[derive(Debug)]
pub struct ReservedPort {
    ports: ReservedPorts,
    port: u16,
}

impl ReservedPorts {
    /// Reserves a port. A port that is reserved twice stays reserved until both reservations have ended.
    pub fn reserve(&self, port: u16) -> ReservedPort {
        self.lock().push(port);
        ReservedPort { ports: self.clone(), port }
    }

    /// Returns true if the port is reserved now.
    pub fn contains(&self, port: u16) -> bool {
        self.lock().contains(&port)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u16>> {
        // The list is consistent after every statement, so a poisoned lock is safe to use.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReservedPort {
    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for ReservedPort {
    fn drop(&mut self) {
        let mut ports = self.ports.lock();
        if let Some(place) = ports.iter().position(|port| *port == self.port) {
            ports.swap_remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_reserved_until_its_last_reservation_ends() {
        let ports = ReservedPorts::default();
        let (first, second) = (ports.reserve(4711), ports.reserve(4711));
        assert!(ports.contains(4711) && !ports.contains(4712));
        drop(first);
        assert!(ports.contains(4711), "the second reservation holds");
        drop(second);
        assert!(!ports.contains(4711));
    }
}
