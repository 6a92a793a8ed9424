"""Tokenizer files made by somebody else: refused before they take memory."""

import pytest

from nanotok_ray.errors import TokenizerError
from nanotok_ray.tokenizer import Model, Tokenizer, differing_files, to_readable


def readable(merges, *, claimed=None, special=()):
    lines = [
        "nanotok-tokenizer 1",
        "unicode 16.0.0",
        'pattern "a"',
        f"special_tokens {len(special)}",
    ]
    lines += [f'{number} "<{number}>"' for number in special]
    lines += [f"merges {len(merges) if claimed is None else claimed}"]
    lines += [f"{left} {right}" for left, right in merges]
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (readable([(97, 97)], claimed=10**9), "ends too early"),
        (readable([(97, 300)]), "must join two ids below 256"),
        (readable([(97, 256)]), "must join two ids below 256"),
        (readable([(97, 97), *((n, n) for n in range(256, 316))]), "more than 268435456 bytes"),
        (readable([(97, 97), (97, 97)]), "repeats merge 0"),
        (readable([], special=[2**31]), "are free"),
        (readable([], claimed=10**30), "expected a number"),
        (b"nanotok-tokenizer 1\nunicode 16.0.0\npattern " + b"[" * 100_000 + b"\n", "JSON string"),
        (b"\n" * 1000, "has format .., this version reads"),
    ],
)
def test_a_readable_tokenizer_that_asks_for_the_impossible_is_refused(tmp_path, data, message):
    (tmp_path / "tokenizer.txt").write_bytes(data)
    with pytest.raises(TokenizerError, match=message):
        Tokenizer.load(tmp_path)


def test_a_readable_tokenizer_of_many_gigabytes_is_refused_unread(tmp_path):
    with (tmp_path / "tokenizer.txt").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(TokenizerError, match="are refused"):
        Tokenizer.load(tmp_path)


def test_an_id_far_above_all_others_makes_no_file_as_long_as_that(tmp_path):
    model = Model(
        pattern="a", unicode_version="16.0.0", merges=(), special_tokens={"<|x|>": 2**31 - 1}
    )
    (tmp_path / "tokenizer.txt").write_bytes(to_readable(model))
    tokenizer = Tokenizer.load(tmp_path)
    with pytest.raises(TokenizerError, match="unused"):
        differing_files(tokenizer.model, tmp_path)
    with pytest.raises(TokenizerError, match="unused"):
        tokenizer.save(tmp_path / "copy")
