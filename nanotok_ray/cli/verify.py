"""The implementation of `nanotok verify`: checks an output or an export, and prints problems."""

from typing import TYPE_CHECKING

from nanotok_ray.api import verify, verify_export
from nanotok_ray.cli.options import flag_of, output_of
from nanotok_ray.cli.printing import BAD_OUTPUT, INFRASTRUCTURE, numbers_text
from nanotok_ray.errors import ExportError, RecipeError, VerificationError
from nanotok_ray.exports import EXPORT_NAME, EXPORTS
from nanotok_ray.formats import MANIFEST_NAME, file_values
from nanotok_ray.shards import MAX_PRINTED_PROBLEMS, Verification
from nanotok_ray.storage import Folder

if TYPE_CHECKING:
    from nanotok_ray.cli.app import Arguments


def run_verify(arguments: "Arguments") -> int:
    """Verify and return the exit code.

    Raises:
        NanotokError: The output cannot be verified.
    """
    levels = [name for name in ("no_sample", "masks", "deep") if getattr(arguments, name)]
    if len(levels) > 1:
        flags = " and ".join(map(flag_of, levels))
        raise RecipeError(f"{flags} cannot be combined; pass one of them")
    folder = Folder(output_of(arguments.location))
    if _is_export(folder, arguments):
        return _verify_export(folder, arguments)
    with arguments.console.progress() as on_event:
        result = verify(
            folder,
            executor="local" if arguments.local else None,
            address=arguments.address,
            cpus=arguments.cpus,
            sample=not arguments.no_sample,
            deep=arguments.deep,
            masks=arguments.masks,
            run_code=arguments.run_code,
            on_event=on_event,
        )
    arguments.console.result(
        {
            "status": "verified" if result.passed else "failed",
            "deep": arguments.deep,
            "masks": arguments.masks,
        },
        result,
        lines=[
            _message(folder.url, result, masks=arguments.masks)
            if result.passed
            else result.format_problems(folder.url)
        ],
    )
    if result.problems:
        return BAD_OUTPUT
    return INFRASTRUCTURE if result.unchecked else 0


def _is_export(folder: Folder, arguments: "Arguments") -> bool:
    """Return whether a folder is an export, by its export.json or its location."""
    if folder.exists(MANIFEST_NAME):
        return arguments.of is not None
    return arguments.of is not None or folder.exists(EXPORT_NAME) or _lies_in_output(folder)


def _lies_in_output(folder: Folder) -> bool:
    return folder.url.rsplit("/", 2)[1:2] == [EXPORTS]


def _verify_export(folder: Folder, arguments: "Arguments") -> int:
    wrong = ("deep", "masks", "no_sample", "run_code", "cpus", "local", "address")
    if any(getattr(arguments, name) for name in wrong):
        raise ExportError(
            f"{folder.url} is an export, of which every document is compared in threads; omit "
            "--deep, --masks, --no-sample, --run-code, --cpus, --local and --address"
        )
    if arguments.of is None and not _lies_in_output(folder):
        raise VerificationError(
            f"{folder.url} is an export outside the folder {EXPORTS}/ of an output; name the "
            "output it was made of with --of OUTPUT"
        )
    of = output_of(arguments.of) if arguments.of else folder.url.rsplit("/", 2)[0]
    with arguments.console.progress() as on_event:
        export, problems = verify_export(folder, Folder(of), on_event=on_event)
    lines = problems[:MAX_PRINTED_PROBLEMS]
    if problems and not problems[0].endswith("export again"):
        lines.append("delete the files above and export again, which writes them again")
    elif not problems:
        counts = numbers_text({"units": export.units, "documents": export.documents})
        lines = [f"{folder.url}: {counts} equal those of the output"]
    status = "failed" if problems else "verified"
    arguments.console.result(
        {"status": status, "problems": problems}, file_values(export), lines=lines
    )
    return BAD_OUTPUT if problems else 0


def _message(folder: str, result: Verification, *, masks: bool) -> str:
    counts = {name: getattr(result, name) for name in ("slices", "shards", "documents")}
    equal = "conversations and vision documents equal" if masks else "equal"
    sampled = f"{result.sampled:,} {equal} their source"
    text = f"{folder}: {numbers_text(counts)}, all complete; {sampled}"
    if result.source_bytes:
        text += f" ({result.source_bytes / 1e6:,.1f} MB read again)"
    return text
