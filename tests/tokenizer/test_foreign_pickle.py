"""nanochat's tokenizer.pkl is read without executing it; other pickles are refused."""

import os
import pickle
import pickletools
from contextlib import suppress

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer.foreign import from_pickle, pickled
from nanotok_ray.tokenizer.nanochat_files import pickle_instance, to_pickle
from tests.support.foreign_models import GPT2_ORDER, in_order

MODEL = in_order(special_tokens={"<|bos|>": 400, "<|é|>": 410})
ENCODING = tiktoken.Encoding(
    "rustbpe",
    pat_str=SPLIT_PATTERN,
    mergeable_ranks=MODEL.ranks(),
    special_tokens=dict(MODEL.special_tokens),
)
SINGLES = {bytes([byte]): rank for rank, byte in enumerate(GPT2_ORDER)}
STATE = {"name": "x", "pat_str": "a", "mergeable_ranks": SINGLES, "special_tokens": {}}


class Runs:
    """Calls a function when it is unpickled."""

    def __init__(self, call):
        self.call = call

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [3, 4, 5])
@pytest.mark.parametrize("dumps", [pickle.dumps, pickle._dumps])
def test_an_encoding_is_read_unchanged(protocol, dumps):
    data = dumps(ENCODING, protocol=protocol)
    assert from_pickle(data, name="f") == MODEL
    assert from_pickle(pickletools.optimize(data), name="f") == MODEL


@pytest.mark.parametrize(
    "thing",
    [
        *(Runs((os.system, ("touch ran",))), Runs((eval, ("open('ran', 'w')",)))),
        {"a": Runs((os.mkdir, ("ran",)))},
        *([ENCODING], tiktoken.Encoding, 7, None, ("a", 1.5)),
    ],
)
def test_other_classes_are_refused_and_nothing_runs(thing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps(thing)
    with pytest.raises(TokenizerError, match=r"f, byte .*nothing in it is executed"):
        from_pickle(data, name="f")
    assert not list(tmp_path.iterdir())


def instance(state):
    return pickle_instance("tiktoken.core", "Encoding", state=state)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "f: pat_str is not a str but a NoneType"),
        (STATE | {"pat_str": b"a"}, "f: pat_str is not a str but a bytes"),
        (STATE | {"mergeable_ranks": "x"}, "f: mergeable_ranks is not a dict but a str"),
        (STATE | {"mergeable_ranks": {"a": 1}}, "must give ids by bytes, but holds str: int"),
        (STATE | {"special_tokens": {"a": b"1"}}, "must give ids by str, but holds str: bytes"),
        (STATE | {"mergeable_ranks": {b"a": 0}}, "f has 1 tokens of text"),
        (STATE | {"special_tokens": {"a": -1}}, "special token 'a' has id -1, which is one of"),
    ],
)
def test_a_state_that_is_not_a_tokenizer_is_refused(state, message):
    with pytest.raises(TokenizerError) as caught:
        from_pickle(instance(state), name="f")
    assert message in str(caught.value)


def test_a_pickle_that_only_names_an_encoding_names_the_way_to_import_it():
    data = pickle.dumps(Runs((tiktoken.core.Encoding.__new__, (tiktoken.Encoding,), "gpt2")))
    by_name = (
        b"\x80\x04\x8c\rtiktoken.core\x94\x8c\x08Encoding\x94\x93\x94)\x81\x94\x8c\x04gpt2\x94b."
    )
    with pytest.raises(TokenizerError, match=r"from_tiktoken\(tiktoken\.get_encoding\('gpt2'\)\)"):
        from_pickle(by_name, name="f")
    with pytest.raises(TokenizerError, match="not admitted"):
        from_pickle(data, name="f")


MALFORMED = [
    *(b"", b".", b"\x80\x04.", b"\x80\x04}.", b"\x80\x04u.", b"\x80\x04(u."),
    *(b"\x80\x04}}\x94s.", b"\x80\x04}(K\x01K\x02u.", b"\x80\x04h\x07.", b"\x80\x04\x93."),
    *(b"\x80\x04)\x81.", b"\x80\x04}b.", b"\x80\x04r\xff\xff\xff\xff.", b"\x80\x04\xff."),
    b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",
    b"\x80\x04X\xff\xff\xff\xff.",
    b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff.",
    *(b"ctiktoken.core\nCoreBPE\n.", b"ctiktoken.core\nEncod\\qing\n.", b"ctiktoken.core"),
    *(b"ctiktoken.core\nEncod\xc3\xa9\n.", b"S'\\q'\n.", b"I" + b"9" * 10_000 + b"\n."),
    b"(" * 100_000 + b".",
]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        *((data, "f, byte") for data in MALFORMED),
        (b"\x80\x04}\x8c\x01aK\x01s\x8c\x01aK\x02s.", "a dict has the key 'a' twice"),
        (b"\x80\x04}(\x8c\x01au.", "items are set on no dict, or a key has no value"),
        (
            b"\x80\x04\x8c\rtiktoken.core\x8c\x08Encoding\x93}\x81.",
            "something else than its class alone",
        ),
        (b"\x80\x04S'\\C'\n.", r"at byte 2, .* nothing in it is executed"),  # and no warning
    ],
)
def test_a_malformed_pickle_is_refused(data, message):
    with pytest.raises(TokenizerError, match=message):
        from_pickle(data, name="f")


def test_mutually_nested_dicts_as_a_class_name_are_refused_quickly():
    doubled = (b"}\x94\x8c\x01ah%cs\x8c\x01bh%cs" % (n, n) for n in range(60))
    twice = b"}\x94" + b"".join(doubled)
    deep = b"}" + b"\x8c\x01a}" * 100_000 + b"s" * 100_000
    for module in (twice, deep):
        with pytest.raises(TokenizerError, match="a class is named by a dict"):
            from_pickle(b"\x80\x04" + module + b"\x8c\x01x\x93.", name="f")


def test_a_pickle_of_too_many_steps_is_refused(monkeypatch):
    monkeypatch.setattr(pickled, "MAX_STEPS", 100)
    with pytest.raises(TokenizerError, match="more than 100 steps"):
        from_pickle(to_pickle(MODEL), name="f")


SMALL = instance(STATE)


@given(st.data())
def test_a_changed_pickle_is_refused_or_another_tokenizer(data):
    changed = bytearray(SMALL)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(SMALL) - 1))] = data.draw(st.integers(0, 255))
    with suppress(TokenizerError):
        model = from_pickle(bytes(changed), name="f")
        assert len(model.tokens) == len(SINGLES)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data):
    with pytest.raises(TokenizerError):
        from_pickle(b"\x80\x04" + data, name="f")
