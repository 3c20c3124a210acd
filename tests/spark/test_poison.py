"""A topic full of poison, and groups with poisonous names, through the commands that meet them on real servers."""

import json
from pathlib import Path

import pytest

from playhead.record import Record, TimestampType
from tests import poison
from tests.fix_groups import Readers
from tests.fix_replay import ODD_SETTINGS, Deck, contents, new_name, ran, totals
from tests.poison.commands import run_on_terminal, wrong_in

_LAST_MS = str((1 << 63) - 1)
ANY_TIME = {
    **ODD_SETTINGS,
    "message_timestamp_after_max_ms": _LAST_MS,
    "message_timestamp_before_max_ms": _LAST_MS,
}
COUNT = len(list(poison.records()))
TOMBSTONES = sum(each.value is None for each in poison.records())
COLUMNS = "a text, n numeric, at timestamptz, _offset bigint, _partition int"
GROUPS = [
    each.text
    for each in poison.names()
    if each.can_be_argument and each.text.strip() and len(each.text) <= 300
    if each.text.isascii() or each.text.encode("utf-8", "replace").decode() == each.text
]


@pytest.fixture(scope="module")
def poisoned(servers: Deck) -> str:
    topic = servers.topic("poison", 3, **ANY_TIME)
    kind = TimestampType.CREATE_TIME
    servers.write(
        [
            Record(
                topic, n % 3, n // 3, each.timestamp_ms, kind, each.key, each.value, each.headers
            )
            for n, each in enumerate(poison.records())
        ]
    )
    return topic


@pytest.fixture
def shown(deck: Deck, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """What a command shows on a terminal; nothing in it may be a fault, or obeyed by a terminal."""
    for name, value in deck.environment().items():
        monkeypatch.setenv(name, value)

    def run(*words: str, code: int | None = 0) -> str:
        ended, said = run_on_terminal(list(words))
        assert not wrong_in(ended, said), (words, said[:2_000])
        assert code in (None, ended), (words, said[:2_000])
        return said

    return run


def test_what_is_read_of_it(shown, poisoned) -> None:
    for form in ("table", "json", "jsonl", "csv"):
        for words in (
            ("topics", "list", poisoned),
            ("topics", "describe", poisoned, "--configs"),
            ("topics", "sizes", poisoned),
            ("topics", "offsets", poisoned),
            ("timeline", poisoned),
        ):
            shown(*words, "-o", form)
    whole = ("--show", "topic,timestamp,partition,offset,headers,key,value")
    assert shown("consume", poisoned, *whole)
    lines = shown("consume", poisoned, "-o", "jsonl").splitlines()
    assert len([line for line in lines if json_of(line)]) == COUNT
    found = shown("consume", poisoned, "-o", "json", "-q")
    assert len(json.loads(found)["records"]) == COUNT
    for decode in ("json", "string", "hex"):
        shown("consume", poisoned, "--decode", decode, "--on-error", "skip")


def json_of(line: str) -> bool:
    return line.startswith("{") and "offset" in json.loads(line)


def test_a_group_whose_name_is_no_text(shown, poisoned) -> None:
    scope = ("--topic", poisoned, "--yes")
    for words in (
        ("describe", "\udc80"),
        ("members", "\udc80"),
        ("reset", "\udc80", "--to-latest", "--create", *scope),
        ("clone", "\udc80", "other", *scope),
        ("clone", "other", "\udc80", *scope),
        ("delete", "\udc80", "--yes"),
        ("delete-offsets", "\udc80", *scope),
        ("undo", "\udc80", "--yes"),
    ):
        for name in ("\udc80", ""):
            given = [name if each == "\udc80" else each for each in words]
            shown("groups", *given, code=None)


def test_a_topic_whose_name_is_no_text(shown) -> None:
    for command in ("describe", "sizes", "offsets", "delete", "alter", "trim", "create"):
        shown("topics", command, "\udc80", code=2)
    for words in (
        ("consume",),
        ("timeline",),
        ("produce",),
        ("doctor", "--group"),
        ("doctor", "--topic"),
    ):
        shown(*words, "\udc80", code=None)


@pytest.mark.parametrize("names", [GROUPS[::8], pytest.param(GROUPS, marks=pytest.mark.torture)])
def test_groups_with_poisonous_names(shown, readers: Readers, poisoned, names) -> None:
    for name in names:
        readers.group({(poisoned, 0): 5, (poisoned, 1): 7}, name)
    member = readers.reader("\x1b[2J-read", poisoned, client_id="\x1b]0;owned\x07\u202e\x9b2J")
    try:
        for form in ("table", "json", "jsonl", "csv"):
            shown("groups", "list", "-o", form)
            shown("groups", "members", "\x1b[2J-read", "-o", form)
            shown("groups", "describe", "-o", form, "--", *names[:8])
    finally:
        readers.leave(member)
    shown("groups", "delete", "--yes", "--", *names, "\x1b[2J-read")


WHERE = {"where": "value IS NULL OR length(value) < 100000"}


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        ("dlq", {}),
        ("skip", WHERE),
        pytest.param("skip", {}, marks=pytest.mark.torture),
        pytest.param("dlq", WHERE, marks=pytest.mark.torture),
    ],
)
def test_a_table_takes_what_it_can_and_the_proof_adds_up(
    deck: Deck, shown, poisoned, rule, asked
) -> None:
    table, dead = deck.table(COLUMNS), new_name("dead")
    on_error = rule if rule == "skip" else f"dlq:{dead}"
    planned = deck.plan(
        f"kafka:{poisoned}", f"postgres:{table}", on_error=on_error, tombstones="skip", **asked
    )
    found = totals(ran(planned))
    # A tombstone that is skipped is done with as it was asked for: it counts as written, and makes no row.
    assert deck.rows(table, "count(*)") == [(found["written"] - TOMBSTONES,)]
    assert found["written"] > 10
    replay_id = planned.plan.replay_id
    assert shown("runs", replay_id)
    shown("verify", replay_id, code=None)
    shown("gaps", f"kafka:{poisoned}", f"postgres:{table}", code=None)
    if rule == "dlq":
        assert len(deck.records(dead)) == found["dead"] > 10
        shown("consume", dead, "--show", "headers,key,value")


@pytest.mark.parametrize(
    "kind",
    ["kafka", "json", *(pytest.param(it, marks=pytest.mark.torture) for it in ("csv", "parquet"))],
)
def test_a_copy_and_an_archive_hold_all_of_it(
    deck: Deck, shown, poisoned, kind, tmp_path: Path
) -> None:
    target = deck.topic("copy", 3, **ANY_TIME) if kind == "kafka" else str(tmp_path / "archive")
    planned = deck.plan(f"kafka:{poisoned}", f"{kind}:{target}")
    assert totals(ran(planned)) == {"written": COUNT}
    shown("verify", planned.plan.replay_id)
    if kind == "kafka":
        assert contents(deck.records(target)) == contents(deck.records(poisoned))
    else:
        back = deck.topic("back", 3, **ANY_TIME)
        deck.play(f"{kind}:{target}", f"kafka:{back}")
        assert contents(deck.records(back)) == contents(deck.records(poisoned))


def test_plain_lines_of_poison_are_the_records_of_a_topic(
    deck: Deck, shown, tmp_path: Path
) -> None:
    lines = [
        line.removesuffix(b"\r")
        for each in poison.records()
        if each.value is not None and len(each.value) < 500_000
        for line in each.value.split(b"\n")
    ]
    file = tmp_path / "lines"
    file.write_bytes(b"".join(line + b"\n" for line in lines))
    topic = deck.topic("lines", 1)
    shown("produce", topic, str(file))
    assert [each.value for each in deck.records(topic)] == lines
    keyed = deck.topic("keyed", 2)
    for fields in ("key", "headers,key", "timestamp,partition,headers,key"):
        shown("produce", keyed, str(file), "--with", fields, "--on-error", "skip", code=None)


@pytest.mark.parametrize("kind", ["postgres", "kafka"])
def test_a_pipeline_takes_what_it_can(deck: Deck, shown, poisoned, kind) -> None:
    name, dead = new_name("pipe"), new_name("dead")
    target = deck.table(COLUMNS) if kind == "postgres" else deck.topic("copy", 3, **ANY_TIME)
    rules = ("--on-error", f"dlq:{dead}", "--tombstones", "skip") if kind == "postgres" else ()
    now = ("--from", "earliest", "--trigger", "available-now", "--name", name, "--yes")
    shown("live", f"kafka:{poisoned}", f"{kind}:{target}", *now, *rules)
    for form in ("table", "json", "jsonl", "csv"):
        shown("live", "--status", name, "-o", form)
    if kind == "kafka":
        assert contents(deck.records(target)) == contents(deck.records(poisoned))
        return
    written, letters = deck.rows(target, "count(*)")[0][0], len(deck.records(dead))
    assert (written + letters + TOMBSTONES, letters > 10) == (COUNT, True)


def test_a_standby_takes_what_it_can(deck: Deck, shown, poisoned) -> None:
    name, table, dead = new_name("night"), deck.table(COLUMNS), new_name("dead")
    rules = ("--on-error", f"dlq:{dead}", "--tombstones", "skip")
    shown("standby", "add", name, f"kafka:{poisoned}", f"postgres:{table}", *rules)
    shown("standby", "run", name, "--from", "start", "--yes")
    written, letters = deck.rows(table, "count(*)")[0][0], len(deck.records(dead))
    assert (written + letters + TOMBSTONES, letters > 10) == (COUNT, True)
    for form in ("table", "json", "jsonl", "csv"):
        shown("standby", "history", name, "-o", form)
        shown("standby", "show", name, "-o", form)
