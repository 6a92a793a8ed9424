"""RustBPETokenizer: nanochat's class with its names and signatures, with rustbpe and tiktoken."""

import inspect
import pickle

import pytest
import rustbpe
import tiktoken

from nanotok_ray import RustBPETokenizer, get_tokenizer
from nanotok_ray.counts import PATTERNS, SPLIT_PATTERN
from nanotok_ray.errors import TokenizerError
from nanotok_ray.recipe import SPECIAL_TOKENS
from nanotok_ray.tokenizer import Tokenizer, default_folder
from tests.support.foreign_models import CORPUS

SIGNATURES = {
    "__init__": ["self", "enc", "bos_token"],
    "train_from_iterator": ["text_iterator", "vocab_size"],
    "from_directory": ["tokenizer_dir"],
    "from_pretrained": ["tiktoken_name"],
    "get_vocab_size": ["self"],
    "get_special_tokens": ["self"],
    "id_to_token": ["self", "id"],
    "encode_special": ["self", "text"],
    "get_bos_token_id": ["self"],
    "encode": ["self", "text", "prepend", "append", "num_threads"],
    "decode": ["self", "ids"],
    "decode_single_token_bytes": ["self", "token_id"],
    "save": ["self", "tokenizer_dir"],
    "render_conversation": ["self", "conversation", "max_tokens"],
    "visualize_tokenization": ["self", "ids", "mask", "with_token_id"],
    "render_for_completion": ["self", "conversation"],
}
"""nanochat's signatures at commit 92d63d4."""


@pytest.fixture(scope="module")
def encoding():
    """The encoding of nanochat's class after training: rustbpe learns, tiktoken encodes."""
    learner = rustbpe.Tokenizer()
    learner.train_from_iterator(iter(CORPUS), 300 - len(SPECIAL_TOKENS), pattern=SPLIT_PATTERN)
    ranks = {bytes(token): number for token, number in learner.get_mergeable_ranks()}
    names = {name: len(ranks) + number for number, name in enumerate(SPECIAL_TOKENS)}
    return tiktoken.Encoding(
        "rustbpe", pat_str=learner.get_pattern(), mergeable_ranks=ranks, special_tokens=names
    )


def test_parameters_have_the_names_and_order_of_nanochat():
    for method, names in SIGNATURES.items():
        parameters = inspect.signature(getattr(RustBPETokenizer, method)).parameters.values()
        found = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
        assert found == names


def test_learned_and_converted_tokenizers_are_equal(encoding):
    learned = RustBPETokenizer.train_from_iterator(text_iterator=iter(CORPUS), vocab_size=300)
    converted = RustBPETokenizer(encoding, "<|bos|>")
    assert learned == converted
    bos = encoding.encode_single_token("<|bos|>")
    assert learned.bos_token_id == converted.get_bos_token_id() == bos
    assert learned.enc.encode_ordinary(CORPUS[0]) == learned.encode(CORPUS[0])
    assert learned.enc.n_vocab == learned.get_vocab_size()
    assert learned.id_to_token(id=104) == "h"
    assert isinstance(learned, Tokenizer)
    copy = pickle.loads(pickle.dumps(converted))
    assert (type(copy), copy) == (RustBPETokenizer, converted)


def test_save_writes_the_pickle_of_nanochat_and_overwrites(encoding, tmp_path):
    other = Tokenizer.train_from_iterator(CORPUS, 280)
    other.save(tmp_path)
    RustBPETokenizer(encoding, "<|bos|>").save(tokenizer_dir=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"token_bytes.pt", "tokenizer.pkl"}
    assert (tmp_path / "tokenizer.pkl").read_bytes() == pickle.dumps(encoding, protocol=4)
    assert RustBPETokenizer.from_directory(tokenizer_dir=tmp_path) != other
    assert RustBPETokenizer.from_directory(tmp_path).encode("it") == encoding.encode_ordinary("it")


def test_encodings_of_tiktoken_start_documents_with_their_end_of_text(monkeypatch, encoding):
    ranks = encoding._mergeable_ranks
    gpt2 = tiktoken.Encoding(
        "gpt2",
        pat_str=PATTERNS["r50k"],
        mergeable_ranks=ranks,
        special_tokens={"<|endoftext|>": len(ranks)},
    )
    monkeypatch.setattr(tiktoken, "get_encoding", {"gpt2": gpt2}.__getitem__)
    tokenizer = RustBPETokenizer.from_pretrained(tiktoken_name="gpt2")
    assert tokenizer.bos_token_id == tokenizer.get_bos_token_id() == len(ranks)
    assert tokenizer.extended(["<|x|>"]).bos_token_id == len(ranks)
    with pytest.raises(KeyError, match="bos"):
        RustBPETokenizer(gpt2, "<|bos|>")


@pytest.fixture
def base(monkeypatch, tmp_path):
    for name in ("NANOCHAT_EXPERIMENT", "NANOCHAT_EXPERIMENTS_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NANOCHAT_BASE_DIR", str(tmp_path))
    return tmp_path


def test_the_folder_is_that_of_the_environment_of_nanochat(base, monkeypatch):
    assert default_folder() == f"{base}/tokenizer"
    (base / "experiments/default/tokenizer").mkdir(parents=True)
    assert default_folder() == f"{base}/experiments/default/tokenizer"
    (base / "tokenizer").mkdir()
    assert default_folder() == f"{base}/tokenizer"
    monkeypatch.setenv("NANOCHAT_EXPERIMENT", "wide")
    assert default_folder() == f"{base}/experiments/wide/tokenizer"
    monkeypatch.setenv("NANOCHAT_EXPERIMENTS_DIR", "/elsewhere/")
    assert default_folder() == "/elsewhere/wide/tokenizer"
    monkeypatch.delenv("NANOCHAT_EXPERIMENT")
    assert default_folder() == "/elsewhere/default/tokenizer"


def test_the_tokenizer_of_an_experiment_is_loaded(base, monkeypatch, encoding):
    monkeypatch.setenv("NANOCHAT_EXPERIMENT", "wide")
    with pytest.raises(TokenizerError, match=f"no tokenizer in {base}/experiments/wide/tokenizer"):
        get_tokenizer()
    RustBPETokenizer(encoding, "<|bos|>").save(base / "experiments/wide/tokenizer")
    assert get_tokenizer() == RustBPETokenizer(encoding)
    assert type(get_tokenizer()) is RustBPETokenizer
