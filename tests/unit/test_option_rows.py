"""A row of the option table says what it takes, and refuses everything else by its own name."""

from dataclasses import fields
from pathlib import Path

import pytest

from playhead.errors import UsageError
from playhead.options import groups, lines, replays, setup, shared, topics, traffic
from playhead.options.option import Argument, Option, Options, switch, unset
from playhead.request import Request

MODULES = (shared, replays, lines, topics, groups, traffic, setup)
GROUPS = [
    (f"{module.__name__}.{name}", it)
    for module in MODULES
    for name, it in vars(module).items()
    if isinstance(it, Options)
]


@pytest.mark.parametrize(
    ("row", "given", "value"),
    [
        (Option("word", "", default="a"), None, "a"),
        (Option("word", ""), "", ""),
        (Option("word", "", choices=("a", "b")), "b", "b"),
        (Option("words", "", repeatable=True), None, []),
        (Option("words", "", repeatable=True), ("a", "a"), ["a", "a"]),
        (Option("count", "", kind="number", low=1, high=9), "9", 9),
        (Option("share", "", kind="decimal"), "0.5", 0.5),
        (Option("wait", "", kind="duration"), "2s", 2_000),
        (Option("wait", "", kind="duration", default="1s"), None, 1_000),
        (Option("room", "", kind="size", default="1KiB"), None, 1_024),
        (Option("place", "", kind="file"), "a/b", Path("a/b")),
        (switch("on", ""), None, False),
        (Option("on", "", kind="switch", off="--no-on"), None, None),
    ],
)
def test_what_is_given_becomes_a_value_of_its_kind(row, given, value):
    found = row.value(given)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("row", "given", "said"),
    [
        (
            Option("my_word", "", choices=("a", "b", "c")),
            "d",
            "--my-word is 'd'; needed: a, b or c",
        ),
        (Option("count", "", kind="number"), "1.5", "--count is '1.5'; needed: a whole number"),
        (
            Option("count", "", kind="number", low=1, high=2_000),
            "0",
            "--count is '0'; needed: a whole number, 1 to 2,000",
        ),
        (Option("wait", "", kind="decimal"), "nan", "--wait is 'nan'; needed: a number"),
        (Option("wait", "", kind="decimal"), "inf", "--wait is 'inf'; needed: a number"),
        (Option("wait", "", kind="duration"), "soon", "--wait"),
        (
            Option("room", "", kind="size", low=1_024),
            "1",
            "--room is '1'; needed: a size, at least 1,024 bytes",
        ),
        (Option("from_", "", kind="number"), "", "--from is ''; needed: a whole number"),
        (Argument("topic", "", "TOPIC", choices=("a", "b")), "c", "TOPIC is 'c'; needed: a or b"),
        (Option("x", "", flags=("-x", "--long"), kind="number"), "y", "--long is 'y'"),
        (Option("n", "", kind="number", repeatable=True), ("1", "x"), "--n is 'x'"),
    ],
)
def test_what_it_does_not_take_is_refused_by_its_name(row, given, said):
    with pytest.raises(UsageError) as refused:
        row.value(given)
    assert refused.value.message.startswith(said)


@pytest.mark.parametrize(("name", "group"), GROUPS)
def test_every_group_can_be_left_unsaid_and_names_each_option_once(name, group):
    names = [row.name for row in group]
    assert sorted(unset([group])) == sorted(set(names)) == sorted(names), name
    assert all(row.help for row in group), name
    spellings = [each for row in group if isinstance(row, Option) for each in row.spellings]
    assert len(spellings) == len(set(spellings)), name


def test_options_are_picked_by_name():
    assert [row.name for row in replays.SPAN.only("to", "from_")] == ["from_", "to"]
    assert "lateness_ms" not in unset([replays.SPAN.without("lateness_ms")])
    assert replays.SPAN.without("to").heading == replays.SPAN.heading


def test_a_rule_of_a_replay_is_a_field_of_its_request_and_knows_the_same_words():
    known = {each.name: each for each in fields(Request)}
    for row in replays.REPLAY_RULES.values():
        field = known.pop(row.name)
        assert row.choices == field.metadata.get("words", ()), row.name
        assert (row.kind == "switch") is isinstance(field.default, bool), row.name
    assert sorted(known) == ["pace", "source", "span", "target"]


def test_names_are_a_list_with_commas():
    row = Option("key", "", kind="names")
    assert [row.value(given) for given in (None, "", "a", " a, b,,c ")] == [
        None,
        (),
        ("a",),
        tuple("abc"),
    ]
