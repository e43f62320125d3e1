//! A fleet with a real nats-server and real daemons in temporary homes.

mod bench;
mod enrolment;
mod mirror;
mod modes;
mod permissions;
mod policy;
