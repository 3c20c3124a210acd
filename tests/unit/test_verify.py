"""The words of `playhead verify`: a run, or a source and a target with a span."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from playhead.cli.app import app
from playhead.errors import Unavailable, UsageError
from playhead.kafka.read.consumer import OffsetsFall
from playhead.ledger import Entry
from playhead.replay.assemble import Wiring
from playhead.replay.planner import Planner
from playhead.replay.verify import PartitionCheck, Verification, comparing_job, findings_of
from playhead.source import Bounds
from playhead.task.slicer import Filter, Limits
from playhead.testing import ListSource, ListTarget
from tests.unit.replaying import TOPIC, Small, record, request


def refused(*words: str) -> UsageError:
    answer = CliRunner().invoke(app, ["verify", *words])
    assert isinstance(answer.exception, UsageError), answer.exception
    return answer.exception


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--from", "start"), "--from"),
        (("--offsets", "0:1-2"), "--offsets"),
        (("--where", "offset > 1"), "--where"),
        (("--on-conflict", "newer"), "--on-conflict"),
    ],
)
def test_a_run_has_its_own_span_and_rules(words, named):
    error = refused("7f3a", *words)
    assert error.message == f"{named} does not go with a run, which has its own"
    assert error.hint == "without a run: playhead verify SOURCE TARGET"


def test_a_run_that_nobody_knows(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert "no replay 'zzzz' here" in refused("zzzz").message


def test_a_source_needs_a_target():
    error = refused("kafka:a", "--from", "start")
    assert error.message == "kafka:a is a source; its TARGET is missing"
    assert "playhead verify kafka:a TARGET" in str(error.hint)


def test_what_a_source_and_a_target_need_is_not_for_writing(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("DATABASE_URL", raising=False)
    answer = CliRunner().invoke(app, ["verify", "rrpair:snap", "postgres:b"])
    assert str(answer.exception) == "postgres:b needs setting database, which was not found"


class Fallen(ListSource):
    """A log whose offsets fall."""

    def read(self, slice_, /):
        raise OffsetsFall((TOPIC, 0), 7, 3)


def test_what_could_not_be_read_keeps_its_hint():
    log, target = [record(offset) for offset in range(8)], ListTarget()
    plan = Planner(request(), Wiring(ListSource(log), target, None), 1).plan("r1")
    entries = [Entry(each, read=8, written=8) for each in plan.slices()]
    ends = Wiring(Fallen(log), target, None)
    job = comparing_job("r1", ends, plan.source, entries, Filter(), 1)
    with pytest.raises(Unavailable, match="could not read everything") as raised:
        findings_of(Small(Limits(2)), job)
    assert raised.value.hint == OffsetsFall((TOPIC, 0), 7, 3).hint


def test_a_source_must_be_one(tmp_path):
    assert "postgres cannot be a source" in refused("postgres:laps", f"json:{tmp_path}").message
    assert "--decode" in refused("kafka:laps", "kafka:copy", "--decode", "maybe").message


class TestTheVerdict:
    def verified(self, uncovered=0, **counts):
        same = counts.pop("same", 0)
        counted = {"expected": same + sum(counts.values()), "found": same} | {"different": 0}
        check = PartitionCheck(
            "laps", 0, 1, checksums_agree=not counts, same=same, **(counted | counts)
        )
        return Verification("7f3a", (check,), (), uncovered)

    def test_all_is_the_same(self):
        found = self.verified(same=1000)
        assert found.agrees
        assert found.verdict() == "verified: 1,000 records read back, 0 differences"

    def test_one_differs(self):
        found = self.verified(same=9, different=1, unknown=2)
        assert not found.agrees
        assert found.verdict() == (
            "DIFFERENT: 12 records read back, 1 differences, 2 that could not be compared"
        )

    def test_it_never_agrees_with_something_excused(self):
        found = self.verified(same=9, unknown=1)
        assert not found.agrees
        assert found.verdict() == (
            "CANNOT BE TOLD: 10 records read back, 0 differences, 1 that could not be compared"
        )
        counts = {name: found.as_document()[name] for name in ("same", "different", "unknown")}
        assert counts == {"same": 9, "different": 0, "unknown": 1}

    @pytest.mark.parametrize(
        ("kinds", "different", "word"),
        [
            (["missing"], 1, "CANNOT BE TOLD"),
            (["missing", "unknown"], 1, "CANNOT BE TOLD"),
            (["missing", "changed"], 2, "DIFFERENT"),
            (["changed"], 1, "DIFFERENT"),
            # The list ends at a hundred, and what is not on it may be changed.
            (["missing"] * 100, 101, "DIFFERENT"),
        ],
    )
    def test_policies_excuse_missing_rows_alone_and_only_if_all_are_known(
        self, kinds, different, word
    ):
        found = self.verified(same=9, different=different)
        listed = tuple({"kind": kind} for kind in kinds)
        assert replace(found, differences=listed).verdict().startswith("DIFFERENT")
        hidden = replace(found, differences=listed, policed=("laps",))
        assert hidden.verdict().startswith(word)
        assert not hidden.agrees

    def test_what_was_not_read_back(self):
        found = self.verified(same=9, uncovered=3)
        assert found.verdict() == (
            "CANNOT BE TOLD: 9 records read back, 0 differences, "
            "3 offsets not replayed yet, or not read back"
        )

    def test_a_span_that_an_open_transaction_cuts_cannot_be_told(self):
        source = ListSource(
            [record(offset, 1_600_000_000_000) for offset in range(8)],
            bounds={(TOPIC, 0): Bounds(0, 8, 28)},
        )
        span = "1600000000000..1600000030000"
        plan = Planner(request(span=span), Wiring(source, ListTarget(), None), 1).plan("r1")
        found = self.verified(same=8).after(plan, ListTarget(), is_of_run=False)
        assert not found.agrees
        assert found.verdict() == (
            "CANNOT BE TOLD: 8 records read back, 0 differences; NOT the whole span: 20 offsets "
            "behind an open transaction could not be read"
        )
        document = found.as_document()
        assert (document["unstable"], document["agrees"]) == (20, False)
        assert [note["code"] for note in document["notes"]] == ["open-transaction"]
        of_run = self.verified(same=8).after(plan, ListTarget(), is_of_run=True)
        assert of_run.agrees, "the run had planned no more"
        assert (
            "verified: 8 records read back, 0 differences; NOT the whole span" in of_run.verdict()
        )

    @pytest.mark.parametrize(
        ("span", "hidden"),
        [("start..end", 20), ("0:3-", 20), ("0:3-8", 0), ("0:0-5", 0)],
    )
    def test_a_log_whose_end_an_open_transaction_hides_cannot_be_told(self, span, hidden):
        """Who deletes the source after `verified` would lose what is committed behind it."""
        records = [record(offset) for offset in range(8)]
        source = ListSource(records, bounds={(TOPIC, 0): Bounds(0, 8, 28)})
        asked = request(span=span)
        plan = Planner(asked, Wiring(source, ListTarget(), None), 1).plan("r1")
        found = self.verified(same=8).after(plan, ListTarget(), is_of_run=False)
        assert (found.unstable, found.agrees) == (hidden, not hidden)
        of_run = self.verified(same=8).after(plan, ListTarget(), is_of_run=True)
        assert (of_run.unstable, of_run.agrees) == (0, True)

    def test_a_span_whose_first_records_were_deleted_cannot_be_told(self):
        source = ListSource(
            [record(offset, 1_600_000_000_000) for offset in range(5, 8)],
            bounds={(TOPIC, 0): Bounds(5, 8, 8)},
        )
        span = "1599999999000..1600000030000"
        plan = Planner(request(span=span), Wiring(source, ListTarget(), None), 1).plan("r1")
        found = self.verified(same=3).after(plan, ListTarget(), is_of_run=False)
        assert not found.agrees
        assert found.verdict() == (
            "CANNOT BE TOLD: 3 records read back, 0 differences; NOT the whole span: the log begins "
            "inside it (expired)"
        )
        assert [note.code for note in found.notes()] == ["expired"]
        of_run = self.verified(same=3).after(plan, ListTarget(), is_of_run=True)
        assert of_run.agrees, "the run had planned no more"
