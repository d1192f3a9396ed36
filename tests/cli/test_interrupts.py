"""Interrupts wait for what must not be cut in two, but not for ever."""

from __future__ import annotations

import signal
import threading

import pytest

from tocsin.cli.interrupts import undisturbed


def test_an_interrupt_comes_when_the_block_is_over() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), undisturbed():
        signal.raise_signal(signal.SIGINT)
        done.append("the rest of it")
    assert done == ["the rest of it"]


def test_a_second_interrupt_comes_at_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), undisturbed():
        signal.raise_signal(signal.SIGINT)
        done.append("first")
        signal.raise_signal(signal.SIGINT)
        done.append("never")
    assert done == ["first"] and signal.getsignal(signal.SIGINT) is before


def test_without_interrupts_nothing_happens_and_errors_pass() -> None:
    before = signal.getsignal(signal.SIGINT)
    with undisturbed():
        pass
    with pytest.raises(ValueError, match="mine"), undisturbed():
        raise ValueError("mine")
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_are_never_interrupted() -> None:
    done: list[str] = []

    def work() -> None:
        with undisturbed():
            done.append("worked")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert done == ["worked"]
