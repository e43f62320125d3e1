"""openai-agents: its MCP server object. It reports no progress."""

from agents.mcp import MCPServerStdio

from python_driver import bridge, result, run, serve


class Client:
    def __init__(self, server):
        self.server = server

    async def list(self):
        return [tool.name for tool in await self.server.list_tools()]

    async def call(self, name, arguments, on_progress):
        reply = await self.server.call_tool(name, arguments)
        # Version 2 of the SDK renames the attributes.
        error = reply.is_error if hasattr(reply, "is_error") else reply.isError
        structured = reply.structured_content if hasattr(reply, "structured_content") else reply.structuredContent
        return result(error, reply.content, structured)


async def main():
    async with MCPServerStdio(params=bridge(), client_session_timeout_seconds=60) as server:
        await serve(Client(server))


run(main)
