"""The arguments and the result of Hugging Face's `apply_chat_template`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nanotok_ray.errors import ConversationError, TokenizerError

Result = dict[str, list[int]] | list[int] | str


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """The arguments of a call of `apply_chat_template`."""

    add_generation_prompt: bool
    continue_final_message: bool | str
    tokenize: bool
    max_length: int | None
    return_dict: bool
    return_assistant_tokens_mask: bool

    def check(self, unsupported: Mapping[str, object], *, why: str = "") -> None:
        """Check that every argument is supported and that the arguments can be combined.

        Raises:
            TokenizerError: An argument is not supported, for the reason `why`, or contradicts
                another; the message names it.
        """
        for name, value in unsupported.items():
            if value is not None and value is not False:
                raise TokenizerError(f"apply_chat_template: {name} is not supported{why}")
        if self.return_assistant_tokens_mask and not self.return_dict:
            raise TokenizerError(
                "return_assistant_tokens_mask needs return_dict=True and tokenize=True"
            )
        if self.continue_final_message and self.add_generation_prompt:
            raise TokenizerError(
                "continue_final_message and add_generation_prompt exclude each other"
            )

    def result(
        self, ids: list[int], mask: list[int], *, decode: Callable[[list[int]], str]
    ) -> Result:
        """Return one conversation in the form that the arguments ask for."""
        return self.encoding(ids, mask) if self.tokenize else decode(ids)

    def encoding(self, ids: list[int], mask: list[int]) -> Result:
        """Return the ids and the mask of one conversation in the form that is asked for."""
        ids, mask = ids[: self.max_length], mask[: self.max_length]
        if not self.return_dict:
            return ids
        encoding = {"input_ids": ids, "attention_mask": [1] * len(ids)}
        return encoding | ({"assistant_masks": mask} if self.return_assistant_tokens_mask else {})

    def joined(self, results: Sequence[Any]) -> Any:  # noqa: ANN401 - lists of any of the results
        """Return several conversations together; dictionaries become one dictionary of lists."""
        if not self.return_dict:
            return list(results)
        return {name: [result[name] for result in results] for name in results[0]}


def is_batch_of_conversations(conversation: object) -> bool:
    """Return whether the argument is a list of conversations rather than one conversation.

    Raises:
        ConversationError: The list is empty.
    """
    if not isinstance(conversation, Sequence) or isinstance(conversation, str):
        return False
    if not conversation:
        raise ConversationError("the conversation has no messages")
    first = conversation[0]
    return (isinstance(first, Sequence) and not isinstance(first, str)) or (
        isinstance(first, Mapping) and "messages" in first
    )


def without_nulls(messages: Sequence[Any]) -> list[Any]:
    """Return messages without keys whose value is None, as Hugging Face drops them."""
    return [
        {key: value for key, value in message.items() if value is not None}
        if isinstance(message, Mapping)
        else message
        for message in messages
    ]
