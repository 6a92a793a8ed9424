"""The arguments and the result of Hugging Face's `apply_chat_template`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nanotok_ray.errors import ConversationError, TokenizerError

Result = dict[str, list[int]] | list[int] | str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChatTemplate:
    """What is asked for."""

    add_generation_prompt: bool
    continue_final_message: bool
    tokenize: bool
    max_length: int | None
    return_dict: bool
    return_assistant_tokens_mask: bool

    def check(self, unsupported: Mapping[str, object]) -> None:
        """Refuse what is not supported, or does not go together.

        Raises:
            TokenizerError: Which argument it is.
        """
        for name, value in unsupported.items():
            if value is not None and value is not False:
                raise TokenizerError(
                    f"apply_chat_template: {name} is not supported; conversations are rendered "
                    "with nanochat's template"
                )
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
        """Return one conversation as it is asked for."""
        if not self.tokenize:
            return decode(ids)
        ids, mask = ids[: self.max_length], mask[: self.max_length]
        if not self.return_dict:
            return ids
        found = {"input_ids": ids, "attention_mask": [1] * len(ids)}
        return found | ({"assistant_masks": mask} if self.return_assistant_tokens_mask else {})

    def joined(self, results: Sequence[Any]) -> Any:  # noqa: ANN401 - lists of any of the results
        """Return several conversations as it is asked for: of dictionaries one with lists."""
        if not self.return_dict:
            return list(results)
        return {name: [result[name] for result in results] for name in results[0]}


def is_batch_of_conversations(conversation: object) -> bool:
    """Return whether it is a list of conversations and not one.

    Raises:
        ConversationError: It is an empty list.
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
