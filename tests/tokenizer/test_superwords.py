"""Tokens of several words: equal to a plain implementation, and in other libraries."""

import pickle

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray import _core
from nanotok_ray.counts import PATTERNS
from nanotok_ray.job.superwords import frequent_pairs
from nanotok_ray.tokenizer import Tokenizer
from tests.support import reference
from tests.support.library_tokenizers import HOSTILE, SENTENCES
from tests.support.superwords import learn_superwords

WORDS = ["the", "cat", " sat", "on", "a", "mat", ":", ": ", ", ", "it's", "12", "345", "\n", "  "]
lines = st.lists(
    st.lists(
        st.sampled_from([*WORDS, " the", " cat", " of", "naïve", "中文", "()", "e\u0301"]),
        max_size=12,
    ).map("".join),
    max_size=10,
)
PATTERN = PATTERNS["nanochat-superwords"]
SPECIAL = ["<|bos|>", "<|end|>"]


def split_by(pattern):
    return _core.Splitter(pattern).split


rules = st.tuples(
    st.integers(1, 5),
    st.sampled_from([": ", "", "at", " "]),
    st.sampled_from(["nanochat-superwords", "gpt4-superwords"]),
)


@given(lines, st.integers(0, 15), st.integers(1, 25), rules)
def test_merges_equal_those_of_a_plain_implementation(texts, first, more, rules):
    max_words, forbidden, pattern = rules
    documents = [text.encode() for text in texts]
    words = reference.count_spans(documents, split=split_by(PATTERNS["nanochat"]))
    inherited = len(reference.learn_merges(words, num_merges=first))
    expected = reference.learn_superwords(
        words,
        documents,
        split=split_by(PATTERNS[pattern]),
        first_merges=first,
        num_merges=inherited + more,
        max_words=max_words,
        forbidden=forbidden.encode(),
    )
    learned = learn_superwords(
        texts,
        256 + inherited + more,
        from_size=256 + first,
        pattern=PATTERNS[pattern],
        max_words=max_words,
        forbidden=forbidden,
    )
    assert learned.tokenizer.merges == expected
    for text in texts:
        ids = learned.tokenizer.encode(text)
        plain = reference.encode(text.encode(), split=split_by(PATTERNS[pattern]), merges=expected)
        assert ids == plain
        assert learned.tokenizer.decode(ids) == text


def test_tokens_of_several_words_are_learned_in_the_order_of_their_counts():
    texts = ["in the end of the day, and of the night"] * 5
    learned = learn_superwords(texts, 275, from_size=266, pattern=PATTERNS["gpt4-superwords"])
    tokens = [token for token in learned.tokenizer.model.tokens if b" " in token[1:]]
    assert tokens == [b"nd of", b"nd of the", b", a", b" the e"]


@given(lines, st.integers(1, 9))
def test_rare_pairs_that_are_cut_change_no_merge(texts, more):
    """The segments are cut at first at most pairs, and again at fewer until no merge is rare."""
    whole = learn_superwords(
        texts * 2, 256 + 8 + more, from_size=264, pattern=PATTERN, first_pattern=PATTERNS["gpt4"]
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("nanotok_ray.job.superwords.PAIRS_PER_MERGE", 1)
        patched.setattr("nanotok_ray.job.superwords.MORE_PAIRS", 2)
        cut = learn_superwords(
            texts * 2,
            256 + 8 + more,
            from_size=264,
            pattern=PATTERN,
            first_pattern=PATTERNS["gpt4"],
        )
    assert cut.tokenizer == whole.tokenizer
    assert cut.learned.counts.tolist() == whole.learned.counts.tolist()
    assert cut.learned.applied.tolist() == whole.learned.applied.tolist()


def test_frequent_pairs_are_those_of_the_lowest_chosen_count():
    keys = np.arange(7, dtype="<u8")
    counts = np.array([5, 1, 5, 9, 2, 5, 3], dtype=np.uint64)
    batch = keys.view(np.uint8), np.arange(0, 57, 8), counts
    least, frequent = frequent_pairs([batch], 2)
    assert (least, frequent.tolist()) == (5, [0, 2, 3, 5])
    assert frequent_pairs([batch], 7) == (1, pytest.approx(keys))
    assert frequent_pairs([], 3)[0] == 1


TEXTS = [
    *SENTENCES,
    *["In the end, it is the case that all of the words are read as one of the others: 12 (a)."]
    * 9,
    "def f(x):\n    if x is not None and x == 12:\n        return self.g(x)  # it's fine\n" * 4,
]


@pytest.fixture(scope="module")
def tokenizer():
    learned = learn_superwords(TEXTS, 500, from_size=420, pattern=PATTERN, special_tokens=SPECIAL)
    assert any(b" " in token.strip(b" ") for token in learned.tokenizer.model.tokens)
    return learned.tokenizer


@pytest.mark.parametrize("long", [False, True])
def test_files_work_in_the_other_libraries(tokenizer, tmp_path, long):
    tokenizer.save(tmp_path)
    encoding = pickle.loads((tmp_path / "tokenizer.pkl").read_bytes())
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    texts = [*TEXTS, *HOSTILE]
    if long:  # 100 kB without a line break
        texts = ["in the end " * 9_000, "a" * 100_000, "中文字" * 30_000, "(x) " * 25_000]
    for text in texts:
        if any(name in text for name in SPECIAL):
            continue
        ids = tokenizer.encode(text)
        assert encoding.encode_ordinary(text) == ids
        assert library.encode(text, add_special_tokens=False).ids == ids
        assert tokenizer.decode(ids) == text
    assert Tokenizer.load(tmp_path) == tokenizer


def test_the_report_has_the_second_stage_and_smaller_sizes_are_cut():
    learned = learn_superwords(TEXTS, 430, from_size=380, pattern=PATTERN, special_tokens=SPECIAL)
    stage = learned.report.superwords
    assert stage.first_merges == 380 - 256 - 2
    assert len(learned.report.merges.count) == 430 - 256 - 2
    assert learned.report.curve[-1].vocab_size == 380
    assert learned.report.differs_from_rustbpe == ("superword",)
    smaller = learned.truncated(410)
    again = learn_superwords(TEXTS, 410, from_size=380, pattern=PATTERN, special_tokens=SPECIAL)
    assert smaller.tokenizer == again.tokenizer
    assert smaller.report.curve == again.report.curve
