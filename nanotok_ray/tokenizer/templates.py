"""The chat template of a tokenizer, and the settings by which it renders conversations."""

import json
from collections.abc import Mapping, Sequence
from datetime import date as calendar_date
from typing import Any, Final

from nanotok_ray.chat import ChatTemplate, check_template, with_blocks
from nanotok_ray.errors import NanotokError, TemplateError
from nanotok_ray.formats import TemplateSettings
from nanotok_ray.recipe import AUTO, NANOCHAT, SPECIAL_TOKENS
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer.added_tokens import AddedTokens
from nanotok_ray.tokenizer.file_model import SENTENCEPIECE_FILE, FileModel
from nanotok_ray.tokenizer.foreign.around import (
    CONFIG_FILE,
    JINJA_FILE,
    MAP_FILE,
    TEMPLATE_FILE,
)
from nanotok_ray.tokenizer.foreign.file_object import parsed_object
from nanotok_ray.tokenizer.huggingface import token_roles
from nanotok_ray.tokenizer.model import Model

DEFAULT: Final = "default"
"""The name of the only template of a tokenizer."""

TOOL_USE: Final = "tool_use"
"""The name of the template for conversations with tools, if a tokenizer has several."""

_MAX_TEMPLATE_BYTES = 1 << 20


def templates_of(model: Model | FileModel) -> dict[str, str]:
    """Return the chat templates in the files beside that of a tokenizer, by name.

    Raises:
        TokenizerError: A file is damaged.
    """
    templates: dict[str, str] = {}
    for name in (CONFIG_FILE, TEMPLATE_FILE):
        if name in model.beside:
            given = parsed_object(model.beside[name], name=name).get("chat_template")
            templates |= _named(given)
    if JINJA_FILE in model.beside:
        templates[DEFAULT] = model.beside[JINJA_FILE].decode(errors="replace")
    return templates


def _named(given: object) -> dict[str, str]:
    """Return the templates that the value of `chat_template` holds."""
    if isinstance(given, str):
        return {DEFAULT: given}
    if isinstance(given, dict):
        return {name: text for name, text in given.items() if isinstance(text, str)}
    rows = [row for row in given if isinstance(row, dict)] if isinstance(given, list) else []
    return {
        row["name"]: row["template"]
        for row in rows
        if isinstance(row.get("name"), str) and isinstance(row.get("template"), str)
    }


def token_variables(model: Model | FileModel) -> dict[str, str]:
    """Return the special tokens that a template can name, such as `bos_token`.

    Raises:
        TokenizerError: A file is damaged.
    """
    if isinstance(model, Model) and not {MAP_FILE, CONFIG_FILE} & {*model.beside}:
        return token_roles(model)
    variables: dict[str, str] = {}
    for name in (MAP_FILE, CONFIG_FILE):
        if name not in model.beside:
            continue
        for key, value in parsed_object(model.beside[name], name=name).values.items():
            token = value.get("content") if isinstance(value, dict) else value
            if key.endswith("_token") and isinstance(token, str):
                variables[key] = token
    return variables


def settings_for_call(
    model: Model | FileModel, chat_template: str | None, *, has_tools: bool
) -> TemplateSettings | None:
    """Return how `apply_chat_template` renders, or None if it does as nanochat.

    As in transformers, the template named `tool_use` is the default for conversations with tools,
    and `strftime_now` prints the date of today.

    Args:
        model: the tokenizer's.
        chat_template: the name of one of its templates, or the text of a template; None: its own.
        has_tools: whether tools are given.

    Raises:
        TemplateError: There is no such template, or the tokenizer cannot render it.
    """
    templates = templates_of(model)
    if chat_template is None and _is_nanochat(model, templates):
        return None
    _check_recognizes(model)
    name = chat_template or (TOOL_USE if has_tools and TOOL_USE in templates else DEFAULT)
    text = name if "{" in name else _source(templates, name, what="chat_template")
    return TemplateSettings(
        text=text,
        training_text=with_blocks(text),
        special_tokens=token_variables(model),
        date=calendar_date.today().isoformat(),
    )


def template_settings(
    model: Model | FileModel,
    template: str = AUTO,
    *,
    training_template: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    date: str | None = None,
    tools: str | None = None,
    train_on: str = "assistant",
    untrained: Sequence[str] = (),
) -> TemplateSettings | None:
    """Return how a tokenizer renders conversations, or None if it is as nanochat does.

    With `auto` that is for tokenizers with all special tokens of nanochat's rendering, and for
    those without a template.

    Args:
        model: the tokenizer's.
        template: `auto`, `nanochat`, the path of a template, or the name of one in the
            configuration of the tokenizer.
        training_template: the path of a template that renders the same text with blocks.
        arguments: variables of the template.
        date: the date that the template prints as today's.
        tools: the key of the tools of a conversation.
        train_on: what is trained on.
        untrained: fields of the assistant's messages that are not trained on.

    Raises:
        TemplateError: There is no such template, it cannot be compiled or needs what is not given,
            or what it renders to be trained on is not known.
    """
    templates = templates_of(model)
    if template == NANOCHAT or (template == AUTO and _is_nanochat(model, templates)):
        return None
    _check_recognizes(model)
    is_path = template.endswith(".jinja")
    text = _file(template) if is_path else _source(templates, template, what="template")
    settings = TemplateSettings(
        text=text,
        training_text=with_blocks(text) if training_template is None else _file(training_template),
        special_tokens=token_variables(model),
        ordinary=() if model.added is None else tuple(sorted(model.added.ordinary)),
        arguments=json.dumps(dict(arguments or {})),
        date=date,
        tools=tools,
        train_on=train_on,
        untrained=tuple(untrained),
    )
    check_template(ChatTemplate(settings))
    return settings


def _is_nanochat(model: Model | FileModel, templates: Mapping[str, str]) -> bool:
    """Return whether conversations are rendered as nanochat does unless a template is named."""
    return not templates or all(name in model.special_tokens for name in SPECIAL_TOKENS)


def _check_recognizes(model: Model | FileModel) -> None:
    """Check that texts can spell the special tokens of a tokenizer.

    Raises:
        TemplateError: They cannot.
    """
    if isinstance(model, FileModel) and model.description.file == SENTENCEPIECE_FILE:
        raise TemplateError(
            "chat templates need a tokenizer that recognizes special tokens in a text, and "
            f"sentencepiece does not; name a folder with a tokenizer.json instead of "
            f"{SENTENCEPIECE_FILE}"
        )
    if isinstance(model, Model) and model.added is not None:
        _check_added(model.added)


def _check_added(added: AddedTokens) -> None:
    """Refuse flags of added tokens that tokenizer.txt, which workers read, does not have."""
    reason = added.reason
    if not reason and len(added.passes) > 1:
        reason = f"the added token {next(iter(added.passes[1]))!r:.60} has normalized = true"
    if reason:
        raise TemplateError(
            f"chat templates are not possible with this tokenizer.json: {reason}; set the flag to "
            "false in a copy of the file"
        )


def _source(templates: Mapping[str, str], template: str, *, what: str) -> str:
    """Return the text of a template of a tokenizer."""
    name = DEFAULT if template == AUTO else template
    if name in templates:
        return templates[name]
    known = ", ".join(map(repr, templates)) or "none"
    raise TemplateError(
        f"no chat template is named {name!r}; the tokenizer has {known}; {_HELP[what]}"
    )


_HELP = {
    "template": 'name one of them as template, or a file that ends with ".jinja"',
    "chat_template": "pass one of these names as chat_template, or the text of a template",
}


def _file(path: str) -> str:
    """Return the text of a file."""
    folder, _, name = path.rpartition("/")
    try:
        data = Folder(folder or ".").read_bytes(name, limit=_MAX_TEMPLATE_BYTES)
    except (OSError, NanotokError) as error:
        raise TemplateError(f"the chat template {path} cannot be read: {error}") from error
    return data.decode(errors="replace")
