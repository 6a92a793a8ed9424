"""The exceptions of nanotok_ray, and what their messages say of formats and extras."""

import errno
import re

from nanotok_ray.units import printable


class NanotokError(Exception):
    """The root of all errors raised by nanotok_ray."""


class RecipeError(NanotokError, ValueError):
    """A recipe, an override or a command-line value is wrong."""


class PatternError(NanotokError, ValueError):
    """A split pattern is not a regular expression the core can compile."""


class SplitError(NanotokError, ValueError):
    """A document cannot be split: the regex engine gave up, or it has a gap and must not."""

    @property
    def reason(self) -> str:
        """Why, without the document's number in a batch that nobody else knows.

        >>> SplitError("document 3 cannot be split at byte 7: a gap").reason
        'cannot be split: at byte 7: a gap'
        """
        return f"cannot be split: {str(self).partition(' cannot be split ')[2] or self}"


class TokenizerError(NanotokError, ValueError):
    """A tokenizer, its files or its arguments are wrong."""


class VocabularySizeError(TokenizerError, AssertionError):
    """The vocabulary has no room for 256 bytes and the special tokens.

    Also an AssertionError, because that is what nanochat raises here.
    """


class UnknownTokenError(TokenizerError, KeyError):
    """A name is neither a special token of the tokenizer nor one of its tokens.

    Also a KeyError, because that is what nanochat and tiktoken raise here.
    """

    __str__ = Exception.__str__  # that of KeyError quotes the message


class ConversationError(TokenizerError, KeyError, IndexError, TypeError):
    """A conversation is not {"messages": [{"role": ..., "content": ...}, ...]}.

    Also the errors that nanochat raises here.
    """

    __str__ = Exception.__str__


class CountsError(NanotokError, ValueError):
    """Counts hold what is no count, or were cut in another way than those they are added to."""


class CountOverflowError(NanotokError, OverflowError):
    """A count would pass 2**64 - 1."""


class SourceError(NanotokError, ValueError):
    """An input is missing, unreadable, or not what the recipe says it is."""


class PlanError(NanotokError, ValueError):
    """The plan cannot be made, or contradicts the one that was frozen before."""


class QuarantineLimitError(NanotokError, ValueError):
    """More documents were quarantined than the recipe allows."""


class CorruptOutputError(NanotokError, ValueError):
    """A file on disk is not what its record or the manifest says."""


class IncompleteOutputError(NanotokError, FileNotFoundError):
    """The output has no manifest: it is not finished, or it is not an output folder."""


class SampleCheckError(NanotokError, ValueError):
    """The ids of a document are not what they must be; nothing of its slice is recorded."""


class ExportError(NanotokError, ValueError):
    """A layout cannot hold an output, or its options are wrong."""


class PackingError(NanotokError, ValueError):
    """Rows cannot be packed as asked, or a loader's state is of other rows."""


class VerificationError(NanotokError, ValueError):
    """Verification found the output wrong."""


class SliceError(NanotokError, RuntimeError):
    """One or more slices failed for good."""


class SharedFolderError(NanotokError, OSError):
    """A folder of the job is not the same folder on every node."""


class TransientIOError(NanotokError, OSError):
    """Storage failed in a way that may pass: the task is worth another try."""


class DiskFullError(NanotokError, OSError):
    """No space is left on a disk, or a quota is used up: nothing more can be written there."""


class OutputInUseError(NanotokError, RuntimeError):
    """Another run holds the lease of the output."""


class LeaseLostError(NanotokError, RuntimeError):
    """Another run has taken over the lease of the output: this one must change nothing more."""


class UnreachableError(NanotokError, ConnectionError):
    """A Ray cluster or its job server cannot be reached, or does not let us in."""


class RefusedError(UnreachableError):
    """A Ray cluster or its job server answers, and wants another token or another request."""


_OF_A_PATH = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST})
_RIGHTS = "choose another folder, or give this user access to it"
_CHECK_PATH = (
    "check the path: folders are created as needed, but not inside a file or a read-only file "
    "system"
)
_SPACE = "free some space there, or choose another folder; the same command resumes"
_STEPS = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _RIGHTS),
    **dict.fromkeys(_OF_A_PATH, _CHECK_PATH),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _SPACE),
    errno.EMFILE: "raise the limit of open files (ulimit -n 65536)",
}
"""What to do about an error of the operating system, by its number."""

OF_THE_MACHINE = frozenset(_STEPS) - _OF_A_PATH
"""Numbers of errors that are no bug, wherever they come up."""


def os_error_message(error: OSError) -> str:
    """Return the message for an error of the operating system: the file, the reason, the next step.

    >>> os_error_message(PermissionError(13, "Permission denied", "/data/out"))
    '/data/out: Permission denied; choose another folder, or give this user access to it'
    """
    step = _STEPS.get(error.errno or 0)
    reason = error.strerror or str(error)
    message = f"{error.filename}: {reason}" if error.filename else reason
    return f"{message}; {step}" if step and error.filename else message


_NUMBER = re.compile(r"(.*?)\s*(\d{1,9})")
_MAX_FORMAT_CHARS = 80

DAMAGED = "it is damaged, or not a file of nanotok_ray: restore a backup, or create it again"
NEWER = "a newer nanotok_ray wrote it: install that one, or create it again with this one"
OLDER = "an older nanotok_ray wrote it: install that one, or create it again with this one"


def other_format(name: str, found: object, expected: str) -> str:
    """Return the message for a file in another format, with the next step.

    >>> other_format("plan.json", "nanotok-plan 2", "nanotok-plan 1").partition("; ")[0]
    "plan.json has format 'nanotok-plan 2', this version reads 'nanotok-plan 1'"
    """
    text = printable(repr(found))
    if len(text) > _MAX_FORMAT_CHARS:
        text = f"{text[:_MAX_FORMAT_CHARS]}..."
    message = f"{name} has format {text}, this version reads {expected!r}"
    return f"{message}; {next_step(found, expected)}"


def next_step(found: object, expected: str) -> str:
    """Return the next step for a format that is newer, older or unknown.

    >>> next_step("nanotok-plan 2", "nanotok-plan 1") == NEWER, next_step(None, "a 1") == DAMAGED
    (True, True)
    """
    parts = _NUMBER.fullmatch(found) if isinstance(found, str) else None
    expected_parts = _NUMBER.fullmatch(expected)
    if (
        parts is None
        or expected_parts is None
        or parts[1] != expected_parts[1]
        or parts[2] == expected_parts[2]
    ):
        return DAMAGED
    return NEWER if int(parts[2]) > int(expected_parts[2]) else OLDER


def how_to_install(extra: str) -> str:
    """Return the commands that install an extra.

    >>> how_to_install("s3")
    "pip install '.[s3]' in a checkout of nanotok_ray, or '/path/to/nanotok_ray-...whl[s3]'"
    """
    return (
        f"pip install '.[{extra}]' in a checkout of nanotok_ray, or "
        f"'/path/to/nanotok_ray-...whl[{extra}]'"
    )
