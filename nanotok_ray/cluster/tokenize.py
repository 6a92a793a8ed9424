"""Second fan-out: every slice of the plan to shards, then the manifest.

A slice whose record has the right key and whose files are there is left alone. Does not know where
the tokenizer came from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nanotok_ray.cluster.engine import SharedFolder, Task
from nanotok_ray.cluster.events import OnEvent
from nanotok_ray.cluster.fan_out import fan_out
from nanotok_ray.cluster.probes import OUTPUT_PROBES
from nanotok_ray.cluster.stages import TokenizeWork, tokenize_work
from nanotok_ray.errors import CorruptOutputError
from nanotok_ray.manifest import TOKENIZER_FOLDER
from nanotok_ray.output import (
    Expected,
    Output,
    Record,
    assemble,
    expected_records,
    finished_record,
)
from nanotok_ray.plan import Plan
from nanotok_ray.recipe import Recipe
from nanotok_ray.shards import ShardSettings
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokenizing:
    """What is to be tokenized: the slices with their keys, and the records that are there."""

    plan: Plan
    settings: Mapping[str, ShardSettings]
    tokenizer: Tokenizer
    expected: tuple[Expected, ...]
    records: tuple[Record | None, ...]
    """In the order of `expected`; None: to do."""

    @property
    def todo(self) -> list[Expected]:
        """The slices that have no record, or whose files are not there."""
        return [
            each for each, record in zip(self.expected, self.records, strict=True) if record is None
        ]

    def output(self, records: Sequence[Record]) -> Output:
        """Build what is written last from the records of all slices."""
        return assemble(self.plan, records, settings=self.settings, tokenizer=self.tokenizer)


def tokenizing_of(recipe: Recipe, plan: Plan, tokenizer: Tokenizer, out: Folder) -> Tokenizing:
    """Say what is to be tokenized and what is done already."""
    settings = {
        source.name: ShardSettings(
            tokenizer_sha256=tokenizer.sha256,
            gaps=recipe.tokenizer.gaps,
            prepend=source.prepend,
            append=source.append,
            max_shard_tokens=recipe.limits.max_shard_tokens,
            max_tokens=recipe.limits.max_tokens if source.kind == "chat" else None,
        )
        for source in recipe.sources
    }
    expected = tuple(expected_records(plan, settings))
    records = tuple(finished_record(out, each.record_name, key=each.key) for each in expected)
    return Tokenizing(
        plan=plan, settings=settings, tokenizer=tokenizer, expected=expected, records=records
    )


def tokenize(tokenizing: Tokenizing, out: Folder, *, on_event: OnEvent) -> list[Record]:
    """Tokenize what is not done and give the records of all slices in order. Needs a Ray session.

    Raises:
        SliceError: slices failed for good.
    """
    tasks = [_task(each, tokenizing, out) for each in tokenizing.todo]
    fan_out("tokenize", tasks, kept=len(tokenizing.expected) - len(tasks), on_event=on_event)
    return [
        _read(out, each) if record is None else record
        for each, record in zip(tokenizing.expected, tokenizing.records, strict=True)
    ]


def _task(each: Expected, tokenizing: Tokenizing, out: Folder) -> Task:
    own = each.slice
    work = TokenizeWork(
        slice=own,
        settings=tokenizing.settings[own.source],
        out=out.url,
        tokenizer=out.join(TOKENIZER_FOLDER),
        span_table=tokenizing.tokenizer.span_table_size > 0,
    )
    return Task(
        name=f"tokenize {own.source}/{own.split}/{own.name_for(each.key)}",
        work=tokenize_work,
        argument=work,
        num_bytes=own.num_bytes,
        inputs=tuple(file.url for file in own.files),
        shared=(SharedFolder(url=out.url, probes=OUTPUT_PROBES),),
    )


def _read(out: Folder, each: Expected) -> Record:
    record = finished_record(out, each.record_name, key=each.key)
    if record is None:
        raise CorruptOutputError(
            f"{out.join(each.record_name)} was written by a worker and cannot be read here; "
            "is the output folder on storage that every node shares?"
        )
    return record
