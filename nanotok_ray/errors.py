"""The exceptions of nanotok_ray, and messages about formats, extras and the operating system."""

import errno
import re

from nanotok_ray.units import printable, without_secrets


class NanotokError(Exception):
    """The root of all errors raised by nanotok_ray; their messages contain no secret."""

    def __str__(self) -> str:
        return without_secrets(Exception.__str__(self))  # KeyError.__str__ quotes the message


class RecipeError(NanotokError, ValueError):
    """A recipe, an override or a command-line value is wrong."""


class PatternError(NanotokError, ValueError):
    """A split pattern is not a regular expression the core can compile."""


class SplitError(NanotokError, ValueError):
    """A document cannot be split: the regex engine gave up, or it has a gap and must not."""

    @property
    def reason(self) -> str:
        """The reason, without the number of the document in its batch, which users do not know.

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


class ConversationError(TokenizerError, KeyError, IndexError, TypeError):
    """A conversation is not {"messages": [{"role": ..., "content": ...}, ...]}.

    Also the errors that nanochat raises here.
    """


class TemplateError(TokenizerError):
    """A chat template cannot be compiled, or cannot render a conversation."""


class CountsError(NanotokError, ValueError):
    """Counts hold an invalid count, or were split differently from the counts they are added to."""


class CountOverflowError(NanotokError, OverflowError):
    """A count would exceed 2**64 - 1."""


class SourceError(NanotokError, ValueError):
    """An input is missing or unreadable, or does not match the recipe."""


class RarePairsError(NanotokError):
    """A merge of several words occurs less often than the pairs of ids that were kept."""


class PlanError(NanotokError, ValueError):
    """The plan cannot be made, or contradicts the frozen plan."""


class QuarantineLimitError(NanotokError, ValueError):
    """More documents were quarantined than the recipe allows."""


class CorruptOutputError(NanotokError, ValueError):
    """A file on disk does not match its record or the manifest."""


class IncompleteOutputError(NanotokError, FileNotFoundError):
    """The output has no manifest: it is not finished, or it is not an output folder."""


class SampleCheckError(NanotokError, ValueError):
    """The ids of a document are wrong; its slice gets no record."""


class ExportError(NanotokError, ValueError):
    """A layout cannot hold an output, or its options are wrong."""


class PackingError(NanotokError, ValueError):
    """Rows cannot be packed as requested, or the state of a loader belongs to other rows."""


class VerificationError(NanotokError, ValueError):
    """Verification found an error in the output."""


class SliceError(NanotokError, RuntimeError):
    """One or more slices failed permanently."""


class NodeError(NanotokError, RuntimeError):
    """Nodes of the cluster cannot run the job: they lack a package, or have another version."""


class SharedFolderError(NodeError, OSError):
    """A folder or a source of the job is not the same on every node."""


class UnsafeStoreError(NanotokError, OSError):
    """The store of an output replaces an object that it was asked to create only once."""


class TransientIOError(NanotokError, OSError):
    """Storage failed in a way that can be temporary: the task can be retried."""


class DiskFullError(NanotokError, OSError):
    """A disk is full, or a quota is used up: nothing more can be written there."""


class OutputInUseError(NanotokError, RuntimeError):
    """Another run holds the lease of the output."""


class LeaseLostError(NanotokError, RuntimeError):
    """Another run has taken over the lease of the output: this run must not change it any more."""


class UnreachableError(NanotokError, ConnectionError):
    """A Ray cluster or its job server cannot be reached, or denies access."""


class RefusedError(UnreachableError):
    """A Ray cluster or its job server answers, but rejects the token or the request."""


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
"""The next step for each error number of the operating system."""

OF_THE_MACHINE = frozenset(_STEPS) - _OF_A_PATH
"""Numbers of errors that are not bugs, wherever they occur."""


def os_error_message(error: OSError) -> str:
    """Return the message for an error of the operating system: the file, the reason, the next step.

    >>> os_error_message(PermissionError(13, "Permission denied", "/data/out"))
    '/data/out: Permission denied; choose another folder, or give this user access to it'
    """
    step = _STEPS.get(error.errno or 0)
    reason = error.strerror or str(error)
    message = f"{error.filename}: {reason}" if error.filename else reason
    return without_secrets(f"{message}; {step}" if step and error.filename else message)


_NUMBER = re.compile(r"(.*?)\s*(\d{1,9})")
_MAX_FORMAT_CHARS = 80

DAMAGED = "it is damaged, or not a file of nanotok_ray: restore a backup, or create it again"
NEWER = "a newer nanotok_ray wrote it: install that one, or create it again with this one"
OLDER = "an older nanotok_ray wrote it: install that one, or create it again with this one"


def other_format(name: str, actual: object, expected: str) -> str:
    """Return the message for a file in another format, with the next step.

    >>> other_format("plan.json", "nanotok-plan 2", "nanotok-plan 1").partition("; ")[0]
    "plan.json has format 'nanotok-plan 2', this version reads 'nanotok-plan 1'"
    """
    text = printable(repr(actual))
    if len(text) > _MAX_FORMAT_CHARS:
        text = f"{text[:_MAX_FORMAT_CHARS]}..."
    message = f"{name} has format {text}, this version reads {expected!r}"
    return f"{message}; {next_step(actual, expected)}"


def next_step(actual: object, expected: str) -> str:
    """Return the next step for a format that is newer, older or unknown.

    >>> next_step("nanotok-plan 2", "nanotok-plan 1") == NEWER, next_step(None, "a 1") == DAMAGED
    (True, True)
    """
    parts = _NUMBER.fullmatch(actual) if isinstance(actual, str) else None
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
