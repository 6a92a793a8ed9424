"""The summary of a run: JSON values for programs, and a few lines of text for people."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nanotok_ray.formats import (
    REPORT_PAGE_NAME,
    TOKENIZER_FOLDER,
    CorpusSummary,
    EngineSummary,
    Export,
    ExportSummary,
    FinishedRun,
    LearnedSummary,
    LearnRecord,
    LengthRules,
    Manifest,
    RunTimes,
    ShardSettings,
    SourceSummary,
    StageTime,
    Totals,
    VerifiedFiles,
    converted,
    from_values,
    joined_values,
)
from nanotok_ray.job.forecast import TEXT_STAGES
from nanotok_ray.shards import Verification
from nanotok_ray.tokenizer import REACHED, FileModel, Tokenizer, engine_of, why_stopped
from nanotok_ray.units import few, quantity

_RUN_ORDER = (
    *("hash", "duplicates"),
    *("count", "merge", "reduce", "learn", "pairs", "segments"),
    *("check", "tokenize", "verify", "scatter", "export"),
)

DONE = "done"
UNCHANGED = "unchanged"

MAX_SOURCES = 12
"""Maximum number of lines on sources. The report page has the rest."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a run."""

    run: FinishedRun
    corpus: CorpusSummary | None = None
    """None after training alone."""
    times: RunTimes = field(default_factory=RunTimes)

    @property
    def values(self) -> dict[str, Any]:
        """The summary as JSON values."""
        corpus = () if self.corpus is None else (self.corpus,)
        return joined_values(self.run, *corpus, self.times)

    def text(self) -> str:
        """Return the summary as lines of text, at most `MAX_SOURCES` of them on sources."""
        lines = [*_head(self)]
        if self.corpus is not None:
            lines += _sources(self.corpus.sources)
        return "\n".join([*lines, *_remarks(self), *_tail(self)])


def read_summary(values: object, *, name: str) -> Summary:
    """Return the summary with some JSON values; errors call their file `name`.

    Raises:
        CorruptOutputError: The values are not those of a summary.
    """
    has_corpus = isinstance(values, dict) and "documents" in values
    return Summary(
        from_values(FinishedRun, values, name=name),
        from_values(CorpusSummary, values, name=name) if has_corpus else None,
        from_values(RunTimes, values, name=name),
    )


def stage_time(seconds: float, size: int) -> StageTime:
    """Return the time and the rate of a stage."""
    rate = _ratio(size / 1e6, seconds)
    return StageTime(seconds=round(seconds, 3), bytes=size, megabytes_per_second=rate)


def learned_summary(
    record: LearnRecord, tokenizer: Tokenizer, *, not_reached: Sequence[int], of_other_inputs: bool
) -> LearnedSummary:
    """Return the summary of a learned tokenizer; the other values as in `LearnedSummary`."""
    base = record.report.base
    return LearnedSummary(
        merges=(
            len(tokenizer.merges)
            if base is None
            else record.report.vocab_size_reached - base.vocab_size
        ),
        end=why_stopped(record.report),
        not_reached=tuple(not_reached),
        of_other_inputs=of_other_inputs,
        also=record.also,
        differs_from_rustbpe=record.report.differs_from_rustbpe,
        skipped_slices=record.report.skipped_slices,
    )


def engine_summary(tokenizer: Tokenizer) -> EngineSummary | None:
    """Return what encodes with a tokenizer that a file of another tool defines, else None."""
    model = tokenizer.model
    if not isinstance(model, FileModel):
        return None
    described, library = model.description, engine_of(model) if model.has_library else None
    _, _, version = (tokenizer.engine_version or "").partition(" ")
    return EngineSummary(
        name=described.engine,
        version=version or None,
        reason=model.reason,
        checked_with="tiktoken" if library is None else library.name,
        file=described.file,
        file_sha256=described.sha256,
    )


def verified_files(check: Verification) -> VerifiedFiles:
    """Return the numbers of verified files."""
    return VerifiedFiles(slices=check.slices, shards=check.shards, documents=check.documents)


def export_summary(folder: str, export: Export) -> ExportSummary:
    """Return the content of an export and its folder."""
    return converted(export, ExportSummary, folder=folder, format=Export.FORMAT)


def corpus_summary(manifest: Manifest) -> CorpusSummary:
    """Return the totals of a published corpus."""
    everything = manifest.totals["all"]
    return converted(
        everything,
        CorpusSummary,
        bytes_per_token=_ratio(everything.text_bytes, everything.tokens),
        slices=manifest.slices,
        shards=manifest.shards,
        sources={
            name: SourceSummary(
                documents=source.documents.out,
                text_bytes=source.text_bytes,
                tokens=source.tokens,
                bytes_per_token=_ratio(source.text_bytes, source.tokens),
                quarantined=source.documents.quarantined,
                dropped=sum(source.dropped.values()),
                trainable_tokens=source.trainable_tokens if source.roles else None,
            )
            for name, source in manifest.totals.items()
            if name != "all"
        },
        rules=_rules(manifest.settings.values()),
    )


def _rules(settings: Collection[ShardSettings]) -> LengthRules:
    limited = next((item for item in settings if item.max_tokens is not None), None)
    is_dropped = any(item.untrainable == "drop" for item in settings)
    return LengthRules(
        max_tokens=limited.max_tokens if limited else None,
        too_long=limited.too_long if limited else "keep",
        untrainable="drop" if is_dropped else "keep",
    )


def _ratio(above: float, below: float) -> float | None:
    return round(above / below, 3) if below else None


def unused_notes(unused: Mapping[str, int]) -> Iterator[str]:
    """Yield a note on text that is not rendered, given by key, if there is any."""
    if unused:
        yield (
            f"{_unused_sentence(unused)}: write it into the contents of the messages if a model "
            "should learn it, otherwise remove the keys; docs/chats.md lists the keys that are used"
        )


def empty_split_notes(totals: Mapping[str, Totals]) -> Iterator[str]:
    """Yield a note on each split without a document.

    Args:
        totals: the totals of a manifest.
    """
    for name, values in totals.items():
        source, _, split = name.rpartition("/")
        if source and not values.documents.out:
            yield (
                f"source {source!r}: the {split} split is empty, since none of its documents was "
                "selected and usable; another split in the recipe, such as "
                'split = "share:0.05", and --resplit change this'
            )


def _unused_sentence(unused: Mapping[str, int]) -> str:
    """Return a sentence on text that is not rendered.

    >>> _unused_sentence({"name": 1, "reasoning": 1234})
    "text under the keys 'reasoning' (1,234 values), 'name' (1 value) is not rendered"
    """
    keys = sorted(unused, key=lambda key: (-unused[key], key))
    listed = few([f"'{key}' ({quantity(unused[key], 'value')})" for key in keys])
    return f"text under the {'keys' if len(keys) > 1 else 'key'} {listed} is not rendered"


def _head(summary: Summary) -> Iterator[str]:
    """Yield the lines on the output, its tokenizer and its documents."""
    run, corpus = summary.run, summary.corpus
    if run.status == UNCHANGED:
        yield "Nothing to do: the output is complete and matches the recipe."
    yield f"output      {run.output}"
    yield f"tokenizer   {_tokenizer_text(run)}"
    if corpus is not None:
        yield (
            f"documents   {corpus.documents.out:,} of {corpus.documents.in_:,}, "
            f"{corpus.tokens:,} tokens, {corpus.bytes_per_token or 0:.3f} bytes per token"
        )


def _tokenizer_text(run: FinishedRun) -> str:
    text = f"{run.vocab_size:,} ids, sha256 {run.tokenizer_sha256[:16]}"
    if run.engine is not None:
        text += f"; {run.engine.text}"
    if run.learned is None:
        return text
    end = "" if run.learned.end == REACHED else f": {run.learned.end}"
    text += f"; {quantity(run.learned.merges, 'merge')}{end}"
    if run.learned.also:
        text += f"; also {', '.join(f'{size:,}' for size in run.learned.also)} ids"
    return text


def _sources(sources: Mapping[str, SourceSummary]) -> list[str]:
    """Return the lines on the sources, on the largest ones if they are many."""
    if len(sources) <= MAX_SOURCES:
        return [_source_line(name, source) for name, source in sources.items()]
    names = sorted(sources, key=lambda name: -sources[name].tokens)[: MAX_SOURCES - 1]
    lines = [_source_line(name, source) for name, source in sources.items() if name in names]
    return [*lines, f"  and {len(sources) - len(names):,} more, in the report"]


def _source_line(name: str, source: SourceSummary) -> str:
    line = (
        f"  {name:<14} {source.documents:>9,} documents {source.tokens:>13,} tokens "
        f"{source.bytes_per_token or 0:>6.3f} bytes per token"
    )
    if source.trainable_tokens is not None:
        line += f", {source.trainable_tokens / source.tokens:.1%} trained on"
    if source.quarantined:
        line += f", {source.quarantined:,} quarantined"
    if source.dropped:
        line += f", {source.dropped:,} dropped"
    return line


def _remarks(summary: Summary) -> Iterator[str]:
    """Yield remarks on the store, the tokenizer and the documents."""
    if summary.run.risk is not None:
        yield f"risk        {summary.run.risk}"
    if summary.run.learned is not None:
        yield from _learned_lines(summary.run.learned)
    corpus = summary.corpus
    if corpus is None:
        return
    if corpus.dropped:
        rows = quantity(sum(corpus.dropped.values()), "row")
        reasons = few([f"{number:,}: {why}" for why, number in corpus.dropped.items()])
        yield f"dropped     {rows} ({reasons})"
    if rearranged := sum(corpus.fim.values()):
        forms = " and ".join(f"{number:,} {form}" for form, number in corpus.fim.items())
        yield f"rearranged  {quantity(rearranged, 'document')} to fill in the middle, {forms}"
    if corpus.unused_text:
        yield f"unused      {_unused_sentence(corpus.unused_text)}"
    yield from _composed_lines(corpus)
    if corpus.special_text:
        yield (
            f"special     {corpus.special_text:,} special tokens spelled out in the data, "
            "kept as plain text"
        )


def _learned_lines(learned: LearnedSummary) -> Iterator[str]:
    if learned.skipped_slices:
        skipped = quantity(len(learned.skipped_slices), "slice")
        yield f"skipped     {skipped} that could not be counted"
    if other := learned.differs_from_rustbpe:
        yield f"merges      differ from rustbpe's, because of {', '.join(other)}"
    if learned.of_other_inputs:
        yield "kept        tokenizer from before inputs were added, changed or removed (--relearn)"


def _composed_lines(corpus: CorpusSummary) -> Iterator[str]:
    """Yield the lines on conversations and documents with images."""
    roles, rules = corpus.roles, corpus.rules
    if long := corpus.over_max_tokens:
        cut = corpus.truncated
        why = "a cut would take an image or a part of one"
        done = {"keep": "kept whole", "drop": "dropped", "cut": f"{cut:,} cut"}[rules.too_long]
        lost = long - cut if rules.too_long == "cut" else 0
        others = f", {lost:,} dropped: {why}" if lost else ""
        documents = quantity(long, "document")
        yield f"too long    {documents} of more than {rules.max_tokens:,} tokens: {done}{others}"
    if bare := corpus.without_trainable_token:
        hint = 'kept; limits.untrainable = "drop" removes them'
        done = "dropped" if rules.untrainable == "drop" else hint
        yield f"untrainable {quantity(bare, 'document')} without a token to train on: {done}"
    if roles:
        yield (
            f"trained on  {corpus.trainable_tokens:,} of {sum(roles.values()):,} tokens of "
            f"conversations{' and documents with images' if corpus.images else ''}"
        )
    if corpus.images:
        yield f"images      {corpus.images:,}, {quantity(roles['image'], 'token')}"


def _tail(summary: Summary) -> Iterator[str]:
    """Yield the lines on the quarantine, the verification and the next commands."""
    run, corpus, output = summary.run, summary.corpus, summary.run.output
    if corpus is not None:
        yield from _checked_lines(run, corpus)
    if compared := run.compared_by_size:
        yield f"kept        {quantity(compared, 'slice')} whose files were compared by size only"
    if run.exports:
        yield _export_line(run.exports)
    if run.stages:
        yield f"time        {_time_text(run.stages, summary.times.wall_seconds)}"
    yield f"report      {output}/{REPORT_PAGE_NAME}"
    if run.learned is not None and run.learned.not_reached:
        listed = " and ".join(f"{size:,}" for size in run.learned.not_reached)
        yield (
            f"not reached a vocabulary of {listed} ids: learning ended at "
            f"{run.vocab_size:,}, {run.learned.end}"
        )
    if corpus is not None:
        flag = " --run-code" if run.functions else ""
        yield f"next        nanotok verify {output}{flag}"
        yield f"            nanotok inspect {output} --doc 0"
    else:
        yield f"next        nanotok tokenizer show {output}/{TOKENIZER_FOLDER}"
        yield "            nanotok tokenize RECIPE"


def _checked_lines(run: FinishedRun, corpus: CorpusSummary) -> Iterator[str]:
    if corpus.quarantined:
        number = sum(corpus.quarantined.values())
        reasons = few([f"{number:,}: {why}" for why, number in corpus.quarantined.items()])
        rows = quantity(corpus.lost_rows, "row")
        lost = f", with {rows} of damaged row groups" if corpus.lost_rows else ""
        documents = quantity(number, "document")
        yield f"quarantine  {documents} ({reasons}){lost}, listed in {run.output}/quarantine"
    if run.verified is not None:
        proof = corpus.proof
        reasons = "; ".join(f"{n:,}: {reason}" for reason, n in proof.not_encoded_again.items())
        left_out = f" ({reasons})" if reasons else ""
        encoded = proof.encoded_again
        and_some = " and" if encoded == proof.documents else f", {encoded:,}"
        other = "tiktoken" if run.engine is None else run.engine.checked_with
        yield (
            f"verified    {quantity(run.verified.shards, 'shard')}; "
            f"{quantity(proof.documents, 'document')} "
            f"compared with their source{and_some} with {other}{left_out}: no difference"
        )


def _export_line(exports: Sequence[ExportSummary]) -> str:
    texts = []
    for export in exports:
        left_out = "".join(f", {number:,} {why}" for why, number in export.left_out.items())
        masks = "" if export.masks else ", without loss masks"
        texts.append(
            f"{export.layout}: {quantity(export.documents, 'document')} in "
            f"{quantity(export.files, 'file')}{left_out}{masks}, in {export.folder}"
        )
    return f"export      {'; '.join(texts)}"


def _time_text(stages: Mapping[str, StageTime], wall_seconds: float | None) -> str:
    """Return the times of the stages, in the order of a job, and that of the command if known."""
    texts = [_stage_text(name, stages[name]) for name in sorted(stages, key=_RUN_ORDER.index)]
    together = sum(stage.seconds for stage in stages.values())
    if wall_seconds is not None:
        other = max(wall_seconds - together, 0.0)  # planning, start and end of workers, report page
        texts += [f"other {other:.1f} s", f"together {wall_seconds:.1f} s"]
    elif len(stages) > 1:
        texts.append(f"stages together {together:.1f} s")
    return ", ".join(texts)


def _stage_text(name: str, stage: StageTime) -> str:
    rate = stage.megabytes_per_second if name in TEXT_STAGES else None
    return f"{name} {stage.seconds:.1f} s{f' ({rate:,.1f} MB/s)' if rate else ''}"
