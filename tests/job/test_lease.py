"""The lease of an output: one contender holds it, dead ones lose it, live ones keep it."""

import copy
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nanotok_ray.errors import LeaseLostError, OutputInUseError, TransientIOError
from nanotok_ray.job import holder as lease_holder
from nanotok_ray.job.events import Activity, Advanced, Note, StageStarted, ignore
from nanotok_ray.job.holder import Holder
from nanotok_ray.job.lease import (
    EXPIRY_SECONDS,
    RENEW_SECONDS,
    Clock,
    Lease,
    free_number,
    lease_in_force,
    lease_name,
    leased,
    take,
)
from nanotok_ray.storage import Folder
from tests.support.machine_speed import scaled

HERE = {"host": "a", "machine": "m", "boot": "b", "pid_namespace": "pid:[1]"}
ELSEWHERE = {"host": "z", "machine": "n", "boot": "c", "pid_namespace": "pid:[2]"}


class StoppedError(Exception):
    """Raised when a contender would wait."""


def stop(_):
    raise StoppedError


AT_ONCE = Clock(sleep=stop)
NOW = 1_800_000_000.0


def is_held(lease):
    """Return whether a run holds its lease, without a change of what it knows."""
    try:
        copy.copy(lease).check()
    except LeaseLostError:
        return False
    return True


class Times:
    """A clock that advances during waits, with actions at given times."""

    def __init__(self, meanwhile=lambda: None):
        self.seconds, self.meanwhile = 0.0, meanwhile
        self.clock = Clock(
            now=lambda: self.seconds, sleep=self.sleep, wall=lambda: NOW + self.seconds
        )

    def sleep(self, seconds):
        self.seconds += seconds
        self.meanwhile()


@pytest.fixture
def processes(monkeypatch):
    """Processes of this host by PID: state and start time."""
    known = {number: ("S", f"{number}00") for number in range(1, 10)}
    monkeypatch.setattr(lease_holder, "process_state", lambda pid: known.get(pid, ("", "")))
    return known


def process(number, place=None):
    return Holder(**(place or HERE), pid=number, started=f"{number}00")


def taken(out, me, clock=AT_ONCE, on_event=ignore):
    return take(out, command=f"run {me.pid}", on_event=on_event, me=me, clock=clock)


def test_a_free_lease_is_acquired_at_once_and_numbers_only_grow(out, processes):
    for number in range(1, 4):
        lease = taken(out, process(number))
        assert lease.number == number
        assert out.list("run/lease/") == [lease_name(number)]
        lease.check()
        lease.release()
    assert free_number(out) == 3
    assert free_number(Folder(out.join("other"))) == 0


def test_a_living_holder_keeps_the_lease_and_the_contender_names_it(out, processes):
    times = Times(lambda: lease.renew() if times.seconds % RENEW_SECONDS == 0 else None)
    lease = taken(out, process(1), times.clock)
    notes = []
    with pytest.raises(OutputInUseError, match="run 1 on host a, process 1, since 20") as caught:
        taken(out, process(2, ELSEWHERE), times.clock, notes.append)
    assert "two runs cannot write one output" in str(caught.value)
    assert times.seconds == RENEW_SECONDS
    note, activity = notes
    assert "Waiting up to 60 s to see whether it is still alive." in note.text
    assert activity == Activity(text="waiting for the lease of another run")
    assert free_number(out) is None
    lease.check()


@pytest.mark.parametrize(
    "death", [None, ("Z", "100"), ("S", "999")], ids=["gone", "zombie", "number used again"]
)
def test_a_dead_process_of_this_host_loses_the_lease_at_once(out, processes, death):
    taken(out, process(1))
    processes.pop(1) if death is None else processes.update({1: death})
    assert free_number(out) is None  # requested by a process of another host
    assert taken(out, process(2)).number == 2


@pytest.mark.parametrize(
    "other", [{"boot": "z"}, {"pid_namespace": "pid:[7]"}], ids=["other boot", "other container"]
)
def test_a_pid_is_not_judged_where_it_means_another_process(out, processes, other):
    taken(out, process(77, HERE | other))
    with pytest.raises(StoppedError):
        taken(out, process(2))


def test_a_live_process_of_this_host_keeps_the_lease_and_nobody_waits(out, processes):
    notes, times = [], Times()
    lease = taken(out, process(1), times.clock)
    with pytest.raises(OutputInUseError, match="two runs cannot write one output"):
        taken(out, process(2), times.clock, notes.append)
    assert (notes, times.seconds) == ([], 0)
    lease.release()
    assert taken(out, process(2), times.clock).number == 2
    assert taken(out, process(2), times.clock).number == 3  # no process is refused for its own


def test_a_restart_of_the_host_is_detected_but_not_from_or_of_a_container(processes):
    outside = HERE | {"pid_namespace": "pid:[4026531836]"}
    before, inside = process(1, outside | {"boot": "a"}), process(1, HERE | {"boot": "a"})
    assert before.is_dead(process(2, outside))
    assert not before.is_dead(process(2, outside | {"machine": "other"}))
    assert not any(each.is_dead(process(2, HERE)) for each in (before, inside))
    assert not inside.is_dead(process(2, outside))


def test_the_contender_is_described_and_alive():
    me = Holder.this_process()
    assert all((me.pid, me.started, me.boot))
    assert not me.is_dead(me)


def test_a_silent_holder_of_another_host_loses_the_lease_exactly_after_the_expiry(out, processes):
    times = Times()
    lost = taken(out, process(1, ELSEWHERE), times.clock)
    lost.check()
    lease = taken(out, process(2), times.clock)
    assert EXPIRY_SECONDS <= times.seconds < EXPIRY_SECONDS + 2
    lease.check()
    with pytest.raises(LeaseLostError, match="another run has taken over"):
        lost.check()
    lost.renew()
    lost.release()
    assert out.list("run/lease/") == [lease_name(2)]
    lease.check()
    out.write_bytes(lease_name(41), b"{")  # a lease that nobody can read expires too
    times.seconds = 0
    assert taken(out, process(1), times.clock).number == 42
    assert times.seconds >= EXPIRY_SECONDS
    times.meanwhile = lambda: setattr(times, "seconds", times.seconds + 1000)
    taken(out, process(1, ELSEWHERE), times.clock)
    times.seconds = 0
    taken(out, process(2), times.clock)  # the time in which it was suspended does not count
    assert times.seconds > 1000 * EXPIRY_SECONDS / 2 - 1000


def test_a_slow_contender_does_not_acquire_an_old_number(out, processes, monkeypatch):
    leases, slow = [], Folder(out.url)

    def write_new(name, data):
        if not leases:  # others are faster
            taken(out, process(1)).release()
            leases.append(taken(out, process(2)))
        return out.write_new(name, data)

    monkeypatch.setattr(slow, "write_new", write_new)
    with pytest.raises(OutputInUseError, match="run 2 on host a"):
        taken(slow, process(3))
    leases[0].check()
    assert out.list("run/lease/") == [lease_name(2)]


class WithoutConditions(Folder):
    """A folder of a store that replaces an object although it is asked not to."""

    def __init__(self, url, *, after_write=lambda: None):
        super().__init__(url)
        self.after_write = after_write

    def write_new(self, name, data):
        self.write_bytes(name, data)
        self.after_write()
        return True


def contender(out, number, me, clock=AT_ONCE):
    return Lease(out, number, command=f"run {me.pid}", me=me, clock=clock)


def test_the_loser_of_two_runs_that_start_at_once_learns_what_happened(out, processes):
    store, times = WithoutConditions(out.url), Times()
    first, second = (
        contender(store, 1, process(1), times.clock),
        contender(store, 1, process(2, ELSEWHERE), times.clock),
    )
    assert first.create()
    assert second.create()
    times.seconds += RENEW_SECONDS
    with pytest.raises(LeaseLostError) as caught:
        first.check()
    error = str(caught.value)
    assert "which started at the same time (run 2 on host z, process 2" in error
    assert "lacks conditional writes" in error
    assert "renew" not in error
    second.check()


def test_a_contender_leaves_the_lease_that_another_run_wrote_over_its_own(out, processes):
    other = contender(WithoutConditions(out.url), 1, process(2, ELSEWHERE))
    own = contender(WithoutConditions(out.url, after_write=other.create), 1, process(1))
    assert not own.create()
    assert out.list("run/lease/") == [lease_name(1)]
    other.check()


def test_a_lease_whose_file_is_gone_is_lost_for_good(out, processes):
    lease = taken(out, process(1))
    out.remove(lease_name(1))
    lease.renew()
    assert lease_in_force(out) is None
    taken(out, process(2)).release()
    with pytest.raises(LeaseLostError, match=r"run/lease/000001\.json, .* this run, was removed"):
        lease.check()


def test_a_lease_that_was_taken_from_a_run_for_dead_says_so(out, processes):
    lease = taken(out, process(1))
    processes.pop(1)
    taken(out, process(2))
    with pytest.raises(LeaseLostError, match=r"run 2 on host a.*this run had ended"):
        lease.check()


def test_storage_is_checked_between_slices_only_after_long_renewal_failures(out, processes):
    times = Times()
    lease = taken(out, process(1), times.clock)
    out.write_bytes(lease_name(2), b"{}")
    slice_done = Advanced(stage="count", done=1, todo=2, num_bytes=1)
    lease.guard(slice_done)
    times.seconds += EXPIRY_SECONDS
    with pytest.raises(LeaseLostError):
        lease.guard(slice_done)
    other = Folder(out.join("other"))
    lease = taken(other, process(1), times.clock)
    started = StageStarted(stage="verify", todo=1, num_done=0, num_bytes=0)
    lease.guard(started)
    other.write_bytes(lease_name(9), b"{}")
    lease.guard(Note(text="nothing is asked for a note"))
    with pytest.raises(LeaseLostError):
        lease.guard(started)


def test_the_thread_renews_and_releases_even_after_errors(out, monkeypatch):
    renewed, faults, renew = threading.Event(), [TransientIOError("not now")], Lease.renew

    def fail_first(self):
        if faults:
            raise faults.pop()
        renew(self)
        renewed.set()

    monkeypatch.setattr(Lease, "renew", fail_first)

    def run():
        with leased(out, command="x", on_event=ignore, renew_seconds=0.001):
            assert renewed.wait(scaled(30))
            raise ValueError("the run")

    with pytest.raises(ValueError, match="the run"):
        run()
    values = json.loads(out.read_bytes(lease_name(1)))
    assert values["state"] == "released"
    assert values["renewals"] > 0
    assert free_number(out) == 1


def test_on_an_object_store_one_of_many_acquires_the_lease(remote, processes):
    def contend(number):
        """Acquire the lease as a process of unknown state; None: another one was faster."""
        try:
            return taken(remote, Holder(pid=number))
        except (StoppedError, OutputInUseError):
            return None

    for number in range(1, 3):
        with ThreadPoolExecutor(max_workers=3) as pool:
            [won] = filter(None, list(pool.map(contend, range(1, 4))))
        assert won.number == number
        assert remote.list("run/lease/") == [lease_name(number)]
        won.renew()
        won.check()
        won.release()


class Contenders(RuleBasedStateMachine):
    """Four processes of two hosts that acquire, renew, release, freeze, die and restart."""

    def __init__(self):
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.processes = {}
        self.patch.setattr(
            lease_holder, "process_state", lambda pid: self.processes.get(pid, ("", ""))
        )
        self.out = Folder(f"memory://leases-{id(self)}")
        self.times = Times(self.renew_all)
        self.me, self.leases, self.stopped = {}, {}, set()
        for slot in range(4):
            self.begin(slot)

    def teardown(self):
        self.patch.undo()
        for name in self.out.list():
            self.out.remove(name)

    def begin(self, slot):
        pid = len(self.processes) * 4 + slot + 1
        self.processes[pid] = ("S", f"{pid}00")
        self.me[slot] = process(pid, HERE if slot < 2 else ELSEWHERE)

    def renew_all(self):
        if self.times.seconds % RENEW_SECONDS == 0:
            for slot in self.leases.keys() - self.stopped:
                self.leases[slot].renew()

    def holding(self):
        """Return the processes that storage would now report as holders of the lease."""
        return [slot for slot, own in self.leases.items() if is_held(own)]

    def is_beside(self, slot, other):
        """Return whether both are on one host, so that a frozen process is visible."""
        return (slot < 2) == (other < 2)

    @invariant()
    def at_most_one_holds_it(self):
        assert len(self.holding()) <= 1

    @rule(slot=st.integers(0, 3))
    def take_it(self, slot):
        if slot in self.leases or slot in self.stopped:
            return
        holding, start = self.holding(), self.times.seconds
        before = lease_in_force(self.out)
        is_dead = before is not None and before.is_free(self.me[slot])
        try:
            lease = taken(self.out, self.me[slot], self.times.clock)
        except OutputInUseError:
            assert holding
            assert not self.stopped.issuperset(holding) or self.is_beside(slot, holding[0])
            return
        assert not set(holding) - self.stopped
        waited = self.times.seconds - start
        is_free = before is None or is_dead
        assert waited == 0 if is_free else waited >= EXPIRY_SECONDS
        self.leases[slot] = lease

    @rule(slot=st.integers(0, 3))
    def release_it(self, slot):
        if slot in self.leases and slot not in self.stopped:
            self.leases.pop(slot).release()

    @rule(slot=st.integers(0, 3))
    def stand_still(self, slot):
        self.stopped.add(slot)

    @rule(slot=st.integers(0, 3))
    def go_on(self, slot):
        if slot in self.stopped:
            self.stopped.discard(slot)
            if slot in self.leases:
                self.leases[slot].renew()

    @rule(slot=st.integers(0, 3))
    def die_and_start_again(self, slot):
        self.processes[self.me[slot].pid] = ("", "")
        self.leases.pop(slot, None)
        self.stopped.discard(slot)
        self.begin(slot)

    @precondition(lambda self: self.leases)
    @rule(slot=st.integers(0, 3))
    def ask(self, slot):
        if slot in self.leases and slot not in self.stopped:
            is_ours = slot in self.holding()
            try:
                self.leases[slot].check()
            except LeaseLostError:
                assert not is_ours
                del self.leases[slot]
            else:
                assert is_ours

    @rule(seconds=st.integers(1, 200))
    def time_goes_by(self, seconds):
        for _ in range(seconds):
            self.times.sleep(1)


TestContenders = Contenders.TestCase
TestContenders.settings = settings(stateful_step_count=30, deadline=None)
