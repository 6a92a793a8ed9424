"""The special tokens that a tokenizer of Hugging Face puts before and after a text by default."""

from collections.abc import Mapping

from nanotok_ray.tokenizer.foreign.file_object import FileObject, parsed_object

Around = tuple[tuple[str, ...], tuple[str, ...]]
"""Names of special tokens before a text, and after it."""

CONFIG_FILE, MAP_FILE = "tokenizer_config.json", "special_tokens_map.json"
TEMPLATE_FILE, JINJA_FILE = "chat_template.json", "chat_template.jinja"
BESIDE = (CONFIG_FILE, MAP_FILE, JINJA_FILE, TEMPLATE_FILE)
"""Files that are read and kept with a defining file."""


def around_of(beside: Mapping[str, bytes], *, default: Around) -> Around:
    """Return the tokens by `tokenizer_config.json`, or else `default`, for each side of a text.

    Raises:
        TokenizerError: The file is not a JSON object.
    """
    if CONFIG_FILE not in beside:
        return default
    config = parsed_object(beside[CONFIG_FILE], name=CONFIG_FILE)
    before, after = (
        _configured(config, kind, default=default[side]) for side, kind in enumerate(("bos", "eos"))
    )
    return before, after


def _configured(config: FileObject, kind: str, *, default: tuple[str, ...]) -> tuple[str, ...]:
    adds, token = config.get(f"add_{kind}_token"), config.get(f"{kind}_token")
    if not isinstance(adds, bool):
        return default
    if isinstance(token, dict):  # an added token with its flags
        token = token.get("content")
    return (token,) if adds and isinstance(token, str) else ()


def around_of_processor(processor: object) -> Around:
    """Return the tokens that the value of "post_processor" puts around a single text.

    >>> around_of_processor({"type": "BertProcessing", "cls": ["[CLS]", 1], "sep": ["[SEP]", 2]})
    (('[CLS]',), ('[SEP]',))
    """
    match processor:
        case {"type": "Sequence", "processors": [*parts]}:
            found = [around_of_processor(part) for part in parts]
            return next((around for around in found if around != ((), ())), ((), ()))
        case {"type": "TemplateProcessing", "single": [*pieces]}:
            names = [_special_of(piece) for piece in pieces]
            if None in names:
                text = names.index(None)
                before = tuple(name for name in names[:text] if name)
                return before, tuple(name for name in names[text + 1 :] if name)
        case {
            "type": "BertProcessing" | "RobertaProcessing",
            "cls": [str(first), _],
            "sep": [str(last), _],
        }:
            return (first,), (last,)
    return (), ()


def _special_of(piece: object) -> str | None:
    """Return the name of a special token of a template, or None for the text."""
    match piece:
        case {"SpecialToken": {"id": str(name)}}:
            return name
    return None
