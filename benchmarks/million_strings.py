"""Compare the ids of generated strings with tiktoken's, or with those of a file's own library.

    python benchmarks/million_strings.py --strings 1000000 --seed 1 [--pattern NAME ...]
    python benchmarks/million_strings.py --strings 200000 --file FILE ... [--texts GLOB ...]

Strings of 0 to 130 characters are made from a seed with the inputs that affect patterns: letters of
all scripts, marks, numbers of every kind, white space, contractions, ends of lines, signs, emoji,
unassigned code points, long runs, names of special tokens and bytes. For each pattern
(the named ones, and those below) a tokenizer of about 2,000 ids is learned from other strings. With
--file, the tokenizer of each file that `open_tokenizer` opens is compared with the library that
defines it: tokenizers, sentencepiece, or tiktoken for ranks. The library opens the file itself,
without added tokens: their names are text. Compared are also the decoded texts, the texts of as
many rows of random ids, and the texts of parquet files and JSON lines. A line is printed for each
pattern or file; strings with other ids are printed, and the exit code is then 1.
"""

import argparse
import itertools
import json
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import sentencepiece
import tokenizers
from numpy.typing import NDArray

from nanotok_ray.counts import PATTERNS
from nanotok_ray.shards.check.cross_check import cross_check_of
from nanotok_ray.tokenizer import FileModel, Tokenizer, open_tokenizer

ALL_PATTERNS = {
    **PATTERNS,
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "qwen2": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}
"""The last two as published with GPT-2 and Qwen 2."""

Offsets = NDArray[np.int64]

MAX_CHARACTERS = 130
MAX_PIECES = 16
MAX_IDS = 8
VOCAB_SIZE = 2000
LEARNED_FROM = 20_000
BATCH = 50_000
SHOWN = 20

PIECES = [
    "a|b|s|t|m|ll|re|ve|The|word|is|Abcdefgh|aB|ABc|ab|cd|abcdefghijklmn|abcdefghijklmno",
    "a|e|i|o|n|r|the|ing|er|ab|abab|A|S|LL|RE|\u017f|\u212a|\u0130|\u01c5|\u02b0|e\u0301",
    "'|''|'s|'S|'t|'T|'m|'d|'D|'ll|'LL|'lL|'Ll|'re|'RE|'rE|'ve|'VE|'Ve|'k|\u2019s| '",
    "'\u017f|'\u017f\u017f|'l\u017f|'\u212a|'\u0130|'s's|'ll'll|a's|A'S|\u00e9'd|1's| 's",
    "1|0|12|123|1234|1234567|3.14|2\u00bd|\u2167\u2167|\u00b2\u00b3|\u0661\u0662|1,000| 1",
    "\n|\r|\r\n|\n\n| \n|\n |\t\n|\r\r\n|\v|\f|\x1c|\x85|\n\u2028",
    "\n|\n\n|\r\n|\n    |\n\t|\n\r|  \n  |!\n|a\n",
    " |  |   |\t| \t|\u00a0|\u3000| \u3000|\u3000 |\u2003|\u202f|\u1680",
    " ",
    "!|?|.|...|,|;|/|//|*/|==|=====|--|_|__|{|}|()|=>|#|$|%|\u20ac|\u2014|\u3002|\uff0c",
    "/\n|//\r\n/|!\n\n|{\n| !| (|! | /|./|!/\n/",
    "\U0001f468\u200d\U0001f4bb|\U0001f3f3\ufe0f\u200d\U0001f308|\U0001f600|\U0001f1e9\U0001f1ea",
    "\u200b|\u200d|\ufeff|\ue000|\U0010ffff|\U000f0000|\ufffe|\ufffd|\0|\x7f|\u0378|\u180e|\u2060",
    "\u2581|\u2581\u2581|<0x0A>|<0xE4>|<s>|</s>|<unk>|[UNK]|[CLS]|[MASK]|##a|##|<EOT>|<META>|[INST]",
]
"""Lists of pieces, delimited by bars."""

RUN_OF = " \n\ta1!'\u00e9\u4e2d\u0301\u3000\u00bd"
RUN_LENGTHS = (3, 15, 16, 17, 32, 59, 101)


@cache
def pools() -> list[list[str]]:
    """Return lists of pieces; all lists have equal probability."""
    of: dict[str, list[str]] = {}
    for character in map(chr, range(sys.maxunicode + 1)):
        of.setdefault(unicodedata.category(character), []).append(character)
    del of["Cs"]  # surrogates
    characters = [character for own in of.values() for character in own]
    cased = of["Lu"] + of["Ll"] + of["Lt"] + of["Lm"]
    few = [each for each in of["Lo"] if not unicodedata.name(each, "").startswith(("CJK", "HANG"))]
    spaces = [each for each in characters if each.isspace()]
    runs = [each * length for each in RUN_OF for length in RUN_LENGTHS]
    fixed = [line.split("|") for line in PIECES]
    kinds = [own for kind, own in of.items() if kind[0] in "LMNPSZ"]
    return [*fixed, *fixed, *fixed, runs, runs, cased, few, spaces, spaces, characters, *kinds]


def strings(count: int, *, seed: int) -> list[str]:
    """Make strings; the same for the same count and seed."""
    random = np.random.default_rng(seed)
    starts = np.cumsum([0, *map(len, pools())])
    pieces = [piece for pool in pools() for piece in pool]
    lengths = random.integers(0, MAX_PIECES + 1, count)
    ends = np.concatenate(([0], np.cumsum(lengths)))
    pool = random.integers(0, len(pools()), ends[-1])
    within = random.random(ends[-1]) * (starts[pool + 1] - starts[pool])
    chosen = [pieces[number] for number in (starts[pool] + within.astype(np.int64)).tolist()]
    bounds = pairwise(ends.tolist())
    return ["".join(chosen[start:end])[:MAX_CHARACTERS] for start, end in bounds]


def learned(pattern: str, *, seed: int, count: int = LEARNED_FROM) -> Tokenizer:
    """Learn a tokenizer from strings that are not compared."""
    texts = strings(count, seed=seed + 2**32)
    return Tokenizer.train_from_iterator(texts, VOCAB_SIZE, pattern=pattern, num_threads=1)


def differing(tokenizer: Tokenizer, texts: list[str]) -> Iterator[tuple[str, list[int], list[int]]]:
    """Yield each text whose ids differ, with ours and those of the library."""
    peer = encoder_of(tokenizer)
    for first in range(0, len(texts), BATCH):
        batch = texts[first : first + BATCH]
        ids, offsets = tokenizer.encode_batch(batch)
        all_ids, bounds = ids.tolist(), pairwise(offsets.tolist())
        for text, (start, end) in zip(batch, bounds, strict=True):
            expected = peer(text)
            if all_ids[start:end] != expected:
                yield text, all_ids[start:end], expected


def encoder_of(tokenizer: Tokenizer) -> Callable[[str], list[int]]:
    """Return the function of the library that encodes a text."""
    model = tokenizer.model
    if not isinstance(model, FileModel) or not model.has_library:
        return cross_check_of(tokenizer, recognize=False).ids
    if model.description.file == "tokenizer.json":
        none = dict.fromkeys(("post_processor", "truncation", "padding"))
        contents = {**json.loads(model.data), **none, "added_tokens": []}
        library = tokenizers.Tokenizer.from_str(json.dumps(contents))
        return lambda text: [*library.encode(text).ids]
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.data)
    return lambda text: [*processor.encode(text)]


def decoded_otherwise(
    tokenizer: Tokenizer, texts: list[str], *, seed: int
) -> Iterator[tuple[list[int], str, str]]:
    """Yield each row of ids that the library decodes otherwise, with our text and its.

    The rows are those of the texts, and as many of random ids.
    """
    model = tokenizer.model
    if not isinstance(model, FileModel) or not model.has_library:
        return
    peer = decoder_of(model)
    for ids, offsets in (tokenizer.encode_batch(texts), random_ids(model, len(texts), seed=seed)):
        own = tokenizer.decode_batch(ids, offsets).to_pylist()
        for mine, (start, end) in zip(own, pairwise(offsets.tolist()), strict=True):
            row = ids[start:end].tolist()
            expected = peer(row)
            if mine != expected:
                yield row, mine, expected


def random_ids(model: FileModel, count: int, *, seed: int) -> tuple[NDArray[np.uint32], Offsets]:
    """Return rows of ids of text; half of the ids are those of bytes."""
    random = np.random.default_rng(seed)
    numbers = sorted(model.text_tokens)
    of_bytes = [number for number in numbers if is_byte(model, number)] or numbers
    offsets = np.concatenate(([0], np.cumsum(random.integers(0, MAX_IDS + 1, count))))
    chosen = [random.choice(each, offsets[-1]) for each in (of_bytes, numbers)]
    ids = np.where(random.integers(0, 2, offsets[-1]), *chosen)
    return ids.astype(np.uint32), offsets.astype(np.int64)


def is_byte(model: FileModel, number: int) -> bool:
    """Return whether a token is one byte, also by a name such as <0x0A>."""
    name = (model.spelling or {}).get(number, "")
    return len(model.text_tokens[number]) == 1 or (len(name), name[:3]) == (6, "<0x")


def decoder_of(model: FileModel) -> Callable[[list[int]], str]:
    """Return the function of the library that decodes ids."""
    if model.description.file == "tokenizer.json":
        library = tokenizers.Tokenizer.from_str(model.data.decode())
        return lambda ids: str(library.decode(ids, skip_special_tokens=False))
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.data)
    return lambda ids: str(processor.decode(ids))


def compare(name: str, tokenizer: Tokenizer, options: argparse.Namespace) -> int:
    """Compare the strings and the texts in parts; return the number of differences."""
    start, mismatches = time.perf_counter(), 0
    count, seed = options.strings, options.seed
    read = texts_of(options.texts)
    parts = (
        (own_seed, strings(min(BATCH, count - first), seed=own_seed))
        for first, own_seed in zip(range(0, count, BATCH), itertools.count(seed, 2**33))
    )
    for own_seed, texts in itertools.chain([(seed, read)], parts):
        decoded = decoded_otherwise(tokenizer, texts, seed=own_seed)
        for given, own, expected in (*differing(tokenizer, texts), *decoded):
            mismatches += 1
            if mismatches <= SHOWN:
                print(
                    f"{name}: {given[:200]!r}: {own!r:.300}, library {expected!r:.300}", flush=True
                )
    seconds = time.perf_counter() - start
    print(
        f"{name} ({tokenizer.engine}, {tokenizer.get_vocab_size()} ids): {count:,} strings, "
        f"{len(read):,} texts, seed {seed}, {mismatches} mismatches, {seconds:.0f} s",
        flush=True,
    )
    return mismatches


def texts_of(patterns: list[str]) -> list[str]:
    """Return the texts of parquet files, and the lines of other files."""
    texts: list[str] = []
    for path in (path for pattern in patterns for path in sorted(Path("/").glob(pattern[1:]))):
        if path.suffix == ".parquet":
            texts += pq.read_table(path, columns=["text"]).column(0).to_pylist()
        else:
            texts += path.read_text().splitlines()
    return texts


def main() -> None:
    """Compare with the patterns or files named on the command line, or all patterns."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--strings", type=int, default=1_000_000, help="for each pattern")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pattern", nargs="+", choices=ALL_PATTERNS, default=list(ALL_PATTERNS))
    parser.add_argument("--file", nargs="+", default=[], help="compare with the library of a file")
    parser.add_argument("--texts", nargs="+", default=[], help="globs, absolute")
    options = parser.parse_args()
    compared = {file: partial(open_tokenizer, file) for file in options.file} or {
        name: partial(learned, ALL_PATTERNS[name], seed=options.seed) for name in options.pattern
    }
    sys.exit(sum(compare(name, make(), options) for name, make in compared.items()) > 0)


if __name__ == "__main__":
    main()
