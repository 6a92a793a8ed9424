"""Documents of every dialect, written by hand and generated."""

import json

from hypothesis import strategies as st

from nanotok_ray.dialects import VISION_DIALECTS, Dialect
from nanotok_ray.recipe import GROUNDING, SPECIAL_TOKENS


def chat_dialect(name):
    return Dialect(kind="chat", name=name)


def vision(name, **more):
    return Dialect(kind="vision", name=name, **more)


MESSAGES = chat_dialect("messages")
SHAREGPT = chat_dialect("sharegpt")
GSM8K = chat_dialect("gsm8k")
PAIRS = chat_dialect("prompt-response")
ALPACA = chat_dialect("alpaca")
CUSTOMJSON = chat_dialect("customjson")

IMAGES = vision("messages", image_token="<|image|>")
IMAGE_PAIRS = vision("prompt-response", image_token="<|image|>")
IMAGE_TEXT = vision("text", image_token="<|image|>")
COUNTS = "image_token_counts"


def document_of(value):
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def spelled(segments):
    """One line for each segment: role, mask, text (special tokens in brackets), and repetitions."""
    return [
        f"{each.role} {each.mask} {f'[{each.text}]' if each.is_special else each.text}"
        + (f" x {each.count}" if each.count != 1 else "")
        for each in segments
    ]


def asked(*texts):
    said = [f"user 0 {text}" for text in texts]
    return ["user 0 [<|user_start|>]", *said, "user 0 [<|user_end|>]"]


def answered(*lines):
    return ["assistant 0 [<|assistant_start|>]", *lines, "assistant 1 [<|assistant_end|>]"]


def called(code, output):
    return [
        "python 1 [<|python_start|>]",
        f"python 1 {code}",
        "python 1 [<|python_end|>]",
        "python_output 0 [<|output_start|>]",
        f"python_output 0 {output}",
        "python_output 0 [<|output_end|>]",
    ]


def user(content, **more):
    return {"role": "user", "content": content, **more}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def call(code, name="a", **more):
    return {
        "id": name,
        "type": "function",
        "function": {"name": "python", "arguments": json.dumps({"code": code})},
        **more,
    }


def call_of(name="python", arguments='{"code": "1"}'):
    return {"id": "a", "function": {"name": name, "arguments": arguments}}


def output(content, name="a"):
    return {"role": "tool", "tool_call_id": name, "content": content}


PAIR = [user("hi"), assistant("yo")]


NAMES = [*SPECIAL_TOKENS, "<image>", "<|image|>", *GROUNDING, "<|ref|>1"]
"""Special tokens that documents can need, or spell."""

WORDS = ["hi", " the", "abab", "1+1", "<<1+1=2>>", "<<", ">>", "=", "\n\n", "é", "東京", "👋", "\0"]
WORDS += ['"', "\\", "\\n", "\u2028", "\x7f", "<image>", "<ima", "system", "#### 2", *NAMES]
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.lists(
    st.sampled_from(WORDS), max_size=6
).map("".join)
parts = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "python", "python_output"]), "text": texts},
        optional={"note": texts},
    ),
    max_size=4,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 2**40) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
KNOWN_KEYS = {
    "messages", "role", "content", "tool_calls", "tool_call_id", "function_call", "conversations",
    "from", "value", "system", "question", "answer", "prompt", "response", "completion", "text",
    "instruction", "input", "output", "history", "image_token_counts",
}  # fmt: skip
other_keys = st.sampled_from(["id", "row_id", "images", "reasoning_content", "thinking", "name"])
extras = st.dictionaries(
    other_keys | texts.filter(lambda key: key not in KNOWN_KEYS), json_values, max_size=2
)


@st.composite
def lines(draw, values):
    """The bytes of an object or an array, in one of JSON's spellings."""
    value = draw(values)
    if isinstance(value, dict) and draw(st.booleans()):
        value = draw(extras) | value
    text = json.dumps(
        value,
        ensure_ascii=draw(st.booleans()),
        separators=draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " :\r ")])),
    )
    return (draw(st.sampled_from(["", " ", "\t"])) + text).encode(errors="surrogatepass")


@st.composite
def talks(draw, answers=texts, questions=texts):
    """Alternating messages of user and assistant, with or without a system message."""
    messages = []
    for number in range(draw(st.integers(1, 5))):
        content = draw(answers if number % 2 else questions)
        messages.append((assistant if number % 2 else user)(content))
    if draw(st.booleans()):
        messages.insert(0, {"role": "system", "content": draw(texts)})
    return [{**message, **draw(extras)} for message in messages]


extras_of_calls = st.fixed_dictionaries({}, optional={"index": texts, "note": json_values})


@st.composite
def calling_talks(draw):
    """Messages with tool calls in OpenAI's format."""
    messages = []
    for _ in range(draw(st.integers(1, 2))):
        messages.append(user(draw(texts)))
        for _ in range(draw(st.integers(1, 2))):
            said = draw(st.none() | texts | parts)
            codes = draw(st.lists(texts, min_size=1, max_size=2))
            own = [
                call(code, f"c{number}", **draw(extras_of_calls))
                for number, code in enumerate(codes)
            ]
            if draw(st.booleans()):
                own = [call_of(arguments={"code": code}) | {"id": each["id"]}
                       for code, each in zip(codes, own, strict=True)]  # fmt: skip
            messages.append(assistant(said, tool_calls=own, **draw(extras)))
            messages += [output(draw(texts), each["id"]) | draw(extras) for each in own]
        if draw(st.booleans()):
            messages.append(assistant(draw(texts | parts)))
    return messages


def in_object(messages):
    return messages | messages.map(lambda value: {"messages": value})


@st.composite
def sharegpt(draw):
    names = {"user": ["human", "user"], "assistant": ["gpt", "assistant"], "system": ["system"]}
    turns = [
        {"from": draw(st.sampled_from(names[each["role"]])), "value": each["content"]}
        | draw(extras)
        for each in draw(talks())
    ]
    beside = turns[0]["from"] != "system" and draw(st.booleans())
    return {"conversations": turns} | ({"system": draw(texts)} if beside else {})


def fields(**values):
    return st.fixed_dictionaries(values)


ORDINARY = {
    MESSAGES: in_object(talks(texts | parts) | calling_talks()),
    CUSTOMJSON: talks().filter(lambda talk: len(talk) > 1 and talk[0]["role"] == "user"),
    SHAREGPT: sharegpt(),
    GSM8K: fields(question=texts, answer=texts),
    PAIRS: fields(prompt=texts, response=texts, system=texts | st.none())
    | fields(prompt=texts, completion=texts),
    ALPACA: st.fixed_dictionaries(
        {"instruction": texts, "output": texts},
        optional={
            "input": texts | st.none(),
            "system": texts | st.none(),
            "history": st.lists(st.tuples(texts, texts), max_size=2) | st.none(),
        },
    ),
}


@st.composite
def with_images(draw, dialect):
    """A document of a dialect with images, and matching counts."""
    if dialect.name == "messages":
        document = {"messages": draw(talks(texts | parts))}
        said = [each["content"] for each in document["messages"] if each["role"] != "assistant"]
        number = sum(text.count("<image>") for text in said)
    elif dialect.name == "text":
        document = {"text": draw(texts) + draw(st.sampled_from(["", "<|assistant_end|>"]))}
        number = document["text"].count("<image>")
    else:
        name = draw(st.sampled_from(["prompt", "text"]))
        document = {name: draw(texts), "response": draw(texts)}
        number = document[name].count("<image>")
    if draw(st.booleans()) or dialect.image_tokens:
        return document
    count = st.integers(1, 5)
    return document | {
        "image_token_counts": draw(st.lists(count, min_size=number, max_size=number) | st.none())
    }


VISION = [
    vision(name, image_token=token, image_tokens=tokens, grounding=grounding, train_prompt=train)
    for name in VISION_DIALECTS
    for token, tokens, grounding, train in [
        ("<image>", None, GROUNDING, True),
        ("<|image|>", 3, (), False),
        ("<|image|>", None, ("<|ref|>", "<|ref|>1", "<|/ref|>"), True),
    ]
]


EVERY = [*ORDINARY, *VISION]
broken_texts = texts | st.sampled_from(["\ud83d", "\udc4b", "a\ud800b"]) | json_values
broken_messages = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "role": st.sampled_from(["user", "assistant", "system", "tool", "nobody"])
            | json_values,
            "content": broken_texts | parts | st.lists(fields(type=texts, text=broken_texts)),
            "tool_calls": st.lists(st.builds(call, texts) | st.builds(call_of, texts, texts))
            | json_values,
            "tool_call_id": st.just("a") | json_values,
            "function_call": json_values,
        },
    )
    | json_values,
    max_size=4,
)
broken_objects = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(sorted(KNOWN_KEYS), broken_texts)
    | {
        "messages": broken_messages,
        "conversations": st.lists(
            fields(
                **{"from": st.sampled_from(["human", "gpt", "system", "tool"]) | json_values},
                value=broken_texts,
            )
        ),
        "history": st.lists(st.lists(broken_texts, max_size=3) | json_values, max_size=2)
        | json_values,
        "image_token_counts": st.lists(st.integers(-1, 2) | json_values, max_size=3) | json_values,
    },
)


@st.composite
def damaged(draw, ordinary):
    """A valid line in which some bytes are removed, changed or doubled."""
    line = draw(ordinary)
    start = draw(st.integers(0, len(line)))
    end = draw(st.integers(start, min(len(line), start + 9)))
    middle = draw(
        st.binary(max_size=2)
        | st.sampled_from(
            [b"\\ud83d", b"\\u0000", b"NaN", b"1e999", b'"role":1,', b"null", b"[", b"}"]
        )
        | st.just(2 * line[start:end])
    )
    return line[:start] + middle + line[end:]
