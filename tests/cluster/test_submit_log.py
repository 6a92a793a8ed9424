"""The log of a job through streams that break off: every line once, errors never."""

import json

from hypothesis import given
from hypothesis import strategies as st

from nanotok_ray.cluster.submit import job_log
from nanotok_ray.cluster.submit.job_log import LAST_LINES, LogTail, LogText

LINES = st.lists(st.text(st.characters(exclude_characters="\n\t", codec="utf-8")), max_size=40)


@given(LINES, st.lists(st.integers(0, 200), max_size=6), st.integers(1, 50), st.data())
def test_every_line_comes_once_however_often_the_stream_begins_anew(lines, ends, chunk, data):
    whole = "".join(f"{line}\n" for line in lines)
    log, taken = LogText(), []
    for end in [*ends, len(whole)]:
        log.begin()
        stream = whole[:end]
        for place in range(0, len(stream), chunk):
            log.add(stream[place : place + chunk])
            if data.draw(st.booleans()):
                taken += log.take()
    assert [*taken, *log.take()] == lines
    assert log.last == lines[-LAST_LINES:]


@given(st.sampled_from(["{", "{}", "[1]", '{"status": 3}', "done", '{"status"', "{" * 100_000]))
def test_only_an_object_with_a_status_is_a_summary(line):
    log = LogText()
    log.begin()
    log.add(f"{json.dumps({'status': 'done'})}\n{line}\n")
    assert log.summary == {"status": "done"}


def test_a_last_line_without_its_end_is_seen_too():
    log = LogText()
    log.add('a\n{"status": "failed"}')
    assert log.summary == {"status": "failed"}
    assert log.last == ["a", '{"status": "failed"}']


def streams(*texts):
    """Yield the text of one stream after the other; each but the last then breaks off."""
    left = list(texts)

    async def stream():
        text = left.pop(0)
        yield text
        if left:
            raise RuntimeError("the connection broke off")

    return stream


def test_a_stream_that_breaks_off_is_taken_up_again(monkeypatch):
    monkeypatch.setattr(job_log, "FIRST_PAUSE", 0.0)
    whole = 'a\nb\n{"status": "done"}\n'
    with LogTail(streams("a\n", "a\nb", whole), whole=lambda: "") as log:
        while log.text.summary is None:
            pass
        log.finish()
    assert log.take() == whole.splitlines()


def test_a_log_that_is_not_to_be_had_costs_no_more_than_itself(monkeypatch):
    monkeypatch.setattr(job_log, "LAST_SECONDS", 0.0)

    async def broken():
        raise OSError("no stream")
        yield ""

    def no_whole():
        raise OSError("nor a log")

    with LogTail(broken, whole=no_whole) as log:
        log.finish()
    assert log.take() == []
    assert log.text.summary is None


def test_what_the_stream_did_not_bring_is_fetched_at_the_end(monkeypatch):
    monkeypatch.setattr(job_log, "LAST_SECONDS", 0.0)

    async def silent():
        raise OSError("no stream")
        yield ""

    with LogTail(silent, whole=lambda: 'a\n{"status": "done"}\n') as log:
        log.finish()
    assert log.take() == ["a", '{"status": "done"}']
    assert log.text.summary == {"status": "done"}
