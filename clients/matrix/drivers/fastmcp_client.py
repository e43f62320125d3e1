"""FastMCP client."""

import fastmcp
from fastmcp.client.transports import StdioTransport

from python_driver import bridge, result, run, serve


class Client:
    def __init__(self, client):
        self.client = client

    async def list(self):
        return [tool.name for tool in await self.client.list_tools()]

    async def call(self, name, arguments, on_progress):
        async def progress(step, total, message):
            on_progress()

        handler = progress if on_progress else None
        reply = await self.client.call_tool(name, arguments, raise_on_error=False, progress_handler=handler)
        return result(reply.is_error, reply.content, reply.structured_content)


async def main():
    async with fastmcp.Client(StdioTransport(**bridge())) as client:
        await serve(Client(client))


run(main)
