//! The judge on real files and real policy folders.

mod call;
mod differential;
mod explanation;
mod machine;
mod model;
mod outward;
mod path;
mod shadow;
