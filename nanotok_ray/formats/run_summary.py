"""The values of run/summary.json: how a run ended, and the corpus that it published.

The file merges the values of `FinishedRun`, `CorpusSummary` and `RunTimes`, or those of `FailedRun`
and `RunTimes`, into one JSON object.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from nanotok_ray.formats.codec import Finite, Number, Numbers, Sha256, omitted
from nanotok_ray.formats.export_records import Export
from nanotok_ray.formats.records import Totals


@dataclass(frozen=True, kw_only=True, slots=True)
class StageTime:
    """The duration of a stage, and the bytes that it processed."""

    seconds: Finite
    bytes: Number
    megabytes_per_second: Finite | None = omitted()


@dataclass(frozen=True, kw_only=True, slots=True)
class RunTimes:
    """The number, the start and the duration of a run; None without a journal."""

    run: Number | None = omitted()
    started: str | None = omitted()
    """The start in ISO 8601 format, in UTC."""
    seconds: Finite | None = omitted()
    failed_attempts: Numbers | None = omitted()
    """Failed attempts by cause."""
    wall_seconds: Finite | None = omitted()
    """The duration of the command."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedRun:
    """The output and the stages of a run."""

    status: str
    output: str
    """URL of the output folder."""
    stages: Mapping[str, StageTime]


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedRun(EndedRun):
    """A run that ended with an error."""

    error: str
    earlier_stages: Mapping[str, StageTime]
    """The stages of the runs before it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LearnedSummary:
    """The tokenizer that a job is to learn."""

    merges: Number
    end: str
    """Why learning ended."""
    not_reached: tuple[Number, ...]
    """The vocabulary sizes that were asked for and that learning did not reach."""
    of_other_inputs: bool
    """Whether it was learned before inputs were added, changed or removed."""
    also: tuple[Number, ...]
    """The vocabulary sizes of its smaller versions."""
    differs_from_rustbpe: tuple[str, ...]
    skipped_slices: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifiedFiles:
    """What was verified after it was written."""

    slices: Number
    shards: Number
    documents: Number


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportSummary(Export):
    """The content of export.json, and its folder."""

    folder: str
    format: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSummary:
    """What encodes with a tokenizer that a file of another tool defines."""

    name: str
    """`core`, or the name of a library."""
    version: str | None
    """The version of the library; None for the core."""
    reason: str
    """Why the core does not encode; empty if it does."""
    checked_with: str
    """The library that encodes the sample of the verification again."""
    file: str
    """The name of the defining file."""
    file_sha256: Sha256

    @property
    def text(self) -> str:
        """The file and its engine for people."""
        name = " ".join(filter(None, (self.name, self.version)))
        reason = f", slower than the core: {self.reason}" if self.reason else ""
        return f"{self.file}, engine {name}{reason}"


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedRun(EndedRun):
    """A run that ended without an error."""

    vocab_size: Number
    tokenizer_sha256: Sha256
    engine: EngineSummary | None = omitted()
    """None if no file of another tool defines the tokenizer."""
    learned: LearnedSummary | None = omitted()
    """None if the job does not learn a tokenizer."""
    verified: VerifiedFiles | None = omitted()
    compared_by_size: Number = omitted(0)
    """The published slices that were kept and whose files were not read."""
    exports: tuple[ExportSummary, ...] = omitted(())
    functions: Mapping[str, str] = omitted(factory=dict)
    """The functions of sources, MODULE:FUNCTION by the name of the source."""
    risk: str | None = omitted()
    """The risk of a store that ignores conditional writes; None if the store checks them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceSummary:
    """The documents of a source and split."""

    documents: Number
    text_bytes: Number
    tokens: Number
    bytes_per_token: Finite | None
    quarantined: Number
    trainable_tokens: Number | None
    """None for text."""
    dropped: Number = omitted(0)
    """Rows that a function dropped, and duplicates."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LengthRules:
    """The rules of the recipe for long documents and those without trainable tokens."""

    max_tokens: Number | None
    too_long: str
    untrainable: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusSummary(Totals):
    """The totals of a published corpus."""

    bytes_per_token: Finite | None
    slices: Number
    shards: Number
    sources: Mapping[str, SourceSummary]
    """By `source/split`."""
    rules: LengthRules
