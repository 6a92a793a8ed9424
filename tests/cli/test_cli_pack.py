"""`nanotok inspect --packing`: equals the report of a loader that has read the whole output."""

import pytest

from nanotok_ray.loader import Loader, NanochatLoader, open_shards, preview
from tests.support.made_output import MadeSource, made_output


@pytest.fixture
def pack(out, run):
    """Return a function that plans packings of the output, all of them if none is named."""

    def preview_of(*arguments, folder=out):
        packing = [] if "--packing" in arguments else ["--packing", "all"]
        return run("inspect", folder, *packing, *arguments)

    return preview_of


def read_report(out, **settings):
    """Read every batch of an epoch, and return the report."""
    loader = Loader(open_shards(str(out)), batch_size=3, epochs=1, **settings)
    assert sum(len(batch.inputs) for batch in loader) == loader.report().rows
    return loader.report().to_dict()


@pytest.mark.parametrize("shuffle", [None, "document", "block"])
@pytest.mark.parametrize("packing", ["best-fit", "windows", "conversations"])
def test_a_packing_plan_equals_the_report_of_a_loader_that_read_everything(
    out, pack, packing, shuffle
):
    order = [] if shuffle is None else ["--shuffle", shuffle, "--seed", 7]
    code, reported, _ = pack(
        "--length", "64,100", "--packing", packing, "--group-documents", 30, *order
    )
    assert (code, reported["status"]) == (0, "done")
    assert [plan["length"] for plan in reported["plans"]] == [64, 100]
    for plan in reported["plans"]:
        settings = {"packing": packing, "shuffle": shuffle, "seed": 7 if shuffle else 0}
        report = read_report(out, length=plan["length"], group_documents=30, **settings)
        assert report.items() <= plan.items()
        assert plan["kept"] == report["tokens"] / reported["tokens"]
        assert plan["groups"] > 1


def test_rows_of_nanochat_are_planned_until_the_second_epoch(out, pack, monkeypatch):
    monkeypatch.setattr(preview, "BUFFER", 10)
    settings = ("--length", 40, "--packing", "nanochat", "--source", "web")
    plan = pack(*settings)[1]["plans"][0]
    shards = open_shards(str(out), source="web")
    loader = NanochatLoader(shards, batch_size=1, length=40, buffer_size=10)
    while loader.next_batch().epoch == 0:
        pass
    assert loader.report().to_dict().items() <= plan.items()
    assert 0 < plan["kept"] < 1


def test_a_packing_that_is_impossible_is_reported_beside_the_others(pack):
    code, reported, shown = pack("--length", "50,80")
    problems = {plan["packing"]: plan.get("problem") for plan in reported["plans"]}
    assert code == 0
    assert [name for name, problem in problems.items() if problem] == ["nanochat"]
    assert shown.count(problems["nanochat"]) == 1
    assert problems["nanochat"].endswith("reads only text; choose them with --source web")
    assert [line.split()[1] for line in shown.splitlines()[3:9]] == [
        *("best-fit", "windows", "conversations") * 2
    ]


@pytest.mark.parametrize(
    ("source", "arguments", "words"),
    [
        ("out", "--packing nanochat --source web", "fills a buffer of 1,000 documents"),
        ("out", "--packing nanochat --shuffle block", "omit the weights and the shuffling"),
        ("mixed", "--weights wob=1", "the sources are web, code"),
        ("mixed", "--tokens 100", "--weights"),
        (
            "mixed",
            "--packing conversations --too-long drop --length 20 --weights web=1",
            "none made a row",
        ),
    ],
)
def test_an_impossible_packing_alone_is_an_error(request, pack, source, arguments, words):
    folder = request.getfixturevalue(source)
    code, reported, _ = pack(*arguments.split(), folder=folder)
    assert (code, reported["status"], words in reported["error"]) == (2, "failed", True)
    assert "nanochat" not in reported["error"] or source == "out"


def test_the_table_equals_the_json_and_is_absent_if_only_json_is_asked_for(pack):
    asked = ("--length", 64, "--packing", "conversations", "--source", "chats")
    _, reported, shown = pack(*asked)
    code, _, text = pack("--json", *asked)
    assert (code, text) == (0, "")
    plan = reported["plans"][0]
    head, row = shown.splitlines()[2:]
    assert head.split() == [
        *("length", "packing", "rows", "tokens", "kept", "used", "cropped", "cut", "dropped"),
    ]
    assert row.split() == [
        *("64", "conversations", f"{plan['rows']:,}", f"{plan['tokens']:,}"),
        *(f"{plan['kept']:.1%}", f"{plan['utilisation']:.1%}", f"{plan['cropped_tokens']:,}"),
        *(f"{plan['cut_documents']:,}", f"{plan['dropped_documents']:,}"),
    ]
    assert f"{reported['documents']:,} documents, {reported['tokens']:,} tokens" in shown


@pytest.fixture
def mixed(tmp_path):
    """Write an output of two sources with 10,000 tokens each."""
    sources = [MadeSource(name=name, shards=[[[1] * 50] * 200]) for name in ("web", "code")]
    made_output(tmp_path / "mixed", *sources)
    return tmp_path / "mixed"


MIXED = ("--weights", "web=0.9,code=0.1", "--packing", "best-fit,windows,conversations")


@pytest.mark.parametrize("group", [7, 100, 4096])
def test_weights_plan_all_available_tokens(mixed, pack, group):
    lengths = (49, 64, 700)
    code, reported, _ = pack(
        "--length", ",".join(map(str, lengths)), "--group-documents", group, *MIXED, folder=mixed
    )
    assert (code, reported["tokens"], len(reported["plans"])) == (0, 20_000, 9)
    for plan in reported["plans"]:
        assert (plan["documents"], plan["tokens"], plan["kept"]) == (400, 20_000, 1.0)
        cells = plan["length"] + (plan["packing"] != "windows")
        assert plan["rows"] * cells == plan["tokens"] + plan["padding"]
        assert plan["sources"] == {
            "web": {"weight": 0.9, "documents": 360, "tokens": 18_000, "share": 0.9, "epochs": 1.8},
            "code": {"weight": 0.1, "documents": 40, "tokens": 2_000, "share": 0.1, "epochs": 0.2},
        }


def test_weights_plan_the_requested_number_of_tokens(mixed, pack):
    code, reported, shown = pack("--length", 49, "--tokens", 60_025, *MIXED, folder=mixed)
    assert code == 0
    for plan in reported["plans"]:
        assert (plan["documents"], plan["tokens"]) == (1201, 60_050)  # up to the end of a document
        assert plan["sources"]["web"]["epochs"] == pytest.approx(5.4, abs=0.01)
    head, *rows = (line.split() for line in shown.splitlines()[-3:])
    assert head == ["source", "weight", "documents", "tokens", "share", "epochs"]
    assert rows == [
        ["web", "0.9", "1,081", "54,050", "90.0%", "5.41"],
        ["code", "0.1", "120", "6,000", "10.0%", "0.60"],
    ]


def test_a_weighted_plan_equals_a_loader_that_ends_at_a_group(mixed, pack):
    asked = ("--length", 60, "--group-documents", 80, "--tokens", 80 * 50 * 6)
    plans = pack(*asked, *MIXED, "--shuffle", "document", folder=mixed)[1]["plans"]
    for plan in plans:
        loader = Loader(
            open_shards(str(mixed)),
            batch_size=1,
            length=60,
            packing=plan["packing"],
            shuffle="document",
            weights={"web": 0.9, "code": 0.1},
            group_documents=80,
        )
        assert loader.skip_batches(plan["rows"]) == plan["rows"]
        assert loader.report().to_dict().items() <= plan.items()


def test_an_output_without_documents_or_manifest_is_an_error(tmp_path, pack):
    code, reported, _ = pack(folder=tmp_path)
    assert (code, reported["status"]) == (4, "failed")
    made_output(tmp_path, MadeSource(name="web", shards=[[[1, 2]]]))
    code, reported, _ = pack("--split", "val", folder=tmp_path)
    assert (code, "nothing to pack" in reported["error"]) == (2, True)
