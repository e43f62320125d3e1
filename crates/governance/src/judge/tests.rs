//! The judge on real files and real policy folders.

mod call;
mod machine;
mod path;
