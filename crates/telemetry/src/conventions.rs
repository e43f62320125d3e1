//! All names that Sinew emits over OTLP.
//!
//! The GenAI and MCP conventions are still in development; [`SCHEMA_URL`] states the version in use and is
//! sent with every span, metric and log. The standard has no names for policy, approval and confinement:
//! those are under `sinew.`.

/// Version of the semantic conventions that is emitted.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev";

/// Name of the instrumentation scope.
pub const SCOPE: &str = "sinew";

/// Operation name of every call span.
pub const EXECUTE_TOOL: &str = "execute_tool";

/// Value of `error.type` for a cause without its own name, and label for unknown names.
pub const OTHER: &str = "_OTHER";

/// Names of span, metric and log attributes.
pub mod attribute {
    #![allow(missing_docs)] // the names are the documentation
    pub const OPERATION_NAME: &str = "gen_ai.operation.name";
    pub const TOOL_NAME: &str = "gen_ai.tool.name";
    pub const TOOL_TYPE: &str = "gen_ai.tool.type";
    pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
    pub const TOOL_CALL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
    pub const TOOL_CALL_RESULT: &str = "gen_ai.tool.call.result";
    pub const ERROR_TYPE: &str = "error.type";
    pub const MCP_METHOD_NAME: &str = "mcp.method.name";
    pub const MCP_PROTOCOL_VERSION: &str = "mcp.protocol.version";
    pub const NETWORK_TRANSPORT: &str = "network.transport";
    pub const MODE: &str = "sinew.mode";
    pub const OUTCOME: &str = "sinew.outcome";
    pub const SESSION: &str = "sinew.session";
    pub const STAGE: &str = "sinew.stage";
    pub const POLICY_DECISION: &str = "sinew.policy.decision";
    pub const POLICY_RULE: &str = "sinew.policy.rule";
    pub const APPROVAL_ID: &str = "sinew.approval.id";
    pub const APPROVAL_OUTCOME: &str = "sinew.approval.outcome";
    pub const SANDBOX_TIER: &str = "sinew.sandbox.tier";
    pub const UNIT: &str = "sinew.unit";
}

/// Names of metrics.
pub mod metric {
    #![allow(missing_docs)] // the names are the documentation
    pub const OPERATION_DURATION: &str = "mcp.server.operation.duration";
    pub const TOOL_CALLS: &str = "sinew.tool.calls";
    pub const TOOL_DURATION: &str = "sinew.tool.duration";
    pub const POLICY_DECISIONS: &str = "sinew.policy.decisions";
    pub const APPROVALS: &str = "sinew.approvals";
    pub const APPROVAL_WAIT: &str = "sinew.approval.wait";
    pub const APPROVALS_PENDING: &str = "sinew.approvals.pending";
    pub const TOOLS_RUNNING: &str = "sinew.tools.running";
    pub const TRUNCATED_BYTES: &str = "sinew.output.truncated_bytes";
    pub const TRUNCATED_ITEMS: &str = "sinew.output.truncated_items";
    pub const LOST_RECORDS: &str = "sinew.ledger.lost_records";

    /// Bucket boundaries of every duration in seconds, as the MCP conventions define them.
    pub const DURATION_BOUNDARIES: [f64; 14] =
        [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
}

#[cfg(test)]
mod tests {
    /// `docs/telemetry.md` is the only reference for building dashboards, so it must be complete.
    #[test]
    fn every_name_is_documented() {
        const PAGE: &str = include_str!("../../../docs/telemetry.md");
        let (names, events) = (include_str!("conventions.rs"), include_str!("event.rs"));
        let (_, events) = events.split_once("pub fn name(&self)").unwrap();
        let quoted = |text: &'static str, before: &'static str| {
            text.lines().filter_map(move |line| line.split_once(before)?.1.split('"').next())
        };
        let all: Vec<&str> = quoted(names, "str = \"").chain(quoted(events, "=> \"")).collect();
        assert!(all.len() > 40, "{all:?}");
        for name in all {
            assert!(PAGE.contains(&format!("`{name}")), "`{name}` is not in docs/telemetry.md");
        }
    }
}
