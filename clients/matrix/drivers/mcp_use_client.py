"""mcp-use. Its sessions report no progress."""

import os

os.environ["MCP_USE_ANONYMIZED_TELEMETRY"] = "false"

from mcp_use import MCPClient  # noqa: E402 - the variable is read at the import

from python_driver import bridge, result, run, serve  # noqa: E402


class Client:
    def __init__(self, session):
        self.session = session

    async def list(self):
        return [tool.name for tool in await self.session.list_tools()]

    async def call(self, name, arguments, on_progress):
        reply = await self.session.call_tool(name, arguments)
        return result(reply.isError, reply.content, reply.structuredContent)


async def main():
    client = MCPClient(config={"mcpServers": {"sinew": bridge()}})
    session = await client.create_session("sinew")
    try:
        await serve(Client(session))
    finally:
        await client.close_all_sessions()


run(main)
