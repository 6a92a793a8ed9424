"""Foreign tokenizers: learned merges over bytes in another order."""

from hypothesis import strategies as st

from nanotok_ray.counts import SPLIT_PATTERN
from nanotok_ray.tokenizer import Model, Tokenizer

CORPUS = [
    "the cat sat on the mat, the hat: 123 1234",
    "naïve café — 中文字符 שלום 🙂🙂 é́",
    "def f(x):\n        return x  # 'it's' we'll\r\n",
]
LEARNED = Tokenizer.train_from_iterator(CORPUS * 3, 400, special_tokens=()).model

GPT2_ORDER = bytes(
    [*range(33, 127), *range(161, 173), *range(174, 256), *range(33), 127, *range(128, 161), 173]
)
"""The bytes of ids 0..255 of gpt2, cl100k, o200k, Llama 3 and Qwen."""

texts = st.text(
    st.one_of(
        st.sampled_from("thecatsonm, '12\n\r\t é中🙂<|>"),
        st.characters(codec="utf-8"),
    ),
    max_size=60,
)
orders = st.permutations(range(256)).map(bytes)


def in_order(
    byte_order: bytes = GPT2_ORDER, *, special_tokens=None, pattern: str = SPLIT_PATTERN
) -> Model:
    """Return the learned merges with the bytes in another order."""
    numbers = {byte: number for number, byte in enumerate(byte_order)}
    merges = [
        tuple(numbers[each] if each < len(numbers) else each for each in pair)
        for pair in LEARNED.merges
    ]
    return Model(
        pattern=pattern,
        unicode_version=LEARNED.unicode_version,
        merges=tuple(merges),
        special_tokens=special_tokens or {},
        byte_order=byte_order,
    )
