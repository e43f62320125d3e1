"""One tool that reads a file and checks nothing, by FastMCP over standard input and output."""

from fastmcp import FastMCP

server = FastMCP("bench")


@server.tool
def read_file(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


server.run(transport="stdio", show_banner=False)
