"""A login goes to the servers it was configured for: by every way in which another can be named."""

import http.server
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from playhead import Replay, kafka, postgres
from playhead.cli.app import main
from playhead.cli.options import Run
from playhead.cli.output import Output
from playhead.cli.replay.run_replay import with_servers
from playhead.config import trust
from playhead.config.context import UnknownContext, configure, connection_of, guards_of
from playhead.config.context import contexts as contexts_there
from playhead.config.guards import ReadOnly
from playhead.config.logins import LoginElsewhere
from playhead.config.saved_servers import configuration_of, kept_servers
from playhead.endpoint import Endpoint
from playhead.errors import BadValue, PlayheadError, Refused, UsageError
from playhead.host import paths
from playhead.replay import assemble, begun_replays
from playhead.request import Request
from playhead.schemas.registry import Registry
from playhead.schemas.schema_id import SchemaId
from tests.empty_listener import EmptyListener

HOME = "127.0.0.1:9"
PASSWORD = "the-password-of-the-context"
Command = Callable[..., tuple[int, str, str]]
CONTEXTS = f"""
[contexts.home]
bootstrap_servers = "{HOME},127.0.0.2:9"
[contexts.home.kafka]
security.protocol = "SASL_PLAINTEXT"
sasl.mechanism = "PLAIN"
sasl.username = "me"
sasl.password = "${{HOME_PASSWORD}}"
[contexts.away]
bootstrap_servers = "away:1"
[contexts.away.kafka]
security.protocol = "SASL_PLAINTEXT"
sasl.mechanism = "PLAIN"
sasl.username = "you"
sasl.password = "another"
[contexts.plain]
bootstrap_servers = "plain:1"
[contexts.homeless.kafka]
security.protocol = "SASL_PLAINTEXT"
sasl.mechanism = "PLAIN"
sasl.username = "me"
sasl.password = "${{HOME_PASSWORD}}"
[contexts.key]
bootstrap_servers = "{HOME}"
[contexts.key.kafka]
security.protocol = "SSL"
ssl.key.location = "/k.pem"
ssl.certificate.location = "/k.pem"
[contexts.tokens]
bootstrap_servers = "{HOME}"
[contexts.tokens.kafka]
security.protocol = "SASL_SSL"
sasl.mechanism = "OAUTHBEARER"
sasl.oauthbearer.client.id = "me"
sasl.oauthbearer.client.secret = "${{HOME_PASSWORD}}"
sasl.oauthbearer.token.endpoint.url = "https://tokens.example/"
"""
LOGIN = (
    "security.protocol=SASL_PLAINTEXT",
    "sasl.mechanism=PLAIN",
    "sasl.username=me",
    "sasl.password=${HOME_PASSWORD}",
)


@pytest.fixture(autouse=True)
def contexts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    for name in ("KAFKA_BOOTSTRAP_SERVERS", "DATABASE_URL", "PLAYHEAD_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME_PASSWORD", PASSWORD)
    paths.config_file().parent.mkdir(parents=True)
    paths.config_file().write_text(CONTEXTS)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def listener() -> Iterator[EmptyListener]:
    with EmptyListener() as listener:
        yield listener


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(words)
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


@pytest.mark.parametrize("context", ["home", "key", "tokens", "homeless"])
@pytest.mark.parametrize(
    "words",
    [
        ("replay", "kafka://{at}/t", "postgres:t", "--dry-run"),
        ("replay", "json:.", "kafka://{at}/t", "--dry-run"),
        ("replay", "json:.", "json:./x", "--on-error", "dlq://{at}/t", "--dry-run"),
        ("gaps", "kafka://{at}/t", "postgres:t"),
        ("timeline", "kafka://{at}/t"),
        ("live", "kafka://{at}/t", "postgres:t", "--dry-run"),
        ("ingest", "udp://127.0.0.1:0", "kafka://{at}/t", "--dry-run"),
        ("topics", "list", "-b", "{at}"),
        ("topics", "list", "-b", HOME + ",{at}"),
        ("topics", "list", "-X", "bootstrap.servers={at}"),
        ("topics", "list", "-X", "metadata.broker.list={at}"),
        ("consume", "t", "-b", "{at}"),
        ("groups", "list", "--config", "server.properties"),
    ],
    ids=" ".join,
)
def test_no_command_takes_the_login_of_a_context_elsewhere(run, listener, context, words):
    Path("server.properties").write_text(f"bootstrap.servers={listener.address}\n")
    said = [word.format(at=listener.address) for word in words]
    code, out, err = run(*said, "-c", context, "--database", "postgresql://127.0.0.1:9/x")
    assert (code, out) == (6, ""), err
    assert "and would go to" in err
    assert listener.address in err
    assert "playhead context add NAME" in err
    assert PASSWORD not in err
    assert listener.brought() == []


def test_the_doctor_takes_it_nowhere_either(run, listener, monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", listener.address)
    code, out, _ = run("doctor", "-c", "home", "-o", "json")
    assert code == 1
    assert "would go to" in out
    assert listener.brought() == []


def test_python_takes_it_nowhere(listener):
    source = kafka("t", bootstrap_servers=listener.address)
    with pytest.raises(LoginElsewhere):
        Replay(source, postgres("t", url="postgresql://127.0.0.1:9/x")).plan(
            configure({}, context="home")
        )
    assert listener.brought() == []


def test_without_a_login_an_endpoint_may_name_any_server():
    found = connection_of(Endpoint.parse("kafka://h:1/t"), configure({}, context="plain"))
    assert (found.bootstrap_servers, found.password) == ("h:1", None)


def test_one_of_the_servers_of_a_login_is_its_home():
    found = configure({}, context="home").kafka(at="127.0.0.2:9")
    assert (found.bootstrap_servers, found.password) == ("127.0.0.2:9", PASSWORD)


@pytest.mark.parametrize(
    ("flags", "assigned", "environment", "context", "servers"),
    [
        ({"bootstrap_servers": "h:1"}, LOGIN, None, None, "h:1"),
        ({"bootstrap_servers": "h:1"}, LOGIN, "other:1", "plain", "h:1"),
        ({}, LOGIN, "h:1", None, "h:1"),
        ({}, LOGIN, None, "plain", "plain:1"),
        ({"bootstrap_servers": HOME}, (), None, "home", HOME),
        ({}, (), HOME.upper(), "home", HOME),
        ({}, ("client.id=x",), None, "home", f"{HOME},127.0.0.2:9"),
    ],
)
def test_a_login_that_is_said_for_a_server_goes_there(
    monkeypatch, flags, assigned, environment, context, servers
):
    if environment:
        monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", environment)
    found = configure(flags, assignments=assigned, context=context).kafka()
    assert (found.bootstrap_servers, found.password) == (servers, PASSWORD)


@pytest.mark.parametrize(
    ("flags", "assigned"),
    [({"bootstrap_servers": "h:1"}, ()), ({}, ("bootstrap.servers=h:1",))],
    ids=["-b", "-X"],
)
def test_a_login_of_a_file_is_for_the_servers_of_that_file(tmp_path, flags, assigned):
    file = tmp_path / "login.properties"
    file.write_text("\n".join((f"bootstrap.servers={HOME}", *LOGIN)))
    flags = flags | {"kafka_config": str(file)}
    with pytest.raises(LoginElsewhere, match=f"belongs to {HOME}, and would go to h:1"):
        configure(flags, assignments=assigned).kafka()
    file.write_text("\n".join(LOGIN))
    assert configure(flags, assignments=assigned).kafka().password == PASSWORD


@pytest.mark.parametrize("context", [None, "plain"])
def test_a_login_of_the_command_line_is_for_the_configured_server(context):
    """`kafka://h:1/…` beside it may be the other end of the replay."""
    found = configure({}, assignments=LOGIN, context=context)
    with pytest.raises(LoginElsewhere):
        found.kafka(at="h:1")
    named = configure({"bootstrap_servers": "h:1"}, assignments=LOGIN, context=context)
    assert named.kafka(at="h:1").password == PASSWORD


TOKENS = (
    "security.protocol=SASL_PLAINTEXT",
    "sasl.mechanism=OAUTHBEARER",
    "sasl.oauthbearer.client.id=me",
    "sasl.oauthbearer.client.secret=${HOME_PASSWORD}",
)


@pytest.mark.parametrize("variable", ["http_proxy", "all_proxy", "ALL_PROXY"])
@pytest.mark.parametrize(
    ("url", "excepted", "goes"),
    [
        ("http://localhost:8080/token", "", False),
        ("http://127.0.0.1:8080/token", "localhost, .example", False),
        ("http://[::1]:8080/token", "::1", True),
        ("http://LOCALHOST:8080/token", "intern.example,LocalHost", True),
        ("http://localhost:8080/token", "*", True),
        ("http://localhost:8080/token", " *", False),
        ("https://tokens.example/token", "", True),
    ],
)
def test_a_clients_secret_for_this_machine_goes_through_no_proxy(
    monkeypatch, variable, url, excepted, goes
):
    """librdkafka has no other switch for it than the environment."""
    for each in ("http_proxy", "all_proxy", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(variable, "http://u:proxys-own@proxy.example:3128")
    monkeypatch.setenv("no_proxy", excepted)
    told = configure(
        {"bootstrap_servers": HOME},
        assignments=(*TOKENS, f"sasl.oauthbearer.token.endpoint.url={url}"),
    )
    if goes:
        assert told.kafka().oauth_client_secret == PASSWORD
        return
    with pytest.raises(Refused, match=f"would go to the proxy of {variable}") as caught:
        told.kafka()
    assert "proxys-own" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    "servers",
    [
        "kafka://u:s3cret-pw@h:9092",
        "u:s3cret-pw@h:9092",
        "h:1, SASL_SSL://u:s3cret-pw@h:9092",
        "${WRONG}",
    ],
)
def test_a_password_in_the_servers_is_said_by_nobody(run, monkeypatch, servers):
    monkeypatch.setenv("WRONG", "u:s3cret-pw@h:9092")
    url = "https://u:s3cret-pw@tokens.example/"
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", servers)
    paths.config_file().write_text(
        f'[contexts.wrong]\nbootstrap_servers = "{servers}"\n'
        f'[contexts.wrong.kafka]\nsasl.oauthbearer.token.endpoint.url = "{url}"\n'
    )
    for words in (
        ("topics", "list"),
        ("topics", "list", "-c", "wrong"),
        ("context", "list"),
        ("context", "show"),
        ("context", "show", "wrong"),
        ("doctor",),
    ):
        _, out, err = run(*words)
        assert "s3cret" not in out + err, words


def test_a_clients_secret_goes_to_no_other_server_of_tokens():
    own = "sasl.oauthbearer.token.endpoint.url=https://evil.example/"
    with pytest.raises(LoginElsewhere, match=r"client\.secret .* go to https://evil"):
        configure({}, assignments=[own], context="tokens").kafka()
    assert configure({}, context="tokens").kafka().oauth_client_secret == PASSWORD


def test_a_contexts_file_is_not_the_one_that_a_clone_has(run, listener):
    """Its servers would be taken for the context's own, and get the context's login."""
    login = "".join(f"{name} = {value!r}\n" for name, value in (x.split("=") for x in LOGIN))
    filed = f'[contexts.filed]\nkafka_config = "client.properties"\n[contexts.filed.kafka]\n{login}'
    paths.config_file().write_text(CONTEXTS + filed)
    Path("client.properties").write_text(f"bootstrap.servers={listener.address}\n")
    code, out, err = run("topics", "list", "-c", "filed")
    assert (code, out) == (2, ""), err
    assert "the file's whole path" in err
    assert listener.brought() == []


def test_a_context_is_added_with_the_whole_path_of_its_file(run, tmp_path):
    Path("client.properties").write_text("bootstrap.servers=own:1\n")
    assert run("context", "add", "filed", "--config", "client.properties")[0] == 0
    said = contexts_there()["filed"].settings["kafka_config"]
    assert said == str(tmp_path / "client.properties")


@pytest.mark.parametrize("by", ["assignment", "kafka_config"])
@pytest.mark.parametrize(
    ("context", "named", "stays"),
    [
        (None, {"bootstrap_servers": "evil:1"}, False),
        (None, {"bootstrap_servers": "own:1"}, True),
        (None, {}, True),
        ("plain", {"context": "away"}, False),
        ("plain", {"bootstrap_servers": "evil:1"}, False),
        ("plain", {"bootstrap_servers": "plain:1"}, True),
    ],
)
def test_the_login_of_a_saved_run_goes_to_the_servers_of_that_run(by, context, named, stays):
    """As `resume ID -b other` names another."""
    flags = {} if context else {"bootstrap_servers": "own:1"}
    Path("login.properties").write_text("\n".join(LOGIN))
    first = configure(
        flags | ({} if by == "assignment" else {"kafka_config": "login.properties"}),
        assignments=LOGIN if by == "assignment" else (),
        context=context,
    )
    again = Run(Output(), {**named})
    if stays:
        assert with_servers(again, kept_servers(first)).configuration().kafka().password == PASSWORD
        return
    with pytest.raises(LoginElsewhere):
        with_servers(again, kept_servers(first))


def test_a_login_that_is_said_anew_goes_with_its_servers():
    kept = kept_servers(configure({"bootstrap_servers": "own:1"}, assignments=LOGIN))
    again = Run(Output(), {"bootstrap_servers": "new:1", "assignment": LOGIN})
    assert with_servers(again, kept).configuration().kafka().bootstrap_servers == "new:1"


@pytest.mark.parametrize("by", ["assignment", "kafka_config"])
@pytest.mark.parametrize("face", ["resume", "standby"])
def test_the_login_of_a_saved_run_stays_where_a_weaker_place_named_its_servers(
    monkeypatch, by, face
):
    """The environment of a resume, or of the timer of a standby, may name others than the context did."""
    Path("login.properties").write_text("\n".join(LOGIN))
    first = configure(
        {"kafka_config": "login.properties"} if by == "kafka_config" else {},
        assignments=LOGIN if by == "assignment" else (),
        context="plain",
    )
    kept = kept_servers(first)
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "evil:1")
    resumed = with_servers(Run(Output(), {}), kept).configuration()
    found = (resumed if face == "resume" else configuration_of(kept)).kafka()
    assert (found.bootstrap_servers, found.password) == ("plain:1", PASSWORD)


def test_without_a_typed_login_the_servers_of_a_context_are_not_kept():
    """They may move, and the context says where they are."""
    assert kept_servers(configure({}, assignments=["client.id=x"], context="plain")) == {
        "context": "plain",
        "assignment": '["client.id=x"]',
    }


def test_another_files_login_goes_to_its_own_servers_and_not_to_those_of_the_saved_run():
    kept = kept_servers(configure({"bootstrap_servers": "own:1"}))
    Path("other.properties").write_text("bootstrap.servers=other:1\n" + "\n".join(LOGIN))
    for named in (
        {"kafka_config": "other.properties"},
        {"assignment": ("bootstrap.servers=other:1", *LOGIN)},
    ):
        found = with_servers(Run(Output(), {**named}), kept).configuration().kafka()
        assert (found.bootstrap_servers, found.password) == ("other:1", PASSWORD)


TOKENS = (
    "security.protocol=SASL_SSL",
    "sasl.mechanism=OAUTHBEARER",
    "sasl.oauthbearer.client.id=me",
    "sasl.oauthbearer.client.secret=${HOME_PASSWORD}",
)
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url=https://{}.example/"


def test_a_file_that_is_named_later_names_no_other_tokens_for_a_saved_secret():
    """It is the same place as what was typed at the start: the command line."""
    own, evil = (TOKEN_URL.format(name) for name in ("own", "evil"))
    Path("own.properties").write_text(own)
    Path("evil.properties").write_text(evil)
    file = {"bootstrap_servers": "own:1", "kafka_config": "own.properties"}
    kept = kept_servers(configure(file, assignments=TOKENS))
    again = with_servers(Run(Output(), {"kafka_config": "evil.properties"}), kept)
    assert again.configuration().kafka().oauth_token_endpoint_url == "https://own.example/"


@pytest.mark.parametrize("token_url", [TOKEN_URL.format("own"), "client.id=x"])
def test_an_assignment_names_no_other_tokens_for_the_secret_of_a_saved_file(token_url):
    Path("own.properties").write_text("\n".join([*TOKENS, token_url]))
    flags = {"bootstrap_servers": "own:1", "kafka_config": "own.properties"}
    kept = kept_servers(configure(flags))
    with pytest.raises(LoginElsewhere, match="https://evil.example/"):
        with_servers(Run(Output(), {"assignment": (TOKEN_URL.format("evil"),)}), kept)


def test_a_weaker_place_names_no_other_tokens_when_the_run_goes_on(monkeypatch, tmp_path):
    tokens = f"[contexts.url]\nbootstrap_servers = '{HOME}'\n[contexts.url.kafka]\n"
    key, _, url = TOKEN_URL.format("own").partition("=")
    paths.config_file().write_text(CONTEXTS + tokens + f"{key} = '{url}'\n")
    kept = kept_servers(configure({}, assignments=TOKENS, context="url"))
    evil = TOKEN_URL.format("evil").partition("=")[2]
    (tmp_path / "playhead.toml").write_text(f"[kafka]\n{key} = '{evil}'\n")
    monkeypatch.setattr(trust, "is_trusted", lambda _: True)
    assert configuration_of(kept).kafka().oauth_token_endpoint_url == url


def test_a_clients_secret_that_is_said_anew_goes_to_the_tokens_said_with_it():
    own, new = (TOKEN_URL.format(name) for name in ("own", "new"))
    Path("own.properties").write_text("\n".join([*TOKENS, own]))
    kept = kept_servers(configure({"bootstrap_servers": "o:1", "kafka_config": "own.properties"}))
    said = (new, TOKENS[-1].replace("HOME_", "NEW_"))
    again = with_servers(Run(Output(), {"assignment": said}), kept).configuration()
    assert again.settings["kafka_config"].value.endswith("own.properties")
    assert again.kafka_properties["sasl.oauthbearer.client.secret"].value == "${NEW_PASSWORD}"


# --- another cluster is another context


def connection(text: str, **flags: str) -> Any:
    return connection_of(Endpoint.parse(text), configure(flags, context="home"))


def test_a_context_brings_its_servers_and_its_login(monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", HOME)
    for text in ("kafka:away/t", "kafka:away//t.*/", "kafka:away/"):
        found = connection(text, bootstrap_servers=HOME)
        assert (found.bootstrap_servers, found.username, found.password) == (
            "away:1",
            "you",
            "another",
        )
    found = connection("kafka:plain/t")
    assert (found.bootstrap_servers, found.protocol, found.password) == (
        "plain:1",
        "PLAINTEXT",
        None,
    )


def ends(**said: Any) -> assemble.Wiring:
    return assemble.ends(Request(**said), configure({}, context="home"))


def test_source_target_and_dead_letters_each_have_their_own():
    both = ends(source="kafka:away/t", target="kafka:plain/copy", on_error="dlq:home/letters")
    found = [each.connection.username for each in (both.source, both.target, both.dead_letters)]  # type: ignore[union-attr]
    assert found == ["you", None, "me"]
    assert both.dead_letters.topic == "letters"  # type: ignore[union-attr]


def test_dead_letters_go_beside_the_topic_that_they_come_from():
    both = ends(source="kafka:away/t", target="kafka:plain/copy", on_error="dlq:letters")
    assert both.dead_letters.connection.bootstrap_servers == "away:1"  # type: ignore[union-attr]


def test_a_ledger_is_asked_for_where_the_target_is():
    found: Any = assemble.target_at(
        Endpoint.parse("kafka:away/copy"), configure({}, context="home")
    )
    assert (found.connection.bootstrap_servers, found.connection.username) == ("away:1", "you")


def test_by_its_context_a_topic_is_the_same_topic():
    for source, target in (("kafka:t", "kafka:home/t"), ("kafka:home/t", "kafka:t")):
        with pytest.raises(Refused, match="into itself"):
            ends(source=source, target=target)
        with pytest.raises(Refused, match="dead letters would go to t"):
            ends(source=source, target="json:x", on_error="dlq:home/t")
    assert ends(source="kafka:t", target="kafka:away/t", on_error="dlq:plain/t")


def test_a_group_moves_only_within_its_cluster():
    moves = [
        ends(source="kafka:t", target=to).target.moves_group
        for to in ("kafka:home/u", "kafka:away/u")
    ]  # type: ignore[attr-defined]
    assert moves == [True, False]


def test_a_context_that_is_not_there_is_named():
    with pytest.raises(UnknownContext, match=r"no context 'awy' \(chosen by kafka:awy/t\)"):
        connection("kafka:awy/t")
    with pytest.raises(UsageError, match="two clusters"):
        kafka("t", bootstrap_servers="h:1", context="away")
    with pytest.raises(PlayheadError):
        ends(source="kafka:t", target="json:x", on_error="dlq:/t.*/")
    with pytest.raises(BadValue):
        ends(source="kafka:t", target="json:x", on_error="dlq:a,b")


@pytest.mark.parametrize("guard", ["read_only", "production"])
@pytest.mark.parametrize(
    ("target", "on_error", "is_guarded"),
    [
        ("kafka:safe/t", "fail", True),
        ("json:x", "dlq:safe/t", True),
        ("json:x", "dlq:t", True),
        ("kafka:away/t", "dlq:away/l", False),
    ],
)
def test_a_context_that_is_written_to_has_its_guards_heeded(guard, target, on_error, is_guarded):
    paths.config_file().write_text(CONTEXTS + f"[contexts.safe]\n{guard} = true\n")
    request = Request(source="kafka:safe/s", target=target, on_error=on_error)
    found = assemble.guards(request, configure({}, context="home"))
    assert found.is_on(guard) is is_guarded
    assert not is_guarded or found.context == "safe"


def test_the_guards_of_the_configuration_hold_for_another_context_too(monkeypatch):
    monkeypatch.setenv("PLAYHEAD_READ_ONLY", "yes")
    found = guards_of([Endpoint.parse("kafka:away/t")], configure({}))
    assert found.is_on("read_only")


def test_a_read_only_context_is_written_to_by_no_replay(run):
    paths.config_file().write_text(CONTEXTS + "[contexts.safe]\nread_only = true\n")
    said = ("ingest", "udp://127.0.0.1:0", "kafka:safe/t")
    code, _, err = run(*said)
    assert code == ReadOnly.exit_code
    assert "context safe is read-only" in err


# --- a registry


class _Elsewhere(http.server.BaseHTTPRequestHandler):
    to = ""

    def do_GET(self) -> None:
        self.send_response(int(self.path[1:4]))
        self.send_header("Location", f"http://{self.to}/schemas/ids/1")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_registry_that_sends_us_elsewhere_gets_nothing_there(listener, status):
    _Elsewhere.to = listener.address
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        registry = Registry(f"http://me:{PASSWORD}@127.0.0.1:{server.server_port}/{status}")
        with pytest.raises(PlayheadError, match=str(status)):
            registry.schema(SchemaId(1))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert listener.brought() == []


# --- a ledger that others can write


@pytest.mark.parametrize("on_error", ["dlq://evil:1/t", "dlq:away/t"])
def test_nor_does_it_choose_where_dead_letters_go(monkeypatch, on_error):
    plan = SimpleNamespace(request=Request(source="kafka:s", target="kafka:t", on_error=on_error))
    monkeypatch.setattr(begun_replays, "plan_of_terms", lambda *_: plan)
    monkeypatch.setattr(
        begun_replays, "target_at", lambda *_: SimpleNamespace(terms=lambda _: "kept")
    )
    with pytest.raises(begun_replays.PlanNotKept, match="which this command does not name"):
        begun_replays.plan_from_ledger("r", Endpoint.parse("kafka:t"), configure({}))


@pytest.mark.parametrize(
    ("there", "named", "is_it"),
    [
        ("postgres:t", "postgres:t", True),
        ("postgres:t", "postgresql://h/db?table=t", True),
        ("postgresql://h/db?table=t", "postgresql://h/db?table=t", True),
        ("postgresql://evil/db?password=${HOME_PASSWORD}&table=t", "postgres:t", False),
        ("postgresql://h/db?table=t", "postgres:t", False),
        ("postgresql://h/db?table=t", "postgresql://h/other?table=t", False),
        ("kafka:away/t", "kafka:away/t", True),
        ("kafka://h:1/t", "kafka://h:1/t", True),
        ("kafka:t", "kafka:away/t", False),
        ("kafka:t", "kafka://h:1/t", False),
        ("kafka:home/t", "kafka:away/t", False),
        ("kafka://evil:1/t", "kafka:t", False),
        ("kafka:u", "kafka:t", False),
    ],
)
def test_the_plan_in_a_ledger_chooses_no_server(monkeypatch, there, named, is_it):
    plan = SimpleNamespace(request=Request(source="kafka:s", target=there))
    monkeypatch.setattr(begun_replays, "plan_of_terms", lambda *_: plan)
    monkeypatch.setattr(
        begun_replays, "target_at", lambda *_: SimpleNamespace(terms=lambda _: "kept")
    )
    end, found = Endpoint.parse(named), configure({})
    if is_it:
        assert begun_replays.plan_from_ledger("r", end, found).request is plan.request
        return
    with pytest.raises(UsageError, match="but TARGET is") as caught:
        begun_replays.plan_from_ledger("r", end, found)
    assert PASSWORD not in str(caught.value) + str(caught.value.hint)
