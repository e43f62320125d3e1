//! Tests of the judge on real files and real policy folders.

mod call;
mod cases;
mod common_paths;
mod differential;
mod explanation;
pub(crate) mod machine;
mod model;
mod outward;
mod path;
mod shadow;
