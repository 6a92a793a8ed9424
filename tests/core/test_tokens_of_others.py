"""The core with tokens of other tools: numbered ids, whole tokens, explicit tokens."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.errors import TokenizerError

MERGES = np.array([(97, 98), (256, 256), (32, 97), (258, 98)], np.uint32)
WHOLE = [b"abc", b" bc", b"\xc3\xa9"]
TOKENS = [*(bytes([byte]) for byte in range(256)), b"ab", b"abab", b" a", b" ab", *WHOLE]


def packed(items):
    ends = np.cumsum([0, *map(len, items)], dtype=np.int64)
    return np.frombuffer(b"".join(items), np.uint8), ends


def encoder(*, pattern=SPLIT_PATTERN, merges=MERGES, **settings):
    return _core.Encoder(pattern, merges, **settings)


texts = st.text(st.sampled_from("ab c\n\u00e91"), max_size=30)


@given(st.lists(texts, max_size=5), st.permutations(range(len(TOKENS))), st.sampled_from([1, 9000]))
def test_a_numbering_renames_internal_ids_and_changes_nothing_else(documents, order, factor):
    plain = encoder(whole=packed(WHOLE))
    numbering = np.array(order, np.uint32) * factor
    numbered = encoder(whole=packed(WHOLE), numbering=numbering)
    assert numbered.num_ids() == numbering.max() + 1
    documents = [document.encode() for document in documents]
    for _ in range(2):  # the second time from the cache
        for document in documents:
            assert numbered.encode(document).tolist() == numbering[plain.encode(document)].tolist()
        ids, offsets = numbered.encode_batch(*packed(documents), wide=True)
        expected, expected_offsets = plain.encode_batch(*packed(documents), wide=True)
        assert ids.tolist() == numbering[expected].tolist()
        assert offsets.tolist() == expected_offsets.tolist()


def test_a_whole_token_is_only_a_span():
    whole = encoder(whole=packed(WHOLE))
    assert whole.num_tokens() == whole.num_ids() == len(TOKENS)
    assert whole.encode_text("abc bc") == [260, 261]
    assert whole.encode_text("abcc") == [256, 99, 99]
    assert whole.encode_text("\u00e9") == [262]
    assert whole.encode_text("\u00e9\u00e9") == [0xC3, 0xA9, 0xC3, 0xA9]


def test_token_bytes_are_in_the_order_of_ids():
    numbering = np.arange(len(TOKENS), dtype=np.uint32)[::-1] * 3
    data, offsets = encoder(whole=packed(WHOLE), numbering=numbering).token_bytes()
    found = [data[start:end].tobytes() for start, end in pairwise(offsets)]
    assert found == TOKENS[::-1]
    order = bytes(range(255, -1, -1))
    data, offsets = encoder(merges=np.empty((0, 2), np.uint32), byte_order=order).token_bytes()
    assert (data.tobytes(), offsets.tolist()) == (order, list(range(257)))


def test_conversations_are_rendered_with_numbered_ids():
    dialect = _core.Dialect("chat", "messages")
    lines = [b'[{"role": "user", "content": "ab c"}, {"role": "assistant", "content": "abc"}]']
    names = ["<|bos|>", "<|user_start|>", "<|user_end|>", "<|assistant_start|>"]
    special = [(name, 500 + at) for at, name in enumerate([*names, "<|assistant_end|>"])]
    numbering = np.arange(len(TOKENS), dtype=np.uint32) + 1000
    plain = encoder(whole=packed(WHOLE)).render(dialect, special, *packed(lines))
    numbered = encoder(whole=packed(WHOLE), numbering=numbering).render(
        dialect, special, *packed(lines)
    )
    ids = [id if id >= 500 else id + 1000 for id in plain[0].tolist()]
    assert len(ids) > 5
    assert numbered[0].tolist() == ids
    assert numbered[1].tolist() == plain[1].tolist()
    far = encoder(whole=packed(WHOLE), numbering=numbering * 1000)
    with pytest.raises(TokenizerError, match="1262001 token ids do not fit: the limit is 65536"):
        far.render(dialect, special, *packed(lines))


BYTES = bytes(range(256))
FIRST = np.arange(len(TOKENS), dtype=np.uint32)
REFUSED = {
    "the numbering has 262 ids: there are 263 tokens": {"numbering": FIRST[1:]},
    "token 262 has the id 2147483648: the limit is 2147483647": {
        "numbering": np.append(FIRST[:-1], np.uint32(2**31))
    },
    "token 262 has the id 5, as token 5 has": {"numbering": np.append(FIRST[:-1], np.uint32(5))},
    "token 261 is empty": {"whole": packed([b"abc", b""])},
    'token 260, "abab", has the same bytes as token 257': {"whole": packed([b"abab"])},
    "byte_order cannot be used with priorities, whole or numbering": {"byte_order": BYTES},
}


@pytest.mark.parametrize("message", REFUSED)
def test_wrong_tokens_are_refused_by_name(message):
    with pytest.raises(TokenizerError, match=f"^{message}$"):
        encoder(**{"whole": packed(WHOLE), **REFUSED[message]})


def test_ids_that_do_not_fit_are_refused():
    numbering = FIRST * 300
    numbered = encoder(whole=packed(WHOLE), numbering=numbering)
    with pytest.raises(TokenizerError, match="78601 token ids do not fit: the limit is 65536"):
        numbered.encode_batch(*packed([b"ab"]))
    assert numbered.encode_batch(*packed([b"ab"]), wide=True)[0].tolist() == [256 * 300]
