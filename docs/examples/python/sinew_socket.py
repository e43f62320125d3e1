"""Transport for the official `mcp` SDK: newline-delimited JSON-RPC over Sinew's Unix socket."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

LONGEST_LINE = 16 * 1024 * 1024
"""Limit of a line. The default of asyncio is 64 KiB; a line of Sinew may have 16 MiB."""


@asynccontextmanager
async def sinew_socket(path: str) -> AsyncGenerator[tuple]:
    """Connects to `agent.sock` or to the socket of a worker session."""
    reader, writer = await asyncio.open_unix_connection(path, limit=LONGEST_LINE)
    to_session, incoming = anyio.create_memory_object_stream(0)
    outgoing, from_session = anyio.create_memory_object_stream(0)

    async def receive() -> None:
        async with to_session:
            while line := await reader.readline():
                await to_session.send(SessionMessage(jsonrpc_message_adapter.validate_json(line)))

    async def send() -> None:
        async with from_session:
            async for item in from_session:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(text.encode() + b"\n")
                await writer.drain()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        tasks.start_soon(send)
        try:
            yield incoming, outgoing
        finally:
            tasks.cancel_scope.cancel()
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
