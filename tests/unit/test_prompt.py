"""A secret that is to be typed is asked for once, on a terminal only."""

import pytest

from playhead import references, secrets
from playhead.config.context import configure
from playhead.errors import BadValue


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch, tmp_path):
    monkeypatch.setattr(secrets, "_known", set())
    monkeypatch.setattr(references, "_asked", {})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PLAYHEAD_SANDBOX_DIR", str(tmp_path / "none"))


def test_it_is_asked_for_once_and_redacted_from_then_on(monkeypatch, tmp_path):
    questions = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr(references, "getpass", lambda said: questions.append(said) or "hunter22")
    said = ["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", "sasl.username=me"]
    found = configure(
        {"bootstrap_servers": "b:1"}, assignments=[*said, "sasl.password=prompt:"], folder=tmp_path
    )
    assert found.kafka().password == "hunter22"
    assert found.kafka().password == "hunter22"
    assert len(questions) == 1
    assert "sasl.password" in questions[0]
    assert "hunter22" not in secrets.redact("it is hunter22")


def test_without_a_terminal_it_is_an_error_that_says_what_to_write(monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(BadValue) as caught:
        references.resolve("prompt:", key="sasl.password", where="context prod")
    assert "a terminal" in caught.value.message
    assert "${" in (caught.value.hint or "")
