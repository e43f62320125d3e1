//! MCP server with one tool that reads a file and checks nothing, by rmcp on the Unix socket that the command
//! line names.
//!
//! Serves as fast as rmcp allows: each connection has one router, and the file is read on the thread of the
//! call.

use rmcp::handler::server::{router::tool::ToolRouter, wrapper::Parameters};
use rmcp::{ServerHandler, ServiceExt, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::net::UnixListener;

#[derive(Clone)]
struct Files {
    tools: ToolRouter<Self>,
}

#[derive(Deserialize, JsonSchema)]
struct Wanted {
    path: String,
}

#[tool_router(router = tools)]
impl Files {
    #[tool(description = "Read a file")]
    async fn read_file(&self, Parameters(wanted): Parameters<Wanted>) -> Result<String, String> {
        std::fs::read_to_string(wanted.path).map_err(|error| error.to_string())
    }
}

#[tool_handler(router = self.tools)]
impl ServerHandler for Files {}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let socket = std::env::args().nth(1).ok_or("usage: rmcp-server SOCKET")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = UnixListener::bind(socket)?;
        loop {
            let (stream, _) = listener.accept().await?;
            let files = Files { tools: Files::tools() };
            tokio::spawn(async move {
                if let Ok(running) = files.serve(stream).await {
                    let _ = running.waiting().await;
                }
            });
        }
    })
}
