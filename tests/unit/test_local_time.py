"""Times are shown in the zone that was asked for; data for programs keeps UTC."""

import json

import pytest

from playhead.cli.app import main
from playhead.cli.output import Output
from playhead.grammar.instant import show_ms
from playhead.grammar.local_time import local_time, local_times
from playhead.replay.samples import where_the_records_are
from playhead.source import Bounds
from playhead.span import Span
from playhead.testing import ListSource
from tests.unit.replaying import TOPIC, record

NOON = "2021-08-04T12:30:00.000Z"
BERLIN = "2021-08-04T14:30:00.000+02:00"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"from {NOON}.", f"from {BERLIN} (Europe/Berlin)."),
        (f"[{NOON}, {NOON})", f"[{BERLIN}, {BERLIN} (Europe/Berlin))"),
        (f"a {NOON}\nb {NOON}", f"a {BERLIN} (Europe/Berlin)\nb {BERLIN} (Europe/Berlin)"),
        ("at 2021-01-04T23:30:00Z", "at 2021-01-05T00:30:00+01:00 (Europe/Berlin)"),
        ("no time, Z", "no time, Z"),
        ("2021-02-30T00:00:00Z", "2021-02-30T00:00:00Z"),
        ("+12021-08-04T12:30:00.000Z", "+12021-08-04T12:30:00.000Z"),
    ],
)
def test_each_time_has_its_offset_and_each_line_the_name(text, shown):
    assert local_times(text, "Europe/Berlin") == shown


def test_an_offset_is_its_own_name_and_utc_changes_nothing():
    assert local_times(f"at {NOON}", "+05:30") == "at 2021-08-04T18:00:00.000+05:30"
    assert local_times(f"at {NOON}", "UTC") == f"at {NOON}"
    assert local_time(NOON, "Europe/Berlin") == BERLIN
    assert local_time(f"{NOON} ", "Europe/Berlin") == f"{NOON} "


def test_what_is_shown_is_understood_again():
    assert str(Span.parse(f"{BERLIN}..end")) == f"{NOON}..end"


def test_people_see_the_zone_and_programs_utc(capsys):
    output = Output("table", zone="Europe/Berlin")
    output.say(f"planned {NOON}")
    output.say(f'{{"ts": "{NOON}"}}', is_data=True)
    output.emit({}, [{"first": NOON, "text": f"at {NOON}"}])
    Output("json", zone="Europe/Berlin").emit({"first": NOON}, [])
    captured = capsys.readouterr()
    assert captured.err == f'planned {BERLIN} (Europe/Berlin)\n{{"ts": "{NOON}"}}\n'
    table, document = captured.out.split("{", 1)
    assert table.splitlines()[1].split("  ") == [BERLIN, f"at {NOON}"]
    assert json.loads("{" + document) == {"first": NOON}


# --- what is said of an empty span


def test_an_empty_span_says_where_the_records_are():
    rows = [record(offset, 1_000 * offset) for offset in (5, 6, 7)]
    source = ListSource(rows, bounds={(TOPIC, 0): Bounds(3, 400, 400), (TOPIC, 1): Bounds(0, 0, 0)})
    note = where_the_records_are(source, source.bounds())
    assert note.text == (
        f"no record of the span was found; the records of laps are from {show_ms(5_000)} "
        f"to {show_ms(7_000)}"
    )
    empty = ListSource([], bounds={(TOPIC, 0): Bounds(3, 3, 3)})
    assert where_the_records_are(empty, empty.bounds()).text == "laps: there are no records at all"
    said = where_the_records_are(empty, {}).text
    assert said == "there are no records at all, and no topics"


def test_errors_name_options_as_they_are_typed(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["replay", "kafka:a", "kafka:b", "--for", "2h"])
    assert ended.value.code == 2
    assert "--for needs --from or --to" in capsys.readouterr().err
