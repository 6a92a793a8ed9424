"""SIGTERM becomes an exception whose exit code is kept, whatever handlers raise."""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from nanotok_ray.job import termination
from nanotok_ray.job.termination import Terminated, interruptible, terminable


def send():
    signal.raise_signal(signal.SIGTERM)  # to this thread


@pytest.fixture(autouse=True)
def nobody_else_listens():
    former = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield
    assert signal.signal(signal.SIGTERM, former) == signal.SIG_IGN


def test_finally_blocks_run_and_a_second_signal_does_not_interrupt_them():
    ran = []

    def run():
        try:
            send()
        finally:
            send()
            ran.append("cleaned up")

    with pytest.raises(Terminated) as caught, terminable():
        run()
    assert caught.value.code == 143
    assert ran == ["cleaned up"]
    assert isinstance(caught.value, SystemExit)


def test_a_converted_exception_still_terminates():
    def run(made):
        try:
            send()
        except Terminated:
            raise made from None

    for made in (SystemExit("SystemExit is raised"), OSError("closed"), KeyboardInterrupt()):
        with pytest.raises(Terminated), terminable():
            run(made)


def test_our_handler_can_be_set_again_after_ray_has_set_its_own():
    with pytest.raises(Terminated), terminable():
        raise SystemExit(int(signal.SIGTERM))  # Ray's handler
    with terminable() as listen:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        send()
        listen()
        with pytest.raises(Terminated):
            send()


def test_contexts_can_be_nested_and_other_errors_propagate():
    with pytest.raises(Terminated), terminable(), terminable():
        send()
    with pytest.raises(SystemExit, match="7"), terminable():
        raise SystemExit(7)
    with terminable():
        with terminable():
            pass
        with pytest.raises(Terminated):
            send()


def test_other_threads_leave_signal_handlers_unchanged():
    def handler():
        with terminable() as listen:
            listen()
            return signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor(max_workers=1) as pool:
        assert pool.submit(handler).result() == signal.SIG_IGN


@pytest.fixture
def ctrl_c(monkeypatch):
    """Return a function that presses Ctrl-C after some seconds; the clock stands still before."""
    now = 0.0
    monkeypatch.setattr(termination.time, "monotonic", lambda: now)

    def press(*, after=0.0):
        nonlocal now
        now += after
        signal.raise_signal(signal.SIGINT)

    yield press
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_ctrl_c_is_handled_once_and_after_a_while_again(ctrl_c):
    with interruptible():
        with pytest.raises(KeyboardInterrupt):
            ctrl_c()
        for seconds in (0, 1, 8):
            ctrl_c(after=seconds)
        with pytest.raises(KeyboardInterrupt):
            ctrl_c(after=1)
        ctrl_c(after=9)
    ctrl_c(after=100)  # the process is about to exit
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def test_without_ctrl_c_nothing_changes(ctrl_c):
    with interruptible():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interruptible():
        ctrl_c()
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
