"""One tool that reads a file and checks nothing, by the official Python SDK over standard input and output."""

from mcp.server import MCPServer

server = MCPServer("bench")


@server.tool()
def read_file(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


server.run(transport="stdio")
