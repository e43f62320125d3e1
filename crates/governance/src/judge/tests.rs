//! Tests of the judge on real files and real policy folders.

mod attacks;
mod call;
mod common_paths;
mod differential;
mod explanation;
mod external_targets;
pub(crate) mod fixture;
mod model;
mod path;
mod shadow;
