"""The span table of earlier versions: its key has no effect, and gc removes its file."""

import pytest

from nanotok_ray.api import prepare
from nanotok_ray.job.decide import decide
from nanotok_ray.shards import find_garbage, verify_output
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import Tokenizer, differing_files
from tests.support.run_job import run
from tests.support.small_corpus import contents, recipe

TABLE = "tokenizer/span_table.bin"
NOTE = "tokenizer.span_table no longer has an effect; delete it from the recipe"


@pytest.mark.parametrize("spans", ["0", "7", "1000000"])
def test_the_key_has_no_effect_and_is_reported(corpus, tmp_path, spans):
    out = tmp_path / "out"
    plain, named = recipe(corpus, out), recipe(corpus, out, f"tokenizer.span_table={spans}")
    assert NOTE in decide(named, command="prepare").values["notes"]
    assert NOTE not in decide(plain, command="prepare").values["notes"]
    assert run(named).notes.count(NOTE) == 1
    before = contents(out)
    assert TABLE not in before
    for job, reported in ((plain, 0), (named, 1)):
        summary, _, notes = run(job)
        assert (summary.values["status"], notes.count(NOTE)) == ("unchanged", reported)
    assert contents(out) == before


def test_an_output_with_a_table_is_finished_and_only_the_table_is_garbage(corpus, tmp_path):
    job, out = recipe(corpus, tmp_path / "out", "tokenizer.also=300"), tmp_path / "out"
    folder = Folder(str(out))
    prepare(job)
    tables = [TABLE, "tokenizer-300/span_table.bin"]
    for name in (*tables, "tokenizer/notes.bin", "tokenizer-mine/span_table.bin", "span_table.bin"):
        folder.write_whole(name, b"NANOSPAN")
    before = contents(out)
    assert prepare(job).values["status"] == "unchanged"
    assert not verify_output(folder).problems
    tokenizer = Tokenizer.load(out / "tokenizer")
    assert differing_files(tokenizer.model, out / "tokenizer") == []
    min((out / "web/train").glob("*.bin")).unlink()
    prepare(job)
    assert contents(out) == before
    garbage = find_garbage(folder)
    assert garbage.all == dict.fromkeys(sorted(tables), 8)
    for name in garbage.all:
        folder.remove(name)
    assert not verify_output(folder).problems
    assert not find_garbage(folder).all
