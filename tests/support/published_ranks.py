"""A package like bpe-openai, with few ranks and an error on import."""

import base64
import gzip


def fake_package(folder, merged=(b"th", b"the", b" the")):
    """Write the package to a folder for sys.path; return its ranks."""
    tokens = [bytes([255 - value]) for value in range(256)] + list(merged)
    lines = [b"%s %d\n" % (base64.b64encode(token), rank) for rank, token in enumerate(tokens)]
    data = folder / "bpe_openai/data"
    data.mkdir(parents=True)
    (data.parent / "__init__.py").write_text("raise AssertionError('imported')\n")
    for name in ("cl100k", "o200k"):
        (data / f"{name}_base.tiktoken.gz").write_bytes(gzip.compress(b"".join(lines)))
    return {token: rank for rank, token in enumerate(tokens)}
