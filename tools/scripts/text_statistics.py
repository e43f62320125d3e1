"""Counts lines, words and the most common words of a text. Reads and writes JSON."""

import collections
import json
import re
import sys

call = json.load(sys.stdin)
arguments = call["arguments"]
text = arguments.get("text")
if text is None:
    with open(arguments["path"], encoding="utf-8", errors="replace") as file:
        text = file.read()
words = re.findall(r"\w+", text.lower())
most = collections.Counter(words).most_common(arguments.get("top", 5))
json.dump(
    {
        "lines": len(text.splitlines()),
        "words": len(words),
        "characters": len(text),
        "commonest": [{"word": word, "count": count} for word, count in most],
    },
    sys.stdout,
)
