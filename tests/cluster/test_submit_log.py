"""The log of a job by polling: every line once and in order, without errors."""

import json

from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.cluster.submit import JobLog
from nanotok_ray.cluster.submit.submission import LAST_LINES, MAX_NEW_LINES
from nanotok_ray.errors import RefusedError, UnreachableError

LINES = st.lists(st.text(st.characters(exclude_characters="\n\t", codec="utf-8")), max_size=40)


def answers(*texts):
    """Return a function that returns one text after the other, or raises it."""
    left = list(texts)

    def fetch():
        text = left.pop(0)
        if isinstance(text, Exception):
            raise text
        return text

    return fetch


@given(LINES, st.lists(st.integers(0, 200) | st.none(), max_size=20))
def test_every_log_line_is_printed_once_in_order(lines, ends):
    whole = "".join(f"{line}\n" for line in lines)
    texts = [UnreachableError("no answer") if end is None else whole[:end] for end in ends]
    log = JobLog(answers(*texts, whole))
    reads = [log.read() for _ in range(len(texts) + 1)]
    assert [read is None for read in reads] == [*(end is None for end in ends), False]
    assert [line for read in reads for line in read or ()] == lines
    assert log.last == lines[-LAST_LINES:]


@given(st.sampled_from(["{", "{}", "[1]", '{"status": 3}', "done", '{"status"', "{" * 100_000]))
def test_only_an_object_with_a_status_is_a_summary(line):
    log = JobLog(answers(f"{json.dumps({'status': 'done'})}\n{line}\n"))
    log.read()
    assert log.summary == {"status": "done"}


def test_an_incomplete_last_line_is_printed():
    texts = (UnreachableError("no log"), RefusedError("another token"), 'a\n{"status": "failed"}')
    log = JobLog(answers(*texts))
    assert (log.read(), log.read()) == (None, None)
    assert (log.last, log.summary) == ([], None)
    assert log.read() == ["a"]
    assert log.summary == {"status": "failed"}
    assert log.last == ["a", '{"status": "failed"}']


def test_a_long_log_returns_its_newest_lines():
    lines = [f"count: {number}" for number in range(3 * MAX_NEW_LINES)]
    log = JobLog(answers("\n".join(lines), "\n".join(lines) + "\n"))
    assert log.read() == lines[:-1][-MAX_NEW_LINES:]
    assert log.read() == lines[-1:]
