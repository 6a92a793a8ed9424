"""What a job would change in an output, and the files that it would lose."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from nanotok_ray.errors import PlanError
from nanotok_ray.formats import MANIFEST_NAME, ShardSettings, TemplateSettings, Totals, to_values
from nanotok_ray.job.frozen_plan import published
from nanotok_ray.recipe import OutputRecipe
from nanotok_ray.sources import (
    Plan,
    ReadingChange,
    SliceChanges,
    SourceChanges,
    SourceLoss,
    changes,
    losses,
    reading_changes,
    slice_changes,
)
from nanotok_ray.storage import Folder
from nanotok_ray.units import few, quantity

MAX_LOSS = 0.1
"""The share of the files or bytes of a source that a job may remove without permission."""


def check_losses(output: OutputRecipe, out: Folder, before: Plan | None, after: Plan) -> None:
    """Raise an error if files are gone or empty now, unless the recipe allows their removal.

    Args:
        output: What the recipe allows.
        out: The output folder.
        before: The frozen plan of the output, or None.
        after: The plan of the recipe.

    Raises:
        PlanError: A source, or more than `MAX_LOSS` of one, is gone; or all sources are.
    """
    if before is None or output.replace or not out.exists(MANIFEST_NAME):
        return
    lost = list(losses(before, after))
    manifest = published(out)
    totals = {} if manifest is None else manifest.totals
    if lost and len(lost) == len(before.sources) and all(loss.is_complete for loss in lost):
        names = ", ".join(source.name for source in before.sources)
        raise PlanError(
            f"{out.url} is a published output of other inputs: none of the files of its sources "
            f"({names}; {_held(totals, 'all')}) is in this recipe, and a run would replace it, its "
            "tokenizer and its report. Choose another output.path, or pass --replace "
            "(output.replace = true)"
        )
    serious = [loss for loss in lost if loss.share > MAX_LOSS]
    if serious and not output.allow_removed:
        summary = "; ".join(_loss_text(loss, totals) for loss in serious)
        raise PlanError(
            f"{summary}. A run would drop their documents from the published output {out.url}. "
            "Restore the files (is a disk, bucket or folder not mounted?), or pass --allow-removed "
            "(output.allow_removed = true)"
        )


def _loss_text(loss: SourceLoss, totals: Mapping[str, Totals]) -> str:
    if loss.is_complete:
        held = ", ".join(
            _held(totals, key) for key in totals if key.rpartition("/")[0] == loss.source
        )
        files = quantity(loss.files, "file")
        return f"source {loss.source!r} is gone with {files}, all that it had ({held})"
    return (
        f"source {loss.source!r} has lost {len(loss.gone):,} of {loss.files:,} files, "
        f"{loss.gone_bytes / loss.num_bytes:.1%} of its bytes: {few(loss.gone)}"
    )


def _held(totals: Mapping[str, Totals], key: str) -> str:
    """Return a text with the totals of the manifest under a key."""
    counts = totals.get(key)
    if counts is None:
        return key
    split = "" if key == "all" else f" of {key.rpartition('/')[2]}"
    documents, tokens = counts.documents.out, counts.tokens
    return f"{quantity(documents, 'document')}{split}, {quantity(tokens, 'token')}"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanChanges:
    """The differences from the frozen plan, with the fields of their JSON."""

    sources: tuple[SourceChanges, ...]
    reading: tuple[ReadingChange, ...]
    slices: SliceChanges
    slice_bytes: tuple[int, int]


def plan_changes(before: Plan | None, after: Plan) -> PlanChanges | None:
    """Return the differences from the frozen plan, or None if there is none."""
    if before is None:
        return None
    return PlanChanges(
        sources=tuple(changes(before, after)),
        reading=tuple(reading_changes(before, after)),
        slices=slice_changes(before, after),
        slice_bytes=(before.slice_bytes, after.slice_bytes),
    )


def setting_changes(
    before: Mapping[str, ShardSettings], settings: Mapping[str, ShardSettings]
) -> Iterator[str]:
    """Yield a line on each setting that differs from the manifest; such shards are written again.

    Nothing is yielded for an unfinished output, where the record of each slice decides.
    """
    for name, current in settings.items() if before else ():
        yield from _setting_lines(name, before.get(name), current)


def _setting_lines(
    name: str, before: ShardSettings | None, current: ShardSettings
) -> Iterator[str]:
    if before is None:
        yield f"source {name!r} is new"
        return
    for field in fields(current):
        value, old = (to_values(getattr(one, field.name)) for one in (current, before))
        if old == value:
            continue
        if field.name == "tokenizer_sha256":
            yield f"source {name!r}: the tokenizer is {value[:16]}, it was {old[:16]}"
        elif field.name == "template":
            yield from _template_lines(name, before.template, current.template)
        else:
            yield f"source {name!r}: {field.name} is {value}, it was {old}"


def _template_lines(
    name: str, before: TemplateSettings | None, current: TemplateSettings | None
) -> Iterator[str]:
    if before is None or current is None:
        how = "as nanochat does" if current is None else "with a chat template"
        yield f"source {name!r}: conversations are now rendered {how}"
        return
    for field in fields(current):
        value, old = (to_values(getattr(one, field.name)) for one in (current, before))
        if old != value and field.name in _TEMPLATE_TEXTS:
            yield f"source {name!r}: {_TEMPLATE_TEXTS[field.name]} has another text"
        elif old != value:
            yield f"source {name!r}: {field.name} of the chat template is {value}, it was {old}"


_TEMPLATE_TEXTS = {"text": "the chat template", "training_text": "the template for training"}
