"""FastMCP as a proxy in front of another server. Its arguments are the command of that server."""

import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy

# A plain client passes no requests of the server on, such as one for the roots, which the benchmark does not answer.
server = Client(StdioTransport(sys.argv[1], sys.argv[2:]))
create_proxy(server, name="bench").run(transport="stdio", show_banner=False)
