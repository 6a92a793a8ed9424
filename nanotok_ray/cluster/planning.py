"""Planning on its own: what a job would do, how long that may take, and the plan frozen.

Starts no Ray. Does not know how slices are cut, or how a rate is measured.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nanotok_ray.cluster.existing import freeze
from nanotok_ray.cluster.grouping import num_calls
from nanotok_ray.cluster.journaling import stages_of_last_run
from nanotok_ray.cluster.layouts import layouts_of
from nanotok_ray.cluster.outlook import Outlook, outlook
from nanotok_ray.counts.patterns import resolve_pattern
from nanotok_ray.doctor.disk import space_for
from nanotok_ray.formats.manifest import PLAN_NAME
from nanotok_ray.rates import STAGES, Rate, given_rates, measured_rates, rates_of_run
from nanotok_ray.recipe import Recipe
from nanotok_ray.sources import Slice
from nanotok_ray.storage import Folder

_LEARNING = ("learn", "span table")


def plan_job(
    recipe: Recipe,
    *,
    resplit: bool = False,
    relearn: bool = False,
    workers: int | None = None,
    rate: float | None = None,
) -> Outlook:
    """Say what `prepare` would do with a recipe and how long it may take, and freeze its plan.

    Args:
        recipe: the recipe.
        resplit: assign train and val anew instead of keeping what an earlier plan froze.
        relearn: learn the tokenizer from what there is now, whether or not it was learned before.
        workers: CPUs to estimate for; None: those of this machine.
        rate: text that one CPU counts or tokenizes, in MB/s; None: as in the last run of this
            output (unless `workers` is given: how many CPUs it had is not known), else measured.

    Raises:
        NanotokError: what the job itself would raise before it starts; nothing is frozen then.
    """
    out = Folder(recipe.output.path)
    layouts_of(recipe)  # refuses what no job could write
    foreseen = outlook(recipe, command="prepare", resplit=resplit, relearn=relearn)
    last = {"stages": stages_of_last_run(out)}
    rates = _rates(foreseen, recipe, last=last if workers is None else {}, rate=rate)
    cpus = len(os.sched_getaffinity(0)) if workers is None else workers
    estimate = _estimate(foreseen, rates, last=last, cpus=cpus)
    tokenized: Counter[str] = Counter()
    for each in _reads(foreseen.todo.get("tokenize", ())):
        tokenized[each.kind] += each.num_bytes
    counted = sum(each.num_bytes for each in foreseen.todo.get("count", ()))
    spaces = space_for(recipe, counted=counted, tokenized=tokenized)
    estimate["space"] = [space.to_dict() for space in spaces]
    frozen = {"status": freeze(foreseen.plan, out), "path": out.join(PLAN_NAME)}
    return replace(foreseen, values=foreseen.values | {"estimate": estimate, "frozen": frozen})


def _rates(
    foreseen: Outlook, recipe: Recipe, *, last: Mapping[str, Any], rate: float | None
) -> dict[str, Rate]:
    needed = {stage for stage in STAGES if foreseen.todo.get(stage)}
    if rate is not None:
        return given_rates(rate)
    known = rates_of_run(last)
    if needed <= known.keys():
        return known
    measured = measured_rates(
        _texts(foreseen, recipe),
        pattern=resolve_pattern(recipe.tokenizer.pattern),
        tokenizer=foreseen.tokenizer,
    )
    return measured | known


def _texts(foreseen: Outlook, recipe: Recipe) -> Sequence[Slice]:
    """Give slices of text to measure with: those that are counted, else any."""
    texts = [each for each in foreseen.plan.slices() if each.kind == "text"]
    counted = {source.name for source in recipe.sources if source.count}
    return [each for each in texts if each.split == "train" and each.source in counted] or texts


def _estimate(
    foreseen: Outlook, rates: Mapping[str, Rate], *, last: Mapping[str, Any], cpus: int
) -> dict[str, Any]:
    """Estimate the stages that have something to do; `seconds` of a stage is null if unknown."""
    stages: dict[str, dict[str, Any]] = {}
    for stage in STAGES:
        if slices := foreseen.todo.get(stage):
            stages[stage] = _fan_out(slices, rates.get(stage), cpus=cpus)
    unknown = any(each["seconds"] is None for each in stages.values())
    if foreseen.values.get("learn", {}).get("todo"):
        stages["learn"] = _learning(last)
    known = [each["seconds"] for each in stages.values() if each["seconds"] is not None]
    return {"cpus": cpus, "seconds": None if unknown else round(sum(known), 1), "stages": stages}


def _reads(slices: Sequence[Slice]) -> list[Slice]:
    """Return one slice for each pass over files: both splits of a share are read at once."""
    return list({each.reads: each for each in slices}.values())


def _fan_out(slices: Sequence[Slice], rate: Rate | None, *, cpus: int) -> dict[str, Any]:
    reads = _reads(slices)
    tasks = num_calls([each.num_bytes for each in reads], cpus=cpus)
    if rate is None:
        return _stage(None, told="unknown") | {"tasks": tasks}
    return _stage(rate.seconds(reads, cpus=cpus), told=rate.told) | {
        "tasks": tasks,
        "megabytes_per_second": round(rate.bytes_per_second / 1e6, 3),
        "per_cpu": rate.is_per_cpu,
    }


def _learning(last: Mapping[str, Any]) -> dict[str, Any]:
    """Take the time that learning took in the last run: it depends on the spans, not the bytes."""
    stages = last.get("stages", {})
    seconds = [stages[name]["seconds"] for name in _LEARNING if name in stages]
    return (
        _stage(sum(seconds), told="as in the last run") if seconds else _stage(None, told="unknown")
    )


def _stage(seconds: float | None, *, told: str) -> dict[str, Any]:
    return {
        "seconds": None if seconds is None else round(seconds, 1),
        "tasks": None,
        "megabytes_per_second": None,
        "per_cpu": None,
        "from": told,
    }
