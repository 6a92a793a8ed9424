"""The implementation of `nanotok tokenizer train`, `learn`, `extend` and `convert`."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nanotok_ray.cli.inputs import count_named, find_corpus, opened
from nanotok_ray.counts import (
    SPLIT_PATTERN,
    CountPaths,
    SpanCounts,
    find_counts,
    load_counts,
    resolve_pattern,
)
from nanotok_ray.errors import NanotokError, TokenizerError, VocabularySizeError
from nanotok_ray.job.events import Advanced, StageStarted
from nanotok_ray.recipe import PRESETS, SPECIAL_TOKENS
from nanotok_ray.tokenizer import (
    NUM_BYTES,
    OR_FORCE,
    WITHOUT_SPECIAL_TOKENS,
    Base,
    FileModel,
    LearnedTokenizer,
    Tokenizer,
    TrainSettings,
    base_of,
    check_free,
    file_suffix,
    files_of_others,
    files_there,
    learn_counts,
    open_tokenizer,
    short_report,
    sized_output,
    why_stopped,
    write_file,
    write_new,
)
from nanotok_ray.units import quantity

if TYPE_CHECKING:
    from typing_extensions import Self

    from nanotok_ray.cli.app import Arguments


def run_train(arguments: "Arguments") -> int:
    """Learn from files, write the tokenizer, and return the exit code.

    Raises:
        NanotokError: As for `find_corpus`, `count_named` and `learn`; or the output holds
            something else.
    """
    settings = _settings(arguments)
    pattern = SPLIT_PATTERN if arguments.pattern is None else arguments.pattern
    if settings.base is not None:
        pattern = settings.base.count_pattern
    SpanCounts(pattern)  # refuse an invalid pattern before files are opened
    _check_existing(arguments, settings, pattern)
    start = time.perf_counter()
    named = find_corpus(arguments)
    corpus = count_named(named, arguments, pattern=pattern)
    counting = time.perf_counter() - start
    learned, taken = _learn(corpus.counts, settings, arguments, had=f"counted in {counting:.1f} s")
    quarantined = dict(corpus.quarantined)
    report = replace(learned.report, documents=corpus.documents, quarantined=quarantined)
    learned = replace(learned, report=report)
    wrote = _write(learned, arguments)
    seconds = {"count": round(counting, 3), "learn": round(taken, 3)}
    _print_learned(learned, arguments, files=len(named.files), wrote=wrote, seconds=seconds)
    return 0


def run_learn(arguments: "Arguments") -> int:
    """Learn from counts, write the tokenizer, and return the exit code."""
    if file_suffix(arguments.output) is not None:
        raise TokenizerError(
            f"--output is {arguments.output}: this command writes all files of a tokenizer and its "
            "report, so pass a folder, which will contain tokenizer.tiktoken and tokenizer.json"
        )
    settings = _settings(arguments)
    _check_existing(arguments, settings, arguments.pattern)
    start = time.perf_counter()
    paths = find_counts(arguments.counts)
    arguments.console.text(f"reading     {_files(paths)}")
    counts = load_counts(
        paths,
        pattern=arguments.pattern,
        span_column=arguments.span_column,
        count_column=arguments.count_column,
    )
    read = time.perf_counter() - start
    learned, taken = _learn(counts, settings, arguments, had=f"read in {read:.1f} s")
    wrote = _write(learned, arguments)
    seconds = {"read": round(read, 3), "learn": round(taken, 3)}
    _print_learned(learned, arguments, wrote=wrote, seconds=seconds)
    return 0


def run_extend(arguments: "Arguments") -> int:
    """Write a tokenizer with more special tokens, and return the exit code."""
    preset = () if arguments.preset is None else PRESETS[arguments.preset].special_tokens
    names = [*preset, *arguments.special_tokens]
    if not names:
        raise TokenizerError(
            "no special token to add; name one with --special-token, or several with --preset "
            f"({', '.join(PRESETS)})"
        )
    if file_suffix(arguments.output) == WITHOUT_SPECIAL_TOKENS:
        raise TokenizerError(
            f"{arguments.output}: a {WITHOUT_SPECIAL_TOKENS} file cannot store special tokens; "
            "pass a folder, *.json or *.txt as --output"
        )
    before = opened(arguments.tokenizer, arguments.pattern)
    tokenizer = before.extended(names)
    write_new(tokenizer.model, arguments.output)
    known = before.special_tokens
    added = {name: value for name, value in tokenizer.special_tokens.items() if name not in known}
    there = {name: known[name] for name in names if name in known}
    lines = [
        f"{title:<12}{number:>9,}  {name}"
        for title, tokens in (("added", added), ("there", there))
        for name, number in tokens.items()
    ]
    _print_written(tokenizer, arguments, lines, added=added, there=there)
    return 0


def run_convert(arguments: "Arguments") -> int:
    """Write a tokenizer in another format, and return the exit code."""
    tokenizer = opened(arguments.tokenizer, arguments.pattern)
    write_new(tokenizer.model, arguments.output)
    if file_suffix(arguments.output) == WITHOUT_SPECIAL_TOKENS:
        arguments.console.note(
            f"{arguments.output} contains only ranks, without the split pattern and "
            f"{quantity(len(tokenizer.special_tokens), 'special token')}"
        )
    _print_written(tokenizer, arguments)
    return 0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Written:
    """What each command writes, as JSON."""

    output: str
    tokenizer_sha256: str
    vocab_size: int
    status: str = "done"

    @classmethod
    def of(cls, tokenizer: Tokenizer, arguments: "Arguments") -> "Self":
        return cls(
            output=arguments.output,
            tokenizer_sha256=tokenizer.sha256,
            vocab_size=tokenizer.get_vocab_size(),
        )


def _print_written(
    tokenizer: Tokenizer,
    arguments: "Arguments",
    lines: Sequence[str] = (),
    **tokens: Mapping[str, int],
) -> None:
    """Print what was written, and special tokens by what became of them."""
    written = _Written.of(tokenizer, arguments)
    size, wrote = f"tokenizer   {written.vocab_size:>9,} ids", f"wrote       {arguments.output}"
    arguments.console.result(written, tokens, lines=[*lines, size, wrote])


def _settings(arguments: "Arguments") -> TrainSettings:
    """Return the settings of learning, checked before anything is read.

    Raises:
        VocabularySizeError: The size is too small for 256 bytes and the special tokens, or for the
            base.
        TokenizerError: A special token occurs twice, or the output cannot hold one; or the base
            cannot be continued.
    """
    base = _base(arguments)
    special_tokens = () if base is not None else _special_tokens(arguments)
    if base is None:
        _check_size("--vocab-size is", arguments.vocab_size, special_tokens)
    settings = TrainSettings(
        vocab_size=arguments.vocab_size,
        special_tokens=special_tokens,
        min_pair_count=arguments.min_pair_count,
        max_token_bytes=arguments.max_token_bytes,
        base=base,
    )
    for size in arguments.also or ():
        if base is None:
            _check_size("--also has", size, special_tokens)
        elif size <= base.num_ids:
            raise VocabularySizeError(f"--also has {size}: the base has {base.num_ids} ids already")
        if size > settings.vocab_size:
            raise TokenizerError(
                f"--also has {size}, which is more than --vocab-size {settings.vocab_size}; learn "
                "the largest tokenizer, and name smaller ones with --also"
            )
    return settings


def _base(arguments: "Arguments") -> Base | None:
    """Return the tokenizer to continue, which has a pattern and special tokens of its own."""
    if arguments.base is None:
        return None
    given = {
        "--pattern": arguments.pattern,
        "--special-token": arguments.special_tokens,
        "--no-special-tokens": arguments.no_special_tokens,
    }
    for option, value in given.items():
        if value:
            raise TokenizerError(f"{option} is set, but --base has its own; omit {option}")
    base = base_of(open_tokenizer(arguments.base))
    if isinstance(base.tokenizer.model, FileModel):
        files_of_others(base.tokenizer.model, arguments.output)  # refuses a single file
    return base


def _special_tokens(arguments: "Arguments") -> Sequence[str]:
    """Return the requested names, or the default of the output."""
    names: Sequence[str] = arguments.special_tokens
    if names and arguments.no_special_tokens:
        raise TokenizerError(
            "--special-token and --no-special-tokens contradict each other; omit one of them"
        )
    if file_suffix(arguments.output) == WITHOUT_SPECIAL_TOKENS:
        if names:
            raise TokenizerError(
                f"--special-token names {', '.join(names)}, and a {WITHOUT_SPECIAL_TOKENS} file "
                "cannot store special tokens; pass a folder as --output, or omit them"
            )
        return ()
    return names or (() if arguments.no_special_tokens else SPECIAL_TOKENS)


def _check_size(text: str, size: int, special_tokens: Sequence[str]) -> None:
    min_size = NUM_BYTES + len(special_tokens)
    if size < min_size:
        raise VocabularySizeError(
            f"{text} {size}: {NUM_BYTES} bytes and {len(special_tokens)} special tokens are "
            f"{min_size} ids, so name {min_size} or more"
        )


def _check_existing(arguments: "Arguments", settings: TrainSettings, pattern: str | None) -> None:
    """Refuse an existing output that this command cannot be about to write again.

    Raises:
        TokenizerError: The output holds something else, and --force is not set.
    """
    outputs = {arguments.output: settings.vocab_size}
    outputs |= {sized_output(arguments.output, size): size for size in arguments.also or ()}
    for output, size in () if arguments.force else outputs.items():
        names = files_there(output)
        if not names:
            continue
        spec_pattern = pattern if output.endswith(WITHOUT_SPECIAL_TOKENS) else None
        try:
            existing = open_tokenizer(output, pattern=spec_pattern)
        except NanotokError:
            existing = None
        if (
            existing is None
            or existing.get_vocab_size() != size
            or not _is_alike(existing, settings, pattern)
        ):
            raise TokenizerError(
                f"{output} already exists and contains another tokenizer or other data "
                f"({', '.join(names)}); {OR_FORCE}"
            )
        arguments.console.note(
            f"{output} already exists; if the learned tokenizer differs, this command will fail "
            "and not overwrite it; pass --force to overwrite it"
        )


def _is_alike(existing: Tokenizer, settings: TrainSettings, pattern: str | None) -> bool:
    """Return whether a tokenizer has the special tokens and the pattern of the settings."""
    if settings.base is not None:
        return existing.special_tokens == settings.base.tokenizer.special_tokens
    if set(existing.special_tokens) != set(settings.special_tokens):
        return False
    return pattern is None or existing.pattern == resolve_pattern(pattern)


def _learn(
    counts: SpanCounts, settings: TrainSettings, arguments: "Arguments", *, had: str
) -> tuple[LearnedTokenizer, float]:
    """Learn with a bar, print the counts and the result, and return the seconds."""
    start = time.perf_counter()
    todo = settings.num_merges
    with arguments.console.progress() as show:
        show(StageStarted(stage="learn", todo=todo, num_done=0, num_bytes=0))
        learned = learn_counts(
            counts,
            settings,
            threads=arguments.cpus,
            on_progress=lambda done, _, last: show(
                Advanced(stage="learn", done=done, todo=todo, num_bytes=0, last=last)
            ),
        )
    seconds = time.perf_counter() - start
    size, asked = learned.tokenizer.get_vocab_size(), settings.vocab_size
    ids = f"{size:,} ids" if size == asked else f"{size:,} ids of the {asked:,} asked for"
    texts = "" if counts.texts is None else f" in {quantity(counts.texts, 'text')}"
    spans = quantity(counts.total, "span")
    arguments.console.text(
        f"counts      {spans}{texts}, {counts.num_distinct:,} distinct; {had}",
        f"tokenizer   {ids}, learned in {seconds:.1f} s: {why_stopped(learned.report)}",
    )
    return learned, seconds


def _write(learned: LearnedTokenizer, arguments: "Arguments") -> list[str]:
    """Write the tokenizer and the smaller ones that were reached; return the written outputs.

    Raises:
        TokenizerError: An output holds something else, and --force is not set; nothing is written.
    """
    outputs = {arguments.output: learned}
    for size in arguments.also or ():
        name = sized_output(arguments.output, size)
        if size > learned.tokenizer.get_vocab_size():
            arguments.console.note(f"{size:,} ids were not reached; {name} is not written")
        else:
            outputs[name] = learned.truncated(size)
    if not arguments.force:
        for path, result in outputs.items():
            check_free(result.tokenizer.model, path, advice=OR_FORCE)
    for path, result in outputs.items():
        if file_suffix(path) is None:
            result.save(path, overwrite=True)
        else:
            write_file(result.tokenizer.model, path)
        arguments.console.text(f"wrote       {path}")
    return list(outputs)


def _print_learned(learned: LearnedTokenizer, arguments: "Arguments", **values: object) -> None:
    """Print the result of learning, and more values of it."""
    written = _Written.of(learned.tokenizer, arguments)
    arguments.console.result(written, short_report(learned.report), values)


def _files(paths: CountPaths) -> str:
    kinds = [("count", paths.count_files), ("parquet", paths.parquet)]
    return " and ".join(quantity(len(files), f"{kind} file") for kind, files in kinds if files)
