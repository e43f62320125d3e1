//! Manifests end to end: checks by `sinew manifest`, with the real parser in the sandbox, and tools run from
//! manifests.

mod answers;
mod broken;
mod check;
pub(crate) mod content;
mod excess;
mod guidance;
mod kept;
mod keys;
mod mcp;
mod meta;
mod nudges;
mod pins;
mod public;
mod real;
mod run;
mod secure;
mod socket;
mod sse;
mod started;
mod turns;
mod variables;
mod versions;
