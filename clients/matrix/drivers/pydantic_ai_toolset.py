"""pydantic-ai: its MCP toolset, called by an agent run with a scripted model."""

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from fastmcp.client.transports import StdioTransport

from python_driver import bridge, run, serve


class Client:
    def __init__(self, toolset):
        self.toolset = toolset

    async def list(self):
        return [tool.name for tool in await self.toolset.list_tools()]

    async def call(self, name, arguments, on_progress):
        reply = {}

        def model(messages, info):
            for part in messages[-1].parts:
                if isinstance(part, (ToolReturnPart, RetryPromptPart)):
                    structured = part.content if isinstance(part.content, dict) else None
                    text = part.content if isinstance(part.content, str) else str(part.content)
                    failed = isinstance(part, RetryPromptPart) or getattr(part, "outcome", "success") not in ("success",)
                    reply.update(is_error=failed, text=text, structured=structured)
                    return ModelResponse(parts=[TextPart("done")])
            return ModelResponse(parts=[ToolCallPart(name, arguments)])

        await Agent(FunctionModel(model), toolsets=[self.toolset]).run("call it")
        return reply


async def main():
    toolset = MCPToolset(StdioTransport(**bridge()), max_retries=3)
    async with toolset:
        await serve(Client(toolset))


run(main)
