"""From summed counts to the span table beside the tokenizer that was learned from them.

It saves time and changes no id, so it enters no key and no record. Written before the second
fan-out starts, never after. Does not know how spans were counted.
"""

import time

from nanotok_ray.cluster.events import OnEvent, StageEnded, StageStarted
from nanotok_ray.counts.totals import most_frequent
from nanotok_ray.formats.manifest import TOKENIZER_FOLDER
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer, write_span_table
from nanotok_ray.tokenizer.merges import Learned

STAGE = "span table"


def add_span_table(
    tokenizer: Tokenizer, learned: Learned, out: Folder, *, max_spans: int, on_event: OnEvent
) -> Tokenizer:
    """Write the table of a tokenizer that was just saved, and give the tokenizer that uses it.

    With `max_spans` 0 nothing is written.
    """
    if not max_spans:
        return tokenizer
    todo = min(max_spans, len(learned.span_counts))
    on_event(StageStarted(stage=STAGE, todo=todo, kept=0, num_bytes=0))
    start = time.perf_counter()
    spans = most_frequent(
        learned.span_data, learned.span_offsets, learned.span_counts, max_spans=max_spans
    )
    folder = out.join(TOKENIZER_FOLDER)
    size = write_span_table(tokenizer.model, spans, folder)
    on_event(StageEnded(stage=STAGE, seconds=time.perf_counter() - start, num_bytes=size))
    return Tokenizer.load(folder)
