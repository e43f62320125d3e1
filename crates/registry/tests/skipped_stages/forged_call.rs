//! A checked call cannot be created outside the guardrail.

use std::sync::Arc;

use guardrail::ValidCall;
use tool::{Arguments, ToolDefinition};

fn forge(definition: Arc<ToolDefinition>, arguments: Arguments) -> ValidCall {
    ValidCall { definition, arguments }
}

fn main() {}
