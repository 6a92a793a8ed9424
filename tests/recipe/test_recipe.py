"""Recipes: valid values, overrides, and messages of errors."""

import json
import pickle
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.errors import RecipeError
from nanotok_ray.recipe import (
    PRESETS,
    SPECIAL_TOKENS,
    LimitsRecipe,
    Recipe,
    SourceRecipe,
    build_recipe,
    load_recipe,
    parse_recipe,
    parse_size,
)

BOS_TWICE = "'<|bos|>', which tokenizer.special_tokens holds"
FIRST_TWO = "preset:seed, preset:nano"

SMALL = """
[[source]]
name = "web"
kind = "text"
paths = ["/data/web/*.parquet"]

[output]
path = "/data/out"
"""

FULL = """
[[source]]
name = "web.v1"
kind = "text"
paths = ["/data/web", "s3://bucket/more/*.jsonl.gz"]
format = "jsonl"
column = "content"
split = "share:0.01"
count = false
prepend = []
append = ["<end>"]

[[source]]
name = "chat"
kind = "chat"
paths = "/data/chat.jsonl"
split = "val"
count = true
weight = 2.5

[tokenizer]
vocab_size = 1_000
pattern = "[a-z]+|."
special_tokens = ["<|bos|>", "<end>"]
gaps = "error"
min_pair_count = 5
max_token_bytes = "1KiB"
min_count = 2
also = [260, "300"]

[output]
path = "gs://bucket/out/"
work = "/scratch"

[limits]
slice_bytes = "64MiB"
max_shard_tokens = "10_000"
max_tokens = 2048
doc_cap = 10_000
max_chars = 2e9
max_quarantined_share = 0
max_tails = 3
max_skipped_slices = 7
slice_deadline = 90

[learner]
memory = "32GiB"
cpus = 4
label = "ray.io/market-type=on-demand"
"""


def with_source(**keys: object) -> str:
    """Return a recipe of one source, with some keys set; None leaves a key out."""
    values = {"name": "web", "kind": "text", "paths": ["/data"]} | keys
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items() if value is not None]
    return "\n".join(["[[source]]", *lines, "[output]", 'path = "/out"'])


def check_refused(text: str, *parts: str, overrides: tuple[str, ...] = ()) -> None:
    """Check that a recipe is refused by a message with all parts."""
    with pytest.raises(RecipeError) as caught:
        parse_recipe(text, overrides=overrides)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("text", [SMALL, FULL], ids=["small", "full"])
def test_a_recipe_is_preserved_by_dict_json_and_pickle(text):
    recipe = parse_recipe(text)
    tables = json.loads(json.dumps(recipe.to_dict()))
    assert build_recipe(tables, environment={}) == recipe
    assert pickle.loads(pickle.dumps(recipe)) == recipe
    assert json.dumps(parse_recipe(text).to_dict()) == json.dumps(recipe.to_dict())


def test_a_recipe_without_output_or_sources_is_refused():
    check_refused('[output]\npath = "/out"', "no source", "[[source]]")
    check_refused("source = 3", "source is not a list of tables")
    check_refused('output = "x"', "is not a table", "[output]")
    check_refused(with_source().partition("[output]")[0], "output.path is missing")


@pytest.mark.parametrize(
    ("keys", "parts"),
    [
        ({"colum": "x"}, ["unknown key 'colum' in [source.web]", "'column'"]),
        ({"path": "x"}, ["unknown key 'path' in [source.web]", "'paths'"]),
        ({"Split": "x"}, ["unknown key 'Split' in [source.web]", "'split'"]),
        ({"zzz": "x"}, ["unknown key 'zzz' in [source.web]", "the keys are name, kind, paths"]),
        *(({"name": name}, [f"source.name = {name!r}"]) for name in ("a/b", "..", "a\nb", "")),
        ({"name": "x" * 101}, ["1 to 100"]),
        ({"name": 3}, ["source.name = 3 is not a string"]),
        ({"kind": "image"}, ["source.web.kind = 'image'", "'text', 'chat', 'vision'"]),
        ({"format": "csv"}, ["source.web.format = 'csv'", "'parquet'"]),
        ({"paths": []}, ["source.web.paths is empty"]),
        ({"paths": [""]}, ["source.web.paths is empty"]),
        ({"paths": [1]}, ["not a list of strings"]),
        ({"column": ""}, ["source.web.column is empty"]),
        ({"column": "text", "format": "lines"}, ["'lines' has no columns"]),
        ({"count": "yes"}, ["neither true nor false"]),
        ({"split": "test"}, ["source.web.split = 'test'", "share:0.01"]),
        *(({"split": f"share:{share}"}, [f"'share:{share}'"]) for share in ("0", "1", "nan", "")),
        ({"split": "part:0.1"}, ["'part:0.1'"]),
        ({"kind": "chat", "count": True, "append": ["<|bos|>"]}, ["source.web.append", "chat"]),
        ({"kind": "chat", "count": True, "column": "messages"}, ["source.web.column", "chat"]),
        ({"kind": "chat", "format": "lines"}, ["source.web.format", "jsonl", "parquet"]),
        ({"kind": "vision", "format": "document"}, ["source.web.format", "a vision source"]),
        ({"kind": "vision", "column": "text"}, ["source.web.column", "a vision source"]),
        ({"kind": "chat", "dialect": "text"}, ["source.web.dialect = 'text'", "'sharegpt'"]),
        ({"kind": "vision", "dialect": "gsm8k"}, ["source.web.dialect", "'prompt-response'"]),
        ({"dialect": "messages"}, ["source.web.dialect = 'messages'", "text source", "remove it"]),
        ({"kind": "chat", "grounding": True}, ["source.web.grounding = True", "chat source"]),
        ({"train_prompt": False}, ["source.web.train_prompt = False", "text source"]),
        ({"kind": "chat", "image_token": "<image>"}, ["source.web.image_token", 'kind = "vision"']),
        ({"kind": "chat", "image_tokens": 3}, ["source.web.image_tokens = 3", "remove it"]),
        ({"kind": "vision", "image_token": ""}, ["source.web.image_token is empty"]),
        ({"kind": "vision", "image_token": "<|bos|>"}, ["'<|bos|>' already has", "<image>"]),
        ({"prepend": ["<s>"]}, ["source.web.prepend", "'<s>'", "<|output_end|>"]),
        ({"append": ["<s>"]}, ["source.web.append", "'<s>'"]),
        ({"count": False}, ["count = true", "tokenizer.path"]),
        ({"kind": "chat", "weight": "2"}, ["source.web.weight", "count = true"]),
        ({"paths": None}, ["source.web.paths is missing"]),
    ],
    ids=str,
)
def test_a_wrong_source_is_refused_by_key_and_value(keys, parts):
    check_refused(with_source(**keys), *parts)


@pytest.mark.parametrize(
    ("table", "parts"),
    [
        ("[tokenizer]\nvocab_size = 264", ["264", "256 bytes", "9 special tokens", "265"]),
        ('[tokenizer]\nvocab_size = "many"', ["tokenizer.vocab_size = 'many'", "whole number"]),
        ("[tokenizer]\nvocab_size = 300.5", ["300.5"]),
        ("[tokenizer]\nvocab_size = true", ["True"]),
        ('[tokenizer]\ngaps = "drop"', ["tokenizer.gaps = 'drop'", "'spans', 'error'"]),
        ("[tokenizer]\nalso = [40_000]", ["tokenizer.also holds 40000", "vocab_size = 32768"]),
        ("[tokenizer]\nalso = [8192, 300, 8192]", ["tokenizer.also holds 8192 twice"]),
        ("[tokenizer]\nalso = 264", ["tokenizer.also = 264", "265"]),
        ('[tokenizer]\nalso = ["many"]', ["tokenizer.also = 'many'", "whole number"]),
        ('[tokenizer]\nalso = 300\npath = "/t"', ["[300]", "'/t'", "Tokenizer.truncated"]),
        ('[tokenizer]\npattern = ""', ["tokenizer.pattern is empty"]),
        ('[tokenizer]\npath = ""', ["tokenizer.path is empty"]),
        ('[tokenizer]\nspecial_tokens = ["<|bos|>", "<|bos|>"]', ["'<|bos|>' twice"]),
        ('[tokenizer]\nspecial_tokens = ["<|bos|>", ""]', ["empty name"]),
        ('[tokenizer]\nextend = ["preset:sead"]', [f"'preset:sead'; the presets are {FIRST_TWO}"]),
        ('[tokenizer]\nextend = ["<a>", "<a>"]', ["tokenizer.extend holds '<a>' twice"]),
        ('[tokenizer]\nextend = [""]', ["tokenizer.extend holds an empty name"]),
        ('[tokenizer]\nextend = ["<image>", "preset:seed"]', ["extend holds '<image>' twice"]),
        ('[tokenizer]\nextend = ["<|bos|>"]', [f"extend holds {BOS_TWICE}"]),
        (
            '[tokenizer]\nextra_special_tokens = ["<|bos|>"]',
            [f"extra_special_tokens holds {BOS_TWICE}"],
        ),
        (
            '[tokenizer]\nextra_special_tokens = ["<a>"]\nextend = ["<a>"]',
            ["extend holds '<a>', which tokenizer.extra_special_tokens holds"],
        ),
        (
            '[tokenizer]\nvocab_size = 266\nextra_special_tokens = ["<a>", "<b>"]',
            ["no room for 256 bytes and 11 special tokens; use at least 267"],
        ),
        ("[tokenizer]\nspecial_tokens = []", ["source.web.prepend", "'<|bos|>'"]),
        ('[learner]\nmemory = "1GiB"\nlabel = "big"', ["learner.label = 'big'", "KEY=VALUE"]),
        ("[limits]\nmax_quarantined_share = 1.5", ["1.5", "0 to 1"]),
        ("[limits]\nmax_quarantined_share = nan", ["nan"]),
        ('[limits]\nmax_quarantined_share = "1%"', ["'1%' is not a number"]),
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_by_key_and_limit(table, parts):
    check_refused(SMALL + table, *parts)


def test_special_tokens_of_an_existing_tokenizer_are_not_validated():
    recipe = parse_recipe(
        with_source(prepend=["<s>"], count=False) + '\n[tokenizer]\npath = "/tokenizer"'
    )
    assert recipe.tokenizer.path == "/tokenizer"
    assert recipe.sources[0].prepend == ("<s>",)


@pytest.mark.parametrize(
    ("override", "read", "expected"),
    [
        ("output.path=/x", lambda r: r.output.path, "/x"),
        ("output.path = '/x y'", lambda r: r.output.path, "/x y"),
        ("limits.slice_bytes=1000", lambda r: r.limits.slice_bytes, 1000),
        ("limits.slice_bytes=1KiB", lambda r: r.limits.slice_bytes, 1024),
        ("limits.max_chars=none", lambda r: r.limits.max_chars, None),
        ("tokenizer.vocab_size=300", lambda r: r.tokenizer.vocab_size, 300),
        ("tokenizer.pattern=a=b", lambda r: r.tokenizer.pattern, "a=b"),
        ("tokenizer.pattern=a\n[b]", lambda r: r.tokenizer.pattern, "a\n[b]"),
        ("source.web.v1.paths=['/a', '/b']", lambda r: r.sources[0].paths, ("/a", "/b")),
        ("source.web.v1.paths=/a", lambda r: r.sources[0].paths, ("/a",)),
        ("source.web.v1.count=true", lambda r: r.sources[0].count, True),
        ("source.chat.split=train", lambda r: r.sources[1].split, "train"),
    ],
)
def test_an_override_sets_one_key(override, read, expected):
    base = FULL.replace("max_chars = 2e9", "max_chars = 7")
    recipe = parse_recipe(base, overrides=[override])
    assert read(recipe) == expected
    assert read(parse_recipe(base)) != expected
    overrides = ["limits.doc_cap=5", "limits.doc_cap=6"]  # of a table that the recipe lacks
    assert parse_recipe(SMALL, overrides=overrides).limits.doc_cap == 6


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("learner.label=a=b", ["learner.label", "learner.memory"]),
        ("learner.memory=5", ["learner.memory = 5"]),
        ("output.work=https://host/out", ["output.work = 'https://host/out' is a web server"]),
        ("output.path=~nobody-here/out", ["~nobody-here/out begins with ~", "no home folder"]),
        ("path=/x", ["TABLE.KEY=VALUE"]),
        ("=x", ["TABLE.KEY=VALUE"]),
        ("source.wen.split=train", ["names no source", "did you mean 'web'"]),
        ("source.qqqqqqq.split=train", ["names no source", "['web']"]),
        ("source.split=train", ["names no source"]),
        ("limits.slice_byte=3", ["unknown key 'slice_byte'", "'slice_bytes'"]),
    ],
)
def test_a_wrong_override_is_refused(override, parts):
    check_refused(SMALL, *parts, overrides=(override,))


def test_environment_variables_home_and_relative_paths_are_expanded(monkeypatch, tmp_path):
    monkeypatch.setenv("DATA", "/mnt/data")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("NOT_SET", raising=False)
    monkeypatch.chdir(tmp_path)
    text = with_source(
        paths=["${DATA}/a", "${NOT_SET:-/default}/b", "~/c", "d/../e", "s3://x/${NOT_SET:-}~"],
        column="$${DATA}",
    )
    source = parse_recipe(text).sources[0]
    expected = ("/mnt/data/a", "/default/b", "/home/me/c", f"{tmp_path}/e", "s3://x/~")
    assert source.paths == expected
    assert source.column == "${DATA}"
    recipe = parse_recipe(text, overrides=["output.path=${DATA}/out"])
    assert recipe.output.path == "/mnt/data/out"
    pattern = "a$|${1}|\\p{L}+$"
    recipe = parse_recipe(f"{SMALL}[tokenizer]\npattern = '''{pattern}'''")
    assert recipe.tokenizer.pattern == pattern


def test_errors_name_the_file_of_the_recipe(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(SMALL + "[limits]\nslice_bytes = 0")
    with pytest.raises(RecipeError, match=r"recipe\.toml: limits\.slice_bytes = 0 .*\(line 10\)$"):
        load_recipe(str(path))
    path.write_bytes(b"a = '\xff'")
    with pytest.raises(RecipeError, match=r"recipe\.toml is not UTF-8 at byte 5"):
        load_recipe(str(path))


@given(number=st.integers(0, 2**50), unit=st.sampled_from(["", "B", "KB", "MiB", "gib", "TB"]))
def test_a_size_is_its_number_times_its_unit(number, unit):
    factor = {"": 1, "B": 1, "KB": 10**3, "MiB": 2**20, "gib": 2**30, "TB": 10**12}[unit]
    assert parse_size(f"{number:_} {unit}", key="k") == number * factor
    assert parse_size(number, key="k") == number


@pytest.mark.parametrize(
    "value", ["", "MiB", "1XB", "-1", "0.3", "1__.5", "1 2", "1e999999999", "NaN", None, [1], 0.5]
)
def test_a_size_must_be_an_integer(value):
    with pytest.raises(RecipeError, match="whole number"):
        parse_size(value, key="limits.slice_bytes")


@given(value=st.text(max_size=20), key=st.sampled_from(["name", "split", "kind", "format"]))
def test_any_text_is_a_recipe_or_a_recipe_error(value, key):
    escaped = json.dumps(value).replace("\x7f", "\\u007f")
    text = with_source(**{key: None}).replace("[[source]]", f"[[source]]\n{key} = {escaped}")
    try:
        recipe = parse_recipe(text)
    except RecipeError:
        return
    expected = None if (key, value) == ("format", "none") else value  # since TOML has no null
    assert getattr(recipe.sources[0], key) == expected


def test_weights_are_decimals_and_shares():
    for weight in ("1", "0.000001", "1000000", "2.50", "share:1", "share:1.00"):
        assert parse_recipe(with_source(weight=weight)).sources[0].weight == weight
    for weight in ("0", "-1", "1e7", "1000001", "0.0000001", "x", "", "nan", "inf", True, ["1"]):
        check_refused(with_source(weight=weight), "source.web.weight")
    for weight in ("share:0", "share:1.1", "share:", "times:2"):
        check_refused(with_source(weight=weight), "source.web.weight")


SHARES = f"""{with_source(weight="share:0.25")}
[[source]]
name = "code"
kind = "text"
paths = ["/code"]
weight = "share:0.75"
"""


def test_shares_of_all_counted_sources_sum_to_1():
    parse_recipe(SHARES)
    alone = ["source.web.count=false", "source.web.weight=1", "source.code.weight=share:1.0"]
    parse_recipe(SHARES, overrides=alone)
    check_refused(SHARES, "add up to 0.85", overrides=("source.code.weight=share:0.6",))
    check_refused(
        SHARES, "source.code.weight = '2'", "or none", overrides=("source.code.weight=2",)
    )


def test_a_preset_expands_to_its_tokens():
    seed = PRESETS["seed"].special_tokens
    extend = 'tokenizer.extend=["<a>", "preset:seed", "<b>"]'
    extra = "tokenizer.extra_special_tokens=preset:nano-deepseek-ocr"
    own = parse_recipe(SMALL, overrides=[extend, extra]).tokenizer
    assert own.extend == ("<a>", *seed, "<b>")
    assert own.learned_special_tokens == (*SPECIAL_TOKENS, "<|image|>")
    recipe = parse_recipe(SMALL, overrides=['tokenizer.extend=["preset:seed"]'])
    assert recipe.to_dict()["tokenizer"]["extend"] == list(seed)
    assert build_recipe(recipe.to_dict(), environment={}) == recipe


@pytest.mark.parametrize("key", ["extend", "extra_special_tokens"])
def test_added_tokens_may_surround_documents(key):
    text = SMALL.replace('kind = "text"', 'kind = "text"\nappend = ["<a>"]')
    check_refused(text, "source.web.append has '<a>'")
    assert parse_recipe(text, overrides=[f'tokenizer.{key}=["<a>"]']).sources[0].append == ("<a>",)


def test_over_max_tokens_requires_max_tokens():
    limits = parse_recipe(SMALL).limits
    assert (limits.too_long, limits.untrainable) == ("keep", "keep")
    drop = "limits.too_long=drop"
    check_refused(SMALL, "too_long = 'drop'", "max_tokens = 2048", overrides=(drop,))
    with_limit = (drop, "limits.max_tokens=9")
    assert parse_recipe(SMALL, overrides=with_limit).limits.too_long == "drop"
    check_refused(SMALL, "'keep', 'cut', 'drop'", overrides=("limits.too_long=shorten",))
    check_refused(SMALL, "limits.untrainable = 'cut'", overrides=("limits.untrainable=cut",))


WRONG = """
[[source]]
name = "web"
kind = "txt"
paths = ["${NOT_SET}/web"]
spilt = "train"

[[source]]
name = "web"
kind = "chat"
paths = ["/chats"]
prepend = ["<s>"]

[[source]]
name = "code"
kind = "text"
paths = ["/code"]
append = ["<|bo|>"]

[[source]]
kind = "text"
paths = 3

[output]
path = "http://host/out"

[limits]
slice_bytes = 0
too_long = "drop"
max_tails = 3

[learner]
cpus = 2
"""


def test_all_problems_of_a_recipe_are_reported_in_the_order_of_the_file(monkeypatch):
    monkeypatch.delenv("NOT_SET", raising=False)
    overrides = ["limits.max_tails=-1", "tokeniser.vocab_size=300"]
    with pytest.raises(RecipeError) as caught:
        parse_recipe(WRONG, overrides=overrides, name="recipe.toml")
    head, *lines = str(caught.value).splitlines()
    expected = [
        ("source.web.kind = 'txt'", "did you mean 'text'? (line 4)"),
        ("source.web.paths = '${NOT_SET}/web'", "variable NOT_SET", "give a default", "(line 5)"),
        ("unknown key 'spilt' in [source.web]", "did you mean 'split'? (line 6)"),
        ("source.name holds 'web' twice", "(line 9)"),
        ("source.web.prepend = ['<s>']", "chat source", "remove it (line 12)"),
        ("source.code.append has '<|bo|>'", "did you mean '<|bos|>'?", "(line 18)"),
        ("source[3].name is missing; add a line name = ... (line 20)",),
        ("source[3].paths = 3 is not a list of strings", "(line 22)"),
        ("output.path = 'http://host/out' is a web server", "(line 25)"),
        ("limits.slice_bytes = 0 is outside 1 to 1125899906842624", "(line 28)"),
        ("limits.too_long = 'drop', but limits.max_tokens", "(line 29)"),
        ("learner.cpus = 2", "learner.memory", "(line 33)"),
        ("limits.max_tails = -1 is outside 0 to", "(--set)"),
        ("unknown key 'tokeniser' at the top level", "'tokenizer'", "(--set)"),
    ]
    assert head == f"recipe.toml: {len(expected)} problems"
    for line, parts in zip(lines, expected, strict=True):
        assert line.startswith(f"  {parts[0]}")
        assert all(part in line for part in parts)


def test_consequences_of_another_problem_are_not_reported():
    for text in (
        with_source(kind="txt", column="body", dialect="messages"),
        SHARES.replace('"share:0.25"', '"share:2"'),  # the sum of the shares is unknown
        SMALL + '[limits]\nmax_tokens = 0\ntoo_long = "drop"',
        SMALL + '[learner]\nmemory = "big"\ncpus = 2',
    ):
        with pytest.raises(RecipeError) as caught:
            parse_recipe(text)
        assert "\n" not in str(caught.value)


def test_a_recipe_can_be_created_in_python_from_tables_and_dictionaries():
    made = Recipe(
        sources=[
            SourceRecipe(name="web", kind="text", paths=["web/*.parquet"]),
            {"name": "chat", "kind": "chat", "paths": "/chats", "count": True},
        ],
        output={"path": "out"},
        tokenizer={"vocab_size": "10_000"},
        limits=LimitsRecipe(slice_bytes="1MiB"),
    )
    assert [source.paths for source in made.sources] == [("web/*.parquet",), ("/chats",)]
    assert made.sources[1].split == "train"
    assert (made.output.work, made.tokenizer.vocab_size) == ("out/work", 10_000)
    assert made.limits.slice_bytes == 1 << 20
    assert {made: 1}[Recipe(**{name: getattr(made, name) for name in type(made).model_fields})]


def test_mistakes_in_python_are_recipe_errors():
    with pytest.raises(RecipeError) as caught:
        Recipe(
            sources=[{"name": "web", "kin": "text", "paths": "x"}, 3],
            tokenizer={"vocab_size": 1},
            limit={},
        )
    size = "1 has no room for 256 bytes and 9 special tokens; use at least 265"
    assert str(caught.value).splitlines() == [
        "6 problems",
        "  source.web.kind is missing; add a line kind = ...",
        "  unknown key 'kin' in [source.web]; did you mean 'kind'?",
        "  source is not a list of tables; begin each source with [[source]]",
        f"  tokenizer.vocab_size = {size}",
        "  output is missing; add [output]",
        "  unknown key 'limit' at the top level; did you mean 'limits'?",
    ]
    with pytest.raises(RecipeError, match=r"^limits\.doc_cap = 0 is outside 1 to"):
        LimitsRecipe(doc_cap=0)
    with pytest.raises(RecipeError, match=r"^source\.web\.split = 'vla' .*did you mean 'val'\?"):
        SourceRecipe(name="web", kind="text", paths=("x",), split="vla")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


@given(data=st.data())
def test_any_tables_are_a_recipe_or_a_recipe_error(data):
    tables = parse_recipe(FULL).to_dict()
    names = [*tables, "sources", "text"]
    for _ in range(data.draw(st.integers(1, 4))):
        table = data.draw(st.sampled_from([tables, *tables["source"], tables["limits"]]))
        key = data.draw(st.sampled_from([*table, *names, "split"]))
        if table is tables and key in {"source", "limits"}:
            continue
        table[key] = data.draw(VALUES)
    tables["source"] = data.draw(st.sampled_from([tables["source"], {}, 3, [3]]))
    with suppress(RecipeError):
        assert build_recipe(tables, environment={}).sources
