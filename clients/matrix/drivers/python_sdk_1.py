"""Official Python SDK, version 1."""

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from python_driver import bridge, result, run, serve


class Client:
    def __init__(self, session):
        self.session = session

    async def list(self):
        return [tool.name for tool in (await self.session.list_tools()).tools]

    async def call(self, name, arguments, on_progress):
        async def progress(step, total, message):
            on_progress()

        reply = await self.session.call_tool(name, arguments, progress_callback=progress if on_progress else None)
        return result(reply.isError, reply.content, reply.structuredContent)


async def main():
    async with stdio_client(StdioServerParameters(**bridge())) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            await serve(Client(session))


run(main)
