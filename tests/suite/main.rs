//! The product from outside: one binary, one module an area.

mod calls;
mod command_line;
mod doors;
mod hostile_input;
mod life;
mod mcp;
