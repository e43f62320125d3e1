"""Client for asyncio, traces and adapters against a real daemon."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, Coroutine

import pytest

from sinew_client import AsyncControl, AsyncSinew, Progress, Refused, Sinew
from sinew_client.pytest_plugin import SinewDaemon
from test_client import processes_with


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, timeout=50))


def client(daemon: SinewDaemon, **options: Any) -> AsyncSinew:
    return AsyncSinew(home=daemon.home, cwd=str(daemon.workspace), **options)


def test_200_calls_run_on_one_connection(sinew_daemon: SinewDaemon) -> None:
    sinew_daemon.workspace.joinpath("a.txt").write_text("x" * 100_000)

    async def work() -> None:
        async with client(sinew_daemon) as s:
            results = await asyncio.gather(*(s.call("read_file", path="a.txt") for _ in range(200)))
            assert all(len(result["content"]) == 100_000 for result in results)

    run(work())


def test_cancelled_task_ends_the_process(sinew_daemon: SinewDaemon) -> None:
    name = f"followed-{time.monotonic_ns()}.txt"
    sinew_daemon.workspace.joinpath(name).write_text("one\n")

    async def work() -> None:
        async with client(sinew_daemon) as s:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(s.call("run_command", command=["tail", "-f", name]), timeout=2)
            deadline = time.monotonic() + 5
            while processes_with(name):
                assert time.monotonic() < deadline, "tail still runs"
                await asyncio.sleep(0.02)

    run(work())


def test_approval_is_awaited_and_watched(sinew_daemon: SinewDaemon) -> None:
    async def decide(control: AsyncControl) -> None:
        async for _ in control.follow("control/approvals.watch"):
            for waiting in await control.approvals():
                await control.approve(waiting["id"])
                return

    async def work() -> None:
        async with client(sinew_daemon) as s, AsyncControl(home=sinew_daemon.home) as control:
            await control.request("control/mode.set", {"mode": "ALERT", "reason": "test"})
            deciding = asyncio.create_task(decide(control))
            await asyncio.sleep(0.2)
            approval = await s.request_approval("write_file", path="a.txt", content="hello")
            assert approval.id is not None
            assert (await approval)["created"] is True
            await deciding

    run(work())


def test_progress_callback_may_be_a_coroutine(sinew_daemon: SinewDaemon) -> None:
    seen: list[str | None] = []

    async def follow(progress: Progress) -> None:
        await asyncio.sleep(0)
        seen.append(progress.message)

    sinew_daemon.workspace.joinpath("a.txt").write_text("x")

    async def work() -> None:
        async with client(sinew_daemon, on_progress=follow) as s:
            await s.call("run_command", command=["ls"])

    run(work())
    assert seen


def test_current_span_is_the_parent_of_the_call(sinew_daemon: SinewDaemon) -> None:
    trace = pytest.importorskip("opentelemetry.sdk.trace")

    async def work() -> None:
        async with client(sinew_daemon) as s:
            with trace.TracerProvider().get_tracer("test").start_as_current_span("turn") as span:
                result = await s.execute("runtime_status")
            expected = format(span.get_span_context().trace_id, "032x")
            assert result["metadata"]["trace_id"] == expected
            assert (await s.execute("runtime_status"))["metadata"]["trace_id"] != expected

    run(work())


def test_pydantic_ai_agent_reads_and_corrects_itself(sinew_daemon: SinewDaemon) -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    sinew_daemon.workspace.joinpath("a.txt").write_text("hello")
    returned: list[Any] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        for part in messages[-1].parts:
            if isinstance(part, ToolReturnPart):
                returned.append(part.content)
        if not returned:
            return ModelResponse(parts=[ToolCallPart("read_file", {"pth": "a.txt"})])
        if len(returned) == 1:
            return ModelResponse(parts=[ToolCallPart("read_file", {"path": "a.txt"})])
        return ModelResponse(parts=[TextPart("done")])

    async def work() -> None:
        async with client(sinew_daemon) as s:
            agent = pydantic_ai.Agent(FunctionModel(model), toolsets=[await s.as_pydantic_ai_toolset()])
            assert (await agent.run("read it")).output == "done"

    run(work())
    assert 'Call again with: {"path":"a.txt"}' in returned[0], "the refusal has the repair"
    assert returned[1] == "hello", "the text, not the digests"


def test_langchain_tools_work_blocking_and_async(sinew: Sinew, sinew_daemon: SinewDaemon) -> None:
    pytest.importorskip("langchain_core")
    sinew_daemon.workspace.joinpath("a.txt").write_text("hello")
    tools = {tool.name: tool for tool in sinew.as_langchain_tools()}
    call = {"name": "read_file", "args": {"path": "a.txt"}, "id": "1", "type": "tool_call"}
    message = tools["read_file"].invoke(call)
    assert message.content == "hello"
    assert message.artifact["metadata"]["call_id"] and message.artifact["output"]["size"] == 5
    refused = asyncio.run(tools["read_file"].ainvoke({**call, "args": {"path": "/etc/shadow"}}))
    assert refused.status == "error" and "forbidden" in refused.content


def test_openai_agents_tools_return_text(sinew_daemon: SinewDaemon) -> None:
    pytest.importorskip("agents")
    sinew_daemon.workspace.joinpath("a.txt").write_text("hello")

    async def work() -> None:
        async with client(sinew_daemon) as s:
            tools = {tool.name: tool for tool in await s.as_openai_agents_tools()}
            assert await tools["read_file"].on_invoke_tool(None, '{"path": "a.txt"}') == "hello"
            assert "forbidden" in await tools["read_file"].on_invoke_tool(None, '{"path": "/etc/shadow"}')
            outside = '{"path": "/etc/hostname"}'
            refusal = (await s.execute("read_file", json.loads(outside)))["metadata"].get("refusal")
            assert refusal is not None and "`sinew " in (refusal.get("hint") or ""), "it says what to run"
            text = await tools["read_file"].on_invoke_tool(None, outside)
            assert "use a path inside" in text and "`sinew " not in text, text
            assert "not JSON" in await tools["read_file"].on_invoke_tool(None, "{")

    run(work())


def test_refused_is_raised_in_a_session(sinew_daemon: SinewDaemon) -> None:
    async def work() -> None:
        async with client(sinew_daemon) as s:
            async with await s.session(["read_file"]) as worker:
                with pytest.raises(Refused):
                    await worker.call("run_command", command=["ls"])

    run(work())
