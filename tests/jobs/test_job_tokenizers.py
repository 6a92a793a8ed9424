"""Jobs with smaller, extended and foreign tokenizers."""

import json
import pickle

import numpy as np
import pytest

from nanotok_ray.api import prepare, tokenize, train
from nanotok_ray.errors import RecipeError, TransientIOError, VocabularySizeError
from nanotok_ray.job import learned
from nanotok_ray.job.job_plan import decide
from nanotok_ray.loader import open_shards
from nanotok_ray.recipe import PRESETS, SPECIAL_TOKENS, parse_recipe
from nanotok_ray.shards import verify_output
from nanotok_ray.storage import Folder
from nanotok_ray.tokenizer import READABLE_NAME, Tokenizer
from tests.support.foreign_models import in_order
from tests.support.run_job import run
from tests.support.small_corpus import RECIPE, contents, recipe, texts

ALSO = "tokenizer.also=[300, 330]"
SEED = list(PRESETS["seed"].special_tokens)
EXTEND = 'tokenizer.extend=["preset:seed"]'
LEARN_RECORD = "records/learn.json"


def tokenizer_of(out):
    return Tokenizer.load(out / "tokenizer")


def record_of(out):
    return json.loads((out / LEARN_RECORD).read_text())


def sizes_of(out):
    """Return the sizes of the smaller tokenizers of a folder."""
    files = out.glob("tokenizer-*/tokenizer.txt")
    return sorted(int(path.parent.name.removeprefix("tokenizer-")) for path in files)


def test_a_smaller_tokenizer_equals_one_learned_at_its_size_in_every_file(corpus, out, tmp_path):
    run(recipe(corpus, out, ALSO), train)
    for size in (300, 330):
        run(recipe(corpus, tmp_path / f"{size}", f"tokenizer.vocab_size={size}"), train)
        expected = contents(tmp_path / f"{size}/tokenizer")
        assert contents(tmp_path / f"out/tokenizer-{size}") == expected
        assert len(expected) == 7
        Tokenizer.load(out / "tokenizer").truncated(size).save(tmp_path / f"cut-{size}")
        del expected["report.json"]
        assert contents(tmp_path / f"cut-{size}") == expected


def test_other_sizes_are_written_without_learning_and_the_manifest_stays(corpus, out, tmp_path):
    run(recipe(corpus, out), prepare)
    before = contents(out)
    summary, stages, notes = run(recipe(corpus, out, ALSO), prepare)
    assert (stages, notes) == ({}, [])
    assert summary.values["status"] == "done"
    assert summary.values["learned"]["also"] == [300, 330]
    assert "; also 300, 330 ids\n" in summary.text()
    after = contents(out)
    del before["records/learn.json"]
    assert before.items() <= after.items()
    run(recipe(corpus, tmp_path / "once", ALSO), prepare)
    assert contents(tmp_path / "once") == after
    summary, stages, _ = run(recipe(corpus, out, ALSO), prepare)
    assert (summary.values["status"], stages) == ("unchanged", {})


def test_a_size_no_longer_requested_stays_until_another_tokenizer_is_learned(corpus, out, tmp_path):
    run(recipe(corpus, out, ALSO), train)
    run(recipe(corpus, out), train)
    run(recipe(corpus, out, "tokenizer.also=310"), train)
    assert record_of(out)["also"] == [300, 310, 330]
    for size in (300, 310, 330):
        assert Tokenizer.load(tmp_path / f"out/tokenizer-{size}").get_vocab_size() == size
    other = ("tokenizer.min_pair_count=2", "tokenizer.also=[310]")
    run(recipe(corpus, out, *other), train)
    assert sizes_of(out) == [310]


def test_a_size_that_learning_does_not_reach_is_reported_and_has_no_folder(corpus, out):
    run(recipe(corpus, out, ALSO), train)
    job = recipe(corpus, out, ALSO, "tokenizer.min_pair_count=82")
    summary, _, notes = run(job, train)
    reached = summary.values["vocab_size"]
    assert 300 <= reached < 330
    relearned, ended, note = notes
    assert "learned with other settings" in relearned
    assert "below min_pair_count = 82" in ended
    assert f"330 ids and learning ended at {reached}" in note
    assert str(out / "tokenizer-330") in note
    assert sizes_of(out) == [300]
    assert summary.values["learned"]["also"] == [300]
    assert f"{reached - 265} merges: below min_pair_count = 82" in summary.text()
    assert summary.values["learned"]["not_reached"] == [330, 350]
    assert (
        f"not reached a vocabulary of 330 and 350 ids: learning ended at {reached}, below "
        "min_pair_count = 82\n" in summary.text()
    )
    again, stages, notes = run(job, train)
    assert (again.values["status"], stages) == ("unchanged", {})
    assert notes == [note]


def test_a_plan_counts_what_is_missing(corpus, out):
    job = recipe(corpus, out, ALSO)
    assert decide(job, command="train").values["also"] == {"todo": 2, "done": 0}
    run(job, train)
    (out / "tokenizer-300/tokenizer.pkl").unlink()
    announced = decide(job, command="train")
    assert announced.values["also"] == {"todo": 1, "done": 1}
    assert "also        1 to do, 1 done" in announced.text()
    assert not (out / "tokenizer-300/tokenizer.pkl").exists()
    assert "also" not in decide(recipe(corpus, out), command="train").values


def test_a_damaged_report_is_learned_again_before_it_is_cut(corpus, out):
    run(recipe(corpus, out), train)
    path = out / "tokenizer/report.json"
    path.write_bytes(b"x" * path.stat().st_size)
    _, stages, notes = run(recipe(corpus, out, ALSO), train)
    assert "learn" in stages
    assert any(f"{path} is not as it was written" in note for note in notes)
    assert sizes_of(out) == [300, 330]


def test_the_saved_tokenizer_is_the_extended_one(corpus, out, tmp_path):
    append = 'source.web.append=["<image>"]'
    summary, _, _ = run(recipe(corpus, out, EXTEND, append))
    run(recipe(corpus, tmp_path / "plain"))
    tokenizer = tokenizer_of(out)
    assert tokenizer == tokenizer_of(tmp_path / "plain").extended(SEED)
    assert tokenizer.get_vocab_size() == 356
    assert summary.values["tokenizer_sha256"] == tokenizer.sha256
    assert record_of(out)["special_tokens"] == {"learned": list(SPECIAL_TOKENS), "extended": SEED}
    assert record_of(out)["report"]["vocab_size_reached"] == 350
    shards = open_shards(str(out), split="train")
    ends = {int(shards[number][-1]) for number in range(len(shards)) if len(shards[number])}
    assert 350 in ends
    assert verify_output(Folder(str(out))).problems == []
    summary, stages, _ = run(recipe(corpus, out, EXTEND, append))
    assert (summary.values["status"], stages) == ("unchanged", {})


OTHERS = 'tokenizer.extend=["<a>", "<image>"]'


@pytest.mark.parametrize(
    ("command", "first", "then"),
    [(prepare, [], [EXTEND]), (train, [EXTEND], []), (prepare, [EXTEND], [OTHERS])],
    ids=["added", "removed", "others"],
)
def test_a_changed_extension_does_not_repeat_learning(corpus, out, command, first, then):
    run(recipe(corpus, out, ALSO, *first), command)
    job = recipe(corpus, out, ALSO, *then)
    assert decide(job, command=command.__name__.partition("_")[0]).values["learn"]["todo"] == 0
    _, stages, notes = run(job, command)
    assert not {"count", "learn"} & set(stages)
    assert ("tokenize" in stages) == (command is prepare)
    assert any("was not learned again" in note for note in notes)
    run(recipe(corpus, out.with_name("fresh"), ALSO, *then), command)
    expected = contents(out.with_name("fresh"))
    assert contents(out) | expected == contents(out)
    summary, stages, notes = run(job, command)
    assert (summary.values["status"], stages, notes) == ("unchanged", {}, [])


def test_smaller_tokenizers_are_extended_restored_when_lost_and_removed(corpus, out, tmp_path):
    job = recipe(corpus, out, EXTEND, "tokenizer.also=[300, 350, 330]")
    run(job, train)
    run(recipe(corpus, tmp_path / "alone", "tokenizer.vocab_size=300"), train)
    smaller = Tokenizer.load(out / "tokenizer-300")
    assert smaller == tokenizer_of(tmp_path / "alone").extended(SEED)
    assert Tokenizer.load(out / "tokenizer-350") == tokenizer_of(out)
    assert record_of(out)["also"] == [300, 330, 350]
    before = contents(out)
    (out / "tokenizer-330/tokenizer.txt").unlink()
    _, stages, _ = run(job, train)
    assert (stages, contents(out)) == ({}, before)
    run(recipe(corpus, out, "tokenizer.also=[300]"), train)
    assert record_of(out)["also"] == [300]
    assert Tokenizer.load(out / "tokenizer-300") == tokenizer_of(tmp_path / "alone")
    assert not (out / "tokenizer-330/tokenizer.txt").exists()


def test_added_tokens_do_not_fill_sizes_that_learning_did_not_reach(corpus, out):
    limits = ["tokenizer.min_pair_count=40", "tokenizer.vocab_size=5000", EXTEND]
    run(recipe(corpus, out, *limits), train)
    reached = tokenizer_of(out).get_vocab_size() - len(SEED)
    sizes = f"tokenizer.also=[{reached}, {reached + 1}]"
    _, stages, notes = run(recipe(corpus, out, *limits, sizes), train)
    assert stages == {}
    assert record_of(out)["also"] == [reached]
    assert any(
        f"asks for {reached + 1:,} ids and learning ended at {reached:,}" in n for n in notes
    )


def test_a_run_that_ends_while_the_extension_is_replaced_learns_again(corpus, out, monkeypatch):
    run(recipe(corpus, out), train)
    before = contents(out)

    def die(*_):
        raise KeyboardInterrupt

    def fail(self, folder, *, overwrite):
        raise TransientIOError("the line went dead")

    with monkeypatch.context() as patch:
        patch.setattr(learned, "write_beside", die)
        with pytest.raises(KeyboardInterrupt):
            run(recipe(corpus, out, EXTEND), train)
    assert "learn" in run(recipe(corpus, out), train).stages
    assert contents(out) == before
    with monkeypatch.context() as patch:
        patch.setattr(Tokenizer, "save", fail)
        with pytest.raises(TransientIOError):
            run(recipe(corpus, out, EXTEND), train)
    assert not (out / "tokenizer" / READABLE_NAME).exists()
    assert "learn" in run(recipe(corpus, out), train).stages
    assert contents(out) == before


def test_a_foreign_tokenizer_is_extended_when_it_is_adopted(corpus, out, tmp_path):
    run(recipe(corpus, tmp_path / "learned"), train)
    path = f"tokenizer.path={tmp_path}/learned/tokenizer"
    extend = 'tokenizer.extend=["<|bos|>", "<image>"]'
    job = recipe(corpus, out, path, extend, 'source.web.append=["<image>"]')
    before = contents(tmp_path / "learned")
    run(job)
    assert tokenizer_of(out) == tokenizer_of(tmp_path / "learned").extended(["<image>"])
    assert contents(tmp_path / "learned") == before
    assert run(job).summary.values["status"] == "unchanged"
    assert run(job, tokenize).summary.values["status"] == "unchanged"
    shards = open_shards(str(out), split="train")
    assert any(np.any(shards[number] == 350) for number in range(len(shards)))


MODEL = in_order(special_tokens={name: 70_000 + 2 * n for n, name in enumerate(SPECIAL_TOKENS)})
"""Special tokens leave ids unused before each of them, and need 32 bits."""


def test_a_foreign_pickle_is_accepted_and_its_ids_are_written(corpus, tmp_path):
    encoding = Tokenizer(MODEL).to_tiktoken()
    (tmp_path / "pickled").mkdir()
    (tmp_path / "pickled/tokenizer.pkl").write_bytes(pickle.dumps(encoding))
    job = recipe(corpus, tmp_path / "out", f"tokenizer.path={tmp_path}/pickled")
    summary, stages, _ = run(job)
    assert list(stages) == ["tokenize", "verify"]
    assert summary.values["proof"]["encoded_again"] == summary.values["proof"]["documents"] > 10
    assert Tokenizer.load(tmp_path / "out/tokenizer").model == MODEL
    assert not (tmp_path / "out/tokenizer/tokenizer.json").exists()
    bos = MODEL.special_tokens["<|bos|>"]
    shards = open_shards(str(tmp_path / "out"), source="web")
    assert shards[0].dtype == "uint32"
    expected = [[bos, *encoding.encode_ordinary(text)] for text in texts(40, seed=0)]
    assert [document.tolist() for document in shards][:40] == expected
    assert run(job).summary.values["status"] == "unchanged"
    assert contents(tmp_path / "pickled").keys() == {"tokenizer.pkl"}
    out = Folder(str(tmp_path / "out"))
    assert verify_output(out).problems == []
    out.write_bytes("tokenizer/tokenizer.json", b"{}")
    [problem] = verify_output(out).problems
    assert "tokenizer/tokenizer.json is not what tokenizer/tokenizer.txt gives" in problem


def test_a_job_continues_a_tokenizer_as_learning_at_once_does(corpus, out, tmp_path):
    run(recipe(corpus, tmp_path / "small", "tokenizer.vocab_size=310"), train)
    run(recipe(corpus, tmp_path / "whole"), train)
    base = tmp_path / "small/tokenizer"
    of_base = f'tokenizer.base="{base}"'
    parsed = recipe(corpus, out, of_base, "tokenizer.vocab_size=350", "tokenizer.also=[330]")
    summary = run(parsed, prepare).summary
    whole, found = tokenizer_of(tmp_path / "whole"), tokenizer_of(out)
    assert found.model.tokens == whole.model.tokens
    assert found.special_tokens == Tokenizer.load(base).special_tokens
    assert summary.values["learned"]["merges"] == 40
    assert Tokenizer.load(out / "tokenizer-330") == found.truncated(330)
    for folder in ("tokenizer", "tokenizer-330"):
        assert {"new_tokens.json", "report.json"} <= {*contents(out / folder)}
    assert not verify_output(Folder(str(out)), depth="full").problems
    before = contents(out)
    assert run(parsed, prepare).stages == {}
    (out / "tokenizer/new_tokens.json").unlink()
    assert {*run(parsed, prepare).stages} >= {"learn"}
    assert contents(out) == before
    by_number = without_size(corpus, tmp_path / "added", of_base, "tokenizer.add=40")
    run(by_number, prepare)
    assert contents(tmp_path / "added/tokenizer") == before_of(before, "tokenizer")
    more = recipe(corpus, out, of_base, "tokenizer.vocab_size=355")
    assert {*run(more, prepare).stages} >= {"learn", "tokenize"}


def before_of(files, folder):
    """Return the files of a folder among those of an output."""
    own = {name: digest for name, digest in files.items() if name.startswith(f"{folder}/")}
    return {name.removeprefix(f"{folder}/"): digest for name, digest in own.items()}


def test_special_tokens_are_added_after_the_new_ones_of_a_base(corpus, out, tmp_path):
    base = tmp_path / "base"
    Tokenizer.train_from_iterator(texts(40, seed=9), 300).save(base)
    of_base = f'tokenizer.base="{base}"'
    run(without_size(corpus, out, of_base, "tokenizer.add=30"), prepare)
    plain = tokenizer_of(out)
    _, stages, _ = run(without_size(corpus, out, of_base, "tokenizer.add=30", EXTEND), prepare)
    assert "learn" not in stages
    assert tokenizer_of(out) == plain.extended(SEED)
    assert (out / "tokenizer/new_tokens.json").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["tokenizer.vocab_size=300"], "the base has 300 ids"),
        (["tokenizer.vocab_size=320", "tokenizer.also=[290]"], "tokenizer.also has 290"),
        ([], "needs either vocab_size"),
        (["tokenizer.vocab_size=320", "tokenizer.add=20"], "needs either vocab_size"),
        (["tokenizer.add=20", 'tokenizer.pattern="gpt4"'], "tokenizer.pattern is set"),
        (["tokenizer.add=20", 'tokenizer.path="/x"'], "tokenizer.path"),
    ],
)
def test_settings_that_contradict_a_base_are_refused_before_counting(
    settings, message, corpus, out, tmp_path
):
    base = tmp_path / "base"
    Tokenizer.train_from_iterator(texts(40, seed=9), 300).save(base)
    with pytest.raises((RecipeError, VocabularySizeError), match=message):
        prepare(without_size(corpus, out, f'tokenizer.base="{base}"', *settings))
    assert not (tmp_path / "out-work").exists()


def without_size(corpus, out, *settings):
    """Return a recipe that has no vocabulary size but that of the settings."""
    text = RECIPE.format(root=corpus, out=out).replace("vocab_size = 350", "")
    return parse_recipe(text, overrides=settings)
