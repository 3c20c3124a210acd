"""The kept poison can be read, and is what its labels say."""

from tests import poison


def test_every_poison_has_a_label_of_its_own_and_can_be_built():
    for walk in (poison.names, poison.records, poison.files):
        labels = [each.label for each in walk()]
        assert len(labels) > 40
        assert len(set(labels)) == len(labels)


def test_poison_that_no_process_can_be_given_says_so():
    can = {each.label: each.can_be_argument for each in poison.names()}
    assert not can["nul"]
    assert not can["lone-high-surrogate"]
    assert can["escape-clear-screen"]
    assert can["lone-low-surrogate"], "a byte that is no UTF-8"


def test_long_poison_is_written_short():
    deep = next(each for each in poison.records() if each.label == "deep-100000")
    assert deep.value is not None
    assert deep.value.count(b"[") == 100_000
