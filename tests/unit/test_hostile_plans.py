"""Plans that somebody else has written, in a file or in a ledger: what they can make us do, and what we say."""

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead import plan as plans
from playhead.cli.app import main
from playhead.cli.replay.run_replay import need_letters, need_rules
from playhead.config.context import configure
from playhead.config.kafka_connection import KafkaConnection
from playhead.endpoint import Endpoint
from playhead.errors import Refused, UsageError
from playhead.kafka.read.source import KafkaSource
from playhead.kafka.write.inspect import topics_made
from playhead.plan import Plan
from playhead.postgres.create_table import NewTable
from playhead.postgres.session import TableName
from playhead.record import Slice
from playhead.replay import api, begun_replays
from playhead.replay.begun_replays import NotBegun, PlanNotKept, begun_plan, plan_from_ledger
from playhead.replay.journal import Journal
from playhead.shown import plan_lines
from playhead.source import OutOfBounds
from playhead.target import Inspection, Target
from playhead.terms import Terms
from playhead.transform.tokens import BadExpression
from tests.unit.replaying import partition_plan, plan_of, request
from tests.unit.standbys import Room, furnished

REFLECT = "reflect('java.lang.System', 'exit', 1) is null"


class Kept:
    """A target of whose ledger somebody else has written what it says."""

    def __init__(self, terms: Terms | None) -> None:
        self._terms = terms

    def terms(self, _: str) -> Terms | None:
        return self._terms


Ledger = Callable[[Terms | None], None]


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    def says(terms: Terms | None) -> None:
        monkeypatch.setattr(begun_replays, "target_at", lambda *_: Kept(terms))

    return says


def resumed(plan: Plan, target: str | None = None, **changes: Any) -> Plan:
    end = Endpoint.parse(target or plan.request.target)
    return plan_from_ledger(plan.replay_id, end, configure({}))


def test_the_plan_of_a_ledger_is_taken_as_it_was_begun(ledger: Ledger) -> None:
    plan = plan_of(partition_plan(0, 5))
    ledger(plan.terms())
    assert resumed(plan) == plan
    ledger(None)
    with pytest.raises(NotBegun):
        resumed(plan)


@pytest.mark.parametrize(
    "change",
    [
        {"request": request(source="kafka:secrets")},
        {"request": request(where="true")},
        {"replay_id": "r2"},
        {"partitions": (partition_plan(0, 6),)},
    ],
)
def test_a_plan_of_other_work_than_its_ledger_says_is_not_taken(
    ledger: Ledger, change: Any
) -> None:
    plan = plan_of(partition_plan(0, 5))
    ledger(replace(plan.terms(), plan=replace(plan, **change).as_document()))
    with pytest.raises(PlanNotKept, match="another replay") as caught:
        resumed(plan)
    assert caught.value.hint


@pytest.mark.parametrize(
    "change",
    [{"version": 7}, {"partitions": 5}, {"made_at_ms": 0}, {"request": {}}, {"target": []}],
)
def test_what_is_no_plan_in_a_ledger_is_an_error_of_ours(ledger: Ledger, change: Any) -> None:
    plan = plan_of(partition_plan(0, 5))
    ledger(replace(plan.terms(), plan=plan.as_document() | change))
    with pytest.raises(PlanNotKept, match="the stored plan is invalid"):
        resumed(plan)


@pytest.mark.parametrize(
    ("theirs", "named"),
    [
        ("postgresql://evil:5432/x?table=laps", "postgres:laps"),
        ("postgresql://${HOME}@evil:5432/x?table=laps", "postgres:laps"),
        ("kafka://evil:9092/copy", "kafka:copy"),
        ("parquet:/somewhere/else", "parquet:here"),
    ],
)
def test_records_go_where_was_named_and_nowhere_else(
    ledger: Ledger, theirs: str, named: str
) -> None:
    """Whoever may write to a ledger does not say which server gets the records, and who logs in there."""
    plan = plan_of(partition_plan(0, 5), request=request(target=theirs))
    ledger(plan.terms())
    with pytest.raises(UsageError, match="but TARGET is"):
        resumed(plan, named)


def test_a_plan_of_a_ledger_refers_to_nothing_of_this_machine(ledger: Ledger) -> None:
    plan = plan_of(partition_plan(0, 5), request=request(source="har:/tmp/${AWS_SECRET}"))
    ledger(plan.terms())
    with pytest.raises(PlanNotKept, match="a secret of this machine"):
        resumed(plan)


@pytest.mark.parametrize(
    ("target", "rules", "told"),
    [
        ("kafka:copy", {"topic_map": ("laps=orders",)}, "laps=orders"),
        ("kafka:", {"redrive": True}, "that their headers and its plan name"),
        ("kafka:copy", {"on_error": "dlq:other/orders"}, "dlq:other/orders"),
    ],
)
def test_no_rule_of_a_plan_of_a_ledger_leads_past_the_named_target(
    ledger: Ledger, target: str, rules: Any, told: str
) -> None:
    ledger(plan_of(partition_plan(0, 5), request=request(target=target, **rules)).terms())
    with pytest.raises(PlanNotKept, match=told):
        resumed(plan_of(partition_plan(0, 5), request=request(target=target)))


def test_dead_letters_go_to_no_topic_that_only_a_ledger_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who writes the ledger can have every record refused, and so write to any topic of the source's cluster."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    plan = plan_of(partition_plan(0, 5), request=request(on_error="dlq:orders"))
    with pytest.raises(Refused, match="would go to dlq:orders; only the ledger says so") as caught:
        need_letters(plan, will_ask=False)
    assert "--on-error dlq:orders" in str(caught.value.hint)
    need_letters(plan, will_ask=True)
    need_letters(plan_of(partition_plan(0, 5), request=request(on_error="skip")), will_ask=False)
    Journal().keep(plan, {})
    need_letters(plan, will_ask=False)


def test_options_that_only_a_ledger_names_decide_nothing_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    asked = request(select="666 AS speed", on_conflict="update", pace="2x", lateness_ms=5)
    plan = plan_of(partition_plan(0, 5), request=asked)
    with pytest.raises(UsageError, match="run with --on-conflict, --select; only") as caught:
        need_rules(plan, will_ask=False)
    assert caught.value.exit_code == 2
    assert "leave --yes out" in str(caught.value.hint)
    need_rules(plan, will_ask=True)
    none = request(span="start..end", pace="2x", lateness_ms=5, read_on="end", max_gap_ms=7)
    need_rules(plan_of(partition_plan(0, 5), request=none), will_ask=False)
    Journal().keep(plan, {})
    need_rules(plan, will_ask=False)


@pytest.mark.parametrize(
    "other",
    [{"source": "kafka:secrets"}, {"target": "kafka://evil:9092/copy"}, {"where": "true"}],
)
def test_the_plan_of_a_ledger_is_of_the_request_that_its_terms_state(other: Any) -> None:
    """Only the terms are compared with what a command asks for, and the plan is what would run."""
    plan = plan_of(partition_plan(0, 5), request=request(**other))
    kept = cast(Target, Kept(replace(plan.terms(), rules=request().said())))
    with pytest.raises(PlanNotKept, match=f"of another request: {next(iter(other))} is"):
        begun_plan(kept, request(), "r1")


@pytest.mark.parametrize("source", ["kafka:laps", "kafka:laps,pits", "kafka:/laps/"])
@pytest.mark.parametrize("topic", ["secrets", "__laps"])
def test_a_plan_reads_no_topic_that_its_source_does_not_name(source: str, topic: str) -> None:
    """Whoever writes a plan, or a ledger, does not choose among the topics of the reader's cluster."""
    asked = request(source=source, target="json:copy")
    plan = plan_of(partition_plan(0, 5, topic=topic), request=asked)
    with pytest.raises(Refused, match=f"would read topic {topic}, but its source names only"):
        api.planned(plan, configure({"bootstrap_servers": "127.0.0.1:1"}))


def test_a_plan_without_a_topic_is_refused() -> None:
    asked = request(source="kafka:laps", target="json:copy")
    plan = plan_of(partition_plan(0, 5, topic="laps"), request=asked)
    without = replace(plan, source=replace(plan.source, topics={}))
    with pytest.raises(UsageError, match="names no topic of its source"):
        api.planned(without, configure({"bootstrap_servers": "127.0.0.1:1"}))


@pytest.mark.parametrize("second", [(0, 5), (2, 3), (4, 9)])
def test_a_plan_that_has_an_offset_twice_is_refused(second: tuple[int, int]) -> None:
    text = plan_of(partition_plan(0, 5), partition_plan(*second)).as_json()
    with pytest.raises(UsageError, match="overlap"):
        Plan.from_file(text, where="a file")
    apart = plan_of(partition_plan(5, 9), partition_plan(0, 5), partition_plan(3, 3))
    assert Plan.from_file(apart.as_json(), where="a file") == apart


def test_a_reader_reads_no_topic_of_others() -> None:
    """The slices of a verification come from the ledger, and not from the plan."""
    source = KafkaSource(KafkaConnection("127.0.0.1:1"), topics=("laps",))
    with source.open() as reader, pytest.raises(OutOfBounds):
        list(reader.read(Slice("secrets", 0, 0, 1)))


@pytest.mark.parametrize("place", ["target", "samples"])
def test_a_plan_that_is_nested_too_deep_is_no_plan(place: str) -> None:
    deep: Any = []
    for _ in range(250):
        deep = [deep]
    document = plan_of(partition_plan(0, 5)).as_document()
    document[place] = {**document["target"], "needs": deep} if place == "target" else [{"a": deep}]
    with pytest.raises(UsageError, match="nested more than 200 deep"):
        Plan.from_json(json.dumps(document), where="a file")
    terms = json.loads(plan_of(partition_plan(0, 5)).terms().as_json())
    with pytest.raises(ValueError, match="nested more than 200 deep"):
        Terms.from_json(json.dumps(terms | {"rules": {"where": deep}}))


@pytest.mark.parametrize(
    "part", ["estimate.seconds", "estimate.size_bytes", "partitions", "from_ms"]
)
def test_a_number_of_hundreds_of_digits_is_no_number_of_a_plan(part: str) -> None:
    """Arithmetic and texts fail on such numbers, each in its own way."""
    document = plan_of(partition_plan(0, 5)).as_document()
    name, _, field = part.partition(".")
    if name == "partitions":
        ends = dict.fromkeys(("span_end", "to_offset", "stable_end", "high_watermark"), 10**400)
        document["partitions"][0].update(ends)
    else:
        document[name] = document[name] | {field: 10**400} if field else 10**400
    document["sha256"] = plans._digest(document)
    with pytest.raises(UsageError, match="is a number of more than 64 bits; needed"):
        Plan.from_json(json.dumps(document), where="a file")


def test_a_sample_in_a_plan_may_have_any_number() -> None:
    plan = replace(plan_of(partition_plan(0, 5)), samples=({"id": 10**400},))
    assert Plan.from_json(plan.as_json(), where="a file") == plan


@pytest.mark.parametrize("change", [{"rules": 5}, {"topics": ["laps"]}, {"plan": 5}, {"digest": 5}])
def test_terms_of_another_kind_are_no_terms(change: Any) -> None:
    document = json.loads(plan_of(partition_plan(0, 5)).terms().as_json())
    with pytest.raises(TypeError, match="needed"):
        Terms.from_json(json.dumps(document | change))


@pytest.mark.parametrize("part", ["where", "select"])
def test_code_in_a_plan_is_refused_before_anything_starts(part: str) -> None:
    text = REFLECT if part == "where" else f"{REFLECT} AS made"
    plan = plan_of(partition_plan(0, 5), request=request(**{part: text}))
    with pytest.raises(BadExpression, match="runs code"):
        api.planned(plan, configure({}))


def test_what_would_be_made_is_said_by_who_makes_it(tmp_path: Path) -> None:
    """The words of a plan about it are the author's; those that are shown are of the target itself."""
    asked = request(target=f"json:{tmp_path / 'copy'}")
    needs = {"topics": {}, "is_new": True}
    written = Inspection("x", creates=("nothing of note",), needs=needs)
    plan = api.planned(plan_of(partition_plan(0, 5), request=asked, target=written), configure({}))
    [creates] = plan.plan.target.creates
    assert creates.startswith("an archive in json at ")
    assert any(creates in line for line in plan_lines(plan.plan))


@pytest.mark.parametrize("topics", [5, "laps", [[]], {"laps": 5}])
def test_topics_of_another_kind_among_the_needs_of_an_archive_are_refused(topics: Any) -> None:
    asked = request(target="json:copy")
    plan = plan_of(
        partition_plan(0, 5), request=asked, target=Inspection("x", needs={"topics": topics})
    )
    with pytest.raises(UsageError, match="needs from its target is invalid"):
        api.planned(plan, configure({}))


_NUL: Any = {"table": ["public", "laps"], "columns": [["a\0b", "text"]], "key": ["a\0b"]}


@pytest.mark.parametrize(
    "needs",
    [{"tables": 5}, {"tables": [{}]}, {"tables": [{"table": ["s"]}]}, {"tables": [_NUL]}],
)
def test_needs_of_another_kind_are_refused_with_the_way_out(needs: Any) -> None:
    asked = request(target="postgresql://u@127.0.0.1:1/x?table=laps")
    plan = plan_of(partition_plan(0, 5), request=asked, target=Inspection("x", needs=needs))
    with pytest.raises(UsageError, match="needs from its target is invalid") as caught:
        api.planned(plan, configure({}))
    assert caught.value.hint


@pytest.mark.parametrize(
    "kind",
    ["text; DROP TABLE laps", "text DEFAULT pg_read_file('x')", "", "integer CHECK (f())", 5],
)
def test_a_column_of_a_plan_has_a_type_of_ours(kind: Any) -> None:
    document = {"table": ["public", "laps"], "columns": [["a", kind]], "key": ["a"]}
    with pytest.raises(ValueError, match="a table to be made"):
        NewTable.from_document(document)


@given(
    names=st.lists(
        st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=15),
        min_size=3,
    )
)
def test_a_name_in_a_plan_is_a_name_in_the_statement(names: list[str]) -> None:
    schema, name, *columns = names
    table = NewTable(
        TableName(schema, name), tuple((each, "text") for each in columns), (columns[0],)
    )
    again = NewTable.from_document(json.loads(json.dumps(table.as_document())))
    assert again == table
    quoted = [f'"{each.replace(chr(34), chr(34) * 2)}"' for each in names]
    listed = ", ".join(f"{each} text" for each in quoted[2:])
    assert table.statement == (
        f"CREATE TABLE IF NOT EXISTS {quoted[0]}.{quoted[1]} ({listed}, PRIMARY KEY ({quoted[2]}))"
    )


def test_all_settings_of_a_topic_that_would_be_made_are_shown() -> None:
    settings = {"retention.ms": "-1", "min.insync.replicas": "9", "max.message.bytes": "1"}
    [told] = topics_made({"create": {"copy": {"partitions": 3, "settings": settings}}})
    assert "min.insync.replicas=9" in told
    assert "max.message.bytes=1" in told


def test_every_rule_of_a_plan_is_shown() -> None:
    rules: dict[str, Any] = {
        "where": "offset > 1",
        "select": "key AS a",
        "headers": ("add:a=b", "drop:c"),
        "key": ("car",),
        "on_conflict": "update",
        "tombstones": "delete",
        "topic_map": ("a=b",),
        "provenance": True,
        "on_error": "dlq:elsewhere",
        "max_gap_ms": 5,
        "partition": "any",
    }
    lines = "\n".join(plan_lines(plan_of(partition_plan(0, 5), request=request(**rules))))
    for name in rules.keys() - {"where", "select", "on_error"}:
        assert name.replace("_", "-") in lines
    for value in ("add:a=b, drop:c", "car", "update", "delete", "a=b", "dlq:elsewhere", "any"):
        assert value in lines


def code_of(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(list(words))
    return int(end.value.code or 0)


def test_a_plan_file_that_somebody_changed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """By its digest; and with a digest made anew by what this command asks for, and by what it is."""
    room: Room = furnished(tmp_path, monkeypatch)
    file = tmp_path / "plan.json"
    words = ("replay", "json:tape", "json:copy", "--offsets", "t:0:0-2", "--plan", str(file))
    assert code_of(*words, "--dry-run") == 0
    document = json.loads(file.read_text())
    capfd.readouterr()

    document["partitions"][0]["to_offset"] = 3
    file.write_text(json.dumps(document))
    assert code_of(*words, "--yes") == 2
    assert "changed after it was made" in capfd.readouterr().err

    for name, value in (("where", REFLECT), ("target", f"json:{tmp_path / 'evil'}")):
        hostile = json.loads(json.dumps(document))
        hostile["request"][name] = value
        del hostile["sha256"]
        text = json.dumps(hostile, sort_keys=True)
        file.write_text(json.dumps(hostile | {"sha256": sha256(text.encode()).hexdigest()}))
        assert code_of(*words, "--yes") == 2
        told = capfd.readouterr().err
        assert "the plan of another replay" in told
        assert value.split("'")[0] in told
    assert room.offsets() == []
