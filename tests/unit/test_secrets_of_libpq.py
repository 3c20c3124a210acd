"""What libpq takes for a secret in an address is hidden, up to its last character."""

from time import process_time

import pytest
from psycopg import conninfo

from playhead import secrets
from playhead.errors import DatabaseUnavailable, UsageError
from playhead.postgres.server import checked


@pytest.mark.parametrize(
    ("url", "password", "shown"),
    [
        ("host=h password=ab;cd&ef dbname=d", "ab;cd&ef", "host=h password=******** dbname=d"),
        (r"host=h password=abcd\ efgh dbname=d", "abcd efgh", "host=h password=******** dbname=d"),
        ("password=abcd\u00a0efgh user=u", "abcd\u00a0efgh", "password=******** user=u"),
        ("host=h password=ab://cdef user=u", "ab://cdef", "host=h password=******** user=u"),
        (
            "application_name='x password=' password='ab cdef'",
            "ab cdef",
            "application_name='x password=' password=********",
        ),
        ("postgresql://h/db?password=ab;cdef&user=u", "ab;cdef", "postgresql://h/db?password=********&user=u"),
    ],
)  # fmt: skip
def test_a_password_is_hidden_to_its_end(url, password, shown):
    assert conninfo.conninfo_to_dict(url)["password"] == password
    assert secrets.without_password(url) == shown
    assert secrets.passwords_in(url) == [password]


def test_a_long_text_takes_no_time():
    began = process_time()
    for text in ("a" * 1_000_000, "'" * 100_000, "postgres://h/?" + "_" * 1_000_000):
        assert secrets.passwords_in(text) == []
        assert secrets.without_password(text) == text
    assert process_time() - began < 10


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("postgresql://h/db?PASSWORD=geheim", DatabaseUnavailable),
        ("postgresql://h/db?pasword=geheim", DatabaseUnavailable),
        ("host=h password=''geheim", UsageError),
        ("postgresql://u:a@geheim/b?c=d@h/db", DatabaseUnavailable),
        ("host=h sslpassword=ab geheim", DatabaseUnavailable),
    ],
)
def test_nothing_is_shown_of_a_wrong_address_that_may_be_a_password(url, error):
    with pytest.raises(error) as caught:
        checked(url)
    assert "geheim" not in caught.value.message


@pytest.mark.parametrize(
    "url",
    ["postgresql://u:geheim%FC@h/db", "postgresql://h/db?password=geheim%FC", "postgresql://h/d%FC"],
)  # fmt: skip
def test_an_escape_that_is_no_utf8_is_refused_with_the_way_out(url):
    with pytest.raises(DatabaseUnavailable, match="%C3%BC for ü") as caught:
        checked(url)
    assert "geheim" not in caught.value.message


@pytest.mark.parametrize(
    ("url", "looked_up"),
    [
        ("postgresql://?user=u&password=abcd@efgh", "efgh"),
        ("postgresql://localhost:5432?password=abcd@efgh", "efgh"),
        ("postgresql://u:ab,efgh/x@h:1/db", "efgh"),
        ("postgresql://u:abcd@efgh://@h:1/db", "efgh"),
    ],
)
def test_no_part_of_a_password_is_looked_up_as_a_host(url, looked_up):
    assert looked_up in conninfo.conninfo_to_dict(url)["host"].split(",")
    with pytest.raises(UsageError, match="the login in the address"):
        checked(url)
    assert looked_up not in secrets.without_password(url)


@pytest.mark.parametrize(
    "url",
    ["sc://h/;x-auth-token=geheim;user_id=me", "sc://h/;authorization=geheim", "https://h/?api_key=geheim"],
)  # fmt: skip
def test_what_other_servers_take_for_a_secret_is_hidden(url):
    assert secrets.passwords_in(url) == ["geheim"]
    assert "geheim" not in secrets.without_password(url)
