"""MCP server that sends excessive or unrequested messages. Its first argument selects the kind."""
import json
import sys

HOW = sys.argv[1]


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def answer(number, result):
    say(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}))


def text(words):
    return {"content": [{"type": "text", "text": words}]}


for line in sys.stdin:
    request = json.loads(line)
    number, method, params = request.get("id"), request.get("method"), request.get("params", {})
    if number is None:
        continue
    if method == "initialize":
        answer(number, {"protocolVersion": params["protocolVersion"], "capabilities": {}, "serverInfo": {}})
    elif method == "tools/list":
        named = ["do", "x" * 200_000, "a b\x1b"] if HOW == "names" else ["do"]
        schema = {"enum": [0] * 200_000} if HOW == "definitions" else {}
        answer(number, {"tools": [{"name": name, "inputSchema": schema} for name in named]})
    elif HOW == "zeros":
        zeros = "0," * 1_000_000
        say('{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":[%s0]}}' % (number, zeros))
    elif HOW == "notices":
        # Nested deeper than the parser permits, so a client that parses the notification fails.
        say('{"jsonrpc":"2.0","method":"notifications/message","params":%s%s}' % ("[" * 5000, "]" * 5000))
        answer(number, text("done"))
    elif HOW == "ahead":
        answer(number, text("this"))
        answer(number + 1, text("the next, before it was asked"))
    else:
        answer(number, text("done"))
