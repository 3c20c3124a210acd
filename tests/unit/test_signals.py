"""The first Ctrl-C is a wish, the second is what it always was."""

import signal

import pytest

from playhead.cli.signals import first_signal

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
