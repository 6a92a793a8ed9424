"""Rendering of conversations and images with a tokenizer, and checks of arrays of ids."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeGuard

import numpy as np
from numpy.typing import NDArray

from nanotok_ray import chat as vision
from nanotok_ray.chat import (
    BatchRenderer,
    Composed,
    RenderedBatch,
    Segment,
    TemplateRenderer,
    compose,
    shape_fault,
)
from nanotok_ray.chat import conversation as chat
from nanotok_ray.dialects import Dialect, reason_of
from nanotok_ray.documents import Documents, as_documents
from nanotok_ray.errors import ConversationError, NanotokError, TokenizerError
from nanotok_ray.formats import REFUSE, TemplateSettings
from nanotok_ray.recipe import AUTO, IMAGE_TOKENS, image_token_of
from nanotok_ray.tokenizer.applied import AppliedTemplate
from nanotok_ray.tokenizer.chat_template import Form, is_batch_of_conversations, without_nulls
from nanotok_ray.tokenizer.file_model import FileModel
from nanotok_ray.tokenizer.model import Model
from nanotok_ray.tokenizer.templates import settings_for_call, template_settings

NANOCHAT_MAX_TOKENS = 2048
"""The length to which nanochat truncates a conversation by default; jobs do not truncate."""

_GREEN, _RED, _GRAY, _RESET = "\x1b[92m", "\x1b[91m", "\x1b[90m", "\x1b[0m"

_UNSUPPORTED = (
    "padding",
    "return_tensors",
    "sanitize_control_tokens",
    "tokenizer_kwargs",
)
"""Arguments of `apply_chat_template` of transformers that are not variables of the template."""

ImageTokenCounts = Sequence[int] | None
"""Number of tokens of each image; None: one for each image."""

Positions = list[tuple[int, int]]
"""Start and end of each image in the ids."""


class Rendering(ABC):
    """The methods of a tokenizer that render conversations and images."""

    model: Model | FileModel

    @property
    @abstractmethod
    def special_tokens(self) -> dict[str, int]:
        """Id of each special token by name."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Return the ids of a text."""

    @abstractmethod
    def encode_special(self, text: str) -> int:
        """Return the id of a special token."""

    @abstractmethod
    def batch_renderer(self, dialect: Dialect) -> BatchRenderer:
        """Return a renderer of batches of documents."""

    @abstractmethod
    def template_renderer(
        self, settings: TemplateSettings, dialect: Dialect, *, special_text: str = REFUSE
    ) -> TemplateRenderer:
        """Return a renderer of batches of conversations with a chat template."""

    @abstractmethod
    def encode_recognized(
        self, documents: Documents, *, before: Sequence[int] = (), after: Sequence[int] = ()
    ) -> tuple["Ids", "Offsets"]:
        """Return the ids of texts that spell special tokens."""

    @abstractmethod
    def recognized_with_offsets(
        self, text: str, *, between: str = ""
    ) -> tuple[list[int], Sequence[tuple[int, int]]]:
        """Return the ids of a text that spells special tokens, and their positions."""

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids."""

    def render_conversation(
        self, conversation: chat.Conversation, max_tokens: int | None = NANOCHAT_MAX_TOKENS
    ) -> tuple[list[int], list[int]]:
        """Return the ids of a conversation and their mask: 1 for ids that the assistant learns.

        Args:
            conversation: {"messages": [{"role": ..., "content": ...}, ...]}.
            max_tokens: the number of ids to which the result is truncated, without a warning, as
                in nanochat; the default is 2,048. None does not truncate, like jobs and
                `render_batch`.

        Raises:
            ConversationError: The conversation does not have this shape.
            AssertionError, ValueError: A role or a content is invalid; the message names it.
            UnknownTokenError: The tokenizer lacks a special token of conversations.
        """
        with _conversation_errors(conversation):
            return chat.render(
                self.encode, self.encode_special, conversation, max_tokens=max_tokens
            )

    def render_for_completion(self, conversation: chat.Conversation) -> list[int]:
        """Return the ids of a prompt for the last message, which must be the assistant's.

        As in nanochat, a longer conversation is truncated to 2,048 ids before the special token
        that begins the answer is appended; `apply_chat_template` does not truncate.

        Raises:
            ConversationError, AssertionError, ValueError, UnknownTokenError: As for
                `render_conversation`.
        """
        with _conversation_errors(conversation):
            return chat.render_for_completion(
                self.encode, self.encode_special, conversation, max_tokens=NANOCHAT_MAX_TOKENS
            )

    def apply_chat_template(
        self,
        conversation: Sequence[Any] | chat.Conversation,
        *,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        chat_template: str | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool | str = False,
        tokenize: bool = True,
        truncation: bool = False,
        max_length: int | None = None,
        return_dict: bool = True,
        return_assistant_tokens_mask: bool = False,
        **variables: object,
    ) -> Any:  # noqa: ANN401 - as Hugging Face's: text, ids or a dict of lists
        """Render messages with the signature and the results of Hugging Face's method.

        The text and the ids are those of transformers: names of special tokens in a message become
        these tokens. The mask does not need generation blocks in the template; it is that of a job
        that trains on all turns of the assistant.

        Without `chat_template`, a tokenizer with the special tokens of nanochat, or without a
        template, renders as `render_conversation` does, without truncation; the template in
        tokenizer_config.json describes the same rules. Text then never becomes a special token, and
        each part of an answer is encoded on its own, whereas Hugging Face encodes the joined text.

        Args:
            conversation: a list of messages, {"messages": [...]}, or a list of these.
            tools: the JSON schemas of functions, for the template.
            documents: documents for the template.
            chat_template: the text of a template, or the name of one of the tokenizer's; None: that
                of the tokenizer.
            add_generation_prompt: append what begins the assistant's answer.
            continue_final_message: omit what follows the last message; a string names the field of
                the message that the text ends with.
            tokenize: return ids; False: return the text, with special tokens by name.
            truncation: truncate to `max_length` ids.
            max_length: the limit of ids for `truncation`.
            return_dict: return {"input_ids", "attention_mask"} instead of only the ids, like
                transformers 5.
            return_assistant_tokens_mask: also return "assistant_masks": 1 for ids that the
                assistant learns.
            variables: variables of the template. Other arguments of Hugging Face must be None or
                False, and so must variables, tools and documents if nanochat's rendering is used.

        >>> from nanotok_ray.tokenizer import Tokenizer
        >>> tokenizer = Tokenizer.train_from_iterator([], vocab_size=265)
        >>> messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        >>> tokenizer.apply_chat_template(messages, tokenize=False)
        '<|bos|><|user_start|>a<|user_end|><|assistant_start|>b<|assistant_end|>'
        >>> tokenizer.apply_chat_template(messages, return_assistant_tokens_mask=True)
        {'input_ids': [256, 257, 97, 258, 259, 98, 260], 'attention_mask': [1, 1, 1, 1, 1, 1, 1],
        'assistant_masks': [0, 0, 0, 0, 0, 1, 1]}

        >>> template = "{% for one in messages %}{{ one.role[0] }}>{{ one.content }};{% endfor %}"
        >>> template += "{% if add_generation_prompt %}a>{% endif %}"
        >>> tokenizer.apply_chat_template(
        ...     messages, chat_template=template, return_assistant_tokens_mask=True
        ... )
        {'input_ids': [117, 62, 97, 59, 97, 62, 98, 59], 'attention_mask': [1, 1, 1, 1, 1, 1, 1, 1],
        'assistant_masks': [0, 0, 0, 0, 0, 0, 1, 1]}

        Raises:
            TemplateError: There is no such template, it cannot be compiled, or the tokenizer does
                not recognize special tokens in a text.
            TokenizerError: An argument is not supported, or contradicts another; or the mask is
                asked for, and the tokenizer changes the text so that its ids have no positions.
            ConversationError: The template refuses the conversation, or the turns of the assistant
                cannot be located in its text.
            AssertionError, ValueError, UnknownTokenError: As for `render_conversation`.
        """
        form = Form(
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            tokenize=tokenize,
            max_length=max_length if truncation else None,
            return_dict=return_dict and tokenize,
            return_assistant_tokens_mask=return_assistant_tokens_mask,
        )
        settings = settings_for_call(self.model, chat_template, has_tools=tools is not None)
        if settings is None:
            unsupported = {"tools": tools, "documents": documents, **variables}
            form.check(unsupported, why="; conversations are rendered with nanochat's template")
            render = partial(self._as_nanochat, form=form)
        else:
            form.check({name: variables.pop(name, None) for name in _UNSUPPORTED})
            variables |= {} if documents is None else {"documents": documents}
            template = AppliedTemplate(settings, form, tools=tools, variables=variables)
            render = partial(template.result, self)
        if is_batch_of_conversations(conversation):
            return form.joined([*map(render, conversation)])
        return render(conversation)

    def _as_nanochat(
        self, conversation: Sequence[Any] | chat.Conversation, form: Form
    ) -> dict[str, list[int]] | list[int] | str:
        document = conversation if isinstance(conversation, Mapping) else {"messages": conversation}
        if isinstance(conversation, Sequence):
            document = {"messages": without_nulls(conversation)}
        ids, mask = self.render_conversation(document, max_tokens=None)
        role = document["messages"][-1]["role"]
        if form.add_generation_prompt:
            if role == "assistant":
                raise ConversationError(
                    "add_generation_prompt: the last message must be from the user to ask for the "
                    "assistant"
                )
            ids, mask = [*ids, self.encode_special("<|assistant_start|>")], [*mask, 0]
        if form.continue_final_message:
            if role != "assistant":
                raise ConversationError(
                    f"continue_final_message: the last message is from {role!r}, not the assistant"
                )
            ids, mask = ids[:-1], mask[:-1]
        return form.result(ids, mask, decode=self.decode)

    def render_batch(
        self,
        documents: Sequence[str] | Sequence[bytes] | Documents,
        dialect: Dialect | str = "messages",
        *,
        template: TemplateSettings | str = AUTO,
        special_text: str = REFUSE,
        num_threads: int = 1,
    ) -> RenderedBatch:
        """Render many documents: ids, mask, offsets, images, and the problems of documents.

        The result is that of a job, and is not truncated.

        Args:
            documents: JSON, like the lines of a file of conversations.
            dialect: the name of a dialect of conversations, or a `Dialect` with its options.
            template: how conversations are rendered, as in a recipe: "auto", "nanochat", the path
                of a chat template that ends with ".jinja", or the name of one of the tokenizer's;
                or the result of `template_settings`, with all that a recipe says of a template.
            special_text: for a template, what names of special tokens in a message do, as in a
                recipe: "refuse", "text" or "recognise".
            num_threads: the maximum number of threads.

        >>> from nanotok_ray.tokenizer import Tokenizer
        >>> tokenizer = Tokenizer.train_from_iterator([], vocab_size=265)
        >>> batch = tokenizer.render_batch(['[{"role": "user", "content": "hi"}]', "[]"])
        >>> batch.ids.tolist(), batch.offsets.tolist(), batch.problems
        ([256, 257, 104, 105, 258], [0, 5, 5], {1: 'the conversation has no messages'})

        With the template of the tokenizer, the tools of a row, and the loss on its last turn:
        `render_batch(lines, template=template_settings(tokenizer.model, tools="tools",
        train_on="last"))`.

        Raises:
            TokenizerError: The dialect is unknown.
            TemplateError: There is no such template, or it cannot be used: see `template_settings`.
            TypeError: A document is neither str nor bytes, or not of the type of the first one.
        """
        if isinstance(dialect, str):
            dialect = Dialect(kind="chat", name=dialect)
        first: object = documents[0] if len(documents) else None
        if isinstance(first, dict | list):
            name = type(first).__name__
            raise TypeError(f"a document is JSON as str or bytes, got a {name}: use json.dumps")
        return self._renderer(dialect, template, special_text).render(
            as_documents(documents), num_threads=num_threads
        )

    def _renderer(
        self, dialect: Dialect, template: TemplateSettings | str, special_text: str
    ) -> BatchRenderer | TemplateRenderer:
        """Return the renderer of a job for documents of a dialect."""
        if dialect.kind != "chat":
            return self.batch_renderer(dialect)
        if isinstance(template, str):
            settings = template_settings(self.model, template, tools=dialect.tools)
        else:
            settings = template
        if settings is None:
            return self.batch_renderer(dialect)
        own = dialect if settings.tools is None else replace(dialect, tools=settings.tools)
        return self.template_renderer(settings, own, special_text=special_text)

    def render_vision_pretraining(
        self,
        text: str,
        max_tokens: int | None = NANOCHAT_MAX_TOKENS,
        image_token_counts: ImageTokenCounts = None,
        *,
        grounding: bool = False,
    ) -> tuple[list[int], Positions]:
        """Return the ids of a text in which each `<image>` is an image, and the images' positions.

        `<|assistant_end|>` at the very end is the special token; other names of special tokens
        stay text, except those of `grounding`. All ids but those of the images are learned.

        Raises:
            ValueError: The counts do not match the images, an image would be truncated, or a
                special token is missing.
            TypeError: `image_token_counts` is not a list.
        """
        _check_texts(text)
        images = self._image_settings(image_token_counts, grounding=grounding)
        composed = self._composed(vision.text_segments(text, images), max_tokens)
        return composed.ids, composed.images

    def render_vision(
        self,
        prompt: str,
        response: str,
        max_tokens: int | None = NANOCHAT_MAX_TOKENS,
        image_token_counts: ImageTokenCounts = None,
        *,
        grounding: bool = False,
        train_prompt: bool = True,
    ) -> tuple[list[int], list[int], Positions]:
        """Return the ids of a question about images with its answer, their mask, and the images.

        An `<image>` in the response is text. The mask is 0 for images, and for the prompt unless
        `train_prompt` is set.

        Raises:
            ValueError: The counts do not match the images, an image would be truncated, or a
                special token is missing.
            TypeError: `image_token_counts` is not a list.
        """
        _check_texts(prompt, response)
        images = self._image_settings(image_token_counts, grounding=grounding)
        segments = vision.prompt_segments(prompt, response, images, train_prompt=train_prompt)
        composed = self._composed(segments, max_tokens)
        return composed.ids, composed.mask, composed.images

    def render_vision_conversation(
        self,
        conversation: chat.Conversation,
        max_tokens: int | None = NANOCHAT_MAX_TOKENS,
        image_token_counts: ImageTokenCounts | int = None,
        *,
        grounding: bool = False,
    ) -> tuple[list[int], list[int], Positions]:
        """Render as `render_conversation` does, with an image for each `<image>` of the user.

        An int for `image_token_counts` is the number of tokens of every image.

        Raises:
            ConversationError, AssertionError, ValueError: The conversation is malformed; or as for
                `render_vision`.
        """
        images = self._image_settings(image_token_counts, grounding=grounding)
        if isinstance(image_token_counts, int) and not isinstance(image_token_counts, bool):
            images = replace(images, counts=None, num_tokens=image_token_counts)
        with _conversation_errors(conversation):
            segments = vision.message_segments(conversation, images)
            composed = self._composed(segments, max_tokens)
        return composed.ids, composed.mask, composed.images

    def visualize_tokenization(
        self, ids: Sequence[int], mask: Sequence[int], with_token_id: bool = False
    ) -> str:
        """Return the text of ids for a terminal: green where the mask is 1, otherwise red."""
        parts = []
        for number, flag in zip(ids, mask, strict=False):
            color = _GREEN if flag == 1 else _RED
            parts.append(f"{color}{self.decode([number])}{_RESET}")
            if with_token_id:
                parts.append(f"{_GRAY}({number}){_RESET}")
        return "|".join(parts)

    def _composed(self, segments: Iterable[Segment], max_tokens: int | None) -> Composed:
        return vision.cut(compose(self.encode, self.encode_special, segments), max_tokens)

    def _image_settings(self, counts: object, *, grounding: bool) -> vision.ImageSettings:
        has = self.special_tokens
        image_token = image_token_of(has)
        lacking = [name for name in vision.GROUNDING if grounding and name not in has]
        if image_token is None or lacking:
            missing = f"no {lacking[0]}" if lacking else f"neither {' nor '.join(IMAGE_TOKENS)}"
            raise TokenizerError(
                f"the tokenizer has {missing}: add those of a preset, with "
                'tokenizer.extended(nanotok_ray.chat.PRESETS["seed"].special_tokens) or '
                "`nanotok tokenizer extend`"
            )
        names = vision.GROUNDING if grounding else ()
        return vision.ImageSettings(token=image_token, counts=counts, grounding=names)


@contextmanager
def _conversation_errors(conversation: object) -> Iterator[None]:
    """Replace the bare errors of a malformed conversation by one with a message.

    Raises:
        ConversationError: A KeyError, an IndexError or a TypeError was raised.
    """
    try:
        yield
    except NanotokError:
        raise
    except (LookupError, TypeError) as error:
        problem = shape_fault(conversation) or reason_of(error)
        if problem.startswith("IndexError"):
            problem = "a message is missing before the last"
        raise ConversationError(f"the conversation cannot be rendered: {problem}") from error


def _check_texts(*texts: object) -> None:
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"Invalid input type: {type(text)}")  # noqa: TRY004 - as `encode`


Ids = NDArray[np.uint16] | NDArray[np.uint32]
Offsets = NDArray[np.int64]

_ID_TYPES = (np.dtype(np.uint16), np.dtype(np.uint32))
_OFFSET_TYPES = (np.dtype(np.int64),)


def is_plain(ids: NDArray[Any]) -> TypeGuard[Ids]:
    """Return whether ids are a contiguous one-dimensional array of uint16 or uint32.

    >>> is_plain(np.array([7, 8], np.uint16)), is_plain(np.array([7, 8], np.int64))
    (True, False)
    """
    flags = ids.flags
    return ids.dtype in _ID_TYPES and ids.ndim == 1 and flags.c_contiguous and flags.aligned


def required(ids: Ids, offsets: Offsets) -> tuple[Ids, Offsets]:
    """Return both arrays in the memory layout that the core reads, copied only if necessary.

    >>> ids, offsets = required(np.arange(9, dtype=np.uint16)[::4], np.array([0, 3]))
    >>> ids.tolist(), is_plain(ids)
    ([0, 4, 8], True)

    Raises:
        TypeError: An argument is not a one-dimensional array of an accepted dtype; the message
            names its type.
    """
    _check(ids, "ids", _ID_TYPES)
    _check(offsets, "offsets", _OFFSET_TYPES)
    plain: tuple[Literal["C"], Literal["A"]] = ("C", "A")
    return np.require(ids, requirements=plain), np.require(offsets, requirements=plain)


def _check(array: object, name: str, types: Sequence[np.dtype[Any]]) -> None:
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype not in types:
        given = f"{array.ndim}-d {array.dtype}" if isinstance(array, np.ndarray) else type(array)
        wanted = " or ".join(map(str, types))
        raise TypeError(f"{name} must be a 1-d array of {wanted}, got {given}")
