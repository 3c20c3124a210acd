"""`live --status`: one pipeline that cannot be looked at hides no other."""

import json
from collections.abc import Callable

import pytest

from playhead.cli.app import main
from playhead.replay.pipelines import Pipeline, Pipelines

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> Command:
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", f"{tmp_path}/{name}")
    monkeypatch.setenv("OWN_PASSWORD", "the-password-of-the-run")
    for name in ("own", "plain", "damaged"):
        servers = {"bootstrap_servers": "127.0.0.1:9"}
        if name == "own":
            login = "security.protocol=SASL_PLAINTEXT", "sasl.password=${OWN_PASSWORD}"
            servers["assignment"] = json.dumps(login)
        both = {"source": f"kafka:{name}", "target": f"kafka:{name}-copy"}
        Pipelines().keep(Pipeline(name, *both.values(), "c", "p", {}, "g", both, 1, {}, servers))
    newer = {"option_of_a_later_version": 1}
    Pipelines().keep(Pipeline("newer", "kafka:a", "kafka:b", "c", "p", {}, "g", newer, 1))
    (Pipelines().folder("damaged") / "pipeline.json").write_text("{")
    (Pipelines().folder("damaged") / "status.json").write_text("[5]")

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(words)
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def test_all_are_listed_also_when_one_is_refused(run):
    code, out, err = run("live", "--status", "-b", "127.0.0.2:9", "-o", "json")
    assert (code, bool(out)) == (1, True), err
    found = {each["name"]: each for each in json.loads(out)["pipelines"]}
    assert found.keys() == {"own", "plain", "damaged", "newer"}
    assert "sasl.password of -X belongs to 127.0.0.1:9" in found["own"]["error"]
    assert (found["own"]["state"], found["own"]["source"]) == ("stopped", "kafka:own")
    assert "cannot identify the pipeline of " in found["damaged"]["error"]
    assert "unknown option_of_a_later_version" in found["newer"]["error"]
    assert "error" not in found["plain"]
    assert "own: error: sasl.password of -X" in err


def test_a_list_without_an_error_ends_well(run):
    for name in ("own", "damaged", "newer"):
        Pipelines().forget(name)
    assert run("live", "--status", "-b", "127.0.0.2:9")[0] == 0


def test_the_status_of_one_is_refused_with_its_own_code(run):
    assert run("live", "--status", "own", "-b", "127.0.0.2:9")[0] == 6
    assert run("live", "--status", "damaged")[0] == 1
    assert run("live", "--status", "nothing")[0] == 2
