"""The local executor: threads, processes, their ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from nanotok_ray.api import prepare, verify
from nanotok_ray.cli import main
from nanotok_ray.errors import SharedFolderError, SourceError, TransientIOError
from nanotok_ray.job.journal import read_journal
from nanotok_ray.job.local import LocalExecutor
from nanotok_ray.job.probes import SharedSource
from nanotok_ray.job.runner import TaskListener
from nanotok_ray.job.task import RetryPolicy, SharedFolder, Task
from nanotok_ray.job.work import count_work, tokenize_work
from nanotok_ray.storage import Folder
from tests.support.executors import InProcess, Replacing, in_place_of_ray
from tests.support.machine_speed import scaled
from tests.support.small_corpus import RECIPE, contents, recipe, write_corpus

pytestmark = [pytest.mark.timeout(120)]

ROOT = Path(__file__).resolve().parents[2]
QUICK = RetryPolicy(first_wait=0.01, max_wait=0.02)


def tasks_of(work, arguments):
    """Return a task for each argument."""
    return [
        Task(name=f"slice {number}", work=work, argument=argument, num_bytes=0)
        for number, argument in enumerate(arguments)
    ]


def run(work, arguments, *, cpus=2, in_threads=False, **options):
    executor = LocalExecutor(in_threads=in_threads)
    with executor.session(cpus=cpus):
        ended = [*executor.run(tasks_of(work, arguments), retry_policy=QUICK, **options)]
    return sorted(ended, key=lambda result: result.task.name)


def is_first(marker):
    """Return whether this is the first call with a marker."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(marker):
    """Kill this worker at the first call with a marker, and at each with `fatal`."""
    if marker == "fatal" or is_first(marker):
        die()
    return 1


def fail_once(marker):
    if is_first(marker):
        raise TransientIOError("slow down")
    return 1


def refuse(argument):
    raise SourceError(f"{argument} never works")


def hang(marker):
    """Write the PID, and hang like native code, which no interrupt ends."""
    Path(marker).write_text(str(os.getpid()))
    while True:
        with suppress(KeyboardInterrupt):
            time.sleep(0.05)


def wait_to_be_interrupted(marker):
    Path(f"{marker}.began").touch()
    try:
        while True:
            time.sleep(0.05)
    except KeyboardInterrupt:
        Path(f"{marker}.ended").touch()
        raise


@pytest.mark.parametrize("in_threads", [False, True])
def test_a_signal_leaves_no_lock_that_a_worker_waits_for(in_threads):
    # An exception of a signal handler can follow directly after such a lock was acquired.
    locks = {threading.Condition.__enter__.__code__, threading.Condition.wait.__code__}
    acquired = []

    def look(frame, event, _):
        if event == "call" and frame.f_code in locks:
            acquired.append(frame.f_back.f_code)

    executor = LocalExecutor(in_threads=in_threads)
    with executor.session(cpus=2):
        assert len([*executor.run(tasks_of(abs, range(4)))]) == 4  # which starts the threads
        sys.setprofile(look)
        try:
            ended = [*executor.run(tasks_of(abs, range(40)))]
        finally:
            sys.setprofile(None)
    assert len(ended) == 40
    assert acquired == []


def until(is_so):
    end = time.monotonic() + scaled(30)
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def has_ended(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def python(arguments, *, cwd=ROOT, **environment):
    """Run Python with the tree under test; return what it printed."""
    found = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.parametrize("in_threads", [False, True])
def test_results_match_their_tasks_and_name_their_workers(in_threads):
    ended = run(len, ["", "a", "bc"], in_threads=in_threads)
    assert [result.result for result in ended] == [0, 1, 2]
    workers = {result.worker.rpartition("/")[2] for result in ended}
    assert (workers == {str(os.getpid())}) if in_threads else (str(os.getpid()) not in workers)
    assert len(workers) <= 2


def test_a_dead_worker_is_replaced_and_a_slice_that_always_kills_it_fails_alone(tmp_path):
    notes = []
    marks = ["fatal", str(tmp_path / "a"), str(tmp_path / "b")]
    failed, *ended = run(die_once, marks, listener=TaskListener(on_note=notes.append))
    assert "its worker process died 3 times" in failed.error
    assert [(result.result, result.attempts) for result in ended] == [(1, 2)] * 2
    assert "its worker process died: its process was killed by SIGKILL" in notes[0]


def test_a_storage_failure_is_retried_and_other_errors_are_not(tmp_path):
    notes = []
    marks = [str(tmp_path / str(number)) for number in range(7)]
    ended = run(fail_once, marks, listener=TaskListener(on_note=notes.append))
    assert [(each.result, each.attempts, each.error) for each in ended] == [(1, 2, None)] * 7
    is_last = [note.endswith("; further such notes are omitted") for note in notes]
    assert is_last == [False] * 4 + [True]
    [ended] = run(refuse, ["a"])
    assert (ended.attempts, ended.error) == (1, "a never works")
    assert isinstance(ended.raised, SourceError)


def test_a_task_that_hangs_is_killed_at_its_deadline(tmp_path):
    policy = RetryPolicy(deadline=scaled(1), missed_deadlines=1)
    executor = LocalExecutor()
    with executor.session(cpus=1):
        # The worker starts and imports this module before the deadline is set.
        list(executor.run(tasks_of(is_first, [str(tmp_path / "first")])))
        [ended] = executor.run(tasks_of(hang, [str(tmp_path / "pid")]), retry_policy=policy)
    assert "its limit by limits.slice_deadline" in ended.error
    until(lambda: has_ended((tmp_path / "pid").read_text()))


def test_closing_the_iterator_interrupts_its_tasks(tmp_path):
    marker = str(tmp_path / "task")
    executor = LocalExecutor()
    with executor.session(cpus=2):
        tasks = [*tasks_of(wait_to_be_interrupted, [marker]), *tasks_of(len, ["a"])]
        results = executor.run(tasks, listener=TaskListener(on_running=lambda _: None))
        assert next(results).result == 1
        until((tmp_path / "task.began").exists)
        results.close()
        until((tmp_path / "task.ended").exists)


class Blind(LocalExecutor):
    """Its workers do not see the probes."""

    def pool(self, probes):
        for probe in probes:
            Folder(probe.folder).remove(probe.name)
        return super().pool(probes)


def test_a_folder_invisible_to_workers_ends_the_run(tmp_path):
    folder = SharedFolder(url=str(tmp_path / "out"), probes="run/probe")
    tasks = [Task(name="a", work=len, argument="", num_bytes=1, shared=(folder,))]
    executor, blind = LocalExecutor(), Blind()
    with executor.session():
        assert [ended.result for ended in executor.run(tasks)] == [0]
    with blind.session(), pytest.raises(SharedFolderError, match="is not one folder"):
        list(blind.run(tasks))


JOB = """
import sys
from nanotok_ray.cli import main
code = main(sys.argv[1:])
assert "ray" not in sys.modules
sys.exit(code)
"""


def without_ray(tmp_path):
    """Return a path of modules on which `import ray` raises, in workers too."""
    blocked = tmp_path / "blocked/ray"
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text("raise ImportError('Ray must not be imported')\n")
    return f"{blocked.parent}{os.pathsep}{ROOT}"


def test_whole_jobs_run_without_ray_and_write_the_same_bytes(tmp_path, in_process):
    write_corpus(tmp_path / "in")
    layouts, modules = 'output.layouts=["raw", "datatrove"]', without_ray(tmp_path)
    prepare(recipe(tmp_path / "in", tmp_path / "quiet", layouts))
    (tmp_path / "recipe.toml").write_text(RECIPE.format(root=tmp_path / "in", out=tmp_path / "out"))
    for command in (
        ["prepare", "recipe.toml", "--local", "--cpus", "2", "--set", layouts],
        ["verify", "out"],
        ["export", "out", "--to", "mds"],
        ["status", "out"],
        ["plan", "recipe.toml", "--set", layouts],
        ["tokenizer", "train", "in/text", "--vocab-size", "300", "--output", "tokenizer"],
    ):
        python(["-c", JOB, *command], cwd=tmp_path, PYTHONPATH=modules)
    quiet, out = contents(tmp_path / "quiet"), contents(tmp_path / "out")
    assert {name: data for name, data in out.items() if "export/mds" not in name} == quiet
    assert contents(tmp_path / "out-work") == contents(tmp_path / "quiet-work")
    journal = read_journal(Folder(str(tmp_path / "out")), 1)
    assert (journal.head.executor, journal.failed_attempts) == ("local", ())


def die_before_the_record_once(work, marker, argument):
    """Die once after the files of a slice, and before its record."""
    if is_first(marker):
        Folder.write_bytes = die
    return work(argument)


def test_killed_workers_change_no_byte(tmp_path, in_process):
    write_corpus(tmp_path / "in")
    prepare(recipe(tmp_path / "in", tmp_path / "quiet"))
    marks = [str(tmp_path / "counting"), str(tmp_path / "tokenizing")]
    works = {
        work: partial(die_before_the_record_once, work, mark)
        for work, mark in zip([count_work, tokenize_work], marks, strict=True)
    }
    job = recipe(tmp_path / "in", tmp_path / "out")
    with in_place_of_ray(Replacing(works, LocalExecutor())):
        prepare(job)
    assert all(map(os.path.exists, marks))
    assert contents(tmp_path / "out") == contents(tmp_path / "quiet")
    assert verify(Folder(str(tmp_path / "out")), executor="local", cpus=1, deep=True).passed


DRIVER = """
import sys
from tests.job.test_local import hang, run
run(hang, sys.argv[1:], cpus=2)
"""


def test_workers_exit_when_their_driver_is_killed(tmp_path):
    marks = [tmp_path / "a", tmp_path / "b"]
    with subprocess.Popen([sys.executable, "-c", DRIVER, *marks], cwd=ROOT) as driver:
        until(lambda: all(mark.exists() and mark.read_text() for mark in marks))
        driver.kill()
    for mark in marks:
        until(partial(has_ended, mark.read_text()))


SCRIPT = """
from nanotok_ray.job.local import LocalExecutor
from nanotok_ray.job.task import Task
print('begin')
executor = LocalExecutor()
with executor.session(cpus=2):
    tasks = [Task(name=n, work=len, argument=n, num_bytes=0) for n in ('a', 'bc')]
    print(sorted(ended.result for ended in executor.run(tasks)))
"""


def test_a_script_without_a_main_guard_runs_its_job_once(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    assert python([tmp_path / "script.py"]).splitlines() == ["begin", "[1, 2]"]


def test_every_command_with_tasks_runs_them_on_the_executor(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("os.fsync", lambda _: None)  # no test simulates a power failure
    write_corpus(tmp_path / "in")
    path, out = tmp_path / "recipe.toml", tmp_path / "out"
    path.write_text(RECIPE.format(root=tmp_path / "in", out=out))
    sessions, tasks = set(), []

    def note(*, cpus, shared=()):
        folders = [each.url for each in shared if isinstance(each, SharedFolder)]
        sources = [each.name for each in shared if isinstance(each, SharedSource)]
        sessions.add((cpus, *folders, *sources))

    def order(given):
        tasks.append({task.name.split()[0] for task in given})
        return given

    with in_place_of_ray(InProcess(order=order, on_session=note)):
        for command in (
            ["prepare", str(path), "--cpus", "3"],
            ["verify", str(out), "--cpus", "4"],
            ["export", str(out), "--to", "raw", "--cpus", "5"],
        ):
            assert main(command) == 0, capsys.readouterr().err
    assert sessions == {(3, str(out), str(tmp_path / "out-work"), "web", "chats"), (4,), (5,)}
    assert tasks == [{"count"}, {"tokenize"}, {"verify"}, {"export"}]
