"""SCRAM: the example of the standard, and peers that break its rules; the wire under it never waits for ever."""

import base64
import hashlib
import hmac
import struct
import time

import pytest

from playhead import secrets
from playhead.config.kafka_connection import KafkaConnection
from playhead.errors import BrokerUnavailable
from playhead.kafka.admin.broker_socket import Wire
from playhead.kafka.admin.errors import KafkaRefused
from playhead.kafka.admin.scram import MOST_ITERATIONS, NotScram, Scram
from tests.scripted_broker import ScriptedBroker

NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)


def login() -> Scram:
    return Scram("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_the_example_of_rfc_7677():
    scram = login()
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert scram.last(CHALLENGE) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    scram.confirm(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    ("challenge", "said"),
    [
        (CHALLENGE.replace(b"r=rOpr", b"r=xOpr"), "nonce"),
        (b"r=%s,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096" % NONCE.encode(), "nonce"),
        (CHALLENGE.replace(b"i=4096", b"i=1"), "1 iterations"),
        (CHALLENGE.replace(b"i=4096", b"i=4095"), "4,095 iterations"),
        (CHALLENGE.replace(b"i=4096", b"i=20000000"), "20,000,000 iterations"),
        (CHALLENGE.replace(b"i=4096", b"i=-4096"), "not a number"),
        (CHALLENGE.replace(b"i=4096", b"i=" + b"9" * 5000), "not a number"),
        (CHALLENGE.replace(b"i=4096", "i=٤٠٩٦".encode()), "not a number"),
        (CHALLENGE.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s="), "salt is empty"),
        (CHALLENGE.replace(b"s=W22", b"s=*!"), "not base64"),
        (b"m=new," + CHALLENGE, "extension"),
        (b"e=unknown-user", "unknown-user"),
        (b"\xff", "not text"),
        (b"", "does not begin"),
        (b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not begin"),
        (CHALLENGE + b",x=" + b"y" * 10_000, "bytes"),
    ],
)
def test_a_challenge_that_breaks_a_rule_gets_no_proof_of_the_password(challenge, said):
    began = time.process_time()
    with pytest.raises(NotScram, match=said):
        login().last(challenge)
    assert time.process_time() - began < 1


def test_a_peers_error_keeps_no_half_of_the_password():
    secrets.remember("un5eenUn6een")
    with pytest.raises(NotScram) as caught:
        login().last(b"e=" + b"x" * 94 + b"un5eenUn6een")
    assert "un5e" not in str(caught.value)


def test_the_most_iterations_that_are_done_are_done_in_a_moment():
    assert MOST_ITERATIONS <= 1_000_000


@pytest.mark.parametrize(
    "final", [b"v=AAAA", b"e=other-error", b"v=*", b"", b"\xff", b"m=x,v=AA=="]
)
def test_a_peer_that_does_not_know_the_password_is_not_believed(final):
    scram = login()
    scram.last(CHALLENGE)
    with pytest.raises(NotScram):
        scram.confirm(final)


def test_a_peer_that_says_it_knows_the_password_before_it_was_asked_is_not_believed():
    with pytest.raises(NotScram):
        login().confirm(b"v=" + base64.b64encode(b""))


# --- over the wire


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def said(correlation: int, token: bytes) -> bytes:
    answer = struct.pack(">ihhi", correlation, 0, -1, len(token)) + token
    return framed(answer)


def guarded(port: str) -> KafkaConnection:
    return KafkaConnection(
        port, protocol="SASL_PLAINTEXT", mechanism="SCRAM-SHA-256", username="u", password="secret"
    )


@pytest.fixture
def broker():
    opened: list[ScriptedBroker] = []

    def answering(answer) -> str:
        opened.append(ScriptedBroker(answer))
        return opened[-1].place

    yield answering
    for each in opened:
        each.close()


def handshake(correlation: int) -> bytes:
    return framed(struct.pack(">ihi", correlation, 0, 0))


def peer(answer_of):
    """A broker that takes the handshake, and answers tokens by what it is given."""
    tokens: list[bytes] = []

    def answer(api: int, _version: int, correlation: int, frame: bytes) -> bytes | None:
        if api == 17:
            return handshake(correlation)
        tokens.append(frame)
        found = answer_of(len(tokens), frame)
        return said(correlation, found) if isinstance(found, bytes) else found and found[0]

    return answer


def test_a_peer_with_the_right_password_is_logged_in_to(broker):
    salt, count = b"salty", 4096

    def answers(number: int, frame: bytes) -> bytes:
        if number == 1:
            answers.bare = frame[frame.index(b"n,,") + 3 :]
            answers.first = answers.bare.partition(b"r=")[2].join(
                [b"r=", b"server"]
            ) + b",s=%s,i=%d" % (base64.b64encode(salt), count)
            return answers.first
        final = frame[frame.index(b"c=") :].partition(b",p=")[0]
        salted = hashlib.pbkdf2_hmac("sha256", b"secret", salt, count)
        signed = b",".join([answers.bare, answers.first, final])
        key = hmac.digest(salted, b"Server Key", "sha256")
        return b"v=" + base64.b64encode(hmac.digest(key, signed, "sha256"))

    place = broker(peer(answers))
    Wire(guarded(place), place, timeout_s=10).close()


@pytest.mark.parametrize(
    "first", [b"", b"garbage", b"r=foreign,s=AAAA,i=4096", b"\xff\xfe", CHALLENGE]
)
def test_a_hostile_peer_is_an_error_of_ours(broker, first):
    place = broker(peer(lambda _number, _frame: first))
    with pytest.raises(KafkaRefused, match="logging in"):
        Wire(guarded(place), place, timeout_s=10)


def test_an_answer_in_drops_ends_with_the_time_limit(broker):
    """A socket's own limit begins anew with every byte."""

    def drop_by_drop(_api, _version, _correlation, _frame) -> bytes | None:
        link = served._links[-1]
        link.sendall(struct.pack(">i", 1000))
        for _ in range(50):
            time.sleep(0.1)
            try:
                link.sendall(b"\0")
            except OSError:
                break
        return None

    served = ScriptedBroker(drop_by_drop)
    try:
        began = time.monotonic()
        with pytest.raises(BrokerUnavailable, match="no complete answer|timed out"):
            Wire(guarded(served.place), served.place, timeout_s=1)
        assert time.monotonic() - began < 3
    finally:
        served.close()


@pytest.mark.parametrize("size", [-1, 3, 65_537, 0x7FFFFFFF])
def test_the_size_of_a_strangers_answer_is_bounded(broker, size):
    place = broker(lambda *_: struct.pack(">i", size) + b"xxxx")
    with pytest.raises(BrokerUnavailable, match="needed 4 to"):
        Wire(guarded(place), place, timeout_s=5)


def test_an_answer_that_is_cut_short_inside_is_an_error_of_ours(broker):
    def answer(api, _version, correlation, _frame):
        return handshake(correlation) if api == 17 else framed(struct.pack(">ih", correlation, 0))

    place = broker(answer)
    with pytest.raises(BrokerUnavailable):
        Wire(guarded(place), place, timeout_s=5)


@pytest.mark.parametrize("host", ["a..b", "x" * 70, "\udce4"])
def test_a_host_that_nobody_can_have_is_a_broker_that_does_not_answer(host):
    with pytest.raises(BrokerUnavailable):
        Wire(guarded("127.0.0.1:9"), f"{host}:9092", timeout_s=1)
