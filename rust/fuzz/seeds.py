"""Writes the inputs that fuzzing begins with: python3 rust/fuzz/seeds.py FOLDER TARGET.

Any bytes are a program (src/program.rs), so seeds are random bytes: always the same, in some lengths,
some for each pattern (the first byte) and, where merges follow, few or many of them (the fourth).
For `render` and `templates` they are documents, one of each shape for each dialect (the first byte), and runs of the
pieces that documents are made of (src/documents.rs), which stand where a byte is not ASCII. For `json`
they are lines.
"""

import random
import sys
from pathlib import Path

DOCUMENTS = (
    b'[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"python","text":"1"}]}]',
    b'{"messages":[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"a",'
    b'"function":{"name":"python","arguments":"{\\"code\\":\\"1\\"}"}}]},{"role":"tool",'
    b'"tool_call_id":"a","content":"1"}]}',
    b'{"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a"}],"system":"s"}',
    b'{"question":"q","answer":"a<<1=2>>b"}',
    b'{"instruction":"i","input":"q","output":"a","history":[["q","a"]],"system":"s"}',
    b'{"prompt":"<image>q","response":"<|ref|>","image_token_counts":[2]}',
    b'{"text":"<image>q<|ref|>x<|assistant_end|>","image_token_counts":[2]}\x1e{}\x1e{"text":"a"}',
)

LINES = (
    *DOCUMENTS,
    rb' {"text":"a\u00e9\ud83d\ude42\n\"","id":-7,"more":[1.5e3,true,null,{"text":"b"}]}',
    rb'{"te\u0078t":"\ud800","id":"x","text":null,"n":[NaN,-Infinity,01]}',
)


def programs() -> dict[str, bytes]:
    """Return random programs."""
    found = {}
    for pattern in range(8):
        for number, length in enumerate((8, 20, 50, 150)):
            head = bytes([pattern, random.randrange(256), random.randrange(256), 12 * number])
            found[f"{pattern}-{number}"] = head + random.randbytes(length)
    return found


def documents() -> dict[str, bytes]:
    """Return documents for every dialect, and random pieces."""
    found = {}
    for dialect in range(32):
        for number, document in enumerate(DOCUMENTS):
            found[f"{dialect}-{number}"] = bytes([dialect]) + document
        pieces = bytes(random.randrange(128, 256) for _ in range(60))
        found[f"{dialect}-pieces"] = bytes([dialect]) + pieces
    return found


def seeds(target: str) -> dict[str, bytes]:
    """Return the inputs of a target by their names."""
    if target == "json":
        return {str(number): line for number, line in enumerate(LINES)}
    return documents() if target in {"render", "templates"} else programs()


folder, target = Path(sys.argv[1]), sys.argv[2]
folder.mkdir(parents=True, exist_ok=True)
random.seed(0)
for name, seed in seeds(target).items():
    (folder / name).write_bytes(seed)
