"""An id means one replay, on every machine and from every face: its terms lie in the target's ledger."""

import base64
import json
import random
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead import Replay, files
from playhead.cli.app import main
from playhead.cli.replay import run_replay
from playhead.files.archive import archive_of
from playhead.files.target import FilesTarget
from playhead.files.terms import agree
from playhead.plan import Plan
from playhead.record import Slice
from playhead.replay import api
from playhead.replay.api import Planned
from playhead.replay.journal import Journal, OtherPlan
from playhead.request import Request
from playhead.span import Span
from playhead.target import Inspection
from playhead.terms import NO_TERMS, OtherTerms, Terms, UnknownTerms, Whereto, agreed, differing
from playhead.testing import Aborted, ListSource, ListTarget, armed
from playhead.testing.target_case import terms
from tests.fix_archives import commit, record, writing
from tests.unit.replaying import partition_plan, plan_of, runner, whole_plan
from tests.unit.replaying import record as lap
from tests.unit.standbys import COUNT, NoEngine, Room, furnished

TEN = [lap(offset, 100 * offset) for offset in range(10)]
WORDS = ("replay", "json:tape", "json:copy", "--id", "laps", "--yes")
_HASH = "0123456789abcdef" * 4


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setattr(api, "_engine", lambda configuration, *_: NoEngine(configuration))
    return furnished(tmp_path, monkeypatch)


@pytest.fixture
def another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on it is one that has never heard of any replay."""

    def move() -> None:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))

    return move


def code_of(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(words))
    return int(end.value.code or 0)


def grown(room: Room) -> None:
    """The tape has one more record than it had."""
    with writing(FilesTarget(str(room.tape), "json"), "later") as writer:
        commit(writer, Slice("t", 0, COUNT, COUNT + 1), [record(COUNT)])


def begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepared, and killed before the first slice."""

    def dies(planned: Planned, **_: Any) -> None:
        target = FilesTarget(str(Path("copy")), "json")
        target.prepare(planned.plan.replay_id, planned.plan.target, planned.plan.terms())
        planned.journal.keep(planned.plan, planned.servers)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run_replay.Planned, "run", dies)
        assert code_of(*WORDS) == 130


# --- through the command line and Python, on two machines


def test_the_same_id_elsewhere_goes_on_with_the_plan_that_was_begun(
    room, monkeypatch, another_machine, capsys
):
    begun(monkeypatch)
    another_machine()
    grown(room)
    assert code_of(*WORDS) == 0
    assert room.offsets() == list(range(COUNT))
    assert "the target's ledger already has laps with this plan" in capsys.readouterr().err


def test_a_replay_that_is_finished_is_finished_everywhere(room, another_machine, capsys):
    assert code_of(*WORDS) == 0
    before = {path: path.stat().st_mtime_ns for path in room.copy.rglob("*.json*")}
    another_machine()
    grown(room)
    capsys.readouterr()
    assert code_of(*WORDS, "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["totals"]["planned"] == COUNT
    after = {path: path.stat().st_mtime_ns for path in room.copy.rglob("*.jsonl")}
    assert after.items() <= before.items()


def test_the_same_id_with_another_span_is_refused_wherever_it_comes_from(
    room, another_machine, capsys
):
    assert code_of(*WORDS, "--offsets", "t:0:0-2") == 0
    another_machine()
    capsys.readouterr()
    assert code_of(*WORDS, "--offsets", "t:0:0-5") == 6
    said = capsys.readouterr().err
    assert 'span is "t:0:0-5"; the ledger says "t:0:0-2"' in said
    assert "another --id" in said
    asked = Replay(files(str(room.tape), form="json"), files(str(room.copy), form="json"))
    with pytest.raises(OtherTerms, match="span"):
        asked.plan(replay_id="laps")
    assert room.offsets() == [0, 1]


def test_python_meets_the_plan_that_the_command_line_began(room, another_machine):
    assert code_of(*WORDS, "--offsets", "t:0:0-2") == 0
    another_machine()
    ends = files(str(room.tape), form="json"), files(str(room.copy), form="json")
    planned = Replay(*ends, span=Span.of(offsets="t:0:0-2")).plan(replay_id="laps")
    assert planned.is_begun
    assert planned.run().adds_up
    assert len(room.entries("laps")) == 1


def test_a_plan_of_before_does_not_get_around_it(room, another_machine):
    """Two machines plan, one runs: the other's plan is another one, although nobody asked the ledger."""
    asked = Replay(files(str(room.tape), form="json"), files(str(room.copy), form="json"))
    early = asked.plan(replay_id="laps")
    grown(room)
    assert code_of(*WORDS) == 0
    another_machine()
    early.journal = Journal()
    with pytest.raises(OtherTerms, match=f"t:0:0-{COUNT} is planned, and is not in the plan"):
        early.run()
    assert room.offsets() == list(range(COUNT + 1))


def test_resume_reads_the_plan_from_the_ledger_of_the_target(
    room, monkeypatch, another_machine, capsys
):
    begun(monkeypatch)
    another_machine()
    grown(room)
    assert code_of("resume", "laps", "--yes") == 2
    assert code_of("resume", "nobody", "json:copy", "--yes") == 2
    assert "has no replay 'nobody'" in capsys.readouterr().err
    assert code_of("resume", "laps", "json:copy") == 6, "nobody said yes"
    capsys.readouterr()
    assert code_of("resume", "laps", "json:copy", "--yes") == 6, "who said what it reads?"
    assert f"add --source json:{room.tape}" in capsys.readouterr().err
    assert code_of("resume", "laps", "json:copy", "--yes", "--source", "json:else") == 2
    assert room.offsets() == []
    assert code_of("resume", "laps", "json:copy", "--yes", "--source", "json:tape") == 0
    assert room.offsets() == list(range(COUNT))
    assert Journal().get("laps").plan.request.source == f"json:{room.tape}"
    assert code_of("resume", "laps", "--yes") == 0, "now it is known here, too"
    assert code_of("resume", "laps", "json:copy", "--yes") == 0


@pytest.mark.parametrize(
    ("rule", "command", "code", "told"),
    [
        ("skip", ("resume", "--yes"), 2, "would run with --on-error; only the ledger says so"),
        (
            "dlq:other",
            ("verify",),
            6,
            "the dead letters of replay evil would be read from dlq:other",
        ),
    ],
)
def test_who_writes_a_ledger_chooses_no_option_and_no_topic(
    room, monkeypatch, another_machine, capsys, rule, command, code, told
):
    """The rest of the plan is one that somebody did begin."""
    begun(monkeypatch)
    plan = Journal().find("laps").plan
    hostile = replace(plan, replay_id="evil", request=replace(plan.request, on_error=rule))
    FilesTarget("copy", "json").prepare("evil", hostile.target, hostile.terms())
    another_machine()
    name, *more = command
    capsys.readouterr()
    assert code_of(name, "evil", "json:copy", "--source", "json:tape", *more) == code
    assert told in capsys.readouterr().err
    assert room.offsets() == []


def test_an_id_of_this_machine_is_one_plan(room):
    asked = Replay(files(str(room.tape), form="json"), files(str(room.copy), form="json"))
    asked.plan(replay_id="laps").run()
    other = replace(asked, target=files(str(room.copy) + "2", form="json"))
    with pytest.raises(OtherPlan, match="has another plan into"):
        other.plan(replay_id="laps").run()
    assert not Path(f"{room.copy}2").exists()


def test_verify_holds_the_plan_against_the_ledgers(room, another_machine):
    asked = Replay(files(str(room.tape), form="json"), files(str(room.copy), form="json"))
    early = asked.plan(replay_id="laps")
    grown(room)
    assert code_of(*WORDS) == 0
    another_machine()
    with pytest.raises(OtherTerms):
        early.verify()


# --- the run


def test_a_target_that_was_dropped_and_made_again_is_refused(tmp_path):
    source, target = ListSource(TEN), ListTarget()
    plan = whole_plan(source)
    assert runner(plan, source, target, tmp_path).run().adds_up
    target.made, target._rows = "made again", []
    with pytest.raises(OtherTerms, match=r"made again; the ledger says .*dropped") as caught:
        runner(plan, source, target, tmp_path).run()
    assert caught.value.exit_code == 6
    assert not target.records


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_that_begin_at_once_one_wins(first, tmp_path):
    source, target = ListSource(TEN), ListTarget()
    plans = [plan_of(partition_plan(0, n), source=source.facts()) for n in (10, 6)]
    assert runner(plans[first], source, target, tmp_path / "a").run().adds_up
    with pytest.raises(OtherTerms, match="in the plan that the ledger has"):
        runner(plans[1 - first], source, target, tmp_path / "b").run()
    assert len(target.records) == (10, 6)[first]


def test_a_ledger_without_terms_goes_on_and_the_proof_says_so(tmp_path):
    source, target = ListSource(TEN), ListTarget()
    plan = whole_plan(source)
    runner(plan, source, target, tmp_path).run()
    target._terms.clear()  # as a version had it that wrote none down
    said: list[str] = []
    proof = runner(plan, source, target, tmp_path, say=said.append).run()
    assert proof.adds_up
    assert NO_TERMS in {note.code for note in proof.notes}
    assert any("without writing terms" in each for each in said)
    assert NO_TERMS not in {n.code for n in runner(plan, source, target, tmp_path).run().notes}


# --- archives


def with_plan(name: str) -> Terms:
    return terms(digest=name, rules={"span": name})


def test_of_many_machines_at_one_archive_one_wins(tmp_path):
    start, outcomes = Barrier(8), {}

    def prepare(name: str) -> None:
        target = FilesTarget(str(tmp_path / "copy"))
        start.wait()
        try:
            target.prepare("r", Inspection(""), with_plan(name))
            outcomes[name] = "won"
        except OtherTerms:
            outcomes[name] = "refused"

    threads = [Thread(target=prepare, args=(f"plan {n % 4}",)) for n in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    kept = FilesTarget(str(tmp_path / "copy")).terms("r")
    assert kept is not None
    assert [name for name, outcome in outcomes.items() if outcome == "won"] == [kept.digest]


class NoLocks:
    """A store that keeps nobody out, and in which others act at chosen moments, as in S3."""

    def __init__(self, root: Path) -> None:
        self.inner = archive_of(str(root), "parquet").store
        self.before_publish: Callable[[], None] = lambda: None
        self.after_publish: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def alone(self, *_: str) -> Any:
        from contextlib import nullcontext

        return nullcontext()

    def publish(self, path: str, pieces: Any, /, aside: Callable[[], None] = lambda: None) -> None:
        self.before_publish()
        self.inner.publish(path, pieces, aside=aside)
        self.after_publish()


@pytest.mark.parametrize("moment", ["before_publish", "after_publish"])
def test_where_no_lock_helps_two_never_both_go_on(moment, tmp_path):
    root = tmp_path / "copy"
    FilesTarget(str(root)).prepare("another", Inspection(""), terms())
    store = NoLocks(root)
    ours = replace(archive_of(str(root), "parquet"), store=store)
    theirs = replace(archive_of(str(root), "parquet"), store=NoLocks(root))
    went_on = []

    def they_come() -> None:
        setattr(store, moment, lambda: None)
        try:
            agree(theirs, "r", with_plan("theirs"))
            went_on.append("theirs")
        except OtherTerms:
            pass

    setattr(store, moment, they_come)
    try:
        agree(ours, "r", with_plan("ours"))
        went_on.append("ours")
    except OtherTerms:
        pass
    assert len(went_on) <= 1
    kept = FilesTarget(str(root)).terms("r")
    assert [kept.digest] == went_on if kept else went_on == []


def test_one_that_dies_before_it_takes_its_terms_back_stops_nobody(tmp_path):
    """In S3: it looked before the others wrote, and wrote after they went on."""
    root = tmp_path / "copy"
    target = FilesTarget(str(root))
    target.prepare("another", Inspection(""), terms())
    store = NoLocks(root)
    ours = replace(archive_of(str(root), "parquet"), store=store)

    def they_come() -> None:
        target.prepare("r", Inspection(""), with_plan("theirs"))

    def die() -> None:
        raise Aborted("between its terms and its second look")

    store.before_publish, store.after_publish = they_come, die
    with pytest.raises(Aborted):
        agree(ours, "r", with_plan("ours"))
    assert len(list((root / "_playhead" / "replay=r").glob("terms-*.json"))) == 2
    kept = target.terms("r")
    assert kept is not None
    assert kept.digest == "theirs"
    target.prepare("r", Inspection(""), with_plan("theirs"))
    with pytest.raises(OtherTerms):
        target.prepare("r", Inspection(""), with_plan("ours"))


@pytest.mark.parametrize(
    "point",
    ["files.before_terms", "files.terms_aside", "files.terms_written", "files.terms_agreed"],
)
def test_killed_while_terms_are_written(point, tmp_path):
    target = FilesTarget(str(tmp_path / "copy"))
    with armed(f"{point}=raise"), pytest.raises(Aborted):
        target.prepare("r", Inspection(""), with_plan("first"))
    assert not target.entries("r")
    is_there = point in ("files.terms_written", "files.terms_agreed")
    assert (target.terms("r") is not None) == is_there
    if is_there:
        with pytest.raises(OtherTerms):
            target.prepare("r", Inspection(""), with_plan("second"))
    target.prepare("r", Inspection(""), with_plan("first" if is_there else "second"))


# --- as text


facts = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)
some_terms = st.builds(
    Terms,
    digest=st.sampled_from(["", "a", "b"]),
    source=st.text(max_size=5),
    topics=facts,
    target=st.text(max_size=5),
    rules=facts,
    plan=st.none() | facts,
    places=st.dictionaries(
        st.text(max_size=5),
        st.builds(Whereto, st.text(max_size=5), st.text(max_size=5)),
        max_size=3,
    ),
    settled=facts,
)


@given(some_terms)
def test_terms_survive_as_text(kept):
    assert Terms.from_json(kept.as_json()) == kept
    assert differing(kept, kept) == [] or any(not each.id for each in kept.places.values())


@given(some_terms, some_terms)
def test_what_agrees_agrees_for_ever(kept, wanted):
    if differing(kept, wanted):
        return
    whole = agreed("r", kept, wanted)
    assert agreed("r", whole, kept.begun()) == whole
    assert whole.digest == kept.digest


def test_a_plan_that_would_unpack_without_end_is_not_unpacked():
    packed = base64.b64encode(zlib.compress(b"[" * 200_000_000)).decode()
    document = json.loads(terms().as_json()) | {"plan": packed}
    with pytest.raises(ValueError, match="longer than 100000000 bytes"):
        Terms.from_json(json.dumps(document))
    cut = base64.b64encode(zlib.compress(b"{}")[:-4]).decode()
    with pytest.raises(ValueError, match="cut short"):
        Terms.from_json(json.dumps(document | {"plan": cut}))
    with pytest.raises(ValueError, match="damaged"):
        Terms.from_json(json.dumps(document | {"plan": "abcd"}))


@pytest.mark.slow  # makes a huge plan
def test_a_large_plan_is_packed_and_a_huge_one_left_out():
    some = random.Random(1)

    def plan_with(runs: int) -> Plan:
        edges = sorted(some.sample(range(10**9), 2 * runs))
        pairs = zip(edges[::2], edges[1::2], strict=True)
        return plan_of(*(partition_plan(start, end) for start, end in pairs))

    large = plan_with(20_000)
    text = large.terms().as_json()
    assert len(text) < 800_000
    kept = Terms.from_json(text)
    assert Plan.from_document(kept.plan).digest() == large.digest()
    huge = Terms.from_json(plan_with(80_000).terms().as_json())
    assert huge.plan is None
    assert huge.digest


def test_terms_of_a_later_version_are_not_half_understood(tmp_path):
    target = FilesTarget(str(tmp_path / "copy"))
    target.prepare("r", Inspection(""), terms())
    [file] = (tmp_path / "copy" / "_playhead" / "replay=r").glob("terms-*.json")
    file.write_text(file.read_text().replace('"version":1', '"version":2'))
    with pytest.raises(UnknownTerms, match="version 2"):
        target.prepare("r", Inspection(""), terms())


def test_the_digest_is_of_the_work_and_of_nothing_else():
    plan = plan_of(partition_plan(0, 6))
    same = replace(plan, made_at_ms=7, samples=({"a": 1},), target=Inspection("moved"))
    assert same.digest() == plan.digest()
    assert Plan.from_json(plan.as_json(), where="here").digest() == plan.digest()
    others = (
        replace(plan, partitions=(partition_plan(0, 5),)),
        replace(plan, request=replace(plan.request, on_error="skip")),
        replace(plan, to_ms=1),
        replace(plan, replay_id="r2"),
    )
    assert len({each.digest() for each in (plan, *others)}) == 5
    assert list(plan.terms().plan["samples"]) == []
    assert Request(source="kafka:a", target="kafka:b").said() == {
        "source": "kafka:a",
        "target": "kafka:b",
    }
