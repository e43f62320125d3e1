"""Tools of the daemon as tools of agent frameworks. Each framework is imported when its adapter is called.

The model gets the same text as that of an MCP client, which the daemon makes. A refused or failed call is returned
to the model too, so that it can correct itself; it does not end the run of the agent.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Awaitable, Callable

from . import _types

AsyncExecute = Callable[[str, dict[str, Any]], Awaitable[_types.ExecuteResult]]
Execute = Callable[[str, dict[str, Any]], _types.ExecuteResult]


@dataclasses.dataclass(frozen=True)
class Definition:
    """Name, description and argument schema of a tool, as models get them."""

    name: str
    description: str
    parameters: dict[str, Any]

    @classmethod
    def from_openai(cls, listed: dict[str, Any]) -> Definition:
        function = listed["function"]
        return cls(function["name"], function.get("description", ""), function["parameters"])


def model_text(result: _types.ExecuteResult) -> str:
    """Text for the model, made by the daemon: the output, or why the call did not succeed and how to correct it."""
    blocks = result.get("model_content") or []
    return "\n".join(block.get("text") or f"[{block.get('type')} content]" for block in blocks)


def pydantic_ai_toolset(definitions: list[Definition], execute: AsyncExecute) -> Any:
    """Toolset for `Agent(toolsets=[…])` of pydantic-ai."""
    from pydantic_ai import FunctionToolset, Tool

    def tool(definition: Definition) -> Any:
        async def run(**arguments: Any) -> Any:
            return model_text(await execute(definition.name, arguments))

        return Tool.from_schema(
            run, name=definition.name, description=definition.description, json_schema=definition.parameters
        )

    return FunctionToolset(tools=[tool(definition) for definition in definitions])


def langchain_tools(definitions: list[Definition], execute: AsyncExecute, blocking: Execute | None) -> list[Any]:
    """Tools for LangChain and LangGraph. The artifact of a tool message is the whole result."""
    from langchain_core.tools import StructuredTool, ToolException

    def answer(result: _types.ExecuteResult) -> tuple[str, _types.ExecuteResult]:
        if not result["success"]:
            raise ToolException(model_text(result))
        return model_text(result), result

    def tool(definition: Definition) -> Any:
        async def run(**arguments: Any) -> tuple[str, _types.ExecuteResult]:
            return answer(await execute(definition.name, arguments))

        def run_blocking(**arguments: Any) -> tuple[str, _types.ExecuteResult]:
            assert blocking is not None
            return answer(blocking(definition.name, arguments))

        return StructuredTool(
            name=definition.name,
            description=definition.description,
            args_schema=definition.parameters,
            coroutine=run,
            func=run_blocking if blocking is not None else None,
            response_format="content_and_artifact",
            handle_tool_error=True,
        )

    return [tool(definition) for definition in definitions]


def openai_agents_tools(definitions: list[Definition], execute: AsyncExecute) -> list[Any]:
    """Tools for `Agent(tools=[…])` of openai-agents."""
    from agents import FunctionTool

    def tool(definition: Definition) -> Any:
        async def run(context: Any, text: str) -> str:
            try:
                arguments = json.loads(text or "{}")
            except ValueError as error:
                return f"the arguments are not JSON: {error}"
            return model_text(await execute(definition.name, arguments))

        return FunctionTool(
            name=definition.name,
            description=definition.description,
            params_json_schema=definition.parameters,
            on_invoke_tool=run,
            # Strict mode would require every optional argument.
            strict_json_schema=False,
        )

    return [tool(definition) for definition in definitions]
