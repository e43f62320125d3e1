//! Export of a definition to the formats that other programs read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::model_schema::{model_input_schema, model_output_schema};
use crate::ToolDefinition;

/// Format of an exported tool definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolFormat {
    /// Sinew's own format, with all governance facts.
    #[default]
    Native,
    /// Model Context Protocol.
    Mcp,
    /// OpenAI function calling.
    Openai,
    /// Anthropic tool use.
    Anthropic,
}

impl ToolFormat {
    /// Converts the definition to this format.
    pub fn export(self, definition: &ToolDefinition) -> Value {
        match self {
            ToolFormat::Native => serde_json::to_value(definition).unwrap_or_default(),
            ToolFormat::Mcp => mcp(definition),
            ToolFormat::Openai => json!({"type": "function", "function": {
                "name": definition.name_without_dots(),
                "description": definition.description(),
                "parameters": model_input_schema(definition.input_schema()),
            }}),
            ToolFormat::Anthropic => json!({
                "name": definition.name_without_dots(),
                "description": definition.description(),
                "input_schema": model_input_schema(definition.input_schema()),
            }),
        }
    }
}

fn mcp(definition: &ToolDefinition) -> Value {
    let mut tool = json!({
        "name": definition.name_without_dots(),
        "description": definition.description(),
        "inputSchema": model_input_schema(definition.input_schema()),
        "annotations": definition.annotations(),
        "_meta": {
            "sinew/category": definition.category(),
            "sinew/risk": definition.risk_level(),
            "sinew/version": definition.version(),
        },
    });
    if let (Some(schema), Some(tool)) = (definition.output_schema(), tool.as_object_mut()) {
        tool.insert("outputSchema".into(), model_output_schema(schema));
    }
    tool
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::ToolParameter;
    use crate::{Category, RiskLevel, ToolSpec};

    fn definition() -> ToolDefinition {
        let mut spec = ToolSpec::new("git.status", "Status", Category::READ_ONLY, RiskLevel::Low);
        spec.parameters = vec![ToolParameter::new("path", crate::definition::ParameterType::String, "where")];
        spec.output_schema = Some(json!({"type": "object"}));
        spec.check().unwrap()
    }

    #[test]
    fn each_format_has_its_shape() {
        let definition = definition();
        let schema = model_input_schema(definition.input_schema());
        let mcp = ToolFormat::Mcp.export(&definition);
        assert_eq!((&mcp["name"], &mcp["inputSchema"]), (&json!("git__status"), &schema));
        assert_eq!(mcp["outputSchema"], json!({"type": "object"}));
        let openai = ToolFormat::Openai.export(&definition);
        assert_eq!(openai["type"], "function");
        assert_eq!(openai["function"]["name"], "git__status");
        assert_eq!(openai["function"]["parameters"]["additionalProperties"], false);
        let anthropic = ToolFormat::Anthropic.export(&definition);
        assert_eq!((&anthropic["name"], &anthropic["input_schema"]), (&json!("git__status"), &schema));
        let native = ToolFormat::Native.export(&definition);
        assert_eq!(native["definition_hash"], definition.hash());
        assert_eq!(native["parameters"][0]["name"], "path");
    }

    #[test]
    fn native_format_round_trips() {
        let native = ToolFormat::Native.export(&definition());
        let again = ToolSpec::from_native(native.clone()).unwrap().check().unwrap();
        assert_eq!(ToolFormat::Native.export(&again), native);
    }
}
