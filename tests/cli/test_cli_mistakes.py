"""Mistakes of users: the exit code, and one line with the mistake and the next step."""

# ruff: noqa: E501 - a table

import gzip
import json
import re
import shlex
import shutil
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nanotok_ray import SpanCounts
from nanotok_ray.cli import main
from nanotok_ray.storage import Folder
from tests.support.finished_output import finished_output
from tests.support.lease_elsewhere import held_elsewhere
from tests.support.small_corpus import RECIPE, texts

MISTAKES = """
# commands and options
2 | prepar recipe.toml | no command 'prepar' | did you mean 'prepare'?
2 | do it | no command 'do' | choose from init, doctor, plan, prepare
2 | learn counts | no command 'learn' | did you mean 'tokenizer learn'?
2 | tokenizer trian a.txt | no command 'trian' | did you mean 'train'?
2 | cache show recipe.toml | no command 'show' | choose from rm
2 | --verison | no option --verison | did you mean '--version'?
2 | prepare recipe.toml --dryrun | no option --dryrun | did you mean '--dry-run'?
2 | prepare recipe.toml --workers 2 | no option --workers | see `nanotok prepare --help`
2 | verify out --deep-check | no option --deep-check | did you mean '--deep'?
2 | inspect out --sourc web | no option --sourc | did you mean '--source'?
2 | prepare | missing argument 'RECIPE|FILE...' | see `nanotok prepare --help`
2 | verify | missing argument 'OUTPUT|RECIPE' | see `nanotok verify --help`
2 | tokenizer show | missing argument 'TOKENIZER' | see `nanotok tokenizer show --help`
2 | tokenizer train --vocab-size 300 --output t | missing argument 'FILES...' | --help
2 | tokenizer train words.txt --output t | missing option '--vocab-size' | --help
2 | tokenizer train words.txt --vocab-size 300 | missing option '--output' | --help
2 | tokenizer compare tok | missing option '--corpus' | see `nanotok tokenizer compare --help`
2 | export out | missing option '--to' | see `nanotok export --help`
2 | prepare recipe.toml other.toml | other.toml is not a recipe | add --output DIR
2 | verify out fresh | unexpected extra argument (fresh) | see `nanotok verify --help`
2 | prepare recipe.toml --set | requires an argument | see `nanotok prepare --help`
2 | prepare recipe.toml --local=yes | does not take a value | see `nanotok prepare --help`

# values of options
2 | prepare recipe.toml --cpus 0 | '0' is not a whole number of 1 or more | --help
2 | prepare recipe.toml --cpus many | 'many' is not a whole number | --help
2 | prepare recipe.toml --also some | 'some' is not a whole number | --help
2 | prepare recipe.toml --also '' | '' is not a whole number | --help
2 | train recipe.toml --also 351 | 351 | vocab_size
2 | plan recipe.toml --rate fast | 'fast' is not a number of more than 0 | --help
2 | plan recipe.toml --rate 0 | '0' is not a number of more than 0 | --help
2 | submit recipe.toml --job trian | 'trian' is unknown | did you mean 'train'?
2 | submit recipe.toml --timeout soon | 'soon' is not a number of 0 or more | --help
2 | inspect out --split valid | 'valid' is unknown | did you mean 'val'?
2 | inspect out --color allways | 'allways' is unknown | did you mean 'always'?
2 | inspect out --packing bestfit | 'bestfit' is unknown | did you mean 'best-fit'?
2 | inspect out --packing all --length 2k | '2k' is not a whole number | --help
2 | inspect out --packing all --weights web | 'web' is not NAME=NUMBER, as in web=0.7 | --help
2 | inspect out --doc-id x/1 | --doc-id x/1: no document in split train has this id | `id_column`
2 | inspect out --doc first | --doc first is not a document | pass a number (7), or a range (0-9)
2 | completion tcsh | 'tcsh' is unknown | choose from bash, zsh, fish
2 | tokenizer train words.txt --output t --vocab-size big | 'big' is not a valid integer | --help
2 | tokenizer show tok words.txt --kind chats | 'chats' is unknown | did you mean 'chat'?
2 | tokenizer show tok words.txt --max-bytes lots | --max-bytes = 'lots' | write one like 268435456
2 | tokenizer show tok --id 99999 | there is no id 99999 | the ids are 0 to
2 | tokenizer show tok --token nope | no token is spelled 'nope' | spaces count

2 | tokenizer show tok words.txt --max-bytes 0 | --max-bytes is 0 | it must be 1 or more
2 | inspect out --packing all --length 0 | '0' is not a whole number | --help
2 | inspect out --packing all --length 5, | '' is not a whole number | --help
2 | inspect out --packing all --weights web= | 'web=' is not NAME=NUMBER | --help
2 | inspect out --packing all --weights =1 | '=1' is not NAME=NUMBER | --help
2 | inspect out --packing all --weights web=1,, | '' is not NAME=NUMBER | --help
2 | inspect out --doc 1- | --doc 1- is not a document | pass a number (7), or a range (0-9)
2 | inspect out --doc 999999999999999999999 | is not a document | pass a number (7)
2 | tokenizer learn counts --output t --vocab-size 300 --also 280, | '' is not a whole number | --help
2 | tokenizer learn counts --output t --vocab-size 300 --min-pair-count 0 | '0' | --help
2 | tokenizer learn counts --output t --vocab-size 300 --max-token-bytes 1 | '1' | --help
2 | tokenizer train words.txt --output t --vocab-size 300 --max-tails -1 | '-1' | --help
2 | tokenizer train words.txt --output t --vocab-size 300 --max-quarantined-share 2 | '2' | --help

# options that contradict each other
2 | tokenizer train words.txt --output t --vocab-size 300 --column body | 'body' | omit it
2 | tokenizer train words.txt --output t --vocab-size 300 --input-format jsonl --document-per-file | contradict | remove one of them
2 | tokenizer compare tok --corpus other.jsonl --kind chat --column t | --column = 't' has no use | remove it
2 | tokenizer compare tok --corpus words.txt --by language | --by = 'language' | remove it
2 | verify out --deep --no-sample | --no-sample and --deep cannot be combined | pass one of them
2 | verify out/export/raw --deep | is an export | omit --deep
2 | prepare new.toml --local --address 10.0.0.1:6379 | --local and --address cannot be combined | omit one of them
2 | inspect out --ids --packing all | --ids shows documents | omit one of them
2 | inspect out --length 64 | --length is for a preview of packing | add --packing all
2 | inspect out --packing all --tokens 99 | --tokens requires --weights | without weights
2 | inspect out --json | --json is for a preview of packing | add --packing all
2 | inspect out --open --text | --open and --html write a page | omit one of them
2 | inspect out --open --html - | --open cannot show stdout | name a file
2 | export out --to raw --to mds --output x | --output is for a single layout | export one at a time
2 | export out --to raw --to raw | --to raw is given twice | export one at a time
2 | submit recipe.toml --job tokenize --relearn | tokenize learns nothing | omit --also and --relearn
2 | tokenizer train words.txt --vocab-size 300 --output t --special-token a --no-special-tokens | contradict | omit one of them
2 | tokenizer extend tok --output t2 | no special token to add | name one with --special-token
2 | tokenizer show tok --pattern gpt4 | --pattern is 'gpt4' | omit --pattern

# recipes
2 | prepare nowhere.toml | cannot read the recipe nowhere.toml | pass the path of a local TOML file
2 | prepare in | in is not a recipe | to prepare files without one, add --output DIR
2 | prepare recipe.toml --column text | --column is for files without a recipe | add --output DIR
2 | prepare --output o | missing argument 'RECIPE|FILE...' | --help
2 | prepare in --output in/out --vocab-size 300 | in/out | output.path
2 | prepare in --output o --set limits.max_tails=1 | --set needs a recipe | recipe
2 | init nowhere | nowhere matches no file | check the path
2 | init memory://nobody/data | --output FILE | memory://
2 | train in | in is a folder, not a recipe | pass the TOML file that describes the job
2 | train words.txt | words.txt is not a recipe | use `nanotok tokenizer train`
2 | prepare broken.toml | broken.toml | fix the line '1 2'
2 | prepare recipe.json | recipe.json is JSON | recipes are TOML
2 | prepare empty.toml | 2 problems | add at least one [[source]] table | add a line path = ...
2 | submit recipe.json --address http://127.0.0.1:9 | recipe.json is JSON | docs/recipes.md
2 | plan new.toml --set foo | 'foo' is not of the form TABLE.KEY=VALUE | write for instance
2 | plan new.toml --set tokenizer.pattern=gpt5 | 'gpt5' | nanochat, gpt4
2 | plan new.toml --set 'tokenizer.pattern=(a' | position 2 | correct the expression
2 | plan new.toml --set tokenizer.path=nowhere | nowhere | learn one
2 | plan new.toml --set source.web.column=body | no column 'body' | set column
2 | plan new.toml --set source.web.paths=gone/* | matches no file | the working directory, {root}
2 | plan new.toml --set source.web.paths=s4://b/a | s4://b/a | docs/storage.md
2 | plan new.toml --set source.web.paths=bad.parquet | bad.parquet | write it again
2 | plan new.toml --set source.web.paths=notes.md | notes.md | format
2 | plan new.toml --set limits.slice_bytes=12XB | '12XB' | 256MiB
2 | plan new.toml --set limits.max_tails=-1 | max_tails = -1 | use a number within these limits
2 | plan new.toml --set output.layouts=llmx | 'llmx' | did you mean 'llmc'?
2 | plan new.toml --set output.path=in/text/out | in/text/out | source
2 | plan new.toml --set 'source.web.prepend=["<|a|>"]' | '<|a|>' | add the line `extend = ["<|a|>"]`
2 | prepare new.toml --also 90000 | also holds 90000 | raise vocab_size
5 | plan new.toml --set output.path=words.txt/out | Not a directory | check the path
2 | plan other-sources.toml | is a published output of other inputs | --replace
2 | prepare array.toml | array.jsonl is one JSON array | Write each element on one line
2 | prepare wrong-kind.toml | has no field 'text' | Set kind = "chat"

# outputs
4 | verify fresh | fresh is not a folder | run the job that writes it
4 | verify in | in/manifest.json does not exist | not its output folder
4 | verify unfinished | unfinished/manifest.json does not exist | run the job again
4 | inspect unfinished | unfinished/manifest.json does not exist | run the job again
4 | inspect unfinished --packing all | unfinished/manifest.json does not exist | run the job again
4 | gc unfinished | manifest | run the job again
4 | export unfinished --to raw | manifest | run the job again
4 | verify new.toml | fresh is not a folder | run the job that writes it
2 | report nothing | nothing is not an output of a job | pass the `path`
4 | inspect no-tokenizer | tokenizer.txt is missing | run its job again
4 | verify no-plan | no-plan/plan.json is missing | run its job again
4 | verify no-plan --masks | no-plan/plan.json is missing | run its job again
4 | verify no-tokenizer | tokenizer.txt is missing | run its job again
4 | verify no-tokenizer --deep | tokenizer.txt is missing | run its job again
4 | verify other-version | nanotok-manifest 99 | a newer nanotok_ray wrote it
4 | inspect cut | cut/web | nanotok verify
4 | tokenize new.toml | no tokenizer in | train one first
2 | inspect out --doc -111 | --doc -111 | counted from 0, or from the end
2 | inspect out --doc 110-111 | --doc 110-111 | counted from 0
2 | inspect out --source chats --doc 30 | split train of source chats has 30 documents | counted from 0
2 | inspect out --doc 9999 | --doc 9999 | counted from 0
2 | inspect out --doc 9-3 | --doc 9-3 | swap them
2 | inspect out --source wab | wab | there are web, chats
2 | export out --to llmx | no layout 'llmx' | did you mean 'llmc'?
2 | export out --to llmc:size=3 | 'llmc' has no option | there are
2 | export out --to raw --weights web=1 | weights need a number of tokens | add --tokens 10B
2 | export out --to raw --tokens 10X | is not a whole number | write one like 500M
2 | export out --to raw --shuffle x | is not a whole number | --help
2 | export out --to raw:shuffle=1 --shuffle 2 | has an order in its options | omit --weights
2 | export out --to raw --weights zoo=1 --tokens 5 | 'zoo' | the sources are
2 | cache rm nowhere.toml | cannot read the recipe | pass the path
6 | gc locked | is in use by prepare on host elsewhere | wait
6 | cache rm locked.toml --all | is in use by prepare on host elsewhere | wait
6 | prepare locked.toml --relearn | is in use by prepare on host elsewhere | wait
5 | report out --output nowhere/a.html | nowhere/a.html: No such file | check the path
5 | inspect out --html nowhere/a.html | nowhere/a.html: No such file | check the path

# tokenizers
2 | tokenizer show nowhere | no tokenizer in nowhere | check the path
2 | tokenizer show words.txt | words.txt is not a tokenizer file | pass a tokenizer.txt
2 | tokenizer show tok/tokenizer.tiktoken | no pattern | add its family or pattern
2 | tokenizer train nowhere.txt --vocab-size 300 --output t | matches no file | {root}
2 | tokenizer train new.toml --vocab-size 300 --output t | is a recipe | `nanotok train new.toml`
2 | tokenizer train words.txt --vocab-size 100 --output t | --vocab-size is 100 | name 265 or more
2 | tokenizer train words.txt --vocab-size 300 --also 400 --output t | --also has 400 | smaller
2 | tokenizer train words.txt --vocab-size 300 --output t.pkl | t.pkl | folder
2 | tokenizer train words.txt --vocab-size 300 --output tok | tok already exists | --force
2 | tokenizer train words.txt --vocab-size 300 --output t --pattern gpt5 | 'gpt5' | nanochat
2 | tokenizer train blank.txt --vocab-size 300 --output t | there is no document | pass files
3 | tokenizer train torn.jsonl.gz --vocab-size 300 --output t | 1 file is truncated or damaged (limits.max_tails allows 0): | torn.jsonl.gz after line | Replace it, or raise the limit
2 | tokenizer train counts --vocab-size 300 --output t | no file below
2 | tokenizer train in --vocab-size 300 --output t | several formats (jsonl, parquet)
3 | tokenizer train other.jsonl --vocab-size 300 --output t --column text | other.jsonl, line 1 | quarantined
2 | tokenizer train several.jsonl --vocab-size 300 --output t | several.jsonl: the text can be in 'a' or 'b': set --column to the one to read
2 | tokenizer train pairs.jsonl --vocab-size 300 --output t | pairs.jsonl: preference data | set --column to it
2 | tokenizer train rows.jsonl --vocab-size 300 --output t | rows.jsonl: it holds conversations | set --column to it
2 | tokenizer train bad.parquet --vocab-size 300 --output t | bad.parquet | write it again
2 | tokenizer train notes.md --vocab-size 300 --output t | notes.md | --input-format
2 | tokenizer learn nowhere --vocab-size 300 --output t | nowhere matches no file | check the path
2 | tokenizer learn in/text --vocab-size 300 --output t | is parquet | pass the pattern | --pattern
2 | tokenizer learn zero.parquet --vocab-size 300 --output t --pattern gpt4 | zero.parquet, row 1: the count of b'b' is 0 | remove rows with other counts
2 | tokenizer learn counts --vocab-size 264 --output t | --vocab-size is 264 | 265 or more
2 | tokenizer learn counts --vocab-size 300 --also 264 --output t | --also has 264 | 265 or more
2 | tokenizer learn counts --vocab-size 300 --output t --pattern gpt4 | a.arrow was made with | omit the pattern
2 | tokenizer learn counts --vocab-size 300 --output t --special-token a --special-token a | 'a' is given twice | name it once
5 | tokenizer train words.txt --vocab-size 300 --output words.txt/t.tiktoken | words.txt: File exists | check the path
5 | tokenizer learn counts --vocab-size 300 --output words.txt/t | Not a directory | check the path
2 | tokenizer train in/text --vocab-size 300 --output t --column body | no column 'body' | set --column to one of them
2 | tokenizer compare tok --corpus in/text --by lang | columns are 'text' | set --by to one
2 | tokenizer compare tok --corpus tok/tokenizer.pkl | tokenizer.pkl | set it with --input-format
2 | tokenizer train 'odd/*' --vocab-size 300 --output t | odd/10.md and 37 more: the name does not indicate the format | set it with --input-format
2 | doctor out --set limits.slice_bytes=64MiB | --set overrides keys of a recipe | pass the recipe too
2 | tokenizer show tok notes.md | notes.md | set it with --input-format
2 | tokenizer learn counts --vocab-size 300 --output t.json | --output is t.json | pass a folder
2 | tokenizer extend tok --preset sed --output t | 'sed' is unknown | did you mean 'seed'?
2 | tokenizer extend tok --special-token a --output t.tiktoken | cannot store special tokens | *.json
2 | tokenizer convert tok --output t.pkl | t.pkl | pass a folder
2 | tokenizer compare tok tok --corpus words.txt | two tokenizers are called tok | remove one
2 | tokenizer compare tok in/a.parquet --corpus words.txt | in/a.parquet | quote
4 | tokenizer eval tok --splits-of fresh | fresh is not a folder | run the job that writes it
2 | tokenizer eval tok --plot a.pdf | a.pdf | .svg
2 | tokenizer eval tok --plot no/a.svg | no folder | create it first

# clusters
2 | submit recipe.toml | neither --address | pass the dashboard's URL
2 | submit recipe.toml --address 10.0.0.1:6379 | is not an http:// or https:// URL | http://127.0.0.1:8265
5 | submit recipe.toml --address http://127.0.0.1:9 --patience 0 | http://127.0.0.1:9 | check that | dashboard port (default: 8265) can be reached
2 | prepare new.toml --address http://127.0.0.1:8265 | is a job server | `nanotok submit --address`
2 | prepare new.toml --address host | 'host' is not the address of a Ray cluster | use HOST:PORT
2 | prepare new.toml --address ray://127.0.0.1:10001 | is Ray Client | `nanotok submit`
2 | prepare new.toml --address 127.0.0.1 | is not the address | use HOST:PORT
2 | prepare new.toml --address host:66666 | is not the address | use HOST:PORT
2 | prepare new.toml --address 10.0.0.1:6379/x | is not the address | use HOST:PORT
5 | prepare new.toml --address 127.0.0.1:9 | cannot be reached | check that the head runs
5 | verify out --address 127.0.0.1:9 | cannot be reached | check that the head runs
"""

CASES = [
    [part.strip() for part in re.split(r" \| ", line)]
    for line in MISTAKES.splitlines()
    if line and not line.startswith("#")
]


SOURCES = """
[[source]]
name = "web"
kind = "text"
paths = ["in/text"]

[[source]]
name = "chats"
kind = "chat"
paths = ["in/chats/*.jsonl"]
split = "train"

"""
NEXT_STEP = re.compile(r"; |: [a-z]|, so |\?$")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Return a folder with valid and broken outputs, recipes and files."""
    folder = tmp_path_factory.mktemp("mistakes")
    out = finished_output(folder)
    shutil.copytree(out / "tokenizer", folder / "tok")
    for name, gone in (
        ("unfinished", "manifest.json"),
        ("no-tokenizer", "tokenizer/tokenizer.txt"),
        ("no-plan", "plan.json"),
        ("locked", "run/summary.json"),
    ):
        shutil.copytree(out, folder / name)
        (folder / name / gone).unlink()
    (folder / "locked/run/probe").mkdir()
    (folder / "locked/run/probe/0a").write_bytes(b"")  # garbage
    shutil.copytree(out, folder / "other-version")
    manifest = folder / "other-version/manifest.json"
    manifest.write_text(re.sub(r"(nanotok-manifest) \d+", r"\1 99", manifest.read_text()))
    shutil.copytree(out, folder / "cut")
    for shard in folder.glob("cut/web/train/*.bin"):
        shard.write_bytes(shard.read_bytes()[:-2])
    write_recipes(folder)
    write_inputs(folder)
    return folder


def write_recipes(folder):
    """Write recipes: one of the finished output, one of a new output, and invalid ones."""
    known = RECIPE.format(root=folder / "in", out=folder / "out")
    (folder / "recipe.toml").write_text(known)
    for name, text in {
        "new": f"{SOURCES}[output]\npath = 'fresh'\n",
        "locked": f"{SOURCES}[output]\npath = 'locked'\nwork = 'out-work'\n",
        "other-sources": "[[source]]\nname = 'x'\nkind = 'text'\npaths = ['words.txt']\n"
        "format = 'lines'\n[output]\npath = 'out'\n",
        "broken": "a = [\n1 2\n",
        "empty": "",
        "array": f"{SOURCES}[output]\npath = 'fresh'\n".replace("in/text", "array.jsonl"),
        "wrong-kind": f"{SOURCES}[output]\npath = 'fresh'\n".replace("in/text", "in/chats"),
    }.items():
        (folder / f"{name}.toml").write_text(text)
    (folder / "recipe.json").write_text('{"output": {"path": "/out"}}')


def write_inputs(folder):
    """Write text files, and files that cannot be read as text."""
    (folder / "words.txt").write_text("\n".join(texts(20, seed=1)))
    (folder / "blank.txt").write_text("\n\n")
    (folder / "notes.md").write_text("# Notes\n")
    (folder / "odd").mkdir()
    for number in range(40):
        (folder / f"odd/{number}.md").write_text("# Notes\n")
    (folder / "bad.parquet").write_bytes(b"PAR1 and nothing else")
    pq.write_table(pa.table({"span": ["a", "b"], "count": [1, 0]}), folder / "zero.parquet")
    (folder / "other.jsonl").write_text('{"body": "text"}\n' * 3)
    two = json.dumps(dict.fromkeys("ab", "one text or another one"))
    (folder / "several.jsonl").write_text(f"{two}\n")
    (folder / "pairs.jsonl").write_text('{"prompt": "a", "chosen": "b", "rejected": "c"}\n')
    (folder / "rows.jsonl").write_text('{"instruction": "a", "output": "b"}\n')
    (folder / "array.jsonl").write_text('[\n{"text": "a"}\n]\n')
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts(200, seed=2))
    (folder / "torn.jsonl.gz").write_bytes(gzip.compress(lines.encode())[:-900])
    (folder / "counts").mkdir()
    counts = SpanCounts()
    counts.update(texts(9, seed=3))
    counts.save(folder / "counts/a.arrow")


@pytest.fixture
def here(root, monkeypatch, in_process):
    monkeypatch.chdir(root)
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    return root


def state(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "lease")
    return {str(path): path.stat().st_mtime_ns for path in files}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_a_mistake_is_one_line_with_a_next_step(here, capsys, monkeypatch, case):
    code, command, *words = case
    if "locked" in command:
        shutil.rmtree(here / "locked/run/lease", ignore_errors=True)
        held_elsewhere(Folder(str(here / "locked")), monkeypatch, command="prepare")
    before = state(here)
    found = main(shlex.split(command.format(root=here)))
    captured = capsys.readouterr()
    assert found == int(code)
    before_error, error, message = captured.err.partition("nanotok: error: ")
    message = message.rstrip("\n")
    assert error
    assert "error" not in before_error
    assert "\n" not in message or re.match(r"(.* )?\d+ (problems|inputs|files|of \d+)\b", message)
    for word in words:
        assert word.format(root=here) in message
    assert NEXT_STEP.search(message)
    assert "Traceback" not in captured.err
    if not command.startswith(("inspect", "report", "completion")):
        assert json.loads(captured.out)["error"] == message
    assert state(here) == before


@pytest.mark.parametrize(
    ("flags", "lines"), [([], (0, 1)), (["--json"], (1, 0)), (["--quiet"], (0, 1))], ids=str
)
def test_an_error_appears_once_on_a_terminal(here, capsys, monkeypatch, flags, lines):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["verify", "fresh", *flags]) == 4
    captured = capsys.readouterr()
    assert (captured.out.count("\n"), captured.err.count("\n")) == lines
    assert "fresh is not a folder" in captured.out + captured.err


def test_a_running_job_is_reported(here, capsys, monkeypatch):
    held_elsewhere(Folder(str(here / "unfinished")), monkeypatch, command="prepare")
    for command in (["verify"], ["inspect"], ["export", "--to", "raw"], ["gc"]):
        assert main([command[0], "unfinished", *command[1:]]) == 4
        error = capsys.readouterr().err
        assert "unfinished is not finished yet: its job is running; wait" in error
        assert "`nanotok status unfinished --watch`" in error


def test_options_and_settings_without_effect_are_reported(here, capsys, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    command = ["prepare", "new.toml", "--dry-run", "--cpus", "2"]
    assert main(command) == 0
    assert "note: --cpus has no effect on the Ray cluster 127.0.0.1:9" in capsys.readouterr().err
    assert main([*command, "--local"]) == 0
    assert "no effect" not in capsys.readouterr().err
    monkeypatch.delenv("RAY_ADDRESS")
    settings = ["--set", "tokenizer.path=tok", "--set", "tokenizer.vocab_size=300"]
    assert main(["prepare", "new.toml", "--dry-run", *settings]) == 0
    assert "tokenizer.vocab_size = 300 has no effect" in capsys.readouterr().err
    settings = ["--also", "4096", "--set", 'tokenizer.extend=["preset:seed"]']
    assert main(["prepare", "new.toml", "--dry-run", *settings]) == 0
    assert "the smaller tokenizers have 4,102 ids" in capsys.readouterr().err


def test_a_plan_shows_relative_paths_as_absolute(here, capsys):
    assert main(["plan", "new.toml"]) == 0
    error = capsys.readouterr().err
    assert f"output      {here}/fresh\n" in error
    assert f"parquet in {here}/in/text, split" in error
    shutil.rmtree(here / "fresh")


def test_a_recipe_is_accepted_in_place_of_its_output(here, capsys):
    for command in ("verify", "status", "inspect", "report", "gc"):
        assert main([command, "recipe.toml"]) == 0, command
    assert main(["inspect", "recipe.toml", "--packing", "best-fit"]) == 0
    assert main(["tokenizer", "eval", "tok", "--splits-of", "recipe.toml"]) == 0
    capsys.readouterr()
