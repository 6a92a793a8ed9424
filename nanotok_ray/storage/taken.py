"""Which stores refuse a name that is taken, in the step that publishes, and how they say so.

Takes fsspec file systems and their exceptions. Writes nothing.
"""

from fsspec.spec import AbstractFileSystem

_CONDITIONAL = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "adl", "az"}
_PRECONDITION_FAILED = 412


def knows_conditions(file_system: AbstractFileSystem) -> bool:
    """Tell whether a store takes mode `xb`: S3, GCS and Azure, by packages of 2025 and later."""
    protocol = file_system.protocol
    own = {protocol} if isinstance(protocol, str) else set(protocol)
    return bool(own & _CONDITIONAL)


def is_taken(error: BaseException | None) -> bool:
    """Tell whether an exception of a store, or what caused it, says that a name is taken.

    S3's client turns the answer into FileExistsError only if it names the condition, which AWS'
    does and others' may not.

    >>> is_taken(FileExistsError()), is_taken(FileNotFoundError()), is_taken(None)
    (True, False, False)
    """
    seen: list[BaseException] = []
    while error is not None and not any(error is each for each in seen):
        if isinstance(error, FileExistsError) or _status(error) == _PRECONDITION_FAILED:
            return True
        seen.append(error)
        error = error.__cause__
    return False


def _status(error: BaseException) -> object:
    """Give the HTTP status that an exception of botocore carries."""
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return getattr(error, "status_code", None)
    return response.get("ResponseMetadata", {}).get("HTTPStatusCode")
