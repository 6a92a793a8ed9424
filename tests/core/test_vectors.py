"""The answers of rustbpe 0.1.0, tiktoken 0.14.0 and nanochat 92d63d4, stored in tests/vectors."""

import hashlib
import json
from pathlib import Path

import pytest

from nanotok_ray import SpanCounts, _core, learn
from nanotok_ray.chat import compose, conversation_of, segments_of
from nanotok_ray.counts import PATTERNS, split
from nanotok_ray.dialects import Dialect, extract_answer
from nanotok_ray.errors import ConversationError, SourceError, UnknownTokenError
from nanotok_ray.tokenizer import Tokenizer, to_tiktoken_file
from nanotok_ray.tokenizer.nanochat_files import to_pickle
from tests.support.expected_text import expected_text


def read(name):
    return json.loads((Path(__file__).parents[1] / "vectors" / f"{name}.json").read_text())


SPLITS = read("splits")
TRAINING = read("training")
ENCODE = read("encode")
FILES = read("files")
CHAT = read("chat")
UNICODE = read("unicode")
ERRORS = {each.__name__: each for each in (AssertionError, IndexError, KeyError)}
ERRORS |= {each.__name__: each for each in (TypeError, ValueError)}


def named(cases):
    return [pytest.param(case, id=case["name"]) for case in cases]


def texts_of(case):
    documents = case["docs"]
    return TRAINING["corpora"][documents.split("/")[1]] if isinstance(documents, str) else documents


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train_from_iterator(TRAINING["corpora"]["mix"], 565)


@pytest.mark.parametrize("name", SPLITS["patterns"])
def test_patterns_equal_upstream(name):
    assert PATTERNS[name] == SPLITS["patterns"][name]


@pytest.mark.parametrize("name", SPLITS["patterns"])
def test_texts_split_as_upstream(name):
    got = {text: split(text, pattern=name) for text in SPLITS["texts"]}
    assert got == dict(zip(SPLITS["texts"], SPLITS["spans"][name], strict=True))


def runs_of(pattern):
    """Return the runs of code points that match; U+0000 must not."""
    everything = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)])).encode()
    return b"".join(_core.Splitter(pattern).split(everything)[1::2]).decode()


def test_unicode_categories_and_white_space_equal_upstream():
    assert len(runs_of(r"\p{L}+")) == UNICODE["count_L"]
    assert len(runs_of(r"\p{N}+")) == UNICODE["count_N"]
    quads = "".join(map(chr, range(0x2000, 0x200B)))
    assert runs_of(r"\s+") == f"\t\n\v\f\r \x85\xa0\u1680{quads}\u2028\u2029\u202f\u205f\u3000"


@pytest.mark.parametrize("case", named(TRAINING["cases"]))
def test_merges_and_their_counts_equal_upstream(case):
    counts = SpanCounts(case["pattern"])
    counts.update(texts_of(case))
    found = learn(counts, case["vocab_size"], special_tokens=())
    trained = Tokenizer.train_from_iterator(
        texts_of(case), case["vocab_size"], pattern=case["pattern"], special_tokens=()
    )
    assert [list(pair) for pair in trained.merges] == case["merges"]
    assert trained.get_vocab_size() == case["vocab_size_reached"]
    assert (found.tokenizer, found.learned.counts.tolist()) == (trained, case["counts"])


@pytest.mark.parametrize("case", TRAINING["special_ids"], ids=str)
def test_special_tokens_have_the_ids_after_the_last_merge(case):
    asked = case["vocab_size_asked"]
    if "raises" in case:
        with pytest.raises(ERRORS[case["raises"]]) as caught:
            Tokenizer.train_from_iterator([], asked)
        explained = f": vocab_size is {asked}, and 9 ids of it are special tokens"
        assert str(caught.value) == case["message"] + explained
        return
    trained = Tokenizer.train_from_iterator(texts_of(case), asked)
    assert trained.get_vocab_size() == case["n_vocab"]
    assert trained.get_bos_token_id() == case["bos"]
    assert list(trained.special_tokens.values()) == case["ids"]


def test_texts_encode_to_the_ids_of_upstream(tokenizer):
    assert tokenizer.get_vocab_size() == ENCODE["num_ids"]
    assert tokenizer.special_tokens == ENCODE["special_ids"]
    for case in ENCODE["encode"]:
        if "text" in case:
            text = case["text"]
        else:
            raw = bytes.fromhex(case["text_utf16be_hex"])
            text = "".join(
                chr(int.from_bytes(raw[at : at + 2], "big")) for at in range(0, len(raw), 2)
            )
        assert tokenizer.encode(text) == case["ids"], text
        assert tokenizer.decode(case["ids"]) == case.get("decoded", text)


def check_message(error, case):
    """Compare an error with that of nanochat: for Python's bare errors, the type, and a sentence.

    nanochat's message of these errors is a key, or Python's message for an index or a type.
    """
    is_key = case["message"].startswith("b'")
    is_of_python = "messages" in case or "conversation" in case
    if is_key or (is_of_python and case["raises"] in {"KeyError", "IndexError", "TypeError"}):
        assert type(error) is (UnknownTokenError if is_key else ConversationError)
        assert len(str(error).split()) > len(case["message"].split())
    else:
        assert type(error) is ERRORS[case["raises"]]
        assert str(error) == case["message"]


CALLS = [*ENCODE["prepend_append"], *ENCODE["errors"], *ENCODE["encode_special"]]


@pytest.mark.parametrize("case", CALLS, ids=lambda case: case["call"])
def test_calls_return_the_ids_or_raise_the_errors_of_upstream(tokenizer, case):
    methods = {name: getattr(tokenizer, name) for name in ("encode", "decode", "encode_special")}
    if "raises" in case:
        with pytest.raises(ERRORS[case["raises"]]) as caught:
            eval(case["call"], methods | {"tok": tokenizer})
        check_message(caught.value, case)
    else:
        found = eval(case["call"], methods | {"tok": tokenizer})
        assert found == case.get("ids", case.get("returns"))


def test_ids_decode_to_the_texts_of_upstream(tokenizer):
    for case in ENCODE["decode"]:
        assert tokenizer.decode(case["ids"]) == case["text"]
    for case in ENCODE["single_token_bytes"]:
        assert tokenizer.decode_single_token_bytes(case["id"]).hex() == case["hex"]


def test_token_lengths_and_the_pickle_equal_upstream(tokenizer):
    assert tokenizer.token_bytes().tolist() == FILES["token_bytes"]
    data = to_pickle(tokenizer.model)
    assert len(data) == FILES["pickle"]["bytes_of_this_pickle"]
    assert hashlib.sha256(data).hexdigest() == FILES["pickle"]["sha256_of_this_pickle"]


def test_the_tiktoken_file_equals_upstream_byte_for_byte():
    expected = FILES["tiktoken_file"]
    case = next(case for case in TRAINING["cases"] if case["name"] == expected["vocab_of"])
    trained = Tokenizer.train_from_iterator(texts_of(case), case["vocab_size"], special_tokens=())
    data = to_tiktoken_file(trained.model)
    lines = data.decode().splitlines()
    assert lines[:3] == expected["first_lines"]
    assert lines[255:] == expected["lines_255_on"]
    assert len(lines) == expected["line_count"]
    assert hashlib.sha256(data).hexdigest() == expected["sha256"]


def composed(tokenizer, value, name):
    """Return the ids of a document with its mask as digits."""
    segments = segments_of(json.dumps(value).encode(), Dialect(kind="chat", name=name))
    found = compose(tokenizer.encode, tokenizer.encode_special, segments)
    return found.ids, "".join(map(str, found.mask))


@pytest.mark.parametrize("case", named(CHAT["render"]))
def test_conversations_and_documents_of_messages_render_as_upstream(tokenizer, case):
    limit = {"max_tokens": case["max_tokens"]} if "max_tokens" in case else {}
    ids, mask = tokenizer.render_conversation({"messages": case["messages"]}, **limit)
    assert (ids, "".join(map(str, mask))) == (case["ids"], case["mask"])
    ids, mask = composed(tokenizer, case["messages"], "messages")
    most = case.get("max_tokens")
    assert (ids[:most], mask[:most]) == (case["ids"], case["mask"])


@pytest.mark.parametrize("case", named(CHAT["completion"]))
def test_prompts_render_as_upstream(tokenizer, case):
    assert tokenizer.render_for_completion({"messages": case["messages"]}) == case["ids"]


@pytest.mark.parametrize(
    ("method", "cases"),
    [("render_conversation", "render_errors"), ("render_for_completion", "completion_errors")],
)
def test_malformed_conversations_raise_the_errors_of_upstream(tokenizer, method, cases):
    for case in CHAT[cases]:
        conversation = case.get("conversation", {"messages": case.get("messages")})
        with pytest.raises(ERRORS[case["raises"]]) as caught:
            getattr(tokenizer, method)(conversation)
        check_message(caught.value, case)


def test_long_conversations_are_cut_as_upstream(tokenizer):
    user = {"role": "user", "content": "word " * 5000}
    messages = [user, {"role": "assistant", "content": "x"}]
    ids, mask = tokenizer.render_conversation({"messages": messages})
    assert len(ids) == len(mask) == CHAT["long_length"]
    prompt = tokenizer.render_for_completion({"messages": messages})
    assert len(prompt) == CHAT["completion_long"]["length"]
    assert prompt[-1] == CHAT["completion_long"]["last_two"][-1]


def test_tokens_are_shown_as_upstream(tokenizer):
    case = CHAT["visualize"]
    ids, mask = tokenizer.render_conversation({"messages": case["messages"]})
    assert (ids, mask) == (case["ids"], case["mask"])
    assert tokenizer.visualize_tokenization(ids, mask) == case["plain"]
    shown = tokenizer.visualize_tokenization(ids, mask, with_token_id=True)
    assert shown == case["with_token_id"]


def test_answers_of_gsm8k_are_cut_as_upstream(tokenizer):
    dialect = Dialect(kind="chat", name="gsm8k")
    for case in CHAT["gsm8k"]["cases"]:
        document = json.dumps({"question": "q", "answer": case["answer"]}).encode()
        question, answer = conversation_of(document, dialect)["messages"]
        assert question == {"role": "user", "content": "q"}
        assert answer == {"role": "assistant", "content": case["parts"]}, case["answer"]
    first = {"question": "q", "answer": CHAT["gsm8k"]["cases"][0]["answer"]}
    rendered = CHAT["gsm8k"]["rendered_first"]
    assert composed(tokenizer, first, "gsm8k") == (rendered["ids"], rendered["mask"])
    for case in CHAT["gsm8k"]["extract_answer"]:
        assert extract_answer(case["text"]) == case["answer"], case["text"]


@pytest.mark.parametrize("case", CHAT["customjson"], ids=lambda case: case["line"])
def test_lines_of_customjson_are_read_as_upstream(case):
    dialect = Dialect(kind="chat", name="customjson")
    line = case["line"].encode()
    if "returns" in case:
        assert [conversation_of(line, dialect)] == case["returns"]
    elif case["raises"] == "AssertionError":
        with pytest.raises(AssertionError) as caught:
            expected_text(line, dialect)
        assert str(caught.value) == case["message"]
    else:  # worded as for other documents
        with pytest.raises(SourceError, match=r"^invalid JSON: Expecting value \(char 0\)$"):
            expected_text(line, dialect)
