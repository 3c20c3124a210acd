"""The first Ctrl-C is a wish, the second is what it always was."""

import signal
import time

import pytest

from playhead.cli.signals import Ending, Terminated, first_signal

KINDS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_is_granted_and_the_second_does_what_it_did_before(kind: signal.Signals) -> None:
    heard: list[int] = []
    before = [signal.getsignal(each) for each in KINDS]
    with first_signal(heard.append):
        signal.raise_signal(kind)
        assert heard == [kind]
        assert [signal.getsignal(each) for each in KINDS] == before
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert heard == [kind]


def test_without_a_signal_everything_is_as_it_was() -> None:
    before = [signal.getsignal(each) for each in KINDS]
    with first_signal(lambda _: None):
        assert [signal.getsignal(each) for each in KINDS] != before
    assert [signal.getsignal(each) for each in KINDS] == before


def test_it_can_be_passed_on_to_whoever_was_there_before() -> None:
    with pytest.raises(KeyboardInterrupt), first_signal(signal.raise_signal):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("kind", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
)
def test_a_signal_that_meets_a_destructor_is_not_lost(
    kind: signal.Signals,
    raised: type[BaseException],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python prints an exception of a destructor, and goes on as if nothing had happened."""

    class Gone:
        def __del__(self) -> None:
            signal.raise_signal(kind)

    # It would end this process, or its engine, seconds later.
    monkeypatch.setattr(Ending, "_see_to_it", lambda _: None)
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ending = Ending()

    def work() -> None:
        Gone()
        time.sleep(10)

    try:
        with pytest.raises(raised), ending.listening():
            work()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ending.code is not None
    assert "Traceback" not in capsys.readouterr().err
