"""Every setting comes from the strongest place that says it, and says which place that was."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from playhead import secrets
from playhead.config import project, trust
from playhead.config.context import (
    Configuration,
    UnknownContext,
    alone,
    configure,
    contexts,
    current_context_file,
)
from playhead.config.project import find_project_file
from playhead.config.settings import BY_NAME, SETTINGS
from playhead.errors import (
    BadValue,
    MissingPiece,
    SandboxError,
    UnknownKey,
    UntranslatableProperty,
    UsageError,
)
from playhead.host import paths
from playhead.sandbox import Sandbox

PLACES = ("flag", "-X", "environment", "project", "context", "default")
SPELLINGS = ("sasl.mechanism", "sasl.mechanisms")


class Places:
    """A user's home and a project, each a place that can say something."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "config" / "playhead" / "config.toml"
        self.repository = folder / "repository"
        self.folder = self.repository / "deep" / "down"
        self.sandbox = folder / "state" / "playhead" / "sandbox" / "context.toml"
        (self.repository / ".git").mkdir(parents=True)
        self.folder.mkdir(parents=True)
        for file in (self.config, self.sandbox):
            file.parent.mkdir(parents=True)

    def contexts(self, text: str) -> None:
        self.config.write_text(text)

    def project(self, text: str) -> Path:
        """One that the user trusts; what others may say is in test_trust.py."""
        file = self.repository / "playhead.toml"
        file.write_text(text)
        trust.trust(project.read(file))
        return file

    def sandbox_is_up(self) -> None:
        self.sandbox.write_text('bootstrap_servers = "sand:1"\ndatabase = "postgresql://sand/db"\n')

    def origin(self, place: str, name: str = "spark_memory") -> str:
        """How a row of a setting names one of PLACES, its context being `prod`."""
        return {
            "project": str(self.repository / "playhead.toml"),
            "context": "context prod",
            "flag": str(BY_NAME[name].flag),
            "environment": str(BY_NAME[name].environment),
        }.get(place, place)

    def configure(self, **flags: str) -> Configuration:
        return configure(flags, folder=self.folder)


@pytest.fixture
def places(monkeypatch, tmp_path):
    monkeypatch.setattr(secrets, "_known", set())
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for setting in SETTINGS:
        if setting.environment:
            monkeypatch.delenv(setting.environment, raising=False)
    for name in ("PLAYHEAD_CONTEXT", "PLAYHEAD_SANDBOX_DIR"):
        monkeypatch.delenv(name, raising=False)
    return Places(tmp_path)


def rows(configuration: Configuration) -> dict[str, tuple[str | None, str | None]]:
    return {str(row["setting"]): (row["value"], row["origin"]) for row in configuration.rows()}


def toml(value: str | None, kafka: dict[str, str], name: str = "") -> str:
    """One place's say, as a TOML table."""
    head, below = (f"[contexts.{name}]", f"[contexts.{name}.kafka]") if name else ("", "[kafka]")
    said = f"spark_memory = {json.dumps(value)}" if value else ""
    own = [f"{json.dumps(key)} = {json.dumps(text)}" for key, text in kafka.items()]
    return "\n".join([head, said, below, *own]) + "\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sets(st.sampled_from(("flag", "environment", "project", "context"))))
def test_of_all_places_that_set_a_key_the_strongest_wins(places, saying):
    said = {place: f"{place}-g" for place in saying}
    places.project(toml(said.get("project"), {}))
    places.contexts(toml(said.get("context"), {}, "prod"))
    with pytest.MonkeyPatch.context() as patch:
        if "environment" in said:
            patch.setenv("PLAYHEAD_SPARK_MEMORY", said["environment"])
        found = configure({"spark_memory": said.get("flag")}, context="prod", folder=places.folder)
    strongest = next((place for place in PLACES if place in saying), "default")
    value = said.get(strongest, "1g")
    assert rows(found)["spark_memory"] == (value, places.origin(strongest))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(st.sampled_from(("environment", "project", "context")), st.booleans()))
def test_a_guard_that_any_place_has_switched_on_stays_on(places, said):
    text = {place: f"read_only = {str(on).lower()}\n" for place, on in said.items()}
    places.project(text.get("project", ""))
    places.contexts("[contexts.prod]\n" + text.get("context", ""))
    with pytest.MonkeyPatch.context() as patch:
        if "environment" in said:
            patch.setenv("PLAYHEAD_READ_ONLY", str(said["environment"]))
        found = configure({}, context="prod", folder=places.folder)
    assert found.is_on("read_only") is any(said.values())
    by = next((place for place in reversed(PLACES) if said.get(place)), None)
    assert by is None or found.settings["read_only"].origin == places.origin(by, "read_only")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(("-X", "project", "context")), st.sampled_from(SPELLINGS), min_size=1
    )
)
def test_of_all_spellings_of_a_property_the_strongest_places_wins(places, spelt):
    said = {place: {key: f"M-{place}"} for place, key in spelt.items()}
    places.project(toml(None, said.get("project", {})))
    places.contexts(toml(None, said.get("context", {}), "prod"))
    assigned = [f"{key}={value}" for key, value in said.get("-X", {}).items()]
    found = configure({}, assignments=assigned, context="prod", folder=places.folder)
    strongest = next(place for place in PLACES if place in spelt)
    kafka = {key: it for key, it in rows(found).items() if key.startswith("kafka.")}
    assert kafka == {f"kafka.{spelt[strongest]}": (f"M-{strongest}", places.origin(strongest))}


@pytest.mark.parametrize("strongest", range(5))
def test_the_brokers_address_follows_the_same_order(places, monkeypatch, strongest):
    ways: list[Callable[[], object]] = [
        lambda: flags.update(bootstrap_servers="flag:1"),
        lambda: assigned.append("metadata.broker.list=assigned:1"),
        lambda: monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "environment:1"),
        lambda: places.project('[kafka]\nbootstrap.servers = "project:1"\n'),
        lambda: places.contexts('[contexts.prod]\nbootstrap_servers = "context:1"\n'),
    ]
    flags: dict[str, str | None] = {}
    assigned: list[str] = []
    places.contexts("[contexts.prod]\n")
    for say in ways[strongest:]:
        say()
    found = configure(flags, assignments=assigned, context="prod", folder=places.folder)
    expected = ("flag:1", "assigned:1", "environment:1", "project:1", "context:1")[strongest]
    assert found.kafka().bootstrap_servers == expected


def test_within_a_place_its_own_words_win_over_its_file(places, tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\nclient.id=of-the-file\nclient.rack=r1\n")
    places.contexts(
        f'[contexts.prod]\nkafka_config = "{file}"\nbootstrap_servers = "own:1"\n'
        '[contexts.prod.kafka]\nclient.id = "own"\n'
    )
    connection = configure({}, context="prod", folder=places.folder).kafka()
    assert connection.bootstrap_servers == "own:1"
    assert connection.tuning == {"client.id": "own", "client.rack": "r1"}


# --- project files


def test_the_project_file_is_found_up_to_the_root_of_the_repository(places):
    file = places.project("")
    assert find_project_file(places.folder) == file


def test_a_file_beyond_the_root_of_the_repository_is_not_ours(places):
    (places.repository.parent / "playhead.toml").write_text("")
    assert find_project_file(places.folder) is None


def test_the_nearest_project_file_counts(places):
    places.project("")
    nearer = places.folder.parent / "playhead.toml"
    nearer.write_text("")
    assert find_project_file(places.folder) == nearer


def test_the_root_of_a_work_tree_whose_git_is_a_file_is_a_root(places):
    places.project("")
    (places.folder.parent / ".git").write_text("gitdir: elsewhere")
    assert find_project_file(places.folder) is None


def test_a_project_chooses_its_context(places):
    places.project('context = "staging"\n')
    places.contexts('[contexts.staging]\nbootstrap_servers = "s:1"\n')
    found = places.configure()
    assert (found.context, found.kafka().bootstrap_servers) == ("staging", "s:1")


def test_a_projects_context_is_a_name(places):
    file = places.project("context = 3\n")
    with pytest.raises(BadValue, match="a context's name") as caught:
        places.configure()
    assert caught.value.where == str(file)


# --- what cannot be understood


def test_an_unknown_setting_names_the_nearest_and_the_place(places):
    file = places.project('spark_memori = "1g"\n')
    with pytest.raises(UnknownKey, match="unknown key 'spark_memori'") as caught:
        places.configure()
    assert (caught.value.where, caught.value.nearest[0]) == (str(file), "spark_memory")


def test_an_unknown_property_names_the_nearest_and_the_context(places):
    places.contexts('[contexts.prod.kafka]\n"sasl.mechanisn" = "PLAIN"\n')
    with pytest.raises(UnknownKey, match=r"'sasl\.mechanisn' in context prod") as caught:
        contexts()
    assert "sasl.mechanism" in caught.value.nearest


def test_an_unknown_assignment_names_the_nearest(places):
    with pytest.raises(UnknownKey, match="in -X") as caught:
        configure({}, assignments=["cliend.id=me"], folder=places.folder)
    assert "client.id" in caught.value.nearest


def test_a_refused_assignment_gives_its_reason(places):
    with pytest.raises(UntranslatableProperty, match="exactly-once delivery depends on it"):
        configure({}, assignments=["isolation.level=read_uncommitted"], folder=places.folder)


def test_an_assignment_without_a_value_says_what_to_write(places):
    with pytest.raises(UsageError, match=r"-X client\.id has no value") as caught:
        configure({}, assignments=["client.id"], folder=places.folder)
    assert "key=value" in (caught.value.hint or "")


def test_an_assignments_value_may_contain_equals_signs(places):
    found = configure({}, assignments=["client.id=a=b=="], folder=places.folder)
    assert rows(found)["kafka.client.id"] == ("a=b==", "-X")


def test_an_unknown_context_names_the_nearest_and_who_chose_it(places, monkeypatch):
    places.contexts("[contexts.staging]\n")
    with pytest.raises(UnknownContext, match=r"no context 'stagin' \(chosen by -c\)") as caught:
        configure({}, context="stagin", folder=places.folder)
    assert caught.value.nearest == ("staging",)
    assert caught.value.hint == "did you mean staging? playhead context list"
    monkeypatch.setenv("PLAYHEAD_CONTEXT", "gone")
    with pytest.raises(UnknownContext, match="chosen by PLAYHEAD_CONTEXT"):
        places.configure()


def test_without_any_context_the_way_to_make_one_is_said(places):
    with pytest.raises(UnknownContext) as caught:
        configure({}, context="nope", folder=places.folder)
    assert caught.value.hint == "playhead context add NAME -b host:port"


def test_a_number_as_context_is_told_how_to_limit_records(places):
    with pytest.raises(UnknownContext, match="no context '10'") as caught:
        configure({}, context="10", folder=places.folder)
    assert "for a number of records: playhead consume --max 10" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ('[contexts]\nprod = "x"\n', r"a table \[contexts.prod\]"),
        ("contexts = 3\n", r"tables \[contexts.NAME\]"),
        ('[contexts.prod]\nkafka = "x"\n', "a table of client properties"),
        ("[contexts.prod]\ndatabase = 1.5\n", "a text, a number or true/false"),
        ('[contexts.prod]\nread_only = "perhaps"\n', "true or false"),
    ],
)
def test_a_context_of_the_wrong_shape_says_what_is_needed(places, text, needed):
    places.contexts(text)
    with pytest.raises(BadValue, match=needed):
        contexts()


def test_anything_beside_contexts_is_an_error_that_names_the_file(places):
    places.contexts("[context.prod]\n")
    with pytest.raises(UnknownKey, match="unknown key 'context'") as caught:
        contexts()
    assert (caught.value.where, caught.value.nearest) == (str(places.config), ("contexts",))


@pytest.mark.parametrize("content", [b"timezone = \n", b"timezone = '\xff'\n"])
def test_a_file_that_is_not_toml_is_named(places, content):
    file = places.project("")
    file.write_bytes(content)
    with pytest.raises(UsageError, match=str(file)):
        places.configure()


def test_dotted_keys_need_no_quotes(places):
    places.contexts(
        "[contexts.prod.kafka]\nsecurity.protocol = 'SSL'\nretry.backoff.ms = 7\n"
        "retry.backoff.max.ms = 9\n\"client.id\" = 'me'\n"
    )
    assert contexts()["prod"].kafka == {
        "security.protocol": "SSL",
        "retry.backoff.ms": "7",
        "retry.backoff.max.ms": "9",
        "client.id": "me",
    }


# --- which context counts


def test_contexts_are_chosen_by_flag_then_environment_then_project_then_use(places, monkeypatch):
    names = ["flag", "environment", "project", "used"]
    places.contexts("".join(f"[contexts.{name}]\n" for name in names))
    chosen = [places.configure().context]
    current_context_file().write_text("used\n")
    chosen.append(places.configure().context)
    places.project('context = "project"\n')
    chosen.append(places.configure().context)
    monkeypatch.setenv("PLAYHEAD_CONTEXT", "environment")
    chosen.append(places.configure().context)
    chosen.append(configure({}, context="flag", folder=places.folder).context)
    assert chosen == [None, *reversed(names)]


def test_the_sandbox_counts_when_nobody_names_a_server(places):
    assert places.configure().context is None
    places.sandbox_is_up()
    found = places.configure(spark_memory="2g")
    assert (found.context, found.kafka().bootstrap_servers) == ("sandbox", "sand:1")
    assert rows(found)["kafka.bootstrap.servers"][1] == "context sandbox"


@pytest.mark.parametrize(
    ("flags", "assigned"),
    [
        ({"bootstrap_servers": "h:1"}, []),
        ({"database": "postgresql://h/db"}, []),
        ({}, ["bootstrap.servers=h:1"]),
        ({}, ["metadata.broker.list=h:1"]),
    ],
)
def test_the_sandbox_does_not_mix_with_a_server_that_is_named(places, flags, assigned):
    places.sandbox_is_up()
    found = configure(flags, assignments=assigned, folder=places.folder)
    assert found.context is None
    assert "sand" not in str(found.rows())


def test_what_is_missing_beside_a_server_of_ones_own_is_in_the_sandbox_that_is_up(
    places, monkeypatch
):
    monkeypatch.setenv("DATABASE_URL", "postgresql://h/db")
    with pytest.raises(MissingPiece) as missing:
        places.configure().kafka().for_librdkafka("client")
    assert missing.value.hint.endswith("or start local servers: playhead sandbox up")
    places.sandbox_is_up()
    with pytest.raises(MissingPiece) as missing:
        places.configure().kafka().for_librdkafka("client")
    assert missing.value.hint.endswith("or choose the sandbox that is up: -c sandbox")
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "h:1")
    with pytest.raises(MissingPiece) as missing:
        places.configure().need("database", needed_for="a test")
    assert missing.value.hint.endswith("or choose the sandbox that is up: -c sandbox")


def test_commands_of_a_sandbox_name_its_folder_unless_it_is_the_usual_one(places):
    assert paths.sandbox_command("up", paths.sandbox_dir()) == "playhead sandbox up"
    other = Path("/srv/my sandbox")
    assert paths.sandbox_command("down", other) == "playhead sandbox down --dir '/srv/my sandbox'"
    with pytest.raises(SandboxError) as stopped:
        Sandbox(other).endpoints()
    assert stopped.value.hint == "start it: playhead sandbox up --dir '/srv/my sandbox'"


@pytest.mark.parametrize("variable", ["KAFKA_BOOTSTRAP_SERVERS", "DATABASE_URL"])
def test_the_environment_names_a_server_too(places, monkeypatch, variable):
    places.sandbox_is_up()
    monkeypatch.setenv(variable, "h:1")
    assert places.configure().context is None


def test_a_project_that_names_a_server_keeps_the_sandbox_out(places):
    places.sandbox_is_up()
    places.project("[kafka]\nbootstrap.servers = 'h:1'\n")
    assert places.configure().context is None


def test_a_chosen_context_keeps_the_sandbox_out(places):
    places.sandbox_is_up()
    places.contexts("[contexts.prod]\n")
    current_context_file().write_text("prod")
    assert places.configure().context == "prod"


def test_the_sandbox_can_be_asked_for_by_name_only_while_it_is_up(places):
    with pytest.raises(MissingPiece, match=r"context sandbox \(chosen by -c\) needs") as caught:
        configure({}, context="sandbox", folder=places.folder)
    assert caught.value.hint == "playhead sandbox up"
    places.sandbox_is_up()
    assert configure({}, context="sandbox", folder=places.folder).context == "sandbox"


def test_what_is_wrong_with_a_connection_names_the_places_it_came_from(places):
    file = places.project("[kafka]\nsecurity.protocol = 'SASL_SSL'\n")
    with pytest.raises(BadValue) as caught:
        configure({}, assignments=["client.id=me"], folder=places.folder).kafka()
    assert {"-X", str(file)} <= set(caught.value.where.split(" and "))


def test_a_context_alone_is_not_changed_by_the_environment(places, monkeypatch):
    places.contexts("[contexts.prod]\nbootstrap_servers = 'context:1'\n")
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "environment:1")
    assert rows(alone("prod", "-c"))["kafka.bootstrap.servers"] == ("context:1", "context prod")


def test_reading_a_configuration_writes_nothing(places, tmp_path):
    places.project("")
    before = sorted(tmp_path.rglob("*"))
    places.configure().rows()
    assert sorted(tmp_path.rglob("*")) == before
    assert "PLAYHEAD_CONTEXT" not in os.environ
