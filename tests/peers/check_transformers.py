"""Compare a saved tokenizer on a corpus, as loaded by transformers, tokenizers and tiktoken.

    PYTHONPATH=. python tests/peers/check_transformers.py TOKENIZER --texts DIR ... --chats FILE
    ...

Texts are the `text` column of every parquet below DIR; chats are lines of JSON, a list of
messages, an object with one, or a row of GSM8K, and those that are neither are counted. Ids of
texts must be equal with names of special tokens as text, and ids and masks of chats must equal
those of `render_conversation` if text can express them. `--every-code-point PATTERN ...` compares
splits instead, for minutes. `check_templates.py` compares chat templates of any model, and runs
here too. Runs in the environment of requirements.txt, with this project on the path. The exit code
is 1 if anything differs.
"""

import argparse
import json
import pickle
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import tiktoken
import tokenizers
import transformers
from tiktoken.load import load_tiktoken_bpe
from tokenizers import Regex, pre_tokenizers

from nanotok_ray.chat import conversation_of
from nanotok_ray.counts import resolve_pattern, split
from nanotok_ray.dialects import Dialect
from nanotok_ray.tokenizer import Tokenizer, to_huggingface_split
from tests.peers import check_templates
from tests.peers.native_output import write_equal

BATCH = 256
COMPARED = ("documents", "tokens of documents", "chats", "tokens of chats", "prompts")
GSM8K = Dialect(kind="chat", name="gsm8k")
CONTEXTS = ["{}", "a{}b", "12{}3", " {} x", "!{}!", "'{}", "'{}e", "'l{}"]
CONTEXTS += ["\t{}{} ", "A{}a", "a{}'s"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--texts", nargs="*", type=Path, default=[])
    parser.add_argument("--chats", nargs="*", type=Path, default=[])
    parser.add_argument("--every-code-point", nargs="*", default=[], metavar="PATTERN")
    arguments = parser.parse_args()
    say(f"transformers {transformers.__version__}, tokenizers {tokenizers.__version__}")
    totals = Counter()
    own = Tokenizer.load(arguments.tokenizer)
    peers = Peers(arguments.tokenizer)
    for folder in arguments.texts:
        for file in sorted(folder.rglob("*.parquet")):
            compare_texts(own, peers, file, totals)
            say(f"read {file}")
    for file in arguments.chats:
        compare_chats(own, peers, file, totals)
        say(f"read {file}")
    for pattern in arguments.every_code_point:
        totals[f"code points cut differently: {pattern}"] = len(cut_differently(pattern))
    for name, number in totals.items():
        say(f"{number:>12,}  {name}")
    failed = check_templates.main() != 0
    if failed or any("differ" in name and number for name, number in totals.items()):
        return 1
    write_equal({name: totals[name] for name in COMPARED})
    return 0


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Peers:
    """One folder, loaded by each of the peers."""

    def __init__(self, folder: Path) -> None:
        self.auto = transformers.AutoTokenizer.from_pretrained(str(folder))
        self.plain = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.plain.encode_special_tokens = True
        with (folder / "tokenizer.pkl").open("rb") as file:
            self.pickled = pickle.load(file)
        self.ranks = tiktoken.Encoding(
            "ranks",
            pat_str=self.pickled._pat_str,
            mergeable_ranks=load_tiktoken_bpe(str(folder / "tokenizer.tiktoken")),
            special_tokens={},
        )

    def encode(self, texts: list[str]) -> dict[str, list[list[int]]]:
        """Return the ids of texts from each peer."""
        auto = self.auto(texts, add_special_tokens=False, split_special_tokens=True)
        return {
            "AutoTokenizer": auto["input_ids"],
            "tokenizers": [each.ids for each in self.plain.encode_batch(texts)],
            "tokenizer.pkl": self.pickled.encode_ordinary_batch(texts, num_threads=2),
            "tokenizer.tiktoken": self.ranks.encode_ordinary_batch(texts, num_threads=2),
        }


def compare_texts(own: Tokenizer, peers: Peers, file: Path, totals: Counter) -> None:
    for batch in pq.ParquetFile(file).iter_batches(BATCH, columns=["text"]):
        texts = batch.column(0).to_pylist()
        flat, offsets = own.encode_batch(texts)
        expected = [flat[start:stop].tolist() for start, stop in pairwise(offsets.tolist())]
        totals["documents"] += len(texts)
        totals["bytes of documents"] += sum(len(text.encode()) for text in texts)
        totals["tokens of documents"] += len(flat)
        for name, found in peers.encode(texts).items():
            differ = sum(a != b for a, b in zip(expected, found, strict=True))
            totals[f"documents that differ: {name}"] += differ


def conversations(file: Path, totals: Counter) -> Iterator[list]:
    for line in file.read_text(encoding="utf-8").split("\n"):
        value = json.loads(line) if line.strip() else None
        messages = value.get("messages") if isinstance(value, dict) else value
        if isinstance(value, dict) and "question" in value:
            messages = conversation_of(line.encode(), GSM8K)["messages"]
        if isinstance(messages, list):
            yield messages
        elif value is not None:
            totals["lines without messages, left out"] += 1


def compare_chats(own: Tokenizer, peers: Peers, file: Path, totals: Counter) -> None:
    for messages in conversations(file, totals):
        if any(name in json.dumps(messages, ensure_ascii=False) for name in own.special_tokens):
            totals["chats that spell out a special token, left out"] += 1
            continue
        totals["chats"] += 1
        compare_chat(own, peers, messages, totals)


def compare_chat(own: Tokenizer, peers: Peers, messages: list, totals: Counter) -> None:
    ids, mask = own.render_conversation({"messages": messages}, max_tokens=None)
    found = peers.auto.apply_chat_template(
        messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    totals["tokens of chats"] += len(ids)
    totals["chats that differ: ids"] += found["input_ids"] != ids
    totals["chats that differ: mask"] += found["assistant_masks"] != mask
    if messages[-1]["role"] == "assistant" and len(ids) <= 2048:
        asked = peers.auto.apply_chat_template(
            messages[:-1], tokenize=True, return_dict=True, add_generation_prompt=True
        )
        expected = own.render_for_completion({"messages": messages})
        totals["prompts"] += 1
        totals["prompts that differ"] += asked["input_ids"] != expected


def cut_differently(pattern: str) -> set[str]:
    """Return the code points, in each context, that tokenizers splits differently."""
    pattern = resolve_pattern(pattern)
    regex = Regex(to_huggingface_split(pattern)["pattern"]["Regex"])
    peer = pre_tokenizers.Split(regex, "isolated")

    def differs(text: str) -> bool:
        return [span for span, _ in peer.pre_tokenize_str(text)] != split(text, pattern=pattern)

    points = [chr(each) for each in range(0x110000) if not 0xD800 <= each < 0xE000]
    found = set()
    for start in range(0, len(points), 1024):
        some = points[start : start + 1024]
        for context in CONTEXTS:
            if differs("\nx\n".join(context.replace("{}", point) for point in some)):
                found.update(each for each in some if differs(context.replace("{}", each)))
    return found


if __name__ == "__main__":
    sys.exit(main())
