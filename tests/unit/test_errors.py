"""Every error says what, where, found and needed, ends with its own code, and offers a way out."""

import inspect
import pickle
from pathlib import Path

import pytest

from playhead import errors
from playhead.errors import (
    BadValue,
    BrokerUnavailable,
    DatabaseUnavailable,
    MissingPiece,
    NeedsConsent,
    NotFetched,
    PlayheadError,
    Refused,
    SandboxError,
    ServerDidNotStart,
    Stopped,
    Unavailable,
    UnknownKey,
    UntranslatableProperty,
    UsageError,
)

TREE = {
    name: kind
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, PlayheadError)
}


def test_the_tree_in_the_docstring_is_the_tree():
    drawn = {line.split("──")[-1].split()[0] for line in (errors.__doc__ or "").splitlines()[2:-2]}
    assert drawn == set(TREE)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (PlayheadError, 1),
        (UsageError, 2),
        (UnknownKey, 2),
        (BadValue, 2),
        (UntranslatableProperty, 2),
        (Stopped, 5),
        (Refused, 6),
        (NeedsConsent, 6),
        (Unavailable, 1),
        (NotFetched, 1),
        (MissingPiece, 1),
        (SandboxError, 1),
    ],
)
def test_a_class_has_the_exit_code_of_its_branch(kind, code):
    assert kind.exit_code == code


def test_an_unknown_key_names_the_nearest_ones():
    error = UnknownKey("time_zone", where="context prod", known=["timezone", "database"])
    assert str(error) == "unknown key 'time_zone' in context prod"
    assert error.hint == "did you mean timezone?"
    assert error.nearest == ("timezone",)


def test_a_short_list_of_known_keys_is_given_when_none_is_near():
    assert UnknownKey("q", where="x", known=["alpha", "beta"]).hint == "known keys: alpha, beta"


@pytest.mark.parametrize("known", [[], [f"key{number}" for number in range(13)]])
def test_there_is_no_hint_when_nothing_or_too_much_could_be_said(known):
    assert UnknownKey("zzz", where="x", known=known).hint is None


def test_a_bad_value_says_what_where_found_and_needed():
    error = BadValue("read_only", found="maybe", needed="true or false", where="playhead.toml")
    assert str(error) == "read_only in playhead.toml is 'maybe'; needed: true or false"


def test_a_long_value_is_shown_in_part() -> None:
    text = BadValue("--partition", found="9" * 5_000, needed="a partition").message
    assert text.endswith("999… (5,002 characters); needed: a partition")
    assert len(text) < 500


@pytest.mark.parametrize(
    ("error", "parts"),
    [
        (BrokerUnavailable("h:1", waited_s=1.5, reason="refused"), ["h:1", "1.5 s", "refused"]),
        (DatabaseUnavailable("postgresql://h", reason="no"), ["postgresql://h", "no"]),
        (
            NotFetched("g:a:1", url="http://x/a.jar", reason="HTTP 404"),
            ["g:a:1", "http://x/a.jar", "404"],
        ),
        (MissingPiece("pyspark", needed_for="a job", hint="pip"), ["pyspark", "a job"]),
        (UntranslatableProperty("k", where="w", reason="r", hint="h"), ["k in w", "r"]),
        (NeedsConsent("delete it"), ["delete it", "not a terminal"]),
    ],
)
def test_a_message_is_built_from_its_fields_and_a_hint_follows(error, parts):
    assert all(part in str(error) for part in parts)
    assert error.hint


def test_a_server_that_did_not_start_shows_the_end_of_its_log():
    log = Path("/sandbox/broker/server.log")
    error = ServerDidNotStart("Kafka", reason="status 1", log=log, log_tail=["one", "two"])
    assert str(error) == "Kafka did not start: status 1\n    one\n    two"
    assert str(log) in (error.hint or "")


def test_an_error_with_named_fields_travels_between_processes() -> None:
    error = BadValue("pace", found="x", needed="a pace", where="here", hint="say 1x")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  our own
    assert type(again) is BadValue
    assert (str(again), again.hint, again.key, again.exit_code) == (
        str(error),
        "say 1x",
        "pace",
        2,
    )
    error.hint = "another"
    assert pickle.loads(pickle.dumps(error)).hint == "another"  # noqa: S301  our own
