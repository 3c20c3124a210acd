"""Addresses are other ones in every response that has some, in every version, and nothing else is."""

import random
import socket
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.capture.address import HostPort, unanswered
from playhead.capture.address_rewrite import has_addresses, rewritten
from playhead.capture.api_versions import UNSUPPORTED_VERSION, offered, refusal, restricted
from playhead.capture.protocol import (
    API_VERSIONS,
    SASL_HANDSHAKE,
    Field,
    apis,
    known_versions,
    name_of,
    shape_of,
)
from playhead.unpacking import Malformed
from tests.kafka_bytes import every_version, frame_of, response_frame

WITH_ADDRESSES = [pair for pair in every_version() if has_addresses(*pair)]
EVERY = list(every_version())


def moved(host: str, port: int) -> tuple[str, int]:
    """Longer or shorter, so that lengths have to change."""
    return f"127.0.0.{len(host)}-{'y' * (len(host) * 3 % 200)}", (port * 7) % 60_000 + 1


def moved_in(fields: tuple[Field, ...], values: Any, name: str = "") -> Any:
    """What a response should say then."""
    if values is None:
        return None
    if isinstance(values, list):
        return [moved_in(fields, each, name) for each in values]
    if not isinstance(values, dict):
        return values
    by_name = {field.name: field for field in fields}
    found = {key: moved_in(by_name[key].fields, value, key) for key, value in values.items()}
    is_address = {"host", "port"} <= set(found) and name != "userEndpoint"
    if is_address and found["host"] and found["port"] > 0:
        found["host"], found["port"] = moved(found["host"], found["port"])
    return found


def test_these_responses_have_addresses():
    assert {name_of(api) for api, _ in WITH_ADDRESSES} == {
        "Metadata", "FindCoordinator", "DescribeCluster", "DescribeQuorum", "Produce", "Fetch",
        "ShareFetch", "ShareAcknowledge",
    }  # fmt: skip
    first = {api: min(v for a, v in WITH_ADDRESSES if a == api) for api, _ in WITH_ADDRESSES}
    assert (first[0], first[1], first[3], first[10]) == (10, 16, 0, 0)


@pytest.mark.parametrize("pair", WITH_ADDRESSES, ids=lambda p: f"{name_of(p[0])}-v{p[1]}")
@given(seed=st.integers(0, 2**32))
@settings(max_examples=4)
def test_addresses_are_others_and_nothing_else_is(pair, seed):
    frame, values = frame_of(*pair, "response", random.Random(seed))
    wanted = moved_in(shape_of(pair[0], "response", pair[1]).fields, values)
    assert rewritten(*pair, frame, moved) == response_frame(*pair, wanted)
    assert rewritten(*pair, frame, lambda host, port: (host, port)) == frame


@pytest.mark.parametrize("pair", WITH_ADDRESSES, ids=lambda p: f"{name_of(p[0])}-v{p[1]}")
@given(seed=st.integers(0, 2**32), cut=st.integers(1, 30))
@settings(max_examples=4)
def test_a_response_that_ends_early_or_late_is_not_passed(pair, seed, cut):
    frame, _ = frame_of(*pair, "response", random.Random(seed))
    for broken in (frame[: max(len(frame) - cut, 9)], frame + b"\0"):
        if broken != frame:
            with pytest.raises(Malformed):
                rewritten(*pair, broken, moved)


@given(seed=st.integers(0, 2**32), flips=st.lists(st.tuples(st.integers(0), st.integers(0, 255))))
@settings(max_examples=60)
def test_hostile_bytes_end_in_one_error_or_in_none(seed, flips):
    rng = random.Random(seed)
    pair = rng.choice(WITH_ADDRESSES)
    frame = bytearray(frame_of(*pair, "response", rng)[0])
    for place, byte in flips:
        frame[place % len(frame)] = byte
    with suppress(Malformed):
        rewritten(*pair, bytes(frame), moved)


def test_no_other_response_names_a_broker():
    def addresses(fields: tuple[Field, ...], path: str = "") -> set[str]:
        names = {field.name.lower() for field in fields}
        here = {path} if any("host" in name for name in names) else set()
        return here.union(*(addresses(f.fields, f"{path}/{f.name}") for f in fields), set())

    suspicious = {
        (name_of(api), place)
        for api, version in EVERY
        if not has_addresses(api, version)
        for place in addresses(shape_of(api, "response", version).fields)
    }
    # Of clients, of rules, and of applications: none leads to a broker.
    assert {(name, place.rpartition("/")[2]) for name, place in suspicious} == {
        ("DescribeGroups", "members"),
        ("ConsumerGroupDescribe", "members"),
        ("ShareGroupDescribe", "members"),
        ("StreamsGroupDescribe", "members"),
        ("StreamsGroupDescribe", "userEndpoint"),
        ("StreamsGroupHeartbeat", "userEndpoint"),
        ("DescribeAcls", "acls"),
        ("DeleteAcls", "matchingAcls"),
    }


VERSIONS = st.dictionaries(
    st.integers(0, 120), st.tuples(st.integers(0, 25), st.integers(0, 25)).map(sorted), max_size=40
)


@given(VERSIONS, st.integers(0, 4), st.integers(0, 2**32))
def test_a_broker_offers_what_both_understand(versions, version, seed):
    values = frame_of(API_VERSIONS, version, "response", random.Random(seed))[1]
    values["errorCode"] = 0

    def listed(found: dict[int, Any]) -> dict[str, Any]:
        entries = [
            {"apiKey": api, "minVersion": first, "maxVersion": last}
            for api, (first, last) in found.items()
        ]
        return values | {"apiKeys": entries}

    common = {api: offered(api, *pair) for api, pair in versions.items()}
    wanted = {api: pair for api, pair in common.items() if pair}
    frame = response_frame(API_VERSIONS, version, listed(versions))
    assert restricted(version, frame) == response_frame(API_VERSIONS, version, listed(wanted))
    for api, (first, last) in wanted.items():
        known = known_versions(api)
        assert known is not None
        assert max(versions[api][0], known[0]) <= first <= last <= min(versions[api][1], known[1])


def test_a_login_without_heads_is_not_offered():
    assert offered(SASL_HANDSHAKE, 0, 1) == (1, 1)
    assert offered(SASL_HANDSHAKE, 0, 0) is None


def test_a_refused_version_is_answered_in_the_oldest_form():
    said = {
        "errorCode": UNSUPPORTED_VERSION,
        "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 5}],
    }
    assert refusal(9) == response_frame(API_VERSIONS, 0, said, correlation=9)
    later = {"apiKey": 18, "minVersion": 0, "maxVersion": 9}
    theirs = response_frame(API_VERSIONS, 0, said | {"apiKeys": [later]}, correlation=9)
    assert restricted(4, theirs) == refusal(9)


def test_every_api_has_a_name_and_whole_versions():
    for api, known in apis().items():
        assert known.name.isidentifier()
        first, last = known_versions(api) or (0, 0)
        assert all(known.form(version) is not None for version in range(first, last + 1))


def test_a_broker_that_is_not_there_is_known_beforehand():
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = HostPort("127.0.0.1", server.getsockname()[1])
        assert unanswered(place) is None
    assert unanswered(place) == "Connection refused"
