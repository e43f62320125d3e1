//! Messages of MCP servers.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| connectors::fuzz_mcp_messages(data));
