"""Tokenizers of the Hugging Face hub, by the names of their models."""

from nanotok_ray.errors import TokenizerError, how_to_install
from nanotok_ray.tokenizer.file_model import DEFINING_FILES
from nanotok_ray.tokenizer.foreign import BESIDE


def hub_folder(spec: str) -> str:
    """Return the local folder of the tokenizer of a model, OWNER/MODEL or OWNER/MODEL@REVISION.

    The folder is in the cache of huggingface_hub, and its name is the commit of the revision. What
    the cache lacks is downloaded, unless HF_HUB_OFFLINE is set.

    Raises:
        TokenizerError: huggingface_hub is not installed, or cannot get the files.
    """
    model, _, revision = spec.partition("@")
    try:
        from huggingface_hub import snapshot_download  # noqa: PLC0415 - an extra
    except ImportError:
        raise TokenizerError(
            f"there is no folder {spec}; a model of the Hugging Face hub needs the package "
            f"huggingface_hub: {how_to_install('hf')}"
        ) from None
    try:
        return str(
            snapshot_download(
                model,
                revision=revision or None,
                allow_patterns=[*DEFINING_FILES, *BESIDE],
            )
        )
    except Exception as error:  # of the network, the hub or the cache
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise TokenizerError(
            f"there is no folder {spec}, and the Hugging Face hub does not give the tokenizer of a "
            f"model of this name: {reason:.300}. Download it where there is a network, and copy "
            "the folder, or set HF_HOME to the cache that contains it"
        ) from error
