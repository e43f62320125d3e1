"""One tool that reads a file, behind a middleware that checks its path, by FastMCP over standard input and output.

Its only argument is the folder in which files may be read.
"""

import sys
from pathlib import Path

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import Middleware

ALLOWED = Path(sys.argv[1]).resolve()


class PathCheck(Middleware):
    async def on_call_tool(self, context, call_next):
        path = Path(context.message.arguments["path"]).resolve()
        if not path.is_relative_to(ALLOWED):
            raise ToolError(f"{path} is not allowed")
        return await call_next(context)


server = FastMCP("bench", middleware=[PathCheck()])


@server.tool
def read_file(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


server.run(transport="stdio", show_banner=False)
