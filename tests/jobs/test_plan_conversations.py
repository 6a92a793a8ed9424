"""The first conversations of each source in the plan of a job, and what is refused there."""

import json

import pytest

from nanotok_ray.errors import NanotokError, RecipeError
from nanotok_ray.job.planning import plan_job
from nanotok_ray.recipe import parse_recipe
from tests.support.chat_templates import AT_END, BLOCKS, CHATML, byte_tokenizer

STARTED = "<|im_start|>" + AT_END.replace("</s>", "")
USER = {"role": "user", "content": "the question"}
ANSWER = {"role": "assistant", "content": "the answer"}


def plan_of(folder, rows, *, template=CHATML, keys="", end=""):
    """Return the plan of a job over conversations, and `end` after them."""
    (folder / "tokenizer").mkdir(exist_ok=True)
    (folder / "tokenizer/tokenizer.json").write_text(byte_tokenizer())
    (folder / "tokenizer/chat_template.jinja").write_text(template)
    (folder / "chats.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows) + end)
    recipe = f"""
        [[source]]
        name = "chats"
        kind = "chat"
        paths = ["{folder}/chats.jsonl"]
        {keys}
        [tokenizer]
        path = "{folder}/tokenizer"
        [output]
        path = "{folder}/out"
    """
    return plan_job(parse_recipe(recipe), rate=1.0)


def test_the_plan_shows_a_conversation_and_what_is_trained_on(tmp_path):
    plan = plan_of(tmp_path, [[USER, ANSWER]] * 3)
    (sample,) = plan.values["conversations"]
    assert (sample["documents"], sample["refused"]) == (3, 0)
    assert 0 < sample["trained"] < sample["tokens"]
    trained = [passage["text"] for passage in sample["passages"] if passage["trained"]]
    assert trained == ["the answer<|im_end|>\n"]
    assert "[[the answer<|im_end|>" in plan.text()


def test_the_first_conversations_may_have_no_answer(tmp_path):
    (sample,) = plan_of(tmp_path, [*[[USER]] * 130, [USER, ANSWER]]).values["conversations"]
    assert sample["trained"] > 0


def test_conversations_that_are_refused_are_in_a_note(tmp_path):
    plan = plan_of(tmp_path, [[USER, ANSWER], [{"role": "user", "content": "<|im_end|>"}]])
    assert any("1 of the first 2 conversations" in note for note in plan.notes)
    assert any("special token in a message" in note for note in plan.notes)


@pytest.mark.parametrize("keys", ["", 'id_column = "id"'])
def test_rows_that_are_not_json_are_in_a_note(keys, tmp_path):
    rows = [{"id": "a", "messages": [USER, ANSWER]}] * 2
    notes = plan_of(tmp_path, rows, keys=keys, end='{"id": "b", "mess\n').notes
    assert any("1 " in note and "invalid JSON" in note for note in notes)


def test_a_long_question_does_not_hide_what_is_trained_on(tmp_path):
    question = {"role": "user", "content": "long " * 1000}
    assert "[[the answer<|im_end|>" in plan_of(tmp_path, [[question, ANSWER]]).text()


def test_tools_that_are_not_rendered_are_in_a_note(tmp_path):
    rows = [{"messages": [USER, ANSWER], "tools": [{"name": "find"}]}]
    assert any("set tools" in note for note in plan_of(tmp_path, rows).notes)
    assert not any("set tools" in n for n in plan_of(tmp_path, rows, keys='tools = "tools"').notes)


def test_a_stop_token_that_is_not_trained_on_is_in_a_note(tmp_path):
    without = BLOCKS.replace(
        "{{ message.content + '<|im_end|>' }}{% endgeneration %}",
        "{{ message.content }}{% endgeneration %}{{- '<|im_end|>' }}",
    )
    notes = {
        name: plan_of(tmp_path, [[USER, ANSWER]], template=name).notes for name in (BLOCKS, without)
    }
    assert not any("learn to stop" in note for note in notes[BLOCKS])
    assert any("learn to stop" in note for note in notes[without])


def test_the_end_of_a_conversation_needs_no_stop_token(tmp_path):
    rows = [[USER, ANSWER]] * 2  # the second one begins with a special token
    assert not any("learn to stop" in n for n in plan_of(tmp_path, rows, template=STARTED).notes)


@pytest.mark.parametrize(
    ("rows", "keys", "template", "reason"),
    [
        ([[USER, ANSWER, USER, ANSWER]] * 2, "", AT_END, "cannot be located"),
        ([[USER]] * 2, "", CHATML, "no token"),
        ([{"messages": ["x"]}], "", CHATML, "not an object"),
        ([[USER, ANSWER]], 'template = "other"', CHATML, "'default'"),
        ([[USER, ANSWER]], 'template = "none.jinja"', CHATML, "cannot be read"),
        ([[USER, ANSWER]], 'template = "nanochat"', CHATML, "<|user_start|>"),
        ([[USER, ANSWER]], "", "{{ strftime_now('%Y') }}", "template_date"),
        ([[USER, ANSWER]], "", "{{ bos_token }}", "bos_token"),
        ([[USER, ANSWER]], "", "{% for %}", "line 1"),
    ],
)
def test_a_source_of_which_nothing_can_be_used_is_refused(tmp_path, rows, keys, template, reason):
    with pytest.raises(NanotokError) as caught:
        plan_of(tmp_path, rows, template=template, keys=keys)
    assert reason in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_template_for_training_is_compared_before_the_job(tmp_path):
    (tmp_path / "other.jinja").write_text(BLOCKS.replace("'\\n'", "'!'"))
    with pytest.raises(RecipeError, match="renders another text"):
        plan_of(tmp_path, [[USER, ANSWER]], keys=f'training_template = "{tmp_path}/other.jinja"')
