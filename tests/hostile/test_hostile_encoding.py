"""Encoding and learning of hostile text."""

import base64
import ctypes
import mmap
import os
import random
import signal
import string
import sysconfig
import threading
import time
import traceback
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nanotok_ray import Tokenizer, _core
from nanotok_ray.counts import PATTERNS, SPLIT_PATTERN, split
from nanotok_ray.documents import Documents
from nanotok_ray.errors import SplitError
from nanotok_ray.tokenizer import NO_PAIR_LEFT, make_model
from tests.support import reference
from tests.support.learned import check, learn_all
from tests.support.machine_speed import scaled

RUN = 100_000


@pytest.fixture(scope="module")
def texts():
    """Real text: some modules of the standard library."""
    folder = Path(sysconfig.get_path("stdlib"))
    names = ["argparse", "ast", "typing", "doctest", "inspect", "pydoc", "subprocess", "tarfile"]
    return [(folder / f"{name}.py").read_text(encoding="utf-8") for name in names]


@pytest.fixture(scope="module")
def tokenizer(texts):
    more = ["=" * 80, "-" * 70, " " * 120, "数据" * 40, "ภาษาไทย" * 9, "aaaa" * 9, "👩‍👩‍👧" * 9]
    return Tokenizer.train_from_iterator([*texts, *more * 30], vocab_size=3000)


@pytest.fixture(scope="module")
def encoding(tokenizer):
    return tokenizer.to_tiktoken()


@pytest.fixture(scope="module")
def ids_of(encoding):
    """Ids of known spans, each encoded by tiktoken as a single piece."""
    return lambda spans: [*chain.from_iterable(map(encoding._encode_single_piece, spans))]


@pytest.fixture(scope="module")
def check_ids(tokenizer, encoding, ids_of):
    """Compare with the ids of single pieces, or else of the whole text."""

    def compare(text, *pieces):
        found = tokenizer.encode(text)
        assert found == (ids_of(pieces) if pieces else encoding.encode_ordinary(text))
        ids, _ = tokenizer.encode_batch(pa.array([text, text]))
        assert ids.tolist() == found * 2

    return compare


def random_text(alphabet, length, *, seed=3):
    return "".join(random.Random(seed).choices(alphabet, k=length))


def rows(batch):
    ids, offsets = batch
    return [row.tolist() for row in np.split(ids, offsets[1:-1])] if len(offsets) > 1 else []


@pytest.mark.parametrize(
    "unit", ["a", "^", "-", "_", "=", " ", "\n", "\t", "é", "中", "👩", "\u0301"]
)
def test_one_repeated_character_is_one_span(check_ids, unit):
    assert split(unit * RUN) == [unit * RUN]
    check_ids(unit * RUN, unit * RUN)


@pytest.mark.parametrize("space", [" ", "\t", "\u3000"])
def test_the_last_of_a_million_spaces_belongs_to_the_next_word(check_ids, space):
    check_ids(space * 1_000_000 + "def", space * 999_999, space + "def")


CJK = [chr(code) for code in range(0x4E00, 0x9FA6)]
WITHOUT_SPACES = {
    "letters": random_text(string.ascii_lowercase, RUN),
    "base64": base64.b64encode(random.Random(1).randbytes(RUN)).decode(),
    "hex": random.Random(2).randbytes(RUN).hex(),
    "DNA": random_text("ACGT", 1_000_000),
    "minified": "function(a,b){return a&&b?a.c(b,1e3):!0};" * 2000,
    "brackets": random_text("()[]{}<>", RUN),
    "Chinese": random_text(CJK, RUN),
    "Japanese": random_text("日本語のテキストを書く。カタカナ、漢字", RUN),
    "Thai": random_text("การเดินทางในประเทศไทยมีหลายวิธี", RUN),
    "Khmer": random_text("ភាសាខ្មែរជាភាសាផ្លូវការ", RUN),
    "Burmese": random_text("မြန်မာဘာသာစကားသည်", RUN),
    "emoji": random_text("👩👨👧👦🏽\u200d❤️🙂", RUN),
}


@pytest.mark.parametrize("kind", WITHOUT_SPACES)
def test_text_without_spaces_has_the_ids_of_tiktoken(check_ids, kind):
    check_ids(WITHOUT_SPACES[kind])


INVALID = [
    [b"caf", b"\xc3"],
    [b"a", b"\xe4", b"\xb8"],
    [b"a", b"\xf0", b"\x9f", b"\x99"],
    [b"a", b"\xe4", b"\xb8", b"the"],
    [b"\xc0", b"\xaf", b"the"],
    [b"\xe0", b"\x80", b"\xaf"],
    [b"\xf0", b"\x80", b"\x80", b"\xaf", b" the"],
    [b"\xf4", b"\x90", b"\x80", b"\x80"],
    [b"the", b"\xed", b"\xa0", b"\x80", b"the"],
    [b"\xed", b"\xbf", b"\xbf", "\ud7ff".encode()],
    [b"\x80", b"\x80", "中".encode(), b"\xbf"],
    [b"x", b"\0\0", b"y", b"\0", b"1"],
    [b"x", b"  ", b"\xff", b" the"],
    [b"'", b"\xc5", b"s", b"\n", b"\xff", b"\n"],
    *([b"the", b" ", bytes([lead]), b"\x80", b"the"] for lead in [0xC0, 0xC1, *range(0xF5, 256)]),
]


def test_invalid_bytes_are_separate_spans_between_text(tokenizer, ids_of):
    documents = [b"".join(spans) for spans in INVALID]
    splitter = _core.Splitter(SPLIT_PATTERN)
    assert [splitter.split(document) for document in documents] == INVALID
    expected = [ids_of(spans) for spans in INVALID]
    assert rows(tokenizer.encode_batch(documents)) == expected
    assert rows(tokenizer.encode_batch(pa.array(documents, pa.large_binary()))) == expected


@pytest.mark.parametrize("text", ["\ud800" * 3, "the\udc00 the", "\udc00\ud800", "a\ud83d\ude42b"])
def test_surrogates_have_the_ids_of_tiktoken(tokenizer, encoding, text):
    for each in (text, text * 1000):
        expected = encoding.encode_ordinary(each)
        assert tokenizer.encode(each) == expected
        assert rows(tokenizer.encode_batch([each, "x"])) == [expected, [120]]


ALPHABETS = {
    "ascii": (string.ascii_letters, "a"),
    "two": ("éàüñøß", "a"),
    "three": (CJK, "b"),
    "four": ([chr(code) for code in range(0x20000, 0x20400)], "c"),
    "signs": ("=-+*/#\u2013\u2026", "="),
    "run": ("a", "a"),
}
LENGTHS = [15, 16, 17, 63, 64, 65, 255, 256, 257, 2047, 2048, 2049, 65_535, 65_536, 65_537]


@pytest.mark.parametrize("alphabet", ALPHABETS)
@pytest.mark.parametrize("length", LENGTHS)
def test_spans_of_these_lengths_are_encoded(check_ids, alphabet, length):
    letters, filler = ALPHABETS[alphabet]
    cut = random_text(letters, length, seed=length).encode()[:length].decode(errors="ignore")
    span = cut + filler * (length - len(cut.encode()))
    assert len(span.encode()) == length
    assert split(span) == [span]
    check_ids(span, span)
    check_ids(f"the\t1{span}2 the", "the", "\t", "1", span, "2", " the")


MIXED = (
    "it's we'LL \r\n\n  x\t\tdef 中文字é\u0301 12345½ \u3000\u00a0!?\n\n 🙂\u200d🙂 the end'Re  "
)


def status_of_child(work):
    """Fork; return 0 if `work` succeeded in the child, else its exit status or its signal."""
    child = os.fork()
    if not child:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(30)
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


forks = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def guarded(data):
    """Pages with the bytes; the adjacent pages are protected against reading."""
    pages = np.frombuffer(mmap.mmap(-1, len(data) + 2 * mmap.PAGESIZE), np.uint8)
    own = pages[mmap.PAGESIZE : -mmap.PAGESIZE]
    own[:] = np.frombuffer(data, np.uint8)
    protect = ctypes.CDLL(None).mprotect
    for address in (pages.ctypes.data, own.ctypes.data + len(data)):
        assert protect(ctypes.c_void_p(address), mmap.PAGESIZE, 0) == 0
    return own


@forks
@pytest.mark.parametrize("unit", [MIXED, "中文", "a", " ", "the end. ", "'s12"], ids=repr)
def test_nothing_is_read_beyond_the_pages_of_a_batch(tokenizer, encoding, unit):
    """Texts of every length up to 200 that end with the last page or begin with the first."""
    text = unit * 200
    filler = b"." * (-len(text.encode()) % mmap.PAGESIZE)
    tails = [text[len(text) - length :] for length in range(200)]
    heads = [text[:length] for length in range(200)]
    wanted = [encoding.encode_ordinary(each) for each in tails + heads]

    def encode():
        at_end, at_start = guarded(filler + text.encode()), guarded(text.encode() + filler)
        batches = [(at_end, len(at_end) - len(each.encode()), len(at_end)) for each in tails]
        batches += [(at_start, 0, len(each.encode())) for each in heads]
        for (data, *ends), expected in zip(batches, wanted, strict=True):
            documents = Documents(data=data, offsets=np.array(ends))
            assert tokenizer.encode_batch(documents)[0].tolist() == expected

    assert status_of_child(encode) == 0


def test_special_ids_may_be_anywhere_above_with_gaps():
    model = make_model([(97, 98)], pattern="nanochat", special_tokens=[])
    distant = {"<|low|>": 300, "<|wide|>": 2**21 + 1, "<|last|>": 2**31 - 1}
    plain, own = Tokenizer(model), Tokenizer(replace(model, special_tokens=distant))
    ids, _ = own.encode_batch(["abc", "<|wide|>"])
    assert ids.dtype == np.uint32
    assert ids[:2].tolist() == [256, 99]
    assert ids.tolist() == plain.encode_batch(["abc", "<|wide|>"])[0].tolist()
    framed = own.encode("ab", prepend="<|wide|>", append="<|last|>")
    assert framed == [2**21 + 1, 256, 2**31 - 1]
    array, text = np.array(framed * 9, np.uint32), "<|wide|>ab<|last|>"
    assert own.decode(framed * 9) == text * 9
    assert own.decode_batch(array, np.array([0, 3, 27])).to_pylist() == [text, text * 8]
    for hole in (257, 299, 301, 2**21, 2**31 - 2, 2**31):
        with pytest.raises(KeyError, match=str(hole)):
            own.decode([hole])
        with pytest.raises(KeyError, match=str(hole)):
            own.decode_batch(np.array([hole], np.uint32), np.array([0, 1]))


class ByteTriples:
    """All pairs of bytes, then triples whose first two bytes come from `first` on."""

    first = ord("[") * 256

    def __init__(self, number):
        self.pairs = 256 + 2**16
        numbers = np.arange(2**16 + number, dtype=np.uint32)
        left, right = np.divmod(numbers, 256)
        left[2**16 :] += self.first
        self.merges = np.stack([left, right], axis=1)

    def get(self, pair):
        """The id of a pair, if it merges."""
        left, right = pair
        if left < 256 and right < 256:
            return 256 + left * 256 + right
        number = (left - 256 - self.first) * 256 + right
        is_triple = 256 <= left < self.pairs and right < 256
        return self.pairs + number if is_triple and 0 <= number < 2**21 else None

    def __contains__(self, pair):
        return self.get(pair) is not None

    __getitem__ = get


def test_merge_ids_above_2_to_the_21st_are_found():
    triples = ByteTriples(2**21)
    encoder = _core.Encoder(SPLIT_PATTERN, triples.merges)
    decoder = _core.Decoder(triples.merges, [])
    assert encoder.num_tokens() == 256 + 2**16 + 2**21 > 2**21
    for span in ["zzz", "yzz", "rra", "aaa", "the", "zzzyyyzzz", "the" * 50, "szzz" * 500]:
        expected = reference.encode_span(span.encode(), triples)
        if span in {"zzz", "yzz", "rra", "the"}:
            expected = [triples.get((triples.get(tuple(span[:2].encode())), ord(span[2])))]
        assert encoder.encode(span.encode()).tolist() == expected
        assert decoder.decode(np.array(expected, np.uint32)) == span.encode()
    assert encoder.encode(b"zzz")[0] > 2**21


def test_more_spans_than_the_cache_holds_change_no_ids(tokenizer, encoding):
    letters = (string.ascii_lowercase * 10)[:250] + "\n" * 6
    table = bytes(map(ord, letters))
    rng = random.Random(12)
    text, others = (rng.randbytes(size).translate(table).decode() for size in (10**6, 3 * 10**7))
    expected = encoding.encode_ordinary(text)
    for _ in range(2):
        assert tokenizer.encode(text) == expected
        ids, offsets = tokenizer.encode_batch([others, text])
        assert ids[offsets[1] :].tolist() == expected
        assert tokenizer.decode_bytes(ids[: offsets[1]]) == others.encode()


@pytest.mark.parametrize("number", [1, 3, 127, 128, 129, 200])
def test_any_number_of_threads_returns_the_same_ids(tokenizer, encoding, texts, number):
    documents = [line for text in texts for line in text.splitlines(keepends=True)]
    expected = [encoding.encode_ordinary(document) for document in documents]
    assert rows(tokenizer.encode_batch(documents, num_threads=number)) == expected


def test_two_tokenizers_used_alternately_are_independent(tokenizer, encoding, texts):
    other = Tokenizer.train_from_iterator(texts[:1], vocab_size=700, pattern="r50k")
    peer = other.to_tiktoken()
    for text in texts:
        for line in (text, *text.splitlines()[:300]):
            assert tokenizer.encode(line) == encoding.encode_ordinary(line)
            assert other.encode(line) == peer.encode_ordinary(line)


@pytest.mark.parametrize("number", [1, 2])
def test_an_interrupt_stops_encoding_and_keeps_the_tokenizer_valid(
    tokenizer, encoding, texts, number
):
    expected = [encoding.encode_ordinary(text) for text in texts]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        for _ in range(20):
            started = threading.Event()
            interrupter = threading.Thread(target=interrupt_after, args=[started])
            interrupter.start()
            with pytest.raises(KeyboardInterrupt):
                encode_forever(tokenizer, texts, threads=number, started=started)
            interrupter.join()
            assert rows(tokenizer.encode_batch(texts, num_threads=number)) == expected
    finally:
        signal.signal(signal.SIGINT, before)


def encode_forever(tokenizer, texts, *, threads, started):
    while True:
        started.set()
        tokenizer.encode_batch(texts, num_threads=threads)


def interrupt_after(event):
    event.wait()
    signal.raise_signal(signal.SIGINT)


def words(alphabet, number, lengths, *, seed):
    rng = random.Random(seed)
    found = {}
    while len(found) < number:
        found["".join(rng.choices(alphabet, k=rng.choice(lengths)))] = None
    return list(found)


def test_ties_are_merged_in_the_order_of_rustbpe():
    spans = words(string.ascii_letters, 20_000, range(3, 9), seed=16)
    assert 12_000 < len(check(["\n".join(spans)], 100_000).merges) < 100_000


LONG = {
    "one letter": (b"a" * 10**6, 25),
    "two letters in turn": (b"ab" * 500_000, 25),
    "a run, then another": (b"a" * 500_000 + b"b" * 500_000, None),
    "random letters": (bytes(random.Random(17).choices(b"abcdefgh", k=10**6)), None),
    "random bytes": (random.Random(17).randbytes(2**18), None),
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_span_is_merged_into_one_token(name):
    """Up to 300,000 merges; scanning the text for each would take hours for a megabyte."""
    span, number = LONG[name]
    merges, counts, applied, reason = learn_all({span: 1}, 2**31)
    assert reason == NO_PAIR_LEFT
    assert len(merges) == (number or len(merges))
    assert counts.tolist() == sorted(counts.tolist(), reverse=True)
    assert int(applied.sum()) == len(span) - 1
    lengths = [1] * 256
    for left, right in merges.tolist():
        lengths.append(lengths[left] + lengths[right])
    assert lengths[-1] == len(span)


@pytest.mark.parametrize("alphabet", ["ab", string.ascii_lowercase, "数据中文字"])
def test_one_span_of_a_megabyte_has_the_merges_of_rustbpe(alphabet):
    text = "".join(random.Random(17).choices(alphabet, k=1_000_000 // len(alphabet[0].encode())))
    assert split(text) == [text]
    assert len(check([text], 60).merges) == 60


def test_spans_of_many_characters_have_the_merges_of_rustbpe():
    alphabet = [chr(code) for code in range(0x4E00, 0x9FA6)]
    spans = words(alphabet, 20_000, range(1, 7), seed=18)
    own = check(["\n".join(spans)], 8_000)
    assert len(own.merges) == 8_000
    ids, _ = own.encode_batch(spans)
    assert own.decode(ids) == "".join(spans)


BACKTRACKING = [r"(?:a?){20}a{20}(?=z)|\s+|\S", r"(?:\G|){25}b|a", r"(?:(?:a|aa)+(?=b))+|."]


@pytest.mark.parametrize("pattern", BACKTRACKING)
@pytest.mark.parametrize("document", [b"a" * 4000, (b"a" * 50 + b"\xff") * 90, b"a" * 300_000])
def test_a_pattern_that_backtracks_takes_a_limited_time_for_a_document(pattern, document):
    """Each search ends by itself, but there is one for each character."""
    splitter = _core.Splitter(pattern)
    assert splitter.engine == "regex"
    start = time.process_time()
    with pytest.raises(SplitError, match="limit of backtracking steps"):
        splitter.count_gaps(document)
    assert time.process_time() - start < scaled(10)


def test_named_patterns_are_matched_in_linear_time():
    assert {_core.Splitter(pattern).engine for pattern in PATTERNS.values()} <= {"lexer", "table"}
