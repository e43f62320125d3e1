"""Server of the official library with the SSE transport of 2024-11-05. It prints its port, and ends when its standard
input is closed."""
import os
import socket
import sys
import threading

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("far")


@server.tool()
def echo(text: str) -> str:
    """Says it again"""
    return text


def end_with_input():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=end_with_input, daemon=True).start()
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(server.sse_app(), log_level="error")).run(sockets=[listener])
