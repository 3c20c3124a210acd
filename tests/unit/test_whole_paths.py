"""A path in the user's own configuration never means a file of the folder where a command runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from playhead.cli.app import main
from playhead.cli.options import Run
from playhead.cli.output import Output
from playhead.cli.replay.run_replay import with_servers
from playhead.config import trust
from playhead.config.context import configure
from playhead.config.saved_servers import configuration_of, kept_servers
from playhead.errors import BadValue, Refused, UsageError
from playhead.host import paths

Command = Callable[..., tuple[int, str, str]]
OF_CLONE = "what-the-clone-wrote"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
LOGIN = """
"security.protocol" = "SASL_PLAINTEXT"
"sasl.mechanism" = "PLAIN"
"sasl.username" = "me"
"""


@pytest.fixture(autouse=True)
def clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of somebody else, with files by the names that the user's own configuration has."""
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    for name in ("KAFKA_BOOTSTRAP_SERVERS", "DATABASE_URL", "SCHEMA_REGISTRY_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CERTIFICATES", "certificates")
    clone = tmp_path / "clone"
    (clone / "certificates").mkdir(parents=True)
    (clone / "secret").write_text(OF_CLONE)
    for name in ("ca.pem", "certificates/ca.pem"):
        (clone / name).write_text(PEM)
    paths.config_file().parent.mkdir(parents=True)
    monkeypatch.chdir(clone)
    return clone


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(words)
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


KAFKA = {
    "sasl.password": LOGIN + '"sasl.password" = "file:secret"',
    "whole JAAS": LOGIN + '"sasl.jaas.config" = " file:secret"',
    "an option of JAAS": LOGIN
    + f"""\"sasl.jaas.config" = '{MODULE} required username="me" password="file:secret";'""",
    "ssl.ca.location": '"security.protocol" = "SSL"\n"ssl.ca.location" = "ca.pem"',
    "truststore": '"security.protocol" = "SSL"\n"ssl.truststore.location" = "./ca.pem"',
    "a variable": '"security.protocol" = "SSL"\n"ssl.ca.location" = "${CERTIFICATES}/ca.pem"',
    "ssl.key.location": '"security.protocol" = "SSL"\n"ssl.key.location" = "ca.pem"',
    "ssl.keystore.location": '"security.protocol" = "SSL"\n"ssl.keystore.location" = "ca.pem"',
    "ssl.certificate.location": '"security.protocol" = "SSL"\n"ssl.certificate.location" = "../x"',
}


@pytest.mark.parametrize("what", KAFKA)
def test_a_context_names_no_file_of_the_working_folder(what):
    text = f'[contexts.own]\nbootstrap_servers = "h:1"\n[contexts.own.kafka]\n{KAFKA[what]}\n'
    paths.config_file().write_text(text)
    with pytest.raises(BadValue, match=r"a whole path.* \(context own\)|context own.*a whole path"):
        configure({}, context="own").kafka()


@pytest.mark.parametrize("what", KAFKA)
def test_nor_does_the_file_of_properties_of_a_context(what, tmp_path):
    properties = KAFKA[what].replace('" = "', "=").replace("\" = '", "=").replace("'", "")
    lines = [line.removeprefix('"').removesuffix('"') for line in properties.splitlines()]
    file = tmp_path / "own.properties"
    file.write_text("\n".join(lines))
    text = f'[contexts.own]\nbootstrap_servers = "h:1"\nkafka_config = "{file}"\n'
    paths.config_file().write_text(text)
    with pytest.raises(BadValue, match="a whole path"):
        configure({}, context="own").kafka()


@pytest.mark.parametrize("name", ["database", "schema_registry", "spark_remote"])
@pytest.mark.parametrize("by", ["context", "environment", "project"])
def test_nor_is_an_address_read_from_it(monkeypatch, clone, name, by):
    if by == "context":
        paths.config_file().write_text(f'[contexts.own]\n{name} = "file:secret"\n')
    elif by == "project":
        (clone / "playhead.toml").write_text(f'{name} = "file:secret"\n')
        monkeypatch.setattr(trust, "is_trusted", lambda _: True)
    else:
        variables = {"database": "DATABASE_URL", "schema_registry": "SCHEMA_REGISTRY_URL"}
        monkeypatch.setenv(variables.get(name, "SPARK_REMOTE"), "file:secret")
    context = "own" if by == "context" else None
    with pytest.raises(BadValue, match="a whole path"):
        configure({}, context=context).get(name)
    assert configure({name: "file:secret"}, context=context).get(name) == OF_CLONE


@pytest.mark.parametrize(
    ("name", "relative", "whole"),
    [
        ("SSL_CERT_FILE", "ca.pem", "/own/ca.pem"),
        ("SSL_CERT_DIR", "/own/certs:certs", "/own/certs:/own/more"),
        ("AWS_CA_BUNDLE", "./ca.pem", "/own/ca.pem"),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", "token", "/own/token"),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "token", "/own/token"),
        ("KRB5_CONFIG", "krb5.conf", "/own/krb5.conf:/etc/krb5.conf"),
        ("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "roots.pem", "/own/roots.pem"),
        ("OPENSSL_CONF", "openssl.cnf", "/dev/null"),
        ("OPENSSL_ENGINES", "./engines", "/own/engines"),
        ("OPENSSL_MODULES", "modules", "/own/modules"),
        ("HOME", ".", "/home/a:b"),
    ],
)
def test_no_library_trusts_a_file_of_the_working_folder(
    monkeypatch: pytest.MonkeyPatch, name: str, relative: str, whole: str
) -> None:
    monkeypatch.setenv(name, relative)
    with pytest.raises(BadValue, match=f"{name} in the environment .*a whole path"):
        configure({})
    monkeypatch.setenv(name, whole)
    configure({})


@pytest.mark.parametrize("folder", [paths.config_file, paths.state_dir, paths.cache_dir])
def test_a_home_in_the_working_folder_is_none(monkeypatch, folder) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "home")
    with pytest.raises(UsageError, match="HOME is a relative path"):
        folder()


def test_a_whole_path_and_a_home_count_everywhere(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "own").write_text("my own")
    for path in ("~/own", tmp_path / "own"):
        text = f'[contexts.own]\nbootstrap_servers = "h:1"\n[contexts.own.kafka]\n{LOGIN}'
        paths.config_file().write_text(text + f'"sasl.password" = "file:{path}"\n')
        assert configure({}, context="own").kafka().password == "my own"


def test_a_context_is_added_with_whole_paths(run, clone):
    secret = "sasl.password=file:secret"
    later = "ssl.key.location=${NOT_SET_HERE}/key.pem"
    given = ("-X", "ssl.ca.location=ca.pem", "-X", secret, "-X", later, "--database", "file:secret")
    assert run("context", "add", "own", "-b", "h:1", *given)[0] == 0
    found = configure({}, context="own")
    assert found.kafka_properties["ssl.ca.location"].value == str(clone / "ca.pem")
    assert found.kafka_properties["ssl.key.location"].value == "${NOT_SET_HERE}/key.pem"
    assert found.kafka_properties["sasl.password"].value == f"file:{clone}/secret"
    assert found.settings["database"].value == f"file:{clone}/secret"


@pytest.mark.parametrize("by", ["assignment", "kafka_config"])
def test_a_run_goes_on_with_the_files_it_began_with(monkeypatch, clone, tmp_path, by):
    """Also from another folder, which has files of the same names."""
    login = ("sasl.password=file:secret", "ssl.ca.location=ca.pem", "sasl.username=me")
    own = ("security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", *login)
    Path("own.properties").write_text("\n".join(own))
    flags = {"bootstrap_servers": "h:1", "database": "file:secret"}
    first = configure(
        flags | ({"kafka_config": "own.properties"} if by == "kafka_config" else {}),
        assignments=own if by == "assignment" else (),
    )
    kept = kept_servers(first)
    other = tmp_path / "other"
    other.mkdir()
    (other / "secret").write_text("another")
    (other / "ca.pem").write_text(PEM)
    monkeypatch.chdir(other)
    resumed = with_servers(Run(Output(), {}), kept).configuration()
    for again in (resumed, configuration_of(kept)):
        found = again.kafka()
        assert (found.password, found.ca_location) == (OF_CLONE, str(clone / "ca.pem"))
        assert again.get("database") == OF_CLONE


def test_what_is_typed_may_be_relative():
    login = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=me")
    typed = configure(
        {"bootstrap_servers": "h:1"}, assignments=[*login, "sasl.password=file:secret"]
    )
    assert typed.kafka().password == OF_CLONE
    jaas = f'sasl.jaas.config={MODULE} required username="me" password="file:secret" x="${{HOME}}";'
    with pytest.raises(BadValue, match="a whole path"):
        configure({"bootstrap_servers": "h:1"}, assignments=[*login[:2], jaas]).kafka()


@pytest.mark.parametrize("text", ["file:~nobody-here/x", "file:~\0/x"])
def test_a_home_that_is_not_there_is_no_fault_of_ours(run, text):
    code, _, err = run("topics", "list", "-b", "127.0.0.1:9", "-X", f"sasl.password={text}")
    assert code in (1, 2)
    assert "fault of Playhead" not in err


def test_a_relative_folder_of_the_user_is_ignored(monkeypatch, clone, tmp_path):
    """As the standard of these variables says: it would be the clone's own contexts."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", "certificates")
    for folder in (paths.config_file(), paths.state_dir(), paths.cache_dir()):
        assert folder.is_absolute()
        assert not folder.is_relative_to(clone)


def test_a_clones_sandbox_is_none(monkeypatch, clone):
    monkeypatch.setenv("PLAYHEAD_SANDBOX_DIR", "sandbox")
    assert configure({}).context is None
    (clone / "sandbox").mkdir()
    (clone / "sandbox" / "context.toml").write_text('bootstrap_servers = "evil:1"\n')
    with pytest.raises(Refused, match="PLAYHEAD_SANDBOX_DIR is relative"):
        configure({})
    monkeypatch.setenv("PLAYHEAD_SANDBOX_DIR", str(clone / "sandbox"))
    assert configure({}).context == "sandbox"


@pytest.mark.parametrize("option", ["password", "clientSecret"])
def test_a_secret_of_jaas_is_no_word_of_a_command_line(option):
    """A reference beside it, for the user's name, made a literal one pass, and a run's journal kept it."""
    text = f'{MODULE} required username="${{HOME}}" {option}="a-literal-one";'
    with pytest.raises(UsageError, match="is a secret") as caught:
        configure({}, assignments=[f"sasl.jaas.config={text}"])
    assert "a-literal-one" not in str(caught.value)
    for named in ("${HOME}", "file:/whole"):
        assert configure(
            {}, assignments=[f"sasl.jaas.config={text}".replace("a-literal-one", named)]
        )
