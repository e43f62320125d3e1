"""Example orchestrator: lists Sinew's tools, calls one, and repairs a call that was refused.

    python orchestrator.py SOCKET FILE [legacy|auto]     over the daemon's agent.sock
    python orchestrator.py --bridge FILE [legacy|auto]   through `sinew mcp`, which starts a daemon if none runs
"""

import asyncio
import os
import sys

from mcp import Client
from mcp.client.stdio import StdioServerParameters

from sinew_socket import sinew_socket


def server(where: str):
    if where != "--bridge":
        return sinew_socket(where)
    environment = {name: os.environ[name] for name in ("HOME", "PATH", "SINEW_HOME") if name in os.environ}
    return StdioServerParameters(command=os.environ.get("SINEW", "sinew"), args=["mcp"], env=environment)


async def main(where: str, path: str, mode: str = "auto") -> None:
    async with Client(server(where), mode=mode) as client:
        print("protocol", client.session.protocol_version)
        tools = await client.list_tools()
        print("tools", " ".join(tool.name for tool in tools.tools))

        # A misspelt argument is refused; the refusal contains arguments that would be permitted.
        refused = await client.call_tool("read_file", {"file_path": path})
        assert refused.is_error, refused
        refusal = refused.meta["sinew/refusal"]
        print("refused", refusal["code"])

        mended = await client.call_tool("read_file", refusal["repair"]["arguments"])
        assert not mended.is_error, mended
        print("content", mended.structured_content["content"])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
