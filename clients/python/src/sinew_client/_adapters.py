"""Tools of the daemon as tools of agent frameworks. Each framework is imported when its adapter is called.

A refused or failed call is returned to the model as text, so that it can correct itself; it does not end the run
of the agent.
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


def without_operator_commands(hint: str) -> str:
    """Removes the clauses of a hint that tell the reader to run `sinew`, which a model cannot do."""
    if "`sinew " not in hint:
        return hint
    clauses = [clause for part in hint.split("; ") for clause in part.split(", or ")]
    return "; ".join(clause for clause in clauses if "`sinew " not in clause)


def error_text(result: _types.ExecuteResult) -> str:
    """Text for the model about a call that did not succeed."""
    refusal = result["metadata"].get("refusal")
    parts = [result["error"] or "the call did not succeed"]
    if refusal is not None:
        hint, repair = without_operator_commands(refusal.get("hint") or ""), refusal.get("repair")
        if hint:
            parts.append(f"Hint: {hint}")
        if repair:
            parts.append(f"These arguments would be accepted: {json.dumps(repair['arguments'], ensure_ascii=False)}")
    return "\n".join(parts)


def output_text(output: Any) -> str:
    """Output of a tool as text."""
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def pydantic_ai_toolset(definitions: list[Definition], execute: AsyncExecute) -> Any:
    """Toolset for `Agent(toolsets=[…])` of pydantic-ai."""
    from pydantic_ai import FunctionToolset, Tool

    def tool(definition: Definition) -> Any:
        async def run(**arguments: Any) -> Any:
            result = await execute(definition.name, arguments)
            return result["output"] if result["success"] else error_text(result)

        return Tool.from_schema(
            run, name=definition.name, description=definition.description, json_schema=definition.parameters
        )

    return FunctionToolset(tools=[tool(definition) for definition in definitions])


def langchain_tools(definitions: list[Definition], execute: AsyncExecute, blocking: Execute | None) -> list[Any]:
    """Tools for LangChain and LangGraph. The artifact of a tool message is the whole result."""
    from langchain_core.tools import StructuredTool, ToolException

    def answer(result: _types.ExecuteResult) -> tuple[str, _types.ExecuteResult]:
        if not result["success"]:
            raise ToolException(error_text(result))
        return output_text(result["output"]), result

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
            result = await execute(definition.name, arguments)
            return output_text(result["output"]) if result["success"] else error_text(result)

        return FunctionTool(
            name=definition.name,
            description=definition.description,
            params_json_schema=definition.parameters,
            on_invoke_tool=run,
            # Strict mode would require every optional argument.
            strict_json_schema=False,
        )

    return [tool(definition) for definition in definitions]
