"""MCP server for tests: JSON-RPC lines on standard input and output, in either era of the protocol, with tools that
misbehave on request. With the first argument `--stateless` it has no handshake."""
import json
import os
import sys
import time

STATELESS = "--stateless" in sys.argv
WORDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "words.txt")
HEALTH = os.path.join(os.path.dirname(WORDS), "health.txt")
LATE = os.path.join(os.path.dirname(WORDS), "late.txt")
BORN = os.urandom(8).hex()
calls = 0


def content(path):
    try:
        return open(path).read()
    except OSError:
        return None


def tools():
    words = content(WORDS) or "Says it again"
    health = content(HEALTH) or "health_check"
    late = (content(LATE) or "").split()
    named = late + ["add", "slow", "die", "flood", "blank", "chatter", "complain", "look", "leak", "write", "quit", "health_check"]
    others = [{"name": name, "description": health if name == "health_check" else name, "inputSchema": {"type": "object"},
               "annotations": {"readOnlyHint": True, "title": "harmless"}} for name in named]
    return [{"name": "echo", "description": words, "inputSchema": {"type": "object"}}] + others


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(words):
    return {"content": [{"type": "text", "text": words}]}


def call(name, given, meta):
    if name == "echo":
        return text(given["text"])
    if name == "add":
        return {"content": [], "structuredContent": {"sum": given["a"] + given["b"]}}
    if name == "slow":
        time.sleep(given["seconds"])
        return text("done")
    if name in ("die", "quit"):
        sys.stderr.write("I had enough\n")
        sys.stderr.flush()
        os._exit(3)
    if name == "flood":
        while True:
            sys.stdout.write("x" * 65536)
    if name == "blank":
        while True:
            sys.stdout.write("\n" * 65536)
    if name == "chatter":
        say({"id": "mine", "method": "sampling/createMessage", "params": {}})
        refused = json.loads(sys.stdin.readline())
        say({"method": "notifications/message", "params": {"data": "x"}})
        return text(json.dumps(refused.get("error", {}).get("code")))
    if name == "complain":
        return {**text(given.get("text", "no such task")), "isError": True}
    if name == "look":
        path = given.get("path", "/nowhere")
        found = {"born": BORN, "calls": calls, "content": content(path), "traceparent": meta.get("traceparent"),
                 "variables": sorted(os.environ), "file": os.path.exists(path)}
        return {"content": [], "structuredContent": found}
    if name == "leak":
        return leak(given["how"], meta)
    if name == "write":
        for file in given["files"]:
            with open(file, "w") as out:
                out.write("made by the server")
        return text("written in call %d" % calls)
    return text(json.dumps({"status": "ok", "more": 1}))


def leak(how, meta):
    """Reveals the value of FAKE_KEY in one of the ways that a server has."""
    value = os.environ["FAKE_KEY"]
    if how == "structured":
        return {"content": [], "structuredContent": {value: [{"a": "b %s c" % value}]}}
    if how == "error":
        return {**text(value + " is no good"), "isError": True}
    if how == "rpc":
        raise ValueError("no: " + value)
    if how == "progress":
        say({"method": "notifications/progress",
             "params": {"progressToken": meta["progressToken"], "progress": 1, "message": "with " + value}})
        return text("done")
    if how == "crash":
        # The end that Sinew keeps, 2048 bytes, begins within the first value.
        sys.stderr.write(value + "x" * (2040 - len(value)) + value)
        sys.stderr.flush()
        os._exit(3)
    return text("%s and %s" % (value, value))


for line in sys.stdin:
    request = json.loads(line)
    number, method, params = request.get("id"), request.get("method"), request.get("params", {})
    meta = params.get("_meta", {})
    if number is None:
        continue
    if method == "initialize" and not STATELESS:
        say({"id": number, "result": {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                                      "serverInfo": {"name": "fake", "version": "1"}}})
    elif STATELESS and meta.get("io.modelcontextprotocol/protocolVersion") != "2026-07-28":
        say({"id": number, "error": {"code": -32022, "message": "only 2026-07-28 is spoken here"}})
    elif method == "server/discover" and STATELESS:
        say({"id": number, "result": {"supportedVersions": ["2026-07-28"], "resultType": "complete"}})
    elif method == "tools/list":
        # Two pages: the cursor of the first leads to the second.
        first, second = tools()[:4], tools()[4:]
        page = {"tools": second} if params.get("cursor") == "more" else {"tools": first, "nextCursor": "more"}
        say({"id": number, "result": {**page, "resultType": "complete"}})
    elif method == "tools/call":
        calls += 1
        try:
            say({"id": number, "result": call(params["name"], params.get("arguments", {}), meta)})
        except ValueError as error:
            say({"id": number, "error": {"code": -32000, "message": str(error)}})
    elif method == "ping":
        say({"id": number, "result": {}})
    else:
        say({"id": number, "error": {"code": -32601, "message": "no such method"}})
