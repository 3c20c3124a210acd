"""Shared options are declared once and stand in a command's help as if it had declared them itself."""

from collections.abc import Iterable

import pytest
from click.testing import CliRunner

from playhead.cli import options
from playhead.cli.options import Run
from playhead.config.settings import BY_NAME
from playhead.errors import BadValue
from playhead.options import shared
from playhead.options.option import Argument, Option, Options
from playhead.options.shared import (
    CONNECTION,
    OPEN_TO_OTHERS,
    OUTPUT,
    REGISTRY,
    SANDBOX,
    SEPARATORS,
    SPARK,
    TIME,
    WARM,
)

GROUPS = {
    "CONNECTION": CONNECTION,
    "SPARK": SPARK,
    "TIME": TIME,
    "SANDBOX": SANDBOX,
    "REGISTRY": REGISTRY,
    "SEPARATORS": SEPARATORS,
    "OUTPUT": OUTPUT,
    "OPEN_TO_OTHERS": OPEN_TO_OTHERS,
    "WARM": WARM,
}
OWN = Options(
    "Options",
    Argument("name", "A name of its own.", "NAME"),
    Option(
        "count", "Its own count.", "N", flags=("--count", "-n"), kind="number", default=3, low=1
    ),
)


class Command:
    """A command with all shared options and parameters of its own, and what it was called with."""

    def __init__(self) -> None:
        self.run: Run | None = None
        self.own: tuple[object, ...] = ()

        @options.command(OWN, CONNECTION, SPARK, REGISTRY, SEPARATORS, TIME, SANDBOX)
        def made(run: Run, name: str, count: int) -> None:
            """Do it."""
            self.run, self.own = run, (name, count)

        self.app = made

    def invoke(self, *words: str):
        return CliRunner().invoke(self.app, words, env={"COLUMNS": "200"})


@pytest.fixture
def command():
    return Command()


def flags(names: Iterable[str] = tuple(GROUPS)) -> list[str]:
    return [
        flag
        for group in map(GROUPS.__getitem__, names)
        for row in group
        if isinstance(row, Option)
        for flag in row.spellings
    ]


TAKEN = set(GROUPS) - {"OPEN_TO_OTHERS", "WARM"}


@pytest.mark.parametrize("flag", [*flags(sorted(TAKEN)), "--count", "A name of its own."])
def test_every_option_is_in_the_help(command, flag):
    assert flag in command.invoke("--help").output


def test_the_help_speaks_of_no_parameter_that_is_not_one(command):
    assert "--run" not in command.invoke("--help").output
    assert "--values" not in command.invoke("--help").output


def test_a_settings_option_has_the_settings_own_help(command):
    shown = " ".join(command.invoke("--help").output.split())
    for name in ("bootstrap_servers", "kafka_config", "database", "spark_memory", "timezone"):
        assert BY_NAME[name].help in shown


def test_own_parameters_arrive_as_they_were_given(command):
    assert command.invoke("alpha", "-n", "5").exit_code == 0
    assert command.own == ("alpha", 5)


def test_own_defaults_and_limits_hold(command):
    command.invoke("alpha")
    assert command.own == ("alpha", 3)
    assert isinstance(command.invoke("alpha", "-n", "0").exception, BadValue)
    assert command.invoke().exit_code == 2


def test_the_run_carries_what_the_shared_options_say(command):
    words = [
        "-b",
        "h:1",
        "-c",
        "prod",
        "-X",
        "a=1",
        "-X",
        "b=2",
        "--config",
        "f",
        "--database",
        "d",
    ]
    words += ["--master", "local", "--spark-remote", "sc://h", "--spark-memory", "2g"]
    words += ["--timezone", "+02:00", "--dir", "/d", "--schema-registry", "http://r"]
    words += ["--headers-separator", ";", "--header-separator", "="]
    assert command.invoke("alpha", *words).exit_code == 0
    assert command.run.values == {
        "bootstrap_servers": "h:1",
        "context": "prod",
        "assignment": ["a=1", "b=2"],
        "kafka_config": "f",
        "database": "d",
        "spark_master": "local",
        "spark_remote": "sc://h",
        "spark_memory": "2g",
        "schema_registry": "http://r",
        "headers_separator": ";",
        "header_separator": "=",
        "timezone": "+02:00",
        "directory": "/d",
    }


def test_the_run_speaks_as_the_options_say(command):
    assert command.invoke("alpha", "-o", "csv", "-q", "-vv", "--progress", "json").exit_code == 0
    output = command.run.output
    assert (output.form, output.quiet, output.verbosity) == ("csv", True, 2)
    assert output.progress_form == "json"


def test_without_options_the_run_speaks_in_tables(command):
    command.invoke("alpha")
    output = command.run.output
    assert (output.form, output.quiet, output.verbosity) == ("table", False, 0)
    assert output.progress_form == "auto"


@pytest.mark.parametrize(
    ("flag", "value", "needed"), [("-o", "xml", "json"), ("--progress", "loud", "plain")]
)
def test_a_form_that_is_none_is_a_usage_error(command, flag, value, needed):
    error = command.invoke("alpha", flag, value).exception
    assert isinstance(error, BadValue)
    assert (error.exit_code, error.found) == (2, value)
    assert needed in error.needed
    assert command.run is None


def test_flags_become_settings_with_their_origin(command, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "environment:1")
    command.invoke("alpha", "-b", "flag:1", "-X", "client.id=me", "--master", "local[2]")
    found = command.run.configuration()
    assert found.kafka_properties["bootstrap.servers"].value == "flag:1"
    assert found.kafka_properties["client.id"].origin == "-X"
    assert found.settings["spark_master"].value == "local[2]"


def test_no_option_is_declared_twice():
    assert len(flags()) == len(set(flags()))


def test_no_group_of_options_is_left_out_here():
    groups = {name for name, it in vars(shared).items() if isinstance(it, Options)}
    assert groups == set(GROUPS)
