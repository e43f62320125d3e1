//! Manifests from outside: what `sinew manifest` says of files, with the real parser behind its walls.

mod check;
mod mcp;
mod run;
