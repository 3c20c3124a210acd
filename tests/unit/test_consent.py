"""Nothing is written where writing is refused, where nobody can be asked, or where the answer is no."""

import io
from dataclasses import dataclass, field

import pytest

from playhead.cli.confirm import answer
from playhead.config.context import Configuration, Resolved
from playhead.config.guards import NotNamed, Question, need_consent
from playhead.errors import NeedsConsent, Refused

ACTION, TARGET = "replay 7 records into telemetry", "telemetry"


def configuration(name: str | None = "prod", **switches: str) -> Configuration:
    settings = {key: Resolved("false", "default") for key in ("read_only", "production")}
    said = {key: Resolved(value, f"context {name}") for key, value in switches.items()}
    return Configuration(name, settings | said, {})


class Stream(io.StringIO):
    """A standard stream that is a terminal, or is none."""

    def __init__(self, is_terminal: bool, text: str = "") -> None:
        super().__init__(text)
        self.isatty = lambda: is_terminal  # type: ignore[method-assign]


@dataclass
class Person:
    """Somebody at a terminal, or nobody; says how often they were asked."""

    answer: str | None = None
    is_final: bool = False
    asked: list[str] = field(default_factory=list)

    def is_there(self) -> bool:
        return self.answer is not None

    def read(self) -> str:
        self.asked.append("")
        return self.answer or ""

    def ask(self, where: Configuration, *, yes: bool = False) -> None:
        given = answer(yes=yes, has_terminal=self.is_there, read_answer=self.read)
        need_consent(ACTION, TARGET, where, given, is_final=self.is_final)


@pytest.mark.parametrize("answer", ["y\n", "YES\n", " yes \n"])
def test_a_yes_lets_it_pass(answer, capsys):
    Person(answer).ask(configuration())
    assert capsys.readouterr() == ("", f"{ACTION}? [y/N] ")


@pytest.mark.parametrize("answer", ["\n", "", "n\n", "yeah\n", "yes please\n"])
def test_anything_else_does_not(answer):
    with pytest.raises(Refused, match="the answer was not yes"):
        Person(answer).ask(configuration())


def test_yes_on_the_command_line_asks_nobody(capsys):
    person = Person("n\n")
    person.ask(configuration(), yes=True)
    Person().ask(configuration(), yes=True)
    assert person.asked == []
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_a_yes_is_needed():
    person = Person()
    with pytest.raises(NeedsConsent, match=ACTION) as caught:
        person.ask(configuration())
    assert caught.value.exit_code == 6
    assert "--yes" in (caught.value.hint or "")
    assert person.asked == []


@pytest.mark.parametrize("production", ["true", "false"])
def test_a_read_only_context_is_never_written(production):
    person = Person("yes\n")
    where = configuration(read_only="true", production=production)
    with pytest.raises(Refused, match="context prod is read-only") as caught:
        person.ask(where, yes=True)
    assert caught.value.exit_code == 6
    assert ACTION in str(caught.value)
    assert person.asked == []


def test_who_made_it_read_only_is_said():
    where = configuration(None)
    settings = where.settings | {"read_only": Resolved("1", "PLAYHEAD_READ_ONLY")}
    with pytest.raises(Refused, match=r"this configuration is read-only \(PLAYHEAD_READ_ONLY\)"):
        Person().ask(Configuration(None, settings, {}), yes=True)


@pytest.mark.parametrize(
    ("origin", "way"),
    [
        ("PLAYHEAD_READ_ONLY", "unset PLAYHEAD_READ_ONLY"),
        ("context prod", "-c, or change this one: playhead context edit"),
        ("/x/playhead.toml", "take read_only out of /x/playhead.toml"),
    ],
)
def test_the_way_out_leads_to_who_made_it_read_only(origin, way):
    settings = configuration().settings | {"read_only": Resolved("true", origin)}
    with pytest.raises(Refused) as caught:
        Person().ask(Configuration("prod", settings, {}), yes=True)
    assert (caught.value.hint or "").endswith(way)


@pytest.mark.parametrize("yes", [True, False])
def test_production_wants_the_targets_name(yes, capsys):
    person = Person("telemetry\n")
    person.ask(configuration(production="true"), yes=yes)
    assert len(person.asked) == 1
    shown = capsys.readouterr().err
    assert f"context prod is marked production: {ACTION}" in shown
    assert "type telemetry to continue" in shown


@pytest.mark.parametrize("answer", ["yes\n", "Telemetry\n", "", "\n", "telemetry2\n"])
def test_production_takes_no_other_word(answer):
    with pytest.raises(Refused, match="the name typed is not 'telemetry'"):
        Person(answer).ask(configuration(production="true"), yes=True)


def test_production_without_a_terminal_is_refused_even_with_yes():
    with pytest.raises(Refused, match="no terminal to type 'telemetry' on") as caught:
        Person().ask(configuration(production="true"), yes=True)
    assert "--yes is not enough" in (caught.value.hint or "")


@pytest.mark.parametrize(("stdin", "stderr"), [(True, False), (False, True)])
def test_a_terminal_is_one_to_read_from_and_to_write_to(monkeypatch, stdin, stderr):
    monkeypatch.setattr("sys.stdin", Stream(stdin))
    monkeypatch.setattr("sys.stderr", Stream(stderr))
    with pytest.raises(NeedsConsent):
        need_consent(ACTION, TARGET, configuration(), answer(yes=False))


def test_the_answer_is_read_from_the_terminal(monkeypatch):
    monkeypatch.setattr("sys.stdin", Stream(True, "yes\n"))
    monkeypatch.setattr("sys.stderr", Stream(True))
    need_consent(ACTION, TARGET, configuration(), answer(yes=False))


def test_who_deletes_types_the_name_or_says_yes_in_a_script(capsys):
    Person("telemetry\n", is_final=True).ask(configuration())
    assert f"{ACTION}: this cannot be undone" in capsys.readouterr().err
    with pytest.raises(Refused, match="the name typed is not 'telemetry'"):
        Person("y\n", is_final=True).ask(configuration())
    person = Person(is_final=True)
    person.ask(configuration(), yes=True)
    with pytest.raises(NeedsConsent):
        person.ask(configuration())
    for switches, refusal in (
        ({"production": "true"}, "marked production"),
        ({"read_only": "1"}, "read-only"),
    ):
        with pytest.raises(Refused, match=refusal):
            person.ask(configuration(**switches), yes=True)


@pytest.mark.parametrize("said", [False, None, "", "another", 1])
def test_a_program_that_does_not_say_yes_refuses(said):
    with pytest.raises(Refused, match="the answer was not yes"):
        need_consent(ACTION, TARGET, configuration(), lambda _: said)


def test_a_program_is_shown_what_it_answers():
    shown: list[Question] = []

    def given(question: Question) -> str:
        shown.append(question)
        return question.target

    need_consent(ACTION, TARGET, configuration(production="true"), given)
    assert shown == [Question(ACTION, TARGET, "context prod", needs_name=True)]
    with pytest.raises(NotNamed, match="no name was given"):
        need_consent(ACTION, TARGET, configuration(production="true"), lambda _: True)
    need_consent(ACTION, TARGET, configuration(), lambda _: True)
