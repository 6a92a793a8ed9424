"""The small jobs whose outputs are stored: their recipes, and functions that write their inputs.

`golden_jobs` runs them. `{root}` in a recipe stands for a folder on a disk, and `{store}` for one
on S3. Inputs come from seeds; see `small_corpus`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from nanotok_ray.tokenizer import Tokenizer
from tests.support.small_corpus import conversations, texts

CODECS = {".gz": "gzip", ".zst": "zstd"}


class Case(NamedTuple):
    """A recipe, and the function that writes its inputs to a folder."""

    write: Callable[[Path], None]
    recipe: str


def _write_lines(path: Path, rows: Sequence[object]) -> None:
    """Write JSON lines, compressed as the suffix says; a value of bytes is a line as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        row if isinstance(row, bytes) else json.dumps(row, ensure_ascii=number % 2 == 0).encode()
        for number, row in enumerate(rows)
    ]
    data, codec = b"".join(line + b"\n" for line in lines), CODECS.get(path.suffix)
    path.write_bytes(data if codec is None else pa.compress(data, codec=codec, asbytes=True))


def _write_table(path: Path, rows: Sequence[Mapping[str, Any]], *, group: int) -> None:
    """Write a parquet file with row groups of `group` rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path, compression="zstd", row_group_size=group)


def _numbered(documents: Sequence[str]) -> list[dict[str, object]]:
    """Return rows with a number and a text."""
    return [{"id": number, "text": text} for number, text in enumerate(documents)]


TEXTS = """
[[source]]
name = "web"
kind = "text"
paths = ["{root}/in/web/*.parquet"]
id_column = "id"
weight = "3"

[[source]]
name = "notes"
kind = "text"
paths = ["{root}/in/notes"]
column = "body"
id_column = "key"
split = "share:0.25"
weight = "0.5"

[[source]]
name = "lines"
kind = "text"
paths = ["{root}/in/lines/*.txt"]
format = "lines"
split = "train"

[[source]]
name = "papers"
kind = "text"
paths = ["{root}/in/papers/*.md"]
format = "document"
split = "files"
val_files = ["*3.md"]
prepend = []
append = ["<|end|>"]

[tokenizer]
vocab_size = 340
also = [300, 320]
extra_special_tokens = ["<|end|>"]
min_count = 2
min_pair_count = 3
max_token_bytes = 6

[output]
path = "{root}/out"
work = "{root}/work"

[limits]
slice_bytes = 1500
"""


ODD_LINES = [
    b'\xef\xbb\xbf{"key": "after a byte order mark", "body": "first line"}',
    b'  {"key": "spaces", "body": "\\u0000 \\t \\u00e9"}\t\r',
    b"",
    b'{"key": "numbers", "body": "numbers", "x": [NaN, -Infinity, 1e999, 18446744073709551616]}',
    b'{"key": 123456789012345678901234567890, "body": "a long id"}',
    b'{"key": "former", "key": "latter", "body": "former", "body": "latter"}',
    b'{"key": "\\ud800", "body": "half \\ud83d and whole \\ud83d\\ude00 and \\ude00"}',
    b'{"key": null, "body": "null"}',
    b'{"key": 1.5, "body": "1.5"}',
    b'{"body": ""}',
]
"""Lines that Python reads as JSON, though some other readers refuse them."""


def write_texts(root: Path) -> None:
    """Write texts in all four formats, some of them compressed."""
    for number in range(2):
        rows = _numbered(texts(12, seed=number))
        _write_table(root / f"in/web/part {number}.parquet", rows, group=6)
    for suffix, seed in (("gz", 2), ("zst", 3)):
        rows = [
            {"key": f"é-{seed}-{n}", "body": text} for n, text in enumerate(texts(6, seed=seed))
        ]
        _write_lines(root / f"in/notes/notes.jsonl.{suffix}", rows)
    _write_lines(root / "in/notes/odd.jsonl", ODD_LINES)
    lines = "".join(texts(6, seed=4)).splitlines()
    (root / "in/lines").mkdir()
    (root / "in/lines/naïve 数据.txt").write_text("\r\n".join(lines), encoding="utf-8", newline="")
    (root / "in/papers").mkdir()
    for number, text in enumerate(["", *texts(3, seed=5)]):
        (root / f"in/papers/{number}.md").write_text(text, encoding="utf-8")


CHATS = """
[[source]]
name = "web"
kind = "text"
paths = ["{root}/in/web.parquet"]
split = "train"

[[source]]
name = "chats"
kind = "chat"
paths = ["{root}/in/chats"]
split = "share:0.5"
count = true

[[source]]
name = "people"
kind = "chat"
paths = ["{root}/in/people/*.parquet"]

[[source]]
name = "custom"
kind = "chat"
paths = ["{root}/in/custom.jsonl"]
dialect = "customjson"
id_column = "id"

[tokenizer]
vocab_size = 320
pattern = "gpt4"

[output]
path = "{root}/out"
work = "{root}/work"

[limits]
slice_bytes = 1500
max_tokens = 200
too_long = "cut"
untrainable = "drop"
"""

CALL = {"name": "python", "arguments": '{"code": "print(6 * 7)"}'}
CALLED = [
    {"role": "system", "content": "Be brief. <|bos|>"},
    {"role": "user", "content": "What is 6 * 7?"},
    {
        "role": "assistant",
        "content": "I compute it.",
        "tool_calls": [{"id": "a", "type": "function", "function": CALL}],
    },
    {"role": "tool", "tool_call_id": "a", "content": "42"},
    {"role": "assistant", "content": "It is 42. <|assistant_end|>"},
]


ODD_TALK = (
    b'{"messages": [], "messages": [{"role": "user", "content": "\\ud83d", "x": NaN}, '
    b'{"role": "assistant", "content": "no", "content": "yes \\ud83d\\ude00"}]}'
)


def write_chats(root: Path) -> None:
    """Write conversations of every dialect, among them tool calls, long and untrainable ones."""
    _write_table(root / "in/web.parquet", _numbered(texts(8, seed=10)), group=8)
    talks: list[object] = [{"messages": CALLED}, CALLED, *conversations(7, seed=11)]
    talks.append([*CALLED, {"role": "user", "content": "x" * 400}])
    talks.append([{"role": "user", "content": "nobody answers"}])
    talks.append(ODD_TALK)
    _write_lines(root / "in/chats/talks.jsonl", talks)
    people = zip(texts(5, seed=12), texts(5, seed=13), strict=True)
    turns = [[{"from": "human", "value": a}, {"from": "gpt", "value": b}] for a, b in people]
    _write_table(
        root / "in/people/sharegpt.parquet", [{"conversations": own} for own in turns], group=3
    )
    sums = [
        {"question": f"{n} and {n}?", "answer": f"{n}+{n}=<<{n}+{n}={2 * n}>>{2 * n}\n#### {2 * n}"}
        for n in range(6)
    ]
    _write_lines(root / "in/chats/gsm8k.jsonl.gz", sums)
    pairs = [
        {"system": "Answer.", "prompt": text, "response": "yes" * number}
        for number, text in enumerate(texts(6, seed=14))
    ]
    _write_lines(root / "in/chats/pairs.jsonl", pairs)
    plain = [own for own in conversations(8, seed=15) if isinstance(own[1]["content"], str)]
    _write_lines(root / "in/custom.jsonl", plain)


VISION = """
[[source]]
name = "web"
kind = "text"
paths = ["{root}/in/web.parquet"]
weight = "share:0.7"

[[source]]
name = "pages"
kind = "vision"
paths = ["{root}/in/pages"]
split = "share:0.5"
train_prompt = false
grounding = true
count = true
weight = "share:0.3"

[[source]]
name = "plain"
kind = "vision"
paths = ["{root}/in/plain.parquet"]

[[source]]
name = "talks"
kind = "vision"
paths = ["{root}/in/talks/*.jsonl"]
id_column = "id"
image_tokens = 3
split = "val"

[tokenizer]
vocab_size = 300
pattern = "cl100k"
also = [280]
extend = ["preset:seed"]

[output]
path = "{root}/out"

[limits]
slice_bytes = 800
max_tokens = 150
too_long = "drop"
"""


def write_vision(root: Path) -> None:
    """Write documents with images of every dialect, some of them too long."""
    _write_table(root / "in/web.parquet", _numbered(texts(8, seed=20)), group=8)
    mark = "<|ref|>cat<|/ref|><|det|>[[1, 2]]<|/det|>"
    pages = [
        {
            "prompt": f"<image>{'<image>' * (n % 2)} read {n}",
            "response": f"{text[:150]} {mark}",
            "image_token_counts": [2 + n] * (1 + n % 2),
        }
        for n, text in enumerate(texts(8, seed=21))
    ]
    _write_lines(root / "in/pages/pairs.jsonl", [*pages, pages[1] | {"response": "long " * 300}])
    plain = [
        {"text": f"<image>\n{text[:120]}{end}", "image_token_counts": [5]}
        for text, end in zip(texts(4, seed=22), ("", "<|assistant_end|>") * 2, strict=True)
    ]
    _write_table(root / "in/plain.parquet", plain, group=2)
    talks = [
        {
            "id": 2**40 + n,
            "messages": [
                {"role": "user", "content": f"{'<image> ' * (n % 3)}what?"},
                {"role": "assistant", "content": f"an <image> of {text[:80]}"},
            ],
        }
        for n, text in enumerate(texts(6, seed=23))
    ]
    _write_lines(root / "in/talks/talks.jsonl", talks)


EXPORTS = """
[[source]]
name = "web"
kind = "text"
paths = ["{root}/in/web/*.parquet"]

[[source]]
name = "chats"
kind = "chat"
paths = ["{root}/in/chats.jsonl"]
id_column = "id"
split = "share:0.5"

[tokenizer]
vocab_size = 300
pattern = "r50k"

[output]
path = "{root}/out"
layouts = [
  "llmc", "olmo", "parquet", "megatron:datasets=2", "datatrove", "raw",
  "mds:size_limit=4KiB", "litdata:block_size=64",
]

[limits]
slice_bytes = 1200
max_shard_tokens = 600
"""


def write_exports(root: Path) -> None:
    """Write texts and conversations of several slices and shards."""
    for number in range(2):
        rows = _numbered(texts(8 - 4 * number, seed=30 + number))
        _write_table(root / f"in/web/{number}.parquet", rows, group=4)
    talks = [
        {"id": f"talk {number}", "messages": own}
        for number, own in enumerate(conversations(8, seed=32))
    ]
    _write_lines(root / "in/chats.jsonl", talks)


ON_S3 = """
[[source]]
name = "web"
kind = "text"
paths = ["{root}/in/web.parquet"]

[[source]]
name = "chats"
kind = "chat"
paths = ["{root}/in/chats.jsonl"]
split = "share:0.5"

[tokenizer]
vocab_size = 300

[output]
path = "{store}/out"
work = "{store}/work"

[limits]
slice_bytes = 2000
"""


def write_on_s3(root: Path) -> None:
    """Write texts and conversations to the disk: a plan contains the times of files on S3."""
    _write_table(root / "in/web.parquet", _numbered(texts(12, seed=40)), group=6)
    _write_lines(root / "in/chats.jsonl", conversations(4, seed=41))


MAX_CHARS = """
[[source]]
name = "web"
kind = "text"
paths = ["{root}/in/web/*.parquet"]

[[source]]
name = "chats"
kind = "chat"
paths = ["{root}/in/chats.jsonl"]
count = true

[tokenizer]
vocab_size = 290
pattern = "o200k"

[output]
path = "{root}/out"
work = "{root}/work"

[limits]
slice_bytes = 1000
doc_cap = 90
max_chars = 1500
"""


def write_max_chars(root: Path) -> None:
    """Write texts of more characters than are counted."""
    for number in range(2):
        rows = _numbered(texts(24 - 16 * number, seed=50 + number))
        _write_table(root / f"in/web/{number}.parquet", rows, group=4)
    _write_lines(root / "in/chats.jsonl", conversations(4, seed=52))


QUARANTINE = """
[[source]]
name = "notes"
kind = "text"
paths = ["{root}/in/notes/*.jsonl"]
id_column = "id"
split = "share:0.25"

[[source]]
name = "lines"
kind = "text"
paths = ["{root}/in/lines.txt"]
format = "lines"
split = "train"

[[source]]
name = "table"
kind = "text"
paths = ["{root}/in/table.parquet"]
id_column = "id"

[[source]]
name = "chats"
kind = "chat"
paths = ["{root}/in/chats.jsonl"]
count = true

[tokenizer]
vocab_size = 290
pattern = '[^\\s\\x{{2603}}]+|\\s+'
gaps = "error"

[output]
path = "{root}/out"

[limits]
slice_bytes = 1500
max_document_bytes = 400
max_quarantined_share = 0.9
max_tokens = 150
too_long = "drop"
untrainable = "drop"
"""


def write_quarantine(root: Path) -> None:
    """Write documents that cannot be used for many reasons among those that can.

    The reasons of invalid JSON quote Python, in words that Python 3.10 to 3.14 have.
    """
    notes: list[object] = [
        {"id": number, "text": f"{number} {text[:250]}"}
        for number, text in enumerate(texts(12, seed=60))
    ]
    notes[2:2] = [b'{"id": 1, "text": "cut', b'{"text": "a" "id": 2}', b"", b'{"text": "b"} {}']
    notes[7:7] = [b'{"text": "caf\xe9", "id": 7}', b"[1]", {"id": 8}, {"id": "9", "text": None}]
    notes[11:11] = [
        {"id": "large", "text": "word " * 200},
        {"id": 11, "text": "a \u2603"},
        {"text": 3},
    ]
    _write_lines(root / "in/notes/notes.jsonl", notes)
    lines = [b"a line", b"", b"caf\xe9", b"\xf0\x9f\x99", "☃".encode(), b"x" * 401, b"the last one"]
    (root / "in/lines.txt").write_bytes(b"\n".join(lines))
    rows = [{"id": n, "text": text} for n, text in enumerate(["one", None, "y" * 401, "☃", "two"])]
    _write_table(root / "in/table.parquet", rows, group=3)
    talks: list[object] = list(conversations(6, seed=61))
    talks[1:1] = [
        [{"role": "assistant", "content": "I begin"}],
        [{"role": "user", "content": "a"}, {"role": "narrator", "content": "b"}],
        [{"role": "user", "content": "nobody answers"}],
        [{"role": "user", "content": "count"}, {"role": "assistant", "content": "1 2 " * 60}],
        {"messages": []},
        {"something": "else"},
        b'[{"role": "user", "content": "caf\xe9"}]',
        b"not json",
    ]
    _write_lines(root / "in/chats.jsonl", talks)


ADOPTED = """
[[source]]
name = "web"
kind = "text"
paths = ["{root}/in/web.parquet"]
append = ["<|end|>"]

[[source]]
name = "notes"
kind = "text"
paths = ["{root}/in/notes/*.jsonl"]
split = "share:0.5"

[tokenizer]
path = "{root}/in/tokenizer/tokenizer.json"
extend = ["<|end|>"]

[output]
path = "{root}/out"

[limits]
slice_bytes = "256KiB"
"""


def write_adopted(root: Path) -> None:
    """Write a tokenizer that the job does not learn, and small files that share slices."""
    _write_table(root / "in/web.parquet", _numbered(texts(10, seed=70)), group=5)
    for number, text in enumerate(texts(10, seed=71)):
        _write_lines(root / f"in/notes/{number}.jsonl", _numbered([text, text[::-1]]))
    tokenizer = Tokenizer.train_from_iterator(texts(30, seed=72), vocab_size=290)
    tokenizer.save(str(root / "in/tokenizer"))


CASES = {
    "texts": Case(write_texts, TEXTS),
    "chats": Case(write_chats, CHATS),
    "vision": Case(write_vision, VISION),
    "exports": Case(write_exports, EXPORTS),
    "s3": Case(write_on_s3, ON_S3),
    "max_chars": Case(write_max_chars, MAX_CHARS),
    "quarantine": Case(write_quarantine, QUARANTINE),
    "adopted": Case(write_adopted, ADOPTED),
}
