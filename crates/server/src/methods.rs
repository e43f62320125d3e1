//! Sinew's own methods on `agent.sock`, one file per noun.

pub(crate) mod calls;
pub(crate) mod host;
pub(crate) mod rendered_tools;
pub(crate) mod sessions;
pub(crate) mod status;
