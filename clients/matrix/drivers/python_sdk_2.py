"""Official Python SDK, version 2, in the newest revision that both sides know."""

import mcp
from mcp.client.stdio import StdioServerParameters

from python_driver import bridge, result, run, serve


class Client:
    def __init__(self, client):
        self.client = client

    async def list(self):
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def call(self, name, arguments, on_progress):
        async def progress(step, total, message):
            on_progress()

        reply = await self.client.call_tool(name, arguments, progress_callback=progress if on_progress else None)
        return result(reply.is_error, reply.content, reply.structured_content)


async def main():
    async with mcp.Client(StdioServerParameters(**bridge()), mode="auto") as client:
        await serve(Client(client))


run(main)
