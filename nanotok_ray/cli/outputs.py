"""The commands that read an output: status, report, verify, inspect, export."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from nanotok_ray.cli.app import Arguments, Choice, command
from nanotok_ray.cli.options import (
    COUNT,
    PATH,
    TOKENS,
    WEIGHTS,
    execution_options,
    integer,
    listed,
    local_option,
    options,
    output_argument,
    output_of,
    packings,
    split_option,
)
from nanotok_ray.cli.printing import numbers_text
from nanotok_ray.units import format_share, quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nanotok_ray.exports import Layout
    from nanotok_ray.formats import Export, MixedSource
    from nanotok_ray.job.exporting import ExportResult


@command(
    examples="""
nanotok status /data/out
nanotok status /data/out --watch      # every 10 s until the run has ended
nanotok status s3://bucket/out --json | jq .state
nanotok status recipe.toml            # also what `nanotok prepare` would do
"""
)
@output_argument
@click.option("--watch", is_flag=True, help="Show the state every 10 s until the run has ended.")
def status(arguments: Arguments) -> int:
    """Show the state of an output's last run. Reads only files in the output folder.

    The command works on any machine that can read the output, during the run and after it. A run
    that found nothing to do leaves no trace: the state is that of the run before. It reads the lock
    (OUT/run/lease) and the journal (OUT/run/journal). A job writes its journal when a stage begins
    and every 3 s. With a recipe, it also reads the inputs, as `nanotok prepare --dry-run` does.

    \b
    States:
      running      the process is alive, or renewed its lease within 60 s
      dead         the process has ended, or its lease is older than 60 s
      finished     the output is published, and no error is recorded
      trained      `nanotok train` has ended
      failed, interrupted, terminated
                   the last run ended this way; an earlier output may be published
      unfinished   a run did not record how it ended
      never run    there is only a plan
      nothing      the folder has no file of nanotok_ray

    The command exits with 0 if the state is running, finished or trained, with 5 if the storage
    does not answer, and with 4 otherwise.
    """
    from nanotok_ray.cli.status import run_status

    return run_status(arguments)


@command(
    examples="""
nanotok report /data/out                          # writes /data/out/run/report.html
nanotok report s3://bucket/out --output out.html
nanotok report /data/out --output - > out.html
""",
    has_json=False,
)
@output_argument
@click.option(
    "--output",
    "target",
    type=PATH,
    metavar="FILE",
    help="File to write, or - for stdout.  [default: OUT/run/report.html]",
)
def report(arguments: Arguments) -> int:
    """Write the report of an output: one HTML file that opens in any browser, without a network.

    The report shows what ran, how fast each stage and slice was, bytes per token by source, how the
    vocabulary grew, the lengths of documents and tokens, what was quarantined, what is trained on,
    and example tokens and documents. A job writes it when it ends. This command writes it again,
    also for a run that failed or is not finished. It only reads files of the output.
    """
    from pathlib import Path

    from nanotok_ray.errors import RecipeError
    from nanotok_ray.formats import REPORT_PAGE_NAME
    from nanotok_ray.report.facts import is_output
    from nanotok_ray.report.page import report_page, write_report
    from nanotok_ray.storage import Folder

    console, out = arguments.console, Folder(output_of(arguments.location))
    if not is_output(out):
        raise RecipeError(
            f"{out.url} is not an output of a job: it has no manifest, plan, tokenizer or journal; "
            "pass the `path` under [output] in the recipe, or the recipe"
        )
    if arguments.target is None:
        size = write_report(out)
        console.text(f"report      {size:,} bytes: {out.join(REPORT_PAGE_NAME)}")
        return 0
    page = report_page(out).encode("utf-8", "replace")
    if arguments.target == "-":
        sys.stdout.buffer.write(page)
        return 0
    path = Path(arguments.target).absolute()
    path.write_bytes(page)
    console.text(f"report      {len(page):,} bytes: {path}")
    return 0


@command(
    examples="""
nanotok verify /data/out
nanotok verify /data/out --no-sources     # an output of others, or without its sources
nanotok verify /data/out --deep           # compare all documents with their source
nanotok verify /data/out --masks          # compare all loss masks with their source
nanotok verify s3://bucket/out --deep --cpus 16
nanotok verify /data/out/export/llmc      # compare an export with the native shards
"""
)
@output_argument
@click.option(
    "--no-sample",
    "--no-sources",
    "no_sample",
    is_flag=True,
    help="Read no source: compare the files of the output only.",
)
@click.option(
    "--masks",
    is_flag=True,
    help="Also compare every conversation and vision document with its source.",
)
@click.option("--deep", is_flag=True, help="Also compare every document with its source.")
@click.option(
    "--run-code",
    is_flag=True,
    help="Run the functions of sources, whose code the output has: only if you trust it.",
)
@click.option(
    "--of",
    type=PATH,
    metavar="OUTPUT",
    help="The output from which an export was made.  [default: the folder above export/]",
)
@execution_options
def verify(arguments: Arguments) -> int:
    """Verify a finished output, or an export, and change nothing.

    The command reads all files, and checks sizes, sha256, indexes, masks and sums. It also compares
    a sample of the documents with their sources. It decodes texts and compares them with the ids of
    tiktoken. It renders conversations and vision documents with a second implementation, and
    compares ids, masks and images. --masks does this for all conversations and vision documents,
    and --deep for all documents, including those that were quarantined. The checks do not use the
    code that encoded the documents.

    Slices are checked in threads of this process. With --cpus or --address they are checked on Ray,
    and with --local in processes of this machine.

    The command exits with 4 if there is a problem, and with 5 if a slice could not be checked.
    """
    from nanotok_ray.cli.verify import run_verify

    return run_verify(arguments)


document_options = options(
    click.option(
        "--doc",
        metavar="N|N-M",
        multiple=True,
        help="Number of a document, or a range like 0-9; -1 is the last. Repeatable.  [default: 0]",
    ),
    click.option(
        "--doc-id",
        metavar="ID",
        multiple=True,
        help="Id of a document in the `id_column` of its source. Repeatable.",
    ),
    click.option("--ids", is_flag=True, default=None, help="Show the id of each token."),
    click.option(
        "--text",
        is_flag=True,
        default=None,
        help="Show only the decoded text; a terminal gets control characters as escapes.",
    ),
    click.option(
        "--html",
        type=PATH,
        metavar="FILE",
        help="Write a page that needs no network, or - for stdout.",
    ),
    click.option("--open", is_flag=True, default=None, help="Show the page in a browser."),
    click.option("--all", is_flag=True, default=None, help="Show all tokens of long documents."),
    click.option(
        "--color",
        type=Choice(("auto", "always", "never")),
        help="When to use colors.  [default: auto, if stdout is a terminal]",
    ),
)
"""Options of `inspect` for documents, with None if they are not given."""

packing_options = options(
    click.option(
        "--packing",
        type=packings,
        metavar="NAME,...",
        help="Preview these packing methods, or all, instead of showing documents.",
    ),
    click.option(
        "--length", type=listed(COUNT), metavar="T,...", help="Inputs of a row.  [default: 2048]"
    ),
    click.option(
        "--shuffle",
        type=Choice(("document", "block")),
        help="Order of the documents.  [default: as written]",
    ),
    click.option("--seed", type=int, metavar="N", help="Seed of the order.  [default: 0]"),
    click.option(
        "--group-documents",
        type=COUNT,
        metavar="N",
        help="Documents that are packed together.  [default: 4096]",
    ),
    click.option(
        "--weights",
        type=WEIGHTS,
        metavar="NAME=W,...",
        help="Shares of the tokens by source.  [default: all tokens once]",
    ),
    click.option(
        "--tokens",
        type=TOKENS,
        metavar="N",
        help="Tokens to plan with --weights.  [default: as many as the output has]",
    ),
    click.option(
        "--too-long",
        type=Choice(("crop", "drop")),
        help="Whether to crop or drop conversations longer than a row.  [default: crop]",
    ),
)
"""Options of `inspect --packing`, with None if they are not given."""


@command(
    examples="""
nanotok inspect /data/out --doc 0
nanotok inspect /data/out --source chats --doc 12 --ids
nanotok inspect /data/out --source chats --doc 0-9 --html chats.html
nanotok inspect /data/out --source scans --doc -1 --open
nanotok inspect /data/out --packing all
nanotok inspect /data/out --packing best-fit,windows --length 2048,4096,8192
nanotok inspect /data/out --packing best-fit --weights web=0.7,code=0.3 --tokens 1000000000
"""
)
@output_argument
@split_option
@click.option("--source", type=listed(str), metavar="NAME,...", help="Sources.  [default: all]")
@document_options
@packing_options
def inspect(arguments: Arguments) -> int:
    """Show documents of a finished output token by token, or preview packing methods.

    Tokens alternate between two colors. In documents with a loss mask, green tokens are trained on
    and red ones are not; without colors, [[ ]] encloses those that are trained on. At most 2,000
    tokens of a document are shown unless you pass --all.

    With --packing the command reads only the lengths of the documents, and shows none of them. For
    each packing method and row length a table shows the rows, their padding ("used": the share of
    row positions that hold a token), and the tokens that are cut or lost ("kept": the share of
    tokens in rows).

    \b
    Packing methods:
      best-fit       whole documents where they fit, the rest of longer ones in
                     other rows; hardly any padding, no token is lost
      windows        documents one after another, cut at every row; no padding,
                     no token is lost
      conversations  whole documents only; the rest of a row is padding
      nanochat       the rows of nanochat's loader: no padding; what does not
                     fit, and what is in its buffer at the end, is lost

    The preview covers one epoch. A mixture (--weights) has no end, so the preview covers as many
    tokens as the output has, or --tokens. A second table shows how often each source is repeated.
    0.5 epochs mean that half of its documents are read once. docs/training.md describes how to feed
    a trainer.
    """
    from nanotok_ray.cli.inspect import run_inspect

    return run_inspect(arguments)


@command(
    examples="""
nanotok export /data/out --to datatrove      # into /data/out/export/datatrove
nanotok export /data/out --to llmc --to megatron:datasets=4
nanotok export s3://bucket/out --to parquet --output s3://bucket/parquet --cpus 32
nanotok export /data/out --to llmc --shuffle 42
nanotok export /data/out --to raw --weights web=0.7,code=0.3 --tokens 10B --shuffle 42
"""
)
@output_argument
@click.option(
    "--to",
    required=True,
    multiple=True,
    metavar="LAYOUT",
    help="Layout, optionally with options as NAME:KEY=VALUE,KEY=VALUE. Repeatable.",
)
@click.option(
    "--output",
    "target",
    type=PATH,
    metavar="FOLDER",
    help="Folder to write, for a single layout.  [default: OUT/export/LAYOUT]",
)
@click.option(
    "--weights",
    type=WEIGHTS,
    metavar="NAME=W,...",
    help="Mix these sources by shares of the tokens; needs --tokens.",
)
@click.option(
    "--tokens",
    type=TOKENS,
    metavar="N",
    help="End with the document that reaches N train tokens: 500M, 10B.",
)
@click.option(
    "--shuffle",
    type=integer(0),
    metavar="SEED",
    help="Put the train documents into the random order of this seed.",
)
@click.option(
    "--cpus",
    type=COUNT,
    metavar="N",
    help="Run on a local Ray with N CPUs.  [default: threads of this process, without Ray]",
)
@local_option
@click.option("--address", metavar="ADDRESS", help="Run on this Ray cluster: HOST:PORT, or auto.")
def export(arguments: Arguments) -> int:
    """Write a finished output in the layouts of other trainers.

    \b
    Layouts and their readers:
      llmc       llm.c, modded-nanogpt, nemo-automodel's NanogptDataset
      megatron   Megatron's IndexedDataset, gpt-neox's MMapIndexedDataset
      datatrove  datatrove's DatatroveFolderDataset, DocumentTokenizerMerger
      olmo       ai2-olmo-core's NumpyFSLDataset, NumpyPackedFSLDataset
      parquet    datasets.load_dataset("parquet"), pyarrow, TRL's SFTTrainer
      packed     transformers' Trainer and TRL's SFTTrainer, in packed rows
      mds        mosaicml-streaming's StreamingDataset
      litdata    litdata's StreamingDataset with TokensLoader
      raw        numpy.memmap and numpy.load, as in nanoGPT and torchtitan

    \b
    Options of layouts, with their defaults:
      llmc:bos=<|bos|>                     megatron:datasets=1
      olmo:end_token=<|bos|>               parquet:mask_column=assistant_masks
      litdata:block_size=2049,chunk_bytes=67108864
      mds:size_limit=67108864
      packed:length=4096,buffer_size=100

    Nothing is tokenized again. A file with the same bytes as a native file is a hard link on the
    same disk, and needs no space. The command reads every file back, and compares every document.
    Run the same command again to resume, or after the output has changed: it exports only new
    documents, and removes those that the output no longer has. `nanotok verify OUT/export/LAYOUT`
    compares the whole export again. While the command writes into the output, no job and no gc can
    run on it.

    With --weights, --tokens or --shuffle, or one of them as an option of the layout
    (llmc:weights=web=0.7+code=0.3,tokens=10B,shuffle=42), the train documents become one source,
    `mixture`, in the order of a Loader with the same settings. Sources are repeated, epoch by
    epoch, as far as their weights require it, and the command reports what it leaves out of each.
    Meanwhile the folder of the export needs space for the documents twice.

    Shards are exported in threads of this process, unless --cpus, --address or --local is passed.
    """
    from nanotok_ray.formats import file_values

    results = [_exported(layout, arguments) for layout in _layouts(arguments)]
    values = [
        {"output": result.folder, "units_done": result.units_done, **file_values(result.export)}
        for result in results
    ]
    arguments.console.result({"status": "done", "exports": values})
    return 0


def _exported(layout: "Layout", arguments: Arguments) -> "ExportResult":
    """Export one layout, and print what was written."""
    from nanotok_ray.api import export as export_layout
    from nanotok_ray.exports import format_options

    with arguments.console.progress() as on_event:
        result = export_layout(
            output_of(arguments.location),
            layout,
            folder=arguments.target,
            executor="local" if arguments.local else None,
            address=arguments.address,
            cpus=arguments.cpus,
            on_event=on_event,
        )
    title = f"{format_options(layout)}: {result.folder}"
    arguments.console.text(
        title + (" (nothing to do)" if result.unchanged else ""), *_export_lines(result.export)
    )
    return result


def _layouts(arguments: Arguments) -> "list[Layout]":
    from nanotok_ray.errors import ExportError
    from nanotok_ray.exports import parse_layout

    layouts = [_ordered(parse_layout(text), arguments) for text in arguments.to]
    if arguments.target is not None and len(layouts) > 1:
        raise ExportError("--output is for a single layout; export one at a time, or omit it")
    names = [layout.name for layout in layouts]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ExportError(
            f"--to {twice[0]} is given twice, and both would be written to one folder; export one "
            "at a time, with different folders as --output"
        )
    return layouts


def _ordered(layout: "Layout", arguments: Arguments) -> "Layout":
    from nanotok_ray.errors import ExportError
    from nanotok_ray.exports import Order

    if (arguments.weights, arguments.tokens, arguments.shuffle) == (None, None, None):
        return layout
    if layout.order is not None:
        raise ExportError(
            f"layout {layout.name!r} has an order in its options; omit --weights, --tokens and "
            "--shuffle, which are for all layouts, or these options"
        )
    order = Order(weights=arguments.weights, tokens=arguments.tokens, shuffle=arguments.shuffle)
    return replace(layout, order=order)


def _export_lines(export: "Export") -> list[str]:
    names = ("files", "bytes", "documents", "tokens")
    lines = [f"  {numbers_text({name: getattr(export, name) for name in names})}"]
    lines += [f"  skipped: {number:,} {why}" for why, number in export.left_out.items()]
    if export.mixture is not None:
        lines += _mixture_lines(export.mixture.sources)
    if unread := sum(export.unread_tokens.values()):
        tokens = quantity(unread, "token")
        lines.append(f"  not read: {tokens} at the ends of sources, too few for a block")
    masks = f"{export.masks}, of sources with masks" if export.masks else "not stored"
    lines.append(f"  loss masks: {masks}")
    lines.append(f"  read by {export.reader}")
    return lines


def _mixture_lines(sources: "Mapping[str, MixedSource]") -> list[str]:
    """Return what an ordered export has of the train documents."""
    documents = sum(source.documents for source in sources.values())
    total = sum(source.tokens for source in sources.values())
    lines = [f"  train: {quantity(documents, 'document')}, {quantity(total, 'token')}"]
    for name, source in sources.items():
        left_out = quantity(source.left_out_documents, "document")
        lines.append(
            f"    {name}: {format_share(source.tokens, total)} of these tokens, "
            f"{source.epochs:.2f} epochs, {left_out} left out"
        )
    return lines
