"""The summary of a run: plain values for programs, a few lines for people."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nanotok_ray.shards.output import Record
from nanotok_ray.shards.verify import Verification
from nanotok_ray.tokenizer import Tokenizer
from nanotok_ray.tokenizer.report import why_stopped

DONE = "done"
UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a run; `values` is JSON-able."""

    values: dict[str, Any]

    def text(self) -> str:
        """Return the lines that a person reads."""
        values = self.values
        lines = []
        if values["status"] == UNCHANGED:
            lines.append("Nothing to do: everything is there and matches the recipe.")
        lines.append(f"output      {values['output']}")
        lines.append(
            f"tokenizer   {values['vocab_size']:,} ids, sha256 {values['tokenizer_sha256'][:16]}"
        )
        if "learned" in values:
            lines += _learned_lines(values["learned"])
        if "documents" in values:
            lines += _corpus_lines(values)
        lines += [_stage_line(name, stage) for name, stage in values["stages"].items()]
        if "verified" in values:
            verified = values["verified"]
            lines.append(
                f"verified    {verified['slices']:,} slices, {verified['shards']:,} shards, "
                f"{verified['documents']:,} documents"
            )
        lines += [_export_line(export) for export in values.get("exports", [])]
        return "\n".join(lines)


def summarise(
    output: str,
    *,
    tokenizer: Tokenizer,
    stages: Mapping[str, tuple[float, int]],
    learned: Record | None = None,
    of_other_inputs: bool = False,
    manifest: Mapping[str, Any] | None = None,
    verification: Verification | None = None,
    exports: Sequence[Mapping[str, Any]] = (),
    unchanged: bool = False,
) -> Summary:
    """Build the summary of a run.

    Args:
        output: URL of the output folder.
        tokenizer: the one in use.
        stages: per stage that ran, seconds and bytes.
        learned: the learn record, if the job is to learn the tokenizer.
        of_other_inputs: it was learned before inputs were added, changed or removed.
        manifest: of a tokenized corpus; None after training alone.
        verification: of what was just written.
        exports: what export.json says of each, and its folder.
        unchanged: there was nothing to do.
    """
    values: dict[str, Any] = {
        "status": UNCHANGED if unchanged else DONE,
        "output": output,
        "vocab_size": tokenizer.get_vocab_size(),
        "tokenizer_sha256": tokenizer.sha256,
        "stages": {name: _stage(seconds, size) for name, (seconds, size) in stages.items()},
    }
    if learned is not None:
        values["learned"] = {
            "merges": len(tokenizer.model.merges),
            "end": why_stopped(learned.values["report"]),
            "of_other_inputs": of_other_inputs,
            "also": learned.values["also"],
            "differs_from_rustbpe": learned.values["report"]["differs_from_rustbpe"],
            "skipped_slices": learned.values["report"]["skipped_slices"],
        }
    if manifest is not None:
        values |= _corpus(manifest)
    if verification is not None:
        values["verified"] = {
            "slices": verification.slices,
            "shards": verification.shards,
            "documents": verification.documents,
        }
    if exports:
        values["exports"] = [dict(export) for export in exports]
    return Summary(values)


def _learned_lines(learned: Mapping[str, Any]) -> Iterator[str]:
    other = learned["differs_from_rustbpe"]
    difference = f"; not those of rustbpe, because of {', '.join(other)}" if other else ""
    yield f"learned     {learned['merges']:,} merges: {learned['end']}{difference}"
    if learned["of_other_inputs"]:
        yield "kept        learned before inputs were added, changed or removed (--relearn)"
    if learned["skipped_slices"]:
        yield f"left out    {len(learned['skipped_slices']):,} slices that could not be counted"
    yield from (f"also        {size:,} ids" for size in learned["also"])


def _corpus(manifest: Mapping[str, Any]) -> dict[str, Any]:
    totals = manifest["totals"]
    everything = totals["all"]
    return {
        **everything,
        "bytes_per_token": _ratio(everything["text_bytes"], everything["tokens"]),
        "slices": manifest["slices"],
        "shards": manifest["shards"],
        "sources": {
            name: {
                "documents": source["documents"]["out"],
                "text_bytes": source["text_bytes"],
                "tokens": source["tokens"],
                "bytes_per_token": _ratio(source["text_bytes"], source["tokens"]),
                "quarantined": source["documents"]["quarantined"],
                "trainable_tokens": source["trainable_tokens"] if source["roles"] else None,
            }
            for name, source in totals.items()
            if name != "all"
        },
        "rules": _rules(manifest["settings"].values()),
    }


def _rules(settings: Collection[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the recipe does with documents that are too long or have nothing to train on."""
    limited = next(
        (values for values in settings if values["max_tokens"] is not None),
        None,
    )
    return {
        "max_tokens": limited and limited["max_tokens"],
        "too_long": limited["too_long"] if limited else "keep",
        "untrainable": "drop"
        if "drop" in {values["untrainable"] for values in settings}
        else "keep",
    }


def _stage(seconds: float, size: int) -> dict[str, Any]:
    return {
        "seconds": round(seconds, 3),
        "bytes": size,
        "megabytes_per_second": _ratio(size / 1e6, seconds),
    }


def _ratio(above: float, below: float) -> float | None:
    return round(above / below, 3) if below else None


def _corpus_lines(values: Mapping[str, Any]) -> list[str]:
    documents = values["documents"]
    counted = [f"{documents[name]:,} {name}" for name in ("in", "out", "quarantined")]
    lines = [
        f"documents   {', '.join(counted)}",
        f"text        {values['text_bytes']:,} bytes",
        f"tokens      {values['tokens']:,}, {values['bytes_per_token'] or 0:.3f} bytes per token",
    ]
    lines += [_source_line(name, source) for name, source in values["sources"].items()]
    lines += [
        f"  quarantined {number:,}: {reason}" for reason, number in values["quarantined"].items()
    ]
    lines.append(_checked_line(values["proof"]))
    if values["special_text"]:
        lines.append(
            f"special     {values['special_text']:,} special tokens spelled out in the data, "
            "kept as plain text"
        )
    return [*lines, *_composed_lines(values)]


def _source_line(name: str, source: Mapping[str, Any]) -> str:
    line = (
        f"  {name:<20} {source['documents']:>10,} documents {source['tokens']:>14,} tokens "
        f"{source['bytes_per_token'] or 0:>6.3f} bytes per token"
    )
    if source["trainable_tokens"] is not None:
        line += f", {source['trainable_tokens'] / source['tokens']:.1%} trained on"
    if source["quarantined"]:
        line += f", {source['quarantined']:,} quarantined"
    return line


def _composed_lines(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines on what became of conversations and documents with images."""
    roles, rules = values["roles"], values["rules"]
    if roles:
        yield (
            f"trained on  {values['trainable_tokens']:,} of {sum(roles.values()):,} tokens of "
            "conversations and documents with images"
        )
    if values["images"]:
        yield f"images      {values['images']:,}, {roles['image']:,} tokens"
    if long := values["over_max_tokens"]:
        cut = values["truncated"]
        why = "a cut would take an image or a part of one"
        done = {"keep": "kept whole", "drop": "dropped", "cut": f"{cut:,} cut"}[rules["too_long"]]
        lost = long - cut if rules["too_long"] == "cut" else 0
        others = f", {lost:,} dropped: {why}" if lost else ""
        limit = f"{rules['max_tokens']:,}"
        yield f"too long    {long:,} documents of more than {limit} tokens: {done}{others}"
    if bare := values["without_trainable_token"]:
        hint = 'kept; limits.untrainable = "drop" leaves them out'
        done = "dropped" if rules["untrainable"] == "drop" else hint
        yield f"untrainable {bare:,} documents without a token to train on: {done}"


def _checked_line(proof: Mapping[str, Any]) -> str:
    reasons = [f"{number:,}: {reason}" for reason, number in proof["not_encoded_again"].items()]
    left_out = f" (not {'; '.join(reasons)})" if reasons else ""
    return (
        f"sample      {proof['documents']:,} documents equal their source when decoded, "
        f"{proof['encoded_again']:,} have tiktoken's ids{left_out}"
    )


def _export_line(export: Mapping[str, Any]) -> str:
    left_out = "".join(f", {number:,} {why}" for why, number in export["left_out"].items())
    masks = "" if export["masks"] else ", without loss masks"
    return (
        f"export      {export['layout']}: {export['files']:,} files, {export['documents']:,} "
        f"documents{left_out}{masks}, in {export['folder']}"
    )


def _stage_line(name: str, stage: Mapping[str, Any]) -> str:
    rate = stage["megabytes_per_second"]
    speed = f"{rate:,.1f} MB/s" if rate else ""
    return f"{name:<11} {stage['seconds']:.1f} s  {speed}".rstrip()
