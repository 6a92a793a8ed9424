"""Manifest, plan, settings and tokenizer of an output as checked values, and their contradictions.

Sizes are checked before a file is read.
"""

import functools
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nanotok_ray.errors import (
    CorruptOutputError,
    NanotokError,
    TokenizerError,
    TransientIOError,
)
from nanotok_ray.formats.manifest import MANIFEST_NAME, PLAN_NAME, TOKENIZER_FOLDER
from nanotok_ray.formats.paths import local_path
from nanotok_ray.formats.schema import (
    MAX_MANIFEST_BYTES,
    MAX_PLAN_BYTES,
    check_size,
    no_manifest,
    parse_manifest,
)
from nanotok_ray.shards.output import settings_from
from nanotok_ray.shards.settings import ShardSettings
from nanotok_ray.sources import Plan, plan_from_json
from nanotok_ray.storage import Folder, is_below
from nanotok_ray.tokenizer import (
    READABLE_NAME,
    Model,
    Tokenizer,
    differing_files,
    open_span_table,
    written_tokenizer,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """What the records of an output are checked against."""

    plan: Plan
    plan_sha256: str
    tokenizer: Tokenizer
    settings: Mapping[str, ShardSettings]

    @property
    def model(self) -> Model:
        """Of the tokenizer."""
        return self.tokenizer.model


def read_manifest(folder: Folder) -> dict[str, Any]:
    """Read the manifest of an output folder, local or remote.

    Raises:
        IncompleteOutputError: there is none.
        CorruptOutputError: it is not a manifest of this version.
    """
    name = folder.join(MANIFEST_NAME)
    try:
        check_size(folder.size(MANIFEST_NAME), limit=MAX_MANIFEST_BYTES, name=name)
        data = folder.read_bytes(MANIFEST_NAME)
    except FileNotFoundError as error:
        raise no_manifest(name) from error
    return parse_manifest(data, name=name)


def read_inputs(folder: Folder, manifest: Mapping[str, Any]) -> Inputs:
    """Read plan and tokenizer of an output folder, and the settings that its manifest states.

    Raises:
        CorruptOutputError: one of them cannot be read.
    """
    try:
        check_size(folder.size(PLAN_NAME), limit=MAX_PLAN_BYTES, name=folder.join(PLAN_NAME))
        data = folder.read_bytes(PLAN_NAME)
        plan = plan_from_json(data)
        tokenizer = written_tokenizer(folder.join(TOKENIZER_FOLDER), span_table=False)
        settings = settings_from(manifest)
    except (TransientIOError, CorruptOutputError):
        raise
    except FileNotFoundError as error:
        raise CorruptOutputError(
            f"{folder.join(PLAN_NAME)} is missing: the output is not whole; run its job again, "
            "which writes what is missing"
        ) from error
    except NanotokError as error:
        raise CorruptOutputError(f"plan or tokenizer cannot be read: {error}") from error
    except (TypeError, ValueError, KeyError) as error:  # a setting that this version does not know
        raise CorruptOutputError(f"{MANIFEST_NAME} has settings of no source: {error}") from error
    missing = [source.name for source in plan.sources if source.name not in settings]
    if missing:
        raise CorruptOutputError(f"{MANIFEST_NAME} has no settings of {', '.join(missing)}")
    sha256 = hashlib.sha256(data).hexdigest()
    return Inputs(plan=plan, plan_sha256=sha256, tokenizer=tokenizer, settings=settings)


def fingerprint_problems(folder: Folder, manifest: Mapping[str, Any], inputs: Inputs) -> list[str]:
    """Compare plan and tokenizer, with all of its files, with what the manifest names."""
    problems = []
    if inputs.plan_sha256 != manifest["plan_sha256"]:
        problems.append(f"{PLAN_NAME} is not the one that {MANIFEST_NAME} names")
    if {settings.tokenizer_sha256 for settings in inputs.settings.values()} != {
        inputs.tokenizer.sha256
    }:
        problems.append(
            f"{TOKENIZER_FOLDER}/ does not hold the tokenizer that {MANIFEST_NAME} names"
        )
    tokenizer = folder.join(TOKENIZER_FOLDER)
    try:
        problems += [
            f"{TOKENIZER_FOLDER}/{name} is not what {TOKENIZER_FOLDER}/{READABLE_NAME} gives"
            for name in differing_files(inputs.model, tokenizer)
        ]
        open_span_table(tokenizer, sha256=inputs.tokenizer.sha256)
    except TokenizerError as error:  # of the table, or two ids that stand for the same bytes
        problems.append(str(error))
    return problems


def source_folder_problems(folder: Folder, plan: Plan) -> Iterator[str]:
    """Yield a problem for each source of a plan that has files of the output itself."""
    top = _canonical(folder.url)
    real = functools.cache(_canonical)
    for source in plan.sources:
        inside = []
        for file in source.files:
            parent, _, name = file.url.rpartition("/")
            if is_below(f"{real(parent)}/{name}", top):
                inside.append(file.url)
        if inside:
            more = f" and {len(inside) - 1:,} more files" if len(inside) > 1 else ""
            yield (
                f"{PLAN_NAME}: source {source.name!r} holds {inside[0]}{more} of this very output: "
                "its documents are files that the job wrote. Take them out of the source's paths, "
                "and run the job into another folder"
            )


def _canonical(url: str) -> str:
    """Return a local path with links resolved, or a URL as it is, without a slash at the end."""
    path = local_path(url)
    return url.rstrip("/") if path is None else os.path.realpath(path)
