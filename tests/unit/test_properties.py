"""How files and JAAS write client properties, and the table of the understood ones."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead import secrets
from playhead.config.kafka_properties import (
    BY_NAME,
    BY_SPELLING,
    KNOWN_PROPERTIES,
    format_jaas,
    jaas_quoted,
    not_understood,
    parse_jaas,
    parse_properties,
    pem_blocks,
    read_properties,
)
from playhead.errors import BadValue, UnknownKey, UntranslatableProperty, UsageError

ANY_TEXT = st.text(st.characters(codec="utf-8"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("# a comment\n  ! another\n\n \t\f\na=b", {"a": "b"}),
        ("a=b\r\nc:d\re f", {"a": "b", "c": "d", "e": "f"}),
        ("a = b ", {"a": "b "}),
        ("a\t:\t b", {"a": "b"}),
        ("a = = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("a\\=b\\:c\\ d = e", {"a=b:c d": "e"}),
        ("a=one \\\n    two \\\r\n three", {"a": "one two three"}),
        ("a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
        ("# a comment does not go on \\\na=b", {"a": "b"}),
        ("a=b\\\n# c", {"a": "b# c"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u00e9\\ud83d\\ude00", {"a": "é😀"}),
        ("a=é\u2028\x85b", {"a": "é\u2028\x85b"}),
        ("a=same\na=same", {"a": "same"}),
    ],
)
def test_the_syntax_of_java(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text, where="here") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\na=\\u12", "here:3 is '\\\\u12'; needed: \\u and four hex digits"),
        ("a=\\\n\\ud83d", "here:1 is 'half of a surrogate pair'"),
        ("a=first\n\na=second", "here:3 is '********'; needed: the same value as in line 1"),
    ],
)
def test_an_error_names_file_and_line(text: str, message: str) -> None:
    with pytest.raises(BadValue, match=re.escape(message)):
        parse_properties(text, where="here")


def test_a_file_that_is_not_there_or_not_utf8_is_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    with pytest.raises(UsageError, match=r"client\.properties: No such file"):
        read_properties(file)
    file.write_bytes(b"a=b\nc=\xe9\n")
    with pytest.raises(UsageError, match=r"client\.properties:2 is not UTF-8") as caught:
        read_properties(file)
    assert caught.value.hint == "write other characters as \\uXXXX"
    file.write_text("a=é", encoding="utf-8")
    assert read_properties(file) == {"a": "é"}


def written(text: str, *, ascii_only: bool) -> str:
    """As `java.util.Properties.store` writes keys and values."""
    out = []
    for character in text:
        if character in " \t\f=:#!\\":
            out.append("\\" + {"\t": "t", "\f": "f"}.get(character, character))
        elif character in "\r\n" or (ascii_only and not character.isascii()):
            units = character.encode("utf-16-be")
            out += [f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)]
        else:
            out.append(character)
    return "".join(out)


@given(st.dictionaries(ANY_TEXT.filter(bool), ANY_TEXT), st.booleans())
def test_what_java_writes_reads_back(properties: dict[str, str], ascii_only: bool) -> None:
    text = "#Thu Jan 01\n" + "".join(
        f"{written(key, ascii_only=ascii_only)}={written(value, ascii_only=ascii_only)}\n"
        for key, value in properties.items()
    )
    assert parse_properties(text, where="here") == properties


@given(st.dictionaries(st.from_regex(r"[A-Za-z_.]+", fullmatch=True), ANY_TEXT))
def test_jaas_quoting_reads_back(options: dict[str, str]) -> None:
    assert parse_jaas(format_jaas("a.B", options), where="here") == ("a.B", options)


@given(st.text("\"\\;= \n\r/*'#"))
def test_jaas_quoting_takes_the_hard_characters(password: str) -> None:
    text = f"a.B required user=me password={jaas_quoted(password)};"
    assert parse_jaas(text, where="here")[1] == {"user": "me", "password": password}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a.B Required;", {}),
        ("a.B required\n  user='it\\'s'\n  n=12;  ", {"user": "it's", "n": "12"}),
        ('a.B required // so\n /* user="x"; */ user="y";', {"user": "y"}),
        ('a.B required user="\\101\\u\\t\\7a\\400";', {"user": "Au\t\x07a 0"}),
    ],
)
def test_jaas_as_kafka_reads_it(text: str, options: dict[str, str]) -> None:
    assert parse_jaas(text, where="here") == ("a.B", options)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.B required",
        "a.B;",
        "a.B perhaps;",
        'a.B required password="hidden"',
        'a.B required password="hidden;',
        'a.B required password="hid\nden";',
        "a.B required password=;",
        'a.B required password="hidden" password="hidden2";',
        'a.B required password="hidden"; c.D required;',
        '"a.B" required;',
    ],
)
def test_bad_jaas_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(BadValue) as caught:
        parse_jaas(text, where="here")
    assert "hidden" not in f"{caught.value} {caught.value.hint}"


def test_pem_on_one_line_is_made_what_openssl_reads() -> None:
    body = "A" * 70
    expected = f"-----BEGIN CERTIFICATE-----\n{body[:64]}\nAAAAAA\n-----END CERTIFICATE-----\n"
    assert pem_blocks(f"-----BEGIN CERTIFICATE----- {body} -----END CERTIFICATE-----") == expected
    assert pem_blocks(f"Bag Attributes\n{expected}".replace("\n", "\\n")) == expected
    assert pem_blocks(expected) == expected


def test_lines_of_a_private_key_are_redacted_however_they_are_joined() -> None:
    line = "MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQC7Q9z3Zr0kPlay"
    pem_blocks(f"-----BEGIN PRIVATE KEY-----\n{line}\n-----END PRIVATE KEY-----")
    assert line not in secrets.redact(f'{{"key": "BEGIN\\n{line}\\nEND"}}')


def test_every_row_of_the_table_is_whole() -> None:
    assert len(BY_NAME) == len(KNOWN_PROPERTIES)
    # No spelling may mean two things.
    assert len(BY_SPELLING) == sum(len(row.spellings) for row in KNOWN_PROPERTIES)
    for row in KNOWN_PROPERTIES:
        assert row.help, row.name
        assert row.java or row.librdkafka, row.name
        assert (row.low is None) == (row.high is None), row.name


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("connections.max.idle.ms", " 540000 ", 540_000),
        ("connections.max.idle.ms", "0", -1),
        ("connections.max.idle.ms", "-1", -1),
        ("linger.ms", "0", 0),
        ("security.protocol", "sasl_ssl", "SASL_SSL"),
        ("client.id", " as it is ", " as it is "),
    ],
)
def test_values_have_one_form(name: str, text: str, value: str | int) -> None:
    assert BY_NAME[name].read(text, key=name, where="here") == value


@pytest.mark.parametrize(
    ("name", "text", "needed"),
    [
        ("linger.ms", "5s", "a whole number from 0 to 900000"),
        ("linger.ms", "-1", "a whole number from 0 to 900000"),
        ("linger.ms", "٣", "a whole number from 0 to 900000"),
        ("socket.connection.setup.timeout.ms", "10", "from 1000 to"),
        ("security.protocol", "TLS", "PLAINTEXT or SSL or SASL_PLAINTEXT or SASL_SSL"),
        ("client.id", "", "a value; or leave the line out"),
    ],
)
def test_values_it_cannot_have(name: str, text: str, needed: str) -> None:
    with pytest.raises(BadValue, match=needed):
        BY_NAME[name].read(text, key=name, where="here")


OURS = """enable.idempotence transactional.id transaction.timeout.ms group.id group.instance.id
    isolation.level auto.offset.reset enable.auto.commit acks"""
CODE = """key.deserializer value.serializer interceptor.classes sasl.login.class metric.reporters
    sasl.client.callback.handler.class ssl.engine.factory.class plugin.library.paths
    sasl.oauthbearer.jwt.retriever.class"""


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        *((key, "Playhead sets this itself") for key in OURS.split()),
        *((key, "names code to load") for key in CODE.split()),
        ("sasl.kerberos.service.name", "Kerberos"),
        ("sasl.oauthbearer.config", "only a client id"),
        ("ssl.cipher.suites", "write it differently"),
        ("max.poll.records", "librdkafka, which is used beside Java"),
        ("socket.keepalive.enable", "Java's client, which Spark uses"),
    ],
)
def test_known_but_refused(key: str, reason: str) -> None:
    error = not_understood(key, where="here")
    assert isinstance(error, UntranslatableProperty)
    assert reason in error.reason


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("bootstrap.server", "bootstrap.servers"),
        ("socket.timout.ms", "socket.timeout.ms"),
        ("sasl.oauthbearer.clientid", "sasl.oauthbearer.client.id"),
        ("kafka.security.protocol", "security.protocol"),
    ],
)
def test_unknown_names_the_nearest(key: str, nearest: str) -> None:
    error = not_understood(key, where="here")
    assert isinstance(error, UnknownKey)
    assert error.nearest[0] == nearest
