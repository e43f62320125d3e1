//! Manifests from outside: what `sinew manifest` says of files, with the real parser behind its walls.

mod answers;
mod check;
mod excess;
mod mcp;
mod meta;
mod real;
mod run;
