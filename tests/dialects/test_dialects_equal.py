import json
import re

from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.chat import (
    conversation_of,
    expected_text,
    expected_trained_text,
    layout,
    message_texts,
    segments_of,
)
from nanotok_ray.dialects import parts_of
from tests.support.dialect_documents import (
    MESSAGES,
    PAIRS,
    SHAREGPT,
    assistant,
    call,
    document_of,
    output,
    user,
)
from tests.support.dialect_strategies import parts, texts


@st.composite
def alternating(draw, answers):
    """(system or None, a list of (question, answer), the last answer may be None)."""
    turns = draw(st.lists(st.tuples(texts, answers), min_size=1, max_size=3))
    if draw(st.booleans()):
        turns[-1] = (turns[-1][0], None)
    return draw(st.none() | texts), turns


def messages_of(system, turns):
    messages = [] if system is None else [{"role": "system", "content": system}]
    for question, answer in turns:
        messages.append(user(question))
        if answer is not None:
            messages.append(assistant(answer))
    return messages


@given(alternating(texts | parts))
def test_messages_without_tools_equal_the_chat_layout(talk):
    messages = messages_of(*talk)
    document = document_of(messages)
    expected = list(layout({"messages": messages}))
    assert segments_of(document, MESSAGES) == expected
    assert segments_of(document_of({"messages": messages, "x": None}), MESSAGES) == expected
    assert conversation_of(document, MESSAGES) == {"messages": messages}
    texts_of = [each.text for each in expected if not each.is_special]
    assert message_texts(document, MESSAGES) == texts_of
    assert expected_text(document, MESSAGES) == "".join(each.text for each in expected)
    trained = "".join(each.text for each in expected if each.mask)
    assert expected_trained_text(document, MESSAGES) == trained


@given(alternating(texts), st.booleans(), st.sampled_from(["human", "user"]), st.booleans())
def test_a_sharegpt_document_equals_its_conversation(talk, beside, speaker, is_gpt):
    system, turns = talk
    names = {"user": speaker, "assistant": "gpt" if is_gpt else "assistant", "system": "system"}
    beside = beside and bool(system)  # an empty field is not a system message, an empty turn is one
    reported = [
        {"from": names[message["role"]], "value": message["content"]}
        for message in messages_of(None if beside else system, turns)
    ]
    document = {"conversations": reported} | ({"system": system} if beside else {})
    expected = list(layout({"messages": messages_of(system, turns)}))
    assert segments_of(document_of(document), SHAREGPT) == expected


@given(texts, texts, texts | st.none(), st.sampled_from(["response", "completion"]))
def test_a_pair_equals_its_conversation(prompt, response, system, name):
    document = document_of({"prompt": prompt, name: response, "system": system})
    expected = messages_of(system or None, [(prompt, response)])
    assert conversation_of(document, PAIRS) == {"messages": expected}


@given(st.text(alphabet="<>=1a", max_size=30))
def test_answers_of_gsm8k_are_cut_by_the_pattern_of_upstream(answer):
    expected = []
    for piece in re.split(r"(<<[^>]+>>)", answer):
        if piece.startswith("<<") and piece.endswith(">>"):
            expression, *result = piece[2:-2].rsplit("=", 1)
            expected.append({"type": "python", "text": expression})
            expected.append({"type": "python_output", "text": "".join(result)})
        else:
            expected.append({"type": "text", "text": piece})
    assert parts_of(answer) == expected


def test_answers_of_gsm8k_are_cut_in_linear_time():
    hostile = "<" * 1_000_000  # nanochat's pattern scans the rest of it a million times
    assert parts_of(hostile) == [{"type": "text", "text": hostile}]
    call = {"type": "python", "text": hostile[2:]}
    assert parts_of(hostile + ">>")[1:2] == [call]


turns_with_calls = st.lists(
    st.tuples(texts, st.lists(st.tuples(texts, texts), min_size=1, max_size=3)),
    min_size=1,
    max_size=3,
)


def as_openai(turns, last, *, as_object):
    """Return one turn of the assistant, with its calls, as messages of OpenAI's format."""
    messages = []
    for number, (text, calls) in enumerate(turns):
        own = [call(code, f"c{number}.{place}") for place, (code, _) in enumerate(calls)]
        if as_object:
            for each in own:
                each["function"]["arguments"] = json.loads(each["function"]["arguments"])
        messages.append(assistant(text or None, tool_calls=own))
        messages += [output(out, f"c{number}.{place}") for place, (_, out) in enumerate(calls)]
    return messages if last is None else [*messages, assistant(last)]


def as_parts(turns, last):
    found = []
    for text, calls in turns:
        found += [{"type": "text", "text": text}] if text else []
        for code, out in calls:
            found.append({"type": "python", "text": code})
            found.append({"type": "python_output", "text": out})
    return found if last is None else [*found, {"type": "text", "text": last}]


@given(st.lists(turns_with_calls, min_size=1, max_size=2), st.none() | texts, st.booleans())
def test_tool_calls_equal_their_parts(rounds, last, as_object):
    openai, plain = [], []
    for turns in rounds:
        openai += [user("q"), *as_openai(turns, last, as_object=as_object)]
        plain += [user("q"), assistant(as_parts(turns, last))]
    given_back = segments_of(document_of({"messages": openai}), MESSAGES)
    assert given_back == list(layout({"messages": plain}))
