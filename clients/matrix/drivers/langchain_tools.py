"""langchain-mcp-adapters: the tools as LangChain tools."""

from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools

from python_driver import bridge, run, serve


class Client:
    def __init__(self, tools, followers):
        self.tools, self.followers = {tool.name: tool for tool in tools}, followers

    async def list(self):
        return list(self.tools)

    async def call(self, name, arguments, on_progress):
        call = {"name": name, "args": arguments, "id": "1", "type": "tool_call"}
        if on_progress:
            self.followers.append(on_progress)
        message = await self.tools[name].ainvoke(call)
        content = message.content
        text = content if isinstance(content, str) else "\n".join(block.get("text", "") for block in content)
        artifact = message.artifact or {}
        structured = artifact.get("structured_content") if isinstance(artifact, dict) else None
        return {"is_error": message.status == "error", "text": text, "structured": structured}


async def main():
    followers = []

    async def progress(step, total, message, context):
        for follower in followers:
            follower()

    client = MultiServerMCPClient({"sinew": {"transport": "stdio", **bridge()}})
    async with client.session("sinew") as session:
        tools = await load_mcp_tools(session, callbacks=Callbacks(on_progress=progress))
        await serve(Client(tools, followers))


run(main)
