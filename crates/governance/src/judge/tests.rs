//! The judge on real files and real policy folders.

mod call;
mod explanation;
mod machine;
mod path;
