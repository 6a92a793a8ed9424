"""tokenizer.json of Hugging Face: its ids are those of `tokenizers`, or it is refused."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Peer

from nanotok_ray._core import Splitter
from nanotok_ray.counts import PATTERNS
from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer import (
    Tokenizer,
    to_huggingface_file,
    to_huggingface_split,
)
from nanotok_ray.tokenizer.foreign import pattern_of
from nanotok_ray.tokenizer.foreign.file_object import parsed_object
from nanotok_ray.tokenizer.foreign.huggingface import model_of_contents
from tests.support.foreign_models import CORPUS, in_order, texts

LLAMA3 = to_huggingface_split(PATTERNS["gpt4"])["pattern"]["Regex"]
MODEL = in_order(pattern=LLAMA3)
NAMES = ["<|begin_of_text|>", "<|end_of_text|>"]


def contents(model=MODEL, names=NAMES):
    """Return the content of our own file, for changes."""
    special_tokens = {name: len(model.tokens) + number for number, name in enumerate(names)}
    return json.loads(to_huggingface_file(replace(model, special_tokens=special_tokens)))


def model_of_file(data):
    return model_of_contents(parsed_object(data, name="f"))


def read(value):
    return model_of_file(json.dumps(value).encode())


def changed(path, new):
    """Return our file with one value replaced."""
    value = contents()
    target = value
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = new
    return value


def all_splits(model):
    """Return the merges of a file made from ranks: every pair of tokens that joins to a token."""
    spell = {number: name for name, number in contents(model, [])["model"]["vocab"].items()}
    tokens = {token: spell[number] for number, token in enumerate(model.tokens)}
    return [
        [tokens[token[:at]], tokens[token[at:]]]
        for token in model.tokens
        for at in range(1, len(token))
        if token[:at] in tokens and token[at:] in tokens
    ]


def like_gpt2():
    """Return a file like GPT-2's: merges as strings, its special token in vocab."""
    value = contents(names=["<|endoftext|>"])
    value["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    value["post_processor"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False}
    bpe = value["model"]
    del bpe["type"], bpe["ignore_merges"], bpe["byte_fallback"]
    bpe |= {"continuing_subword_prefix": "", "end_of_word_suffix": "", "unk_token": ""}
    bpe["merges"] = [" ".join(pair) for pair in bpe["merges"]]
    bpe["vocab"]["<|endoftext|>"] = len(MODEL.tokens)
    return value


def like_llama3():
    """Return a file like Llama 3's: made from ranks, with a template around texts."""
    value = contents()
    value["post_processor"] = {
        "type": "Sequence",
        "processors": [
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False},
            {
                "type": "TemplateProcessing",
                "single": [
                    {"SpecialToken": {"id": NAMES[0], "type_id": 0}},
                    {"Sequence": {"id": "A", "type_id": 0}},
                ],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
                "special_tokens": {
                    NAMES[0]: {"id": NAMES[0], "ids": [len(MODEL.tokens)], "tokens": [NAMES[0]]}
                },
            },
        ],
    }
    value["model"]["merges"] = [" ".join(pair) for pair in all_splits(MODEL)]
    return value


def like_qwen():
    """Return a file like Qwen 2.5's, without its normalizer: added tokens that are not special."""
    value = contents(names=["<|endoftext|>", "<tool_call>"])
    value["added_tokens"][1]["special"] = False
    value["model"]["ignore_merges"] = False
    value["normalizer"] = {"type": "Sequence", "normalizers": []}
    return value


def trained():
    """Train a tokenizer with `tokenizers` itself."""
    peer = Peer(models.BPE())
    split = pre_tokenizers.Split(Regex(LLAMA3), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    peer.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    peer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, show_progress=False)
    peer.train_from_iterator(CORPUS * 3, trainer)
    peer.add_special_tokens(["<|bos|>"])
    return json.loads(peer.to_str())


@pytest.fixture(scope="module", params=[contents, like_gpt2, like_llama3, like_qwen, trained])
def pair(request):
    value = request.param()
    peer = Peer.from_str(json.dumps(value))
    peer.encode_special_tokens = True
    return Tokenizer(read(value)), peer


@given(text=texts)
def test_ids_of_texts_equal_those_of_tokenizers(pair, text):
    own, peer = pair
    assert own.encode(text) == peer.encode(text, add_special_tokens=False).ids


def test_special_tokens_have_their_ids_and_their_names_in_a_text_remain_text(pair):
    own, peer = pair
    assert own.special_tokens
    assert {name: peer.token_to_id(name) for name in own.special_tokens} == own.special_tokens
    assert own.get_vocab_size() == peer.get_vocab_size()
    for text in (*CORPUS, *(f"the {name}{name}" for name in own.special_tokens)):
        ids = own.encode(text)
        assert own.decode(ids) == text
        assert not {*ids} & {*own.special_tokens.values()}
        if "<tool_call>" not in text:  # an added token that is not special is always matched there
            assert ids == peer.encode(text, add_special_tokens=False).ids
            assert peer.decode(ids) == text


@pytest.mark.parametrize("pattern", [*PATTERNS.values(), LLAMA3])
def test_our_file_is_read_back_with_the_text_of_its_pattern(pattern):
    model = in_order(pattern=pattern)
    assert model_of_file(to_huggingface_file(model)) == model


@pytest.mark.parametrize("named", ["gpt4", "nanochat", "cl100k", "x", 1, ["gpt4"], None])
def test_a_name_beside_another_pattern_is_ignored(named):
    split = split_of(pattern={"Regex": LLAMA3.replace("{1,3}", "{1,4}")}, nanotok_pattern=named)
    assert pattern_of(split, name="f") == LLAMA3.replace("{1,3}", "{1,4}")


def split_of(**values):
    split = contents()["pre_tokenizer"]["pretokenizers"][0] | values
    return {"type": "Sequence", "pretokenizers": [split, level()]}


def level(**values):
    return {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False} | values


REPEATED = [r"\w", r"[^\w]", r"\h", r"\p{^L}", "[[:alpha:]]", "[a-z--b]"]
OTHERWISE = [
    *((f"{part}+|.", part) for part in REPEATED),
    *((f"{part}a|.", part) for part in (r"\b", r"\<", "^")),
    (r"\pL+|.", r"\p"),
    ("a{2,1}|.", "{2,1}"),
    (r"\p{N}{1,3}+|\s", "{1,3}+"),
    ("a$|.", "$"),
    ("(?s:.)", "(?s:"),
    (r"\\{1,3}+|.", "{1,3}+"),
    (r"\\$|.", "$"),
    ("a(?i)b|c", "(?i)"),
    ("(?i:ss)+|.", "(?i:ss"),
    ("(?i)fi|.", "(?i)fi"),
    (r"(?i:\p{Lu})|.", r"(?i:\p"),
]
MAY_BE_EMPTY = [
    *("a*", "a|", r"\s*|b", "(?=[A-Z])", "(?:a?|b)+"),
    *("a{,3}", "a{0,3}?", r"\z|a", "()", "(?<=a)b?"),
]
FULL = [
    *(r"a*b|[\s\S]", "[ab^$]|.", r"\^|.", "(?:a?b)+|c+?"),
    *("a{1,3}|.", r"(?=a)[ab]|\$", "[]*]+|.", r"[^\]a]"),
]
WRONG_STEPS = [
    (None, "its pre_tokenizer is None: read are ByteLevel"),
    ({"type": "Whitespace"}, "its pre_tokenizer is Whitespace:"),
    (level(), "its pre_tokenizer is ByteLevel:"),
    ({"type": "ByteLevel"}, "add_prefix_space, which puts a space before each text"),
    (level(use_regex=True, add_prefix_space=True), "add_prefix_space"),
    ({"type": "Sequence", "pretokenizers": []}, "its pre_tokenizer is :"),
    ({"type": "Sequence", "pretokenizers": 7}, "its pre_tokenizer is 7:"),
    (
        {"type": "Sequence", "pretokenizers": [{"type": "Digits"}, level(use_regex=True)]},
        "its pre_tokenizer is Digits then ByteLevel:",
    ),
    (split_of(behavior="Removed"), "its pre_tokenizer splits by {'pattern'"),
    (split_of(invert=True), "'invert': True"),
    (split_of(pattern={"String": " "}), "splits by {'pattern': {'String': ' '}"),
    *(
        (split_of(pattern={"Regex": text}), f"has {part!r}, which the regex engine of")
        for text, part in OTHERWISE
    ),
    *((split_of(pattern={"Regex": text}), "can match no text at all") for text in MAY_BE_EMPTY),
]


MERGES = contents()["model"]["merges"]
OTHER = next(pair for pair in all_splits(MODEL) if pair not in MERGES)
OF_OTHER_PARTS = [OTHER if "".join(pair) == "".join(OTHER) else pair for pair in MERGES]
WRONG = [
    *((["pre_tokenizer"], step, message) for step, message in WRONG_STEPS),
    (["model", "merges"], [MERGES[1], *MERGES], "merges must be in order of the ids they make"),
    (["model", "merges"], MERGES[:-1], "it is only met as a whole span"),
    (["model", "merges"], OF_OTHER_PARTS, "it is only met as a whole span"),
    (["model", "merges"], MERGES[1:], "no merge of"),
    (["model", "type"], "Unigram", "holds a 'Unigram' model, as SentencePiece makes it"),
    (["model", "type"], "WordPiece", "holds a 'WordPiece' model: only byte-level BPE"),
    (["model"], None, "'model' must be of type dict, not NoneType"),
    (["model", "dropout"], 0.1, "its model has dropout = 0.1"),
    (["model", "byte_fallback"], True, "its model has byte_fallback = True"),
    (["model", "continuing_subword_prefix"], "##", "continuing_subword_prefix = '##'"),
    (["model", "end_of_word_suffix"], "</w>", "end_of_word_suffix = '</w>'"),
    (["normalizer"], {"type": "NFC"}, "has a normalizer, NFC: texts are encoded as they are"),
    (["post_processor"], {"type": "Other"}, "has a post_processor Other"),
    (["post_processor"], {"type": "Sequence", "processors": None}, "post_processor None"),
    (["decoder"], {"type": "Metaspace"}, "has a decoder Metaspace"),
    (["model", "vocab"], [["a", -1.0]], "'vocab' must be of type dict, not list"),
    (["model", "vocab", "Ġ"], "7", "the id of the token 'Ġ' is '7'"),
    (["model", "vocab", "Ġ"], True, "the id of the token 'Ġ' is True"),
    (["model", "vocab", "▁a"], 500, "holds '▁', which spells no byte"),
    (["model", "vocab", "!"], 1, "is 1 where 0 is the next"),
    (["model", "merges"], None, "'merges' must be of type list"),
    (["model", "merges", 0], "a b c", "merges[0] is 'a b c', not two tokens"),
    (["model", "merges", 0], [1, 2], "merges[0] is [1, 2], not two tokens"),
    (["model", "merges", 0], ["z", "q"], "merges[0]: ['z', 'q'] are no tokens that make"),
    (["added_tokens"], {}, "'added_tokens' must be of type list"),
    (["added_tokens", 0], 7, "added_tokens[0] is no object"),
    (["added_tokens", 0, "content"], 7, "added_tokens[0]: 'content' must be of type str"),
    (["added_tokens", 0, "id"], True, "added_tokens[0]: 'id' must be of type int"),
    (["added_tokens", 0, "content"], "a", "the id of b'b' is 65 where 64 is the next"),
    (["added_tokens", 0, "content"], NAMES[1], "added_tokens[1]: '<|end_of_text|>' has two"),
    (["added_tokens"], [{"id": 500, "content": "x y"}], "tokenizers would give it 337"),
]


@pytest.mark.parametrize(("path", "new", "message"), WRONG)
def test_files_that_are_not_byte_level_bpe_are_refused(path, new, message):
    with pytest.raises(TokenizerError) as caught:
        read(changed(path, new))
    assert str(caught.value).startswith("f")
    assert message in str(caught.value)


@pytest.mark.parametrize("pattern", [*FULL, *PATTERNS.values(), LLAMA3])
def test_patterns_that_are_read_split_equally(pattern):
    theirs = to_huggingface_split(pattern)["pattern"]["Regex"]
    own = Splitter(pattern_of(split_of(pattern={"Regex": theirs}), name="f"))
    peer = pre_tokenizers.Split(Regex(theirs), "isolated")

    @settings(max_examples=50)
    @given(text=st.text("ab^$]* \n\\é\u200d'sS\u017f1", max_size=12))
    def check(text):
        expected = [span for span, _ in peer.pre_tokenize_str(text)]
        assert [span.decode() for span in own.split(text.encode())] == expected

    check()


def test_a_text_that_would_become_a_special_token_is_refused():
    value = like_gpt2()
    value["model"]["ignore_merges"] = True
    assert read(value).pattern == PATTERNS["r50k"]
    number = value["model"]["vocab"].pop("<|endoftext|>")
    for name, text in (("end", "end"), ("Ġ<|>", " <|>"), ("ĠÃ©tÃ©", " été")):
        value["added_tokens"][0]["content"] = name
        value["model"]["vocab"][name] = number
        assert Peer.from_str(json.dumps(value)).encode(f"a{text}").ids[-1] == number
        message = f"the text {text.encode()!r} becomes a special token there, as its vocabulary"
        with pytest.raises(TokenizerError, match=re.escape(message)):
            read(value)
        del value["model"]["vocab"][name]
    value["model"]["vocab"]["<a b>"] = number
    value["added_tokens"][0]["content"] = "<a b>"
    assert read(value).special_tokens == {"<a b>": number}


def test_with_a_lookaround_pattern_no_byte_name_is_in_vocab():
    value = like_gpt2()
    value["model"]["ignore_merges"] = True
    split = contents()["pre_tokenizer"]["pretokenizers"][0]
    split["pattern"] = {"Regex": r"<\|[a-z]+\|>(?=x)|[\s\S]"}
    value["pre_tokenizer"] = {
        "type": "Sequence",
        "pretokenizers": [split, level(trim_offsets=True)],
    }
    peer = Peer.from_str(json.dumps(value))
    peer.encode_special_tokens = True
    assert peer.encode("<|endoftext|>x").ids[0] == value["added_tokens"][0]["id"]
    with pytest.raises(TokenizerError, match="becomes a special token there"):
        read(value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "f, line 1: Expecting value"),
        (b"{\n\n'", "f, line 3: Expecting property name"),
        (b"\xff", "f: 'utf-8' codec can't decode"),
        (b"[" * 10**6, "f: its values are nested too deep"),
        (b"[" + b"[]," * (1 << 22), "f has 4,194,305 lists and objects, more than 4,194,304 are"),
        (b"7", "f holds a int, not an object"),
        (b'{"a": 1, "b": 2, "a": 1}', "f: the key 'a' comes twice"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "f: Exceeds the limit"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(data, message):
    with pytest.raises(TokenizerError) as caught:
        model_of_file(data)
    assert message in str(caught.value)
