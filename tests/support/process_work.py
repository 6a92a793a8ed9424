"""Work of worker processes with a tokenizer, shards and a loader, in an importable module."""

from itertools import islice

TEXTS = ["the cat sat", "", "naïve café 你好 🙂\n\n  1234", "ab" * 50] * 3


def results(tokenizer, shards, loader):
    """Return the results of each; the loader continues at its position."""
    ids, offsets = tokenizer.encode_batch(TEXTS, num_threads=2)
    return [
        [tokenizer.encode(text) for text in TEXTS],
        (ids.tolist(), offsets.tolist()),
        tokenizer.decode_batch(ids, offsets).to_pylist(),
        tokenizer.encode(TEXTS[:2], allowed_special="all"),
        [document.tolist() for document in shards[:5]],
        [shards.text(number) for number in (0, -1)],
        [batch.inputs.tolist() for batch in islice(loader, 3)],
        type(tokenizer).train_from_iterator(TEXTS, 280, num_threads=2).merges,
    ]


def put_results(queue, *things):
    """Put the results, or the error, into the parent's queue."""
    try:
        queue.put(results(*things))
    except BaseException as error:
        queue.put(repr(error))
        raise


class Reencoded:
    """A torch data set: the ids of each document, and those of its text."""

    def __init__(self, tokenizer, shards):
        self._tokenizer, self._shards = tokenizer, shards

    def __len__(self):
        return len(self._shards)

    def __getitem__(self, number):
        text = self._shards.text(number)
        again = self._tokenizer.encode(text.removeprefix("<|bos|>"), "<|bos|>")
        return self._shards[number].tolist(), again
