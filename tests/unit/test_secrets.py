"""A secret that was once resolved never leaves in a text, however it was written."""

import base64
import hashlib
import json
import re
from html import escape as html_escape
from pathlib import Path
from time import process_time
from urllib.parse import quote, quote_plus, urlsplit
from xml.sax.saxutils import escape as xml_escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead import secrets
from playhead.config.kafka_properties import jaas_quoted
from playhead.errors import BadValue
from playhead.references import resolve
from playhead.secrets import HIDDEN, passwords_in, redact, remember, without_password

# Stars cannot be told from what stands in place of a secret.
SECRETS = st.text(st.characters(exclude_characters="*", codec="utf-8"), min_size=4, max_size=20)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(secrets, "_known", set())


@given(SECRETS, st.text(), st.text())
def test_a_remembered_value_is_in_no_text_any_more(secret, before, after):
    remember(secret)
    shown = redact(f"{before}{secret}{after} {secret}{secret}")
    assert secret not in shown


@given(SECRETS, st.text("abc/:&", max_size=8))
def test_nor_is_its_form_in_a_url(secret, before):
    remember(secret)
    assert quote(secret, safe="") not in redact(f"{before}{quote(secret, safe='')}")


@given(st.lists(SECRETS, min_size=2, max_size=4))
def test_of_secrets_within_secrets_none_is_left(several):
    for secret in several:
        remember(secret)
    shown = redact(" ".join(several))
    assert not [secret for secret in several if secret in shown]


def test_a_secret_inside_another_leaves_no_rest_of_it():
    remember("open")
    remember("open-sesame-street")
    assert redact("say open-sesame-street") == f"say {HIDDEN}"


def test_a_very_long_secret_is_hidden_in_no_more_than_a_moment():
    secret = '[ä\\" ]' * 10_000
    remember(secret)
    began = process_time()
    for written in (secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], quote(secret, safe="")):
        assert redact(f"100 % {written} +") == f"100 % {HIDDEN} +"
    assert redact(f"%{quote_plus(secret)}") == f"%{HIDDEN}"
    assert process_time() - began < 2


def test_a_long_address_is_looked_through_in_a_moment():
    began = process_time()
    without_password("kafka://" + "[" * 100_000 + "=")
    passwords_in("postgresql://u:" + "a" * 100_000 + "@h")
    assert process_time() - began < 2


def test_short_values_are_not_redacted_by_value():
    remember("abc")
    assert redact("the abc of it") == "the abc of it"


def test_other_text_is_left_as_it_is():
    remember("hunter22")
    assert redact("hunter2 hunter222") == f"hunter2 {HIDDEN}2"


def test_a_reference_to_the_environment_is_followed_and_remembered(monkeypatch):
    monkeypatch.setenv("BROKER_PW", "s3cr3t!")
    assert resolve("user:${BROKER_PW}@", key="database", where="here") == "user:s3cr3t!@"
    assert redact("it was s3cr3t!") == f"it was {HIDDEN}"


def test_a_missing_variable_is_named(monkeypatch):
    monkeypatch.delenv("NOT_SET_ANYWHERE", raising=False)
    with pytest.raises(BadValue, match="environment variable NOT_SET_ANYWHERE to be set") as caught:
        resolve("${NOT_SET_ANYWHERE}", key="sasl.password", where="context prod")
    assert "sasl.password in context prod" in str(caught.value)


def test_what_a_file_holds_is_a_secret_without_its_line_end(tmp_path):
    file = tmp_path / "password"
    file.write_text(" from a file \r\n")
    assert resolve(f"file:{file}", key="k", where="w") == " from a file "
    assert HIDDEN in redact("x from a file y")


def test_a_files_home_folder_is_the_users(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "password").write_text("homely")
    assert resolve("file:~/password", key="k", where="w") == "homely"


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, content):
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadValue, match="a readable text file") as caught:
        resolve(f"file:{file}", key="sasl.password", where="w")
    assert str(file) in str(caught.value)


def test_plain_text_is_neither_followed_nor_remembered():
    assert resolve("plain $text {here}", key="k", where="w") == "plain $text {here}"
    assert redact("plain $text {here}") == "plain $text {here}"


@pytest.mark.parametrize(
    ("text", "is_one"), [("${A}", True), ("${A}b", False), ("${A}${B}", False), ("a", False)]
)
def test_only_a_single_reference_shows_nothing_but_a_name(text, is_one):
    assert secrets.is_reference(text) is is_one


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:pass@h:5432/db", "postgresql://u:********@h:5432/db"),
        ("postgresql://u:pa:ss@h/db?x=1", "postgresql://u:********@h/db?x=1"),
        ("postgresql://u:pa@ss@h/db", "postgresql://u:********@h/db"),
        ("postgresql://u:pa#ss@h/db", "postgresql://u:********@h/db"),
        ("postgresql://u:pa?ss@h/db", "postgresql://u:********@h/db"),
        ("postgresql://u:p[ss@h/db", "postgresql://u:********@h/db"),
        ("postgresql://u:p%40ss@h/db", "postgresql://u:********@h/db"),
        ("postgresql://u:1234@h/db", "postgresql://u:********@h/db"),
        ("postgresql://:pass@h/db", "postgresql://:********@h/db"),
        ("postgresql://u:pa/ss@h/db", "postgresql://u:********@h/db"),
        ("https://u:12/3456@h/db", "https://u:********@h/db"),
        ("kafka://u:////pass@h:9092/t", "kafka://u:********@h:9092/t"),
        ("postgresql://u:pass@[::1]:5432/db", "postgresql://u:********@[::1]:5432/db"),
        (
            "postgresql:///db?host=/run&password=pass",
            "postgresql:///db?host=/run&password=********",
        ),
        ("postgresql://h/db?password=pass&user=u", "postgresql://h/db?password=********&user=u"),
        ("sc://h:15002/;token=abcd;user_id=me", "sc://h:15002/;token=********;user_id=me"),
        ("sc://h:1/;a=b;token=un@seen/x;c=me@d", "sc://h:1/;a=b;token=********;c=me@d"),
        ("sc://h/;token=uns&een==;a=b", "sc://h/;token=********;a=b"),
        ("sc://h/;token=uns;een", "sc://h/;token=********"),
        ("sc://u:pass@h:1/;token=abcd", "sc://u:********@h:1/;token=********"),
        ("postgresql://h/d?password=pa&ss&a=1", "postgresql://h/d?password=********&a=1"),
        ("host=h password=pass dbname=d", "host=h password=******** dbname=d"),
        (r"host=h password = 'pa \' ss' dbname=d", "host=h password = ******** dbname=d"),
        ("jdbc:postgresql://u:pass@h:5432/db", "jdbc:postgresql://u:********@h:5432/db"),
        ("jdbc:postgresql://u:p@ss@h/db", "jdbc:postgresql://u:********@h/db"),
        (" https://u:pass@h", " https://u:********@h"),
        ("\n postgresql://u:pa/ss@h/db", "\n postgresql://u:********@h/db"),
        ("dbname=postgresql://u:pass@h/db", "dbname=postgresql://u:********@h/db"),
        ("postgresql://h/db#password=pass", "postgresql://h/db#password=********"),
        # Escaped as a whole.
        ("postgresql://u%3Apa%40ss@h/db", "postgresql://u%3A********@h/db"),
        ("https://a%40b%3apass@h/", "https://a%40b%3a********@h/"),
        ("postgresql://u%3Apass:more@h/db", "postgresql://u%3A********:********@h/db"),
        ("postgresql://a%40b@h/db", "postgresql://a%40b@h/db"),
        # Words of other systems, and of a hasty user.
        (
            "postgresql:///db?host=h&user=me&pass=hunter2",
            "postgresql:///db?host=h&user=me&pass=********",
        ),
        ("postgresql:///db?host=h&passwd=hunter2", "postgresql:///db?host=h&passwd=********"),
        ("https://h/db?pwd=hunter2&a=b", "https://h/db?pwd=********&a=b"),
        ("http://me:hunter2", "http://me:********"),
        ("https://me:hunter2/path", "https://me:********/path"),
        # Two forms in one.
        (
            "postgresql://h/db user=me password=hunter2",
            "postgresql://h/db user=me password=********",
        ),
        # The host was forgotten.
        ("postgresql://me:Un5een", "postgresql://me:********"),
        ("postgres://me:5een,no/db?a=1", "postgres://me:********/db?a=1"),
    ],
)
def test_a_password_is_hidden_wherever_a_url_can_have_one(url, shown):
    assert without_password(url) == shown


def test_what_a_login_by_scram_computes_from_the_password_is_hidden():
    """A hostile server may have asked for one iteration, so that passwords are quickly tried against it."""
    said = "ServerSignature mismatch (server's AAAA != ours cwjAtIx+/aZ=)"
    assert redact(said) == "ServerSignature mismatch (server's AAAA != ours ********)"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h:5432/db?options=a@b",
        "postgresql://h:5432,i:5433/db?application_name=a@b",
        "postgresql://[::1]:5432/db?application_name=a@b",
        "postgresql://u@h/db",
        "postgresql:///db",
        "postgresql://h:/db?x=a@b",
        "postgresql://h:${PORT}/db",
        "https://h:${PORT}",
        "https://h:${PORT}/path",
        "sc://h:443",
        "not a url",
        "",
    ],
)
def test_a_url_without_a_password_is_shown_whole(url):
    assert without_password(url) == url


@given(st.text(st.characters(exclude_characters="*", codec="utf-8"), min_size=4))
def test_a_quoted_password_is_remembered_as_it_is_and_as_it_is_written(password):
    url = f"postgresql://me:{quote(password, safe='')}@localhost/db"
    assert urlsplit(without_password(url)).password == HIDDEN
    assert password not in redact(f"x{password}x")
    assert quote(password, safe="") not in redact(url)


def test_a_half_quoted_password_is_remembered_as_it_is_written():
    without_password("postgresql://me:a$b%40c@h/db")
    assert "a$b%40c" not in redact("cannot connect to postgresql://me:a$b%40c@h/db")


def test_a_password_in_quotes_is_remembered_without_them():
    without_password(r"host=h password='it\'s me'")
    assert redact("not it's me") == f"not {HIDDEN}"


TORN = [
    ("postgresql://u:p@ss@h/db", "postgresql://u:********@h/db"),
    ("postgresql://u:pass/w0rd@h/db", "postgresql://u:********@h/db"),
    ("postgresql://me@corp:pass@h/db", "postgresql://********@h/db"),
    ("postgresql://u:pa?ss@rest@h/db", "postgresql://u:********@h/db"),
    ("postgresql://u:pa@s?ss@h/db", "postgresql://u:********@h/db"),
    ("postgresql://u:pa@s/s?rest@h/db", "postgresql://u:********@h/db"),
    ("postgresql://u:pa@s:1/s?w#o&r=d@h/db", "postgresql://u:********@h/db"),
    ("postgresql://u:pa@s?s&w=ord@h/db", "postgresql://u:********@h/db"),
    ("postgresql://u:12/pass@h/db", "postgresql://u:********@h/db"),
    ("postgresql://u:////pass@h:5/db", "postgresql://u:********@h:5/db"),
    ("postgresql://u:/pa?ss@h/db", "postgresql://u:********@h/db"),
    ("postgresql://corp/u:pass@h/db", "postgresql://corp/u:********@h/db"),
    ("postgresql://a,b/u:pa/ss@h:5/db?x=1", "postgresql://a,b/u:********@h:5/db?x=1"),
    ("https://corp/u:pass@h", "https://corp/u:********@h"),
    ("https://u:/pass@h", "https://u:********@h"),
    ("http://u:12/pass@h:8081", "http://u:********@h:8081"),
    ("host=h password='pa'ss99 dbname=d", "host=h password=********"),
    ("host=h password='pa''ss99'", "host=h password=********"),
    ("host=h user=u password=pa ss dbname=d", "host=h user=u password=********"),
    ("host=h password='pa ss dbname=d", "host=h password=********"),
]


@pytest.mark.parametrize(("url", "shown"), TORN)
def test_a_login_that_a_library_would_cut_is_known_and_hidden(url, shown):
    assert secrets.is_torn(url)
    assert without_password(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p%40ss@h/db",
        "postgresql://u:pa?ss@h/db",
        "postgresql://u:pa:ss@h/db",
        "postgresql://u:pass@h?application_name=a@b",
        "postgresql://u:pass@h/db?application_name=a@b",
        "postgresql://u:pass@h/db?connect_timeout=1&application_name=a@b",
        "postgresql://h:5432/db?application_name=a@b",
        "postgresql://u:pass@[::1]:5432,h:5433/db",
        "postgresql://[::1]/db?x=a@b",
        "kafka://h:9092,g:9093/a@b",
        "postgresql://h/a:b?application_name=a@b",
        "postgresql:///db?host=/run&options=a:b@c",
        "https://u:pass@h/tenant:a",
        "s3://bucket/a:b@c",
        "host=h password='pa ss' dbname=d",
        r"host=h password='pa \' ss' dbname=d",
        "host=h password='pa ss'",
        "host=h password=pass dbname=d",
        "postgres:table",
    ],
)
def test_what_no_library_cuts_is_left_alone(url):
    assert not secrets.is_torn(url)


def test_parts_of_a_password_are_redacted_where_a_library_cuts_it():
    remember("first@second/third")
    assert redact('no host "second/third", no file "third"') == (
        f'no host "{HIDDEN}/{HIDDEN}", no file "{HIDDEN}"'
    )


@pytest.mark.parametrize("length", [1, 100, 30_000])
@pytest.mark.parametrize("left", [0, 4, 17])
def test_no_half_of_a_password_is_left_where_we_cut_a_text(length, left):
    remember("un5een-Un6een-Un7een")
    text = "x" * (length - left) + "un5een-Un6een-Un7een " * 5_000
    assert "un5e" not in secrets.redacted_start(text, length)
    assert len(secrets.redacted_start(text, length)) == length
    assert secrets.redacted_start("a login un5e", 30) == "a login un5e", "nothing was cut"


def test_a_password_is_redacted_as_json_and_python_write_it():
    remember('pa"ss\n\\')
    assert "ss" not in redact(json.dumps('pa"ss\n\\'))
    assert "ss" not in redact(repr('pa"ss\n\\'))


def lower(quoted: str) -> str:
    return re.sub("%..", lambda match: match[0].lower(), quoted)


SPELLINGS = {
    "quoted": lambda text: quote(text, safe=""),
    "quoted in lower case": lambda text: lower(quote(text, safe="")),
    "quoted but for slashes": quote,
    "quoted as a form": quote_plus,
    "quoted as a form in lower case": lambda text: lower(quote_plus(text)),
    "quoted twice": lambda text: quote(quote(text, safe=""), safe=""),
    "jaas": lambda text: jaas_quoted(text)[1:-1],
    "json": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "ascii json": lambda text: json.dumps(text)[1:-1],
    "ascii json in upper case": lambda text: re.sub(
        r"(?<!\\)((?:\\\\)*)\\u(....)",
        lambda match: f"{match[1]}\\u{match[2].upper()}",
        json.dumps(text)[1:-1],
    ),
    "xml": xml_escape,
    "html": html_escape,
    "html in html": lambda text: html_escape(html_escape(text)),
    "numbers of xml": lambda text: "".join(
        each if each.isalnum() and each.isascii() else f"&#{ord(each)};" for each in text
    ),
    "repr": lambda text: repr(text)[1:-1],
    "ascii": lambda text: ascii(text)[1:-1],
    "repr of bytes": lambda text: repr(text.encode())[2:-1],
    "jaas in json": lambda text: json.dumps(jaas_quoted(text))[3:-3],
    "json in json in a repr": lambda text: repr(json.dumps(json.dumps(text)))[5:-5],
    "quoted in a repr": lambda text: repr(quote(text))[1:-1],
}
# Those that are seldom drawn, and that some spelling or other escapes.
HARD = st.text(
    st.one_of(
        st.sampled_from(" +/\\\"'%&=\n\r\t\0\x1b\x7fé\xad€\U0001f600abcnux0"),
        st.characters(exclude_characters="*", codec="utf-8"),
    ),
    min_size=4,
    max_size=20,
)


@pytest.mark.parametrize("spelling", SPELLINGS)
@given(password=HARD)
def test_a_password_is_redacted_however_it_is_spelled(spelling, password):
    secrets._known.clear()
    remember(password)
    written = SPELLINGS[spelling](password)
    assert set(redact(f"<{written}>").strip("<>")) <= {"*"}, written


@pytest.mark.parametrize(
    ("password", "text", "shown"),
    [
        ("a/b c", "postgresql://me:a%2fb%20c@h", f"postgresql://me:{HIDDEN}@h"),
        ("a/b c", "password=a%2fb+c&x", f"password={HIDDEN}&x"),
        ('pä"ss', r'password="p\u00e4\"ss"', f'password="{HIDDEN}"'),
        ("pä'ss", r"'p\xe4\'ss'", f"'{HIDDEN}'"),
        ("half/way there", "half/way%20there", HIDDEN),
        ("open sesame", "open+sesame", HIDDEN),
        ("no/ne", r"100% of C:\none and C:\nine", r"100% of C:\none and C:\nine"),
    ],
)
def test_a_text_shows_all_but_the_password(password, text, shown):
    remember("open")
    remember(password)
    assert redact(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no host at odd+x:y://me:Un5een@h/db: no", "no host at odd+x:y://me:********@h/db: no"),
        ("kafka://me:Un5@een@h:9092", "kafka://me:********@h:9092"),
        ("kafka://me:Un5/een@h:9092", "kafka://me:********@h:9092"),
        ("https://:Un5een@h", "https://:********@h"),
        ("x://h/db?sslpassword=Un5een&a=1", "x://h/db?sslpassword=********&a=1"),
        ("x://me:${PASSWORD}@h?password=${PASSWORD}", "x://me:${PASSWORD}@h?password=${PASSWORD}"),
        # The server that is meant stays in sight.
        ("http://evil:80/x@good", "http://evil:80/x@good"),
        ("http://evil:/x@good", "http://evil:/x@good"),
        ("http://me:x@evil/y@good", "http://me:********@evil/y@good"),
        ("kafka://[::1]:9092/topic@x", "kafka://[::1]:9092/topic@x"),
        ("'kafka://h:9092','a@b'", "'kafka://h:9092','a@b'"),
    ],
)
def test_a_login_in_any_text_is_hidden_though_no_code_knows_the_address(
    text: str, shown: str
) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize("user", ["me", "me2", "user", ""])
@pytest.mark.parametrize("password", ["un?se~n>>99", "ünseen~??>", "four"])
@pytest.mark.parametrize(
    "spelled",
    [
        lambda login: base64.b64encode(login).decode(),
        lambda login: base64.urlsafe_b64encode(login).decode().rstrip("="),
        lambda login: quote(base64.b64encode(login).decode(), safe=""),
        lambda login: base64.b64encode(login).decode().replace("/", r"\/"),
        lambda login: "n" + base64.b64encode(login).decode(),
    ],
)
def test_a_password_is_redacted_in_base64(user, password, spelled):
    remember(password)
    encoded = spelled(f"{user}:{password}".encode())
    assert redact(f'401: "Basic {encoded}" is not known') == f'401: "Basic {HIDDEN}" is not known'


@pytest.mark.parametrize("password", ["ünseen-77", "unse/en ö77", "日本語の鍵"])
def test_a_password_is_hidden_that_was_read_as_latin_1(password):
    remember(password)
    shown = redact(password.encode().decode("latin-1"))
    assert shown.replace(HIDDEN, "") in ("", "/")


@pytest.mark.parametrize("spelled", [r"\x{}", r"\X{}", "X'6d653a{}'", "0x{}2f"])
@pytest.mark.parametrize("password", ["un?seen-77", "ünseen", "four"])
def test_a_password_is_redacted_in_hexadecimal(password: str, spelled: str) -> None:
    remember(password)
    digits = password.encode().hex()
    for each in (digits, digits.upper()):
        shown = redact(f"bytea {spelled.format(each)} of 6d65 is not known")
        assert each not in shown
        assert shown.endswith("of 6d65 is not known")


def test_other_base64_and_paths_are_shown():
    remember("unseen99")
    text = f"/var/lib/playhead/logs/engine-20261127.log {base64.b64encode(b'me:another9').decode()} a-b_c/d=="
    text += f" {hashlib.sha256(b'unseen99').hexdigest()} {b'unseen98'.hex()}"
    assert redact(text) == text


def test_a_long_text_is_looked_through_for_base64_in_a_moment():
    remember("unseen99")
    start = process_time()
    redact("A" * 1_000_000 + " " + "a/b " * 100_000)
    assert process_time() - start < 2


def test_a_text_of_many_escapes_takes_no_time():
    remember("\\" * 40 + "\"'" * 20 + "x")
    remember(" " * 30 + "x" + " " * 30)
    hostile = "\\" * 2_000 + "%25" * 500 + "+" * 2_000 + "\\\"\\'" * 500
    began = process_time()
    is_same = redact(hostile) == hostile
    assert is_same
    assert process_time() - began < 5


@pytest.mark.parametrize("before", ["sc", "http", "endpoint 'https"])
def test_a_token_that_is_written_as_the_name_of_a_user_is_hidden(before: str) -> None:
    assert redact(f"{before}://t0kent0ken@h:1/x") == f"{before}://{HIDDEN}@h:1/x"
    assert redact(f"{before}://${{TOKEN}}@h") == f"{before}://${{TOKEN}}@h"
    assert redact(f"{before}://h/a@b postgresql://me@h") == f"{before}://h/a@b postgresql://me@h"


@pytest.mark.parametrize(
    ("address", "hidden"),
    [
        ("postgresql://playhead:un5een-77@127.0.0.1/playhead", ["un5een-77"]),
        (
            "postgres://playhead:un%2F5een@127.0.0.1,h2/playhead?sslpassword=four",
            ["un/5een", "four"],
        ),
        ("postgresql://127.0.0.1/playhead?user=playhead&password=un5een&77", ["un5een&77"]),
        ("http://playhead:un5een@127.0.0.1:8081/", ["un5een"]),
        ("https://127.0.0.1", []),
        ("postgresql://playhead:un/5een@77@127.0.0.1/playhead", ["un/5een@77"]),
    ],
)
@pytest.mark.parametrize("is_file", [False, True])
def test_of_an_address_in_a_variable_or_file_only_the_passwords_are_hidden(
    address: str, hidden: list[str], is_file: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its other words are in many texts: `playhead doctor` was shown as `******** doctor`."""
    monkeypatch.setenv("DATABASE", address)
    (tmp_path / "address").write_text(f"{address}\n")
    given = f"file:{tmp_path}/address" if is_file else "${DATABASE}"
    assert resolve(given, key="database", where="context a") == address
    for password in hidden:
        assert password not in redact(f"FATAL: {password} {address}")
    if "/5een@" not in address:  # That one is torn: what its parts are is not known.
        assert redact("playhead doctor tests 127.0.0.1") == "playhead doctor tests 127.0.0.1"


@pytest.mark.parametrize(
    "address", ["https://un5een@h/", "https://h/hooks/un5een", "https://me:other@h/?k=un5een"]
)
def test_of_an_address_with_a_token_every_part_is_hidden(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY", address)
    resolve("${REGISTRY}", key="schema_registry", where="context a")
    assert redact("FATAL: un5een") == f"FATAL: {HIDDEN}"


def test_a_password_that_looks_like_an_address_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORD", "https://un5een")
    resolve("${WORD}", key="sasl.password", where="context a")
    assert "un5een" not in redact("FATAL: https://un5een and un5een")


def test_a_part_of_an_address_in_a_variable_is_hidden_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOGIN", "postgresql://playhead:1234")
    resolve("${LOGIN}@127.0.0.1/d", key="database", where="context a")
    assert "1234" not in redact("FATAL: postgresql://playhead:1234")


def _web_token(head: bytes, *parts: str) -> str:
    return ".".join([base64.urlsafe_b64encode(head).rstrip(b"=").decode(), *parts])


@pytest.mark.parametrize(
    "head", [b'{"alg":"none"}', b'{ "alg": "RS256" }', b'{\n "alg":"a"}', b'{"a":"\xc3\xbf?"}']
)
@pytest.mark.parametrize(
    "parts", [("eyJzdWIiOjF9", "c2ln"), ("eyJzdWIiOjF9",), ("", "a_", "b-", "c"), ("eyJ", "")]
)
@pytest.mark.parametrize(
    "around", ["bad token {}", '{{"status": "{}"}}', "Bearer {}, after 0 ms", "={}\n", "\"{}'"]
)
def test_a_token_that_only_a_library_has_fetched_is_hidden(
    head: bytes, parts: tuple[str, ...], around: str
) -> None:
    """A broker, or a token endpoint, repeats it in an error."""
    said = around.format(_web_token(head, *parts))
    assert redact(said) == around.format(HIDDEN)


@pytest.mark.parametrize(
    "text",
    [
        "eyebrow-service.example.com:9092",
        "ey.example.com",
        "eyJhbGciOiJub25lIn0",
        "eyJhbGciOiJub25lIn.example.com",
        _web_token(b'{"' + b"[" * 9, "a", "b"),
        _web_token(b'{"a":' * 99_999, "a", "b"),
    ],
)
def test_what_only_looks_like_a_token_is_shown(text: str) -> None:
    assert redact(f"no answer from {text} in time") == f"no answer from {text} in time"


def test_a_text_of_many_halves_of_tokens_is_looked_through_in_a_moment() -> None:
    began = process_time()
    for text in ("eyJ" * 300_000, "eyJhbGci." * 100_000, _web_token(b'{"' + b"x" * 900_000, "a")):
        redact(text)
    assert process_time() - began < 5


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://a[b:un5eenUn6een@h/d",
        "postgresql://[ab]:un5eenUn6een@h/d",
        "postgresql://a%1b[31m:un5eenUn6een@h:5432/d",
        "postgresql://a[b:un5een/Un6een@h/d",
        "http://a[b:un5eenUn6een@h",
    ],
)
def test_a_bracket_in_the_users_name_is_no_beginning_of_a_host(url):
    assert "5een" not in secrets.without_password(url)
    assert "5een" not in secrets.redact(f"cannot reach {url} now")
    hosts = "postgresql://[::1]:5432,[::2]:1/d?application_name=a@b"
    assert secrets.without_password(hosts) == hosts


@pytest.mark.parametrize("may_be_pairs", [False, True])
@pytest.mark.parametrize("rest", ["un6een@h:9", "un6een@h/d?x=y", "un6/een@h", "@un6een@h"])
def test_an_address_without_a_scheme_may_have_one_in_its_password(rest, may_be_pairs):
    address = f"me:un5een://{rest}"
    assert secrets.begins_with_login(address, may_be_pairs=may_be_pairs)
    assert secrets.shown_address(address, may_be_pairs=may_be_pairs) == HIDDEN
    assert "5een" not in secrets.redact(f"cannot reach {address} now")


@pytest.mark.parametrize("scheme", ["https", "jdbc:postgresql", "postgresql+psycopg"])
def test_a_login_behind_a_scheme_is_no_beginning(scheme):
    assert secrets.shown_address(f"{scheme}://me:un5een@h/d") == f"{scheme}://me:{HIDDEN}@h/d"


@pytest.mark.parametrize("token", ["to5een/Un6een", "to5een?Un6een", "to5een#Un6een", "to5een/"])
def test_a_token_that_a_raw_mark_cuts_is_not_shown_as_a_host(token):
    assert secrets.shown_address(f"https://{token}@h:9/x") == f"https://{HIDDEN}@h:9/x"
    assert "5een" not in secrets.redact(f"cannot reach https://{token}@h:9/x now")
    for plain in ("https://h:9/x", "https://h/x?a=b"):
        assert secrets.shown_address(plain) == plain
