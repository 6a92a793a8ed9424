"""The command that writes the span table of a tokenizer: tokenizer warm.

Input is a tokenizer's folder and a corpus, or counts of one.
"""

import argparse
import sys
import time
from dataclasses import asdict
from typing import Any

from nanotok_ray.cli.corpora import TEXT_FILES_HELP, add_corpus, count_named, find_corpus
from nanotok_ray.cli.printing import print_json
from nanotok_ray.cli.tokenizers import TOKENIZERS_HELP, add_pattern, opened
from nanotok_ray.counts.span_counts import SpanCounts
from nanotok_ray.counts.stored import find_counts, load_counts
from nanotok_ray.errors import CountsError, TokenizerError
from nanotok_ray.storage import find_files
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.tokenizer.evaluation import PUBLISHED
from nanotok_ray.tokenizer.opened import is_file
from nanotok_ray.tokenizer.output import check_free, file_suffix, write_new
from nanotok_ray.tokenizer.span_table import MAX_SPANS
from nanotok_ray.tokenizer.warming import SpanTableShare, warm

_MAX_SPANS = 16_000_000  # as tokenizer.span_table of a recipe; about 1 GB
_COUNTS_SUFFIX = ".arrow"

_WARM = f"""\
Put a span table beside a tokenizer: the ids of a corpus' most frequent spans.

  nanotok tokenizer warm /data/tokenizer corpus/*.parquet
  nanotok tokenizer warm s3://bucket/tokenizer --spans 2000000 a.jsonl.zst
  nanotok tokenizer warm /data/tokenizer WORK/counts
  nanotok tokenizer warm tokenizer.json --output /data/theirs corpus/*.parquet
  nanotok tokenizer warm cl100k --output /data/cl100k corpus/*.parquet

Whoever loads the tokenizer from then on maps the table instead of working these ids out. It saves
time and changes no id, and takes the place of a table that is there. A job makes one by itself.

The table lies in the tokenizer's folder, also in one of nanochat or Hugging Face. With --output it
lies there, beside all files of the tokenizer; what is no folder needs it. A recipe then takes the
folder as tokenizer.path. What holds another tokenizer is not overwritten.

CORPUS is text, or count files (*.arrow, or a folder of them as a job's WORK/counts) that were cut
by the tokenizer's pattern. Of text a part that is like the rest is enough.

{TOKENIZERS_HELP}
{TEXT_FILES_HELP}"""


def add_action(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the action to `nanotok tokenizer`."""
    parser = actions.add_parser(
        "warm",
        help=_WARM.partition("\n")[0],
        description=_WARM,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "tokenizer", metavar="TOKENIZER", help="folder, file or URL of the tokenizer"
    )
    parser.add_argument(
        "corpus", metavar="CORPUS", nargs="+", help="files of text or of counts, folders, globs"
    )
    parser.add_argument(
        "--output", metavar="DIR", help="folder for tokenizer and table (default: the tokenizer's)"
    )
    add_pattern(parser)
    parser.add_argument(
        "--spans",
        type=int,
        default=MAX_SPANS,
        metavar="N",
        help="how many of the most frequent spans (default: 1,000,000); those that a table cannot "
        "hold, as short ones of many ids, are left out of them",
    )
    parser.add_argument("--threads", type=int, metavar="N", help="default: all cores")
    add_corpus(parser)
    parser.set_defaults(run=_run_warm)


def _run_warm(arguments: argparse.Namespace) -> int:
    if not 1 <= arguments.spans <= _MAX_SPANS:
        raise TokenizerError(
            f"--spans is {arguments.spans}: it must be from 1 to {_MAX_SPANS:,}, about 1 GB"
        )
    output = _output(arguments)
    tokenizer = opened(arguments.tokenizer, arguments, span_table=False)
    if arguments.output is not None:
        check_free(tokenizer.model, output)
    start = time.perf_counter()
    counts = _counts(tokenizer, arguments)
    counted = time.perf_counter()
    if arguments.output is not None:
        write_new(tokenizer.model, output)
    share = warm(tokenizer.model, counts.run(), output, spans=arguments.spans)
    done = time.perf_counter()
    print(_message(share, counts, output), file=sys.stderr)
    seconds = {"count": round(counted - start, 3), "write": round(done - counted, 3)}
    print_json(_values(tokenizer, counts, share, output) | {"seconds": seconds})
    return 0


def _output(arguments: argparse.Namespace) -> str:
    """Return the folder that gets the table.

    Raises:
        TokenizerError: None is named.
    """
    spec: str = arguments.tokenizer
    output: str | None = arguments.output
    if output is None and (spec in PUBLISHED or is_file(spec)):
        raise TokenizerError(
            f"{spec} is no folder, and a span table lies in one: name a folder with --output, "
            "which gets all files of this tokenizer and the table"
        )
    if output is not None and file_suffix(output) is not None:
        raise TokenizerError(f"--output is {output}: a span table lies in a folder, so name one")
    return spec if output is None else output


def _counts(tokenizer: Tokenizer, arguments: argparse.Namespace) -> SpanCounts:
    """Count texts, or add up counts.

    Raises:
        NanotokError: They cannot be read; or there is nothing in them, or nothing that this
            tokenizer's pattern cut.
    """
    are_counts = [_is_counts(path) for path in arguments.corpus]
    if not any(are_counts):
        named = find_corpus(arguments.corpus, arguments)
        pattern, threads = tokenizer.pattern, arguments.threads
        return count_named(named, arguments, pattern=pattern, threads=threads).counts
    if not all(are_counts):
        raise CountsError(
            f"{arguments.corpus[are_counts.index(True)]} is counts and "
            f"{arguments.corpus[are_counts.index(False)]} is none: name texts alone, or counts"
        )
    paths = find_counts(arguments.corpus)
    print(f"reading     {len(paths.count_files):,} count files", file=sys.stderr)
    counts = load_counts(paths)
    if counts.pattern != tokenizer.pattern:
        raise CountsError(
            f"{paths.count_files[0]} was cut by {counts.pattern!r}, and the tokenizer cuts by "
            f"{tokenizer.pattern!r}: name counts of this pattern, or texts"
        )
    if not counts.total:
        raise CountsError(f"there is no span in {', '.join(arguments.corpus)}")
    return counts


def _is_counts(path: str) -> bool:
    """Return whether a path names count files: by suffix, of a folder by any file in it."""
    files = [file.path for file in find_files(path).files]
    return any(file.endswith(_COUNTS_SUFFIX) for file in files)


def _message(share: SpanTableShare, counts: SpanCounts, output: str) -> str:
    of_all = f"of {share.num_distinct:,} distinct ones"
    covers = f"{share.span_share:.2%} of the corpus' spans, {share.byte_share:.2%} of their bytes"
    return "\n".join(
        (
            f"counts      {counts.total:,} spans, {counts.text_bytes / 1e6:,.1f} MB",
            f"span table  {share.num_spans:,} spans {of_all}, {share.file_bytes / 1e6:,.1f} MB",
            f"covers      {covers}",
            f"wrote       {output}",
        )
    )


def _values(
    tokenizer: Tokenizer,
    counts: SpanCounts,
    share: SpanTableShare,
    output: str,
) -> dict[str, Any]:
    return {
        "status": "done",
        "output": output,
        "tokenizer_sha256": tokenizer.sha256,
        "spans": counts.total,
        "text_bytes": counts.text_bytes,
        **asdict(share),
    }
