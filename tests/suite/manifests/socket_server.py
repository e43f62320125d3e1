"""Server of the official library over a WebSocket. It prints its port, and ends when its standard input is closed."""
import os
import socket
import sys
import threading

import uvicorn
from mcp.server.fastmcp import FastMCP
from mcp.server.websocket import websocket_server

server = FastMCP("wired")


@server.tool()
def echo(text: str = "well") -> str:
    """Says it again"""
    return text


async def app(scope, receive, send):
    if scope["type"] != "websocket" or scope["path"] != "/ws":
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close"})
        return
    inner = server._mcp_server
    async with websocket_server(scope, receive, send) as (reading, writing):
        await inner.run(reading, writing, inner.create_initialization_options())


def end_with_input():
    sys.stdin.read()
    os._exit(0)


threading.Thread(target=end_with_input, daemon=True).start()
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off")).run(sockets=[listener])
