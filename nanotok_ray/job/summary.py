"""The summary of a run: JSON values for programs, and a few lines of text for people."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nanotok_ray.formats import (
    REPORT_PAGE_NAME,
    TOKENIZER_FOLDER,
    LearnRecord,
    Manifest,
    ShardSettings,
    Totals,
    to_values,
)
from nanotok_ray.job.forecast import TEXT_STAGES
from nanotok_ray.shards import Record, Verification
from nanotok_ray.tokenizer import REACHED, Tokenizer, why_stopped
from nanotok_ray.units import few, quantity

_RUN_ORDER = ("count", "merge", "reduce", "learn", "check", "tokenize", "verify", "export")

DONE = "done"
UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a run, with its JSON values."""

    values: dict[str, Any]

    def text(self) -> str:
        """Return the summary as lines of text, at most `MAX_SOURCES` of them on sources."""
        values = self.values
        lines = (*_head(values), *_sources(values), *_remarks(values), *_tail(values))
        return "\n".join(lines)


MAX_SOURCES = 12
"""Maximum number of lines on sources. The report page has the rest."""


def summarize(
    output: str,
    *,
    tokenizer: Tokenizer,
    stages: Mapping[str, tuple[float, int]],
    learned: Record[LearnRecord] | None = None,
    of_other_inputs: bool = False,
    manifest: Manifest | None = None,
    verification: Verification | None = None,
    exports: Sequence[Mapping[str, Any]] = (),
    not_reached: Sequence[int] = (),
    unchanged: bool = False,
    compared_by_size: int = 0,
) -> Summary:
    """Build the summary of a run.

    Args:
        output: URL of the output folder.
        tokenizer: The tokenizer in use.
        stages: per stage that ran, seconds and bytes.
        learned: the learn record, if the job is to learn the tokenizer.
        of_other_inputs: it was learned before inputs were added, changed or removed.
        manifest: of a tokenized corpus; None after training alone.
        verification: of what was just written.
        exports: what export.json says of each, and its folder.
        not_reached: the vocabulary sizes that were asked for and that learning did not reach.
        unchanged: there was nothing to do.
        compared_by_size: the published slices that were kept and whose files were not read.
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
            "end": why_stopped(learned.value.report),
            "not_reached": list(not_reached),
            "of_other_inputs": of_other_inputs,
            "also": list(learned.value.also),
            "differs_from_rustbpe": learned.value.report["differs_from_rustbpe"],
            "skipped_slices": learned.value.report["skipped_slices"],
        }
    if manifest is not None:
        values |= _corpus(manifest)
    if verification is not None:
        values["verified"] = {
            "slices": verification.slices,
            "shards": verification.shards,
            "documents": verification.documents,
        }
    if compared_by_size:
        values["compared_by_size"] = compared_by_size
    if exports:
        values["exports"] = [dict(export) for export in exports]
    return Summary(values)


def _head(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines on the output, its tokenizer and its documents."""
    if values["status"] == UNCHANGED:
        yield "Nothing to do: the output is complete and matches the recipe."
    yield f"output      {values['output']}"
    yield f"tokenizer   {_tokenizer_text(values)}"
    if "documents" in values:
        documents = values["documents"]
        yield (
            f"documents   {documents['out']:,} of {documents['in']:,}, {values['tokens']:,} "
            f"tokens, {values['bytes_per_token'] or 0:.3f} bytes per token"
        )


def _tokenizer_text(values: Mapping[str, Any]) -> str:
    text = f"{values['vocab_size']:,} ids, sha256 {values['tokenizer_sha256'][:16]}"
    if "learned" not in values:
        return text
    learned = values["learned"]
    end = "" if learned["end"] == REACHED else f": {learned['end']}"
    text += f"; {quantity(learned['merges'], 'merge')}{end}"
    if learned["also"]:
        text += f"; also {', '.join(f'{size:,}' for size in learned['also'])} ids"
    return text


def _remarks(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield remarks on the tokenizer and the documents."""
    if "learned" in values:
        yield from _learned_lines(values["learned"])
    if "documents" not in values:
        return
    if "unused_text" in values:
        yield f"unused      {_unused_sentence(values['unused_text'])}"
    yield from _composed_lines(values)
    if values["special_text"]:
        yield (
            f"special     {values['special_text']:,} special tokens spelled out in the data, "
            "kept as plain text"
        )


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


def _learned_lines(learned: Mapping[str, Any]) -> Iterator[str]:
    if learned["skipped_slices"]:
        skipped = quantity(len(learned["skipped_slices"]), "slice")
        yield f"skipped     {skipped} that could not be counted"
    if other := learned["differs_from_rustbpe"]:
        yield f"merges      differ from rustbpe's, because of {', '.join(other)}"
    if learned["of_other_inputs"]:
        yield "kept        tokenizer from before inputs were added, changed or removed (--relearn)"


def _tail(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines on the quarantine, the verification and the next commands."""
    output = values["output"]
    if values.get("quarantined"):
        number = sum(values["quarantined"].values())
        reasons = few([f"{number:,}: {why}" for why, number in values["quarantined"].items()])
        documents = quantity(number, "document")
        lost = _lost_text(values)
        yield f"quarantine  {documents} ({reasons}){lost}, listed in {output}/quarantine"
    if "verified" in values:
        yield f"verified    {_verified_text(values)}"
    if kept := values.get("compared_by_size"):
        yield f"kept        {quantity(kept, 'slice')} whose files were compared by size only"
    if exports := values.get("exports", []):
        yield _export_line(exports)
    if values["stages"]:
        yield f"time        {_time_text(values)}"
    yield f"report      {output}/{REPORT_PAGE_NAME}"
    if sizes := values.get("learned", {}).get("not_reached"):
        listed = " and ".join(f"{size:,}" for size in sizes)
        yield (
            f"not reached a vocabulary of {listed} ids: learning ended at "
            f"{values['vocab_size']:,}, {values['learned']['end']}"
        )
    if "documents" in values:
        yield f"next        nanotok verify {output}"
        yield f"            nanotok inspect {output} --doc 0"
    else:
        yield f"next        nanotok tokenizer show {output}/{TOKENIZER_FOLDER}"
        yield "            nanotok tokenize RECIPE"


def _lost_text(values: Mapping[str, Any]) -> str:
    """Return a text with the number of rows of tails, if there are any.

    >>> _lost_text({"lost_rows": 1024})
    ', with 1,024 rows of damaged row groups'
    """
    rows = values.get("lost_rows", 0)
    return f", with {quantity(rows, 'row')} of damaged row groups" if rows else ""


def _verified_text(values: Mapping[str, Any]) -> str:
    verified, proof = values["verified"], values["proof"]
    reasons = [f"{number:,}: {reason}" for reason, number in proof["not_encoded_again"].items()]
    left_out = f" ({'; '.join(reasons)})" if reasons else ""
    encoded = proof["encoded_again"]
    and_some = " and" if encoded == proof["documents"] else f", {encoded:,}"
    return (
        f"{quantity(verified['shards'], 'shard')}; {quantity(proof['documents'], 'document')} "
        f"compared with their source{and_some} with tiktoken{left_out}: no difference"
    )


def _corpus(manifest: Manifest) -> dict[str, Any]:
    everything = manifest.totals["all"]
    return {
        **to_values(everything),
        "bytes_per_token": _ratio(everything.text_bytes, everything.tokens),
        "slices": manifest.slices,
        "shards": manifest.shards,
        "sources": {
            name: {
                "documents": source.documents.out,
                "text_bytes": source.text_bytes,
                "tokens": source.tokens,
                "bytes_per_token": _ratio(source.text_bytes, source.tokens),
                "quarantined": source.documents.quarantined,
                "trainable_tokens": source.trainable_tokens if source.roles else None,
            }
            for name, source in manifest.totals.items()
            if name != "all"
        },
        "rules": _rules(manifest.settings.values()),
    }


def _rules(settings: Collection[ShardSettings]) -> dict[str, Any]:
    """Return the rules of the recipe for long documents and those without trainable tokens."""
    limited = next((item for item in settings if item.max_tokens is not None), None)
    is_dropped = any(item.untrainable == "drop" for item in settings)
    return {
        "max_tokens": limited and limited.max_tokens,
        "too_long": limited.too_long if limited else "keep",
        "untrainable": "drop" if is_dropped else "keep",
    }


def _stage(seconds: float, size: int) -> dict[str, Any]:
    return {
        "seconds": round(seconds, 3),
        "bytes": size,
        "megabytes_per_second": _ratio(size / 1e6, seconds),
    }


def _ratio(above: float, below: float) -> float | None:
    return round(above / below, 3) if below else None


def _sources(values: Mapping[str, Any]) -> list[str]:
    """Return the lines on the sources, on the largest ones if they are many."""
    sources = values.get("sources", {})
    if len(sources) <= MAX_SOURCES:
        return [_source_line(name, source) for name, source in sources.items()]
    largest = sorted(sources, key=lambda name: -sources[name]["tokens"])[: MAX_SOURCES - 1]
    lines = [_source_line(name, source) for name, source in sources.items() if name in largest]
    return [*lines, f"  and {len(sources) - len(largest):,} more, in the report"]


def _source_line(name: str, source: Mapping[str, Any]) -> str:
    line = (
        f"  {name:<14} {source['documents']:>9,} documents {source['tokens']:>13,} tokens "
        f"{source['bytes_per_token'] or 0:>6.3f} bytes per token"
    )
    if source["trainable_tokens"] is not None:
        line += f", {source['trainable_tokens'] / source['tokens']:.1%} trained on"
    if source["quarantined"]:
        line += f", {source['quarantined']:,} quarantined"
    return line


def _composed_lines(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines on conversations and documents with images."""
    roles, rules = values["roles"], values["rules"]
    if long := values["over_max_tokens"]:
        cut = values["truncated"]
        why = "a cut would take an image or a part of one"
        done = {"keep": "kept whole", "drop": "dropped", "cut": f"{cut:,} cut"}[rules["too_long"]]
        lost = long - cut if rules["too_long"] == "cut" else 0
        others = f", {lost:,} dropped: {why}" if lost else ""
        limit = f"{rules['max_tokens']:,}"
        documents = quantity(long, "document")
        yield f"too long    {documents} of more than {limit} tokens: {done}{others}"
    if bare := values["without_trainable_token"]:
        hint = 'kept; limits.untrainable = "drop" removes them'
        done = "dropped" if rules["untrainable"] == "drop" else hint
        yield f"untrainable {quantity(bare, 'document')} without a token to train on: {done}"
    if roles:
        yield (
            f"trained on  {values['trainable_tokens']:,} of {sum(roles.values()):,} tokens of "
            f"conversations{' and documents with images' if values['images'] else ''}"
        )
    if values["images"]:
        yield f"images      {values['images']:,}, {quantity(roles['image'], 'token')}"


def _export_line(exports: Sequence[Mapping[str, Any]]) -> str:
    texts = []
    for export in exports:
        left_out = "".join(f", {number:,} {why}" for why, number in export["left_out"].items())
        masks = "" if export["masks"] else ", without loss masks"
        texts.append(
            f"{export['layout']}: {quantity(export['documents'], 'document')} in "
            f"{quantity(export['files'], 'file')}"
            f"{left_out}{masks}, in {export['folder']}"
        )
    return f"export      {'; '.join(texts)}"


def _time_text(values: Mapping[str, Any]) -> str:
    """Return the times of the stages, in the order of a job, and that of the command if known."""
    stages: Mapping[str, Mapping[str, Any]] = values["stages"]
    texts = [_stage_text(name, stages[name]) for name in sorted(stages, key=_RUN_ORDER.index)]
    together = sum(stage["seconds"] for stage in stages.values())
    if (seconds := values.get("wall_seconds")) is not None:
        other = max(seconds - together, 0.0)  # planning, start and end of workers, report page
        texts += [f"other {other:.1f} s", f"together {seconds:.1f} s"]
    elif len(stages) > 1:
        texts.append(f"stages together {together:.1f} s")
    return ", ".join(texts)


def _stage_text(name: str, stage: Mapping[str, Any]) -> str:
    rate = stage["megabytes_per_second"] if name in TEXT_STAGES else None
    return f"{name} {stage['seconds']:.1f} s{f' ({rate:,.1f} MB/s)' if rate else ''}"
