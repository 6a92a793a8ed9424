"""Small tokenizers of other libraries, learned within milliseconds from a few sentences."""

import io
import json
from functools import lru_cache

import sentencepiece
import tokenizers
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2
from tokenizers import (
    AddedToken,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

SENTENCES = [
    "The cat sat on the mat, and the hat sat on the cat.",
    "naïve café — 中文字符 שלום 🙂🙂 Ünïcödé Ⅳ ﬁne",
    "def f(x):\n    return x  # it's we'll 1234 567",
    "the thing with the three thick thorns thought through 3.14159",
] * 8
SPECIAL = ("<s>", "</s>", "<|user|>")

texts = st.text(
    st.one_of(
        st.sampled_from("thecatsonm, '12\n\r\t é中🙂<|>/\u2581\u0301ﬁⅣ"),
        st.characters(codec="utf-8"),
    ),
    max_size=60,
)
HOSTILE = [
    *("", " ", "  a  b ", "\n\n\t", "\u2581\u2581", "<s>", "a</s> <|user|>b", "\x00\x7f"),
    *("e\u0301" * 20, "ﬁ\u212b\uac00\u1100\u1161", "x" * 3000, "1" * 50, "\U0010ffff\u0378"),
    *(" " * 20 + "x", "a" + " " * 15, "   \u2581\u2581 a", "    \n    b", "   <tool>  "),
    *("THE CAT", "tHe", " the", "the ", "\u3000\u00a0\u2028", "<0x0A>", "🏳️‍🌈👩‍👩‍👧‍👦🇩🇪"),
]


@lru_cache
def word_piece() -> str:
    """Return the tokenizer.json of a lower-casing WordPiece model, as BERT's."""
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made.train_from_iterator(
        SENTENCES, trainers.WordPieceTrainer(vocab_size=200, special_tokens=special)
    )
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=ends)
    return made.to_str()


@lru_cache
def unigram() -> str:
    """Return the tokenizer.json of a Unigram model with Metaspace, as T5's."""
    made = tokenizers.Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip()])
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=150, unk_token="<unk>", special_tokens=["<unk>", "</s>"]
    )
    made.train_from_iterator(SENTENCES, trainer)
    return made.to_str()


@lru_cache
def byte_fallback() -> str:
    """Return the tokenizer.json of BPE over characters with byte fallback, as Llama 2's."""
    model = models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True)
    made = tokenizers.Tokenizer(model)
    steps = [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    made.normalizer = normalizers.Sequence(steps)
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<unk>", "<s>", "</s>", *(f"<0x{n:02X}>" for n in range(256))],
    )
    made.train_from_iterator(SENTENCES, trainer)
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    contents = json.loads(made.to_str())
    contents["added_tokens"] = contents["added_tokens"][:3]
    return json.dumps(contents)


def byte_level(*, normalizer=None, pre_tokenizer=None, ignore_merges=False, special=SPECIAL) -> str:
    """Return the tokenizer.json of byte-level BPE whose special tokens have the lowest ids."""
    made = tokenizers.Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer is not None:
        made.normalizer = normalizer
    made.pre_tokenizer = pre_tokenizer or pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=380,
        special_tokens=[*special],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(SENTENCES, trainer)
    return made.to_str()


@lru_cache
def sentence_piece(model_type: str = "bpe", **settings: object) -> bytes:
    """Return a model of SentencePiece with byte fallback and a user-defined symbol."""
    settings = {"byte_fallback": True, **settings}
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=written,
        vocab_size=400 if model_type == "bpe" else 320,
        hard_vocab_limit=False,
        model_type=model_type,
        character_coverage=0.99,
        user_defined_symbols=["<tool>"],
        minloglevel=2,
        **settings,
    )
    return written.getvalue()


def plain_sentence_piece(**settings: object) -> bytes:
    """Return a model that does not normalize texts, as Llama 2's and Gemma's."""
    plain = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
    return sentence_piece("bpe", **plain, **settings)


def equal_spaces() -> bytes:
    """Return a model with pieces of 2, 3, 4 and 7 spaces of the lowest score, as Llama 2's."""
    model = sentencepiece_model_pb2.ModelProto.FromString(plain_sentence_piece())
    for length in (2, 3, 4, 7):
        model.pieces.add(piece="\u2581" * length, score=-1e9)
    data: bytes = model.SerializeToString()
    return data


def scored_oddly(kind: str) -> bytes:
    """Return a model with a score that is not a number, or with an unused piece."""
    model = sentencepiece_model_pb2.ModelProto.FromString(plain_sentence_piece())
    piece = next(piece for piece in model.pieces if len(piece.piece) > 1 and piece.type == 1)
    if kind == "unused":
        piece.type = 5
    else:
        piece.score = float("nan")
    data: bytes = model.SerializeToString()
    return data


def without_added(data: str) -> tokenizers.Tokenizer:
    """Return the library's tokenizer of a file that matches no added token in a text."""
    return tokenizers.Tokenizer.from_str(json.dumps({**json.loads(data), "added_tokens": []}))


def with_flags(data: str, **flags: bool) -> str:
    """Return the file with an added token that has flags of the library."""
    made = tokenizers.Tokenizer.from_str(data)
    made.add_tokens([AddedToken("<tool>", **flags)])
    return made.to_str()
