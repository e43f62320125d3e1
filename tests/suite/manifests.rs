//! Manifests from outside: what `sinew manifest` says of files, with the real parser behind its walls.

mod answers;
mod check;
mod excess;
mod kept;
mod keys;
mod mcp;
mod meta;
mod pins;
mod real;
mod run;
mod secure;
mod socket;
mod sse;
mod started;
mod turns;
