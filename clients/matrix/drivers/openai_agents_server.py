"""openai-agents: its MCP server object. It reports no progress."""

from agents.mcp import MCPServerStdio, MCPUtil

from python_driver import bridge, result, run, serve


class Client:
    def __init__(self, server):
        self.server = server

    async def list(self):
        tools = await self.server.list_tools()
        # The converter leaves a schema that OpenAI's strict mode does not accept as it is, without an error.
        lax = [tool.name for tool in tools if not MCPUtil.to_function_tool(tool, self.server, True).strict_json_schema]
        if lax:
            raise ValueError(f"not accepted in strict mode: {lax}")
        return [tool.name for tool in tools]

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
