"""SCRAM as RFC 5802 has it, the client's side; a peer that breaks a rule of it is not logged in to."""

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# RFC 7677 asks for 4096 at least: with fewer, who listens could try out passwords. Kafka's own most is
# 16,384; a peer that asks for millions wants the processor, not a login.
LEAST_ITERATIONS, MOST_ITERATIONS = 4_096, 1_000_000
_HEADER: Final = "n,,"
_NONCE_BYTES: Final = 24
_LONGEST: Final = 8_192


class NotScram(Exception):
    """The peer breaks a rule; the reason says which."""


@dataclass(slots=True)
class Scram:
    """One login: `first` is sent, `last` answers the challenge, `confirm` checks that the peer knows the password."""

    mechanism: str
    user: str
    password: str = field(repr=False)
    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(_NONCE_BYTES))
    _signature: bytes = field(default=b"", init=False, repr=False)

    def first(self) -> bytes:
        return f"{_HEADER}{self._bare}".encode()

    @property
    def _bare(self) -> str:
        name = self.user.replace("=", "=3D").replace(",", "=2C")
        return f"n={name},r={self.nonce}"

    def last(self, challenge: bytes) -> bytes:
        """What proves the password to who sent the challenge, without giving it away."""
        name = HASHES[self.mechanism]
        text, said = _attributes(challenge, "r", "s", "i")
        nonce, salt, iterations = said["r"], _base64(said["s"], "salt"), _count(said["i"])
        if not nonce.startswith(self.nonce) or len(nonce) == len(self.nonce):
            raise NotScram("its nonce does not go on from ours")
        if not salt:
            raise NotScram("its salt is empty")
        salted = hashlib.pbkdf2_hmac(name, self.password.encode(), salt, iterations)
        bound = base64.b64encode(_HEADER.encode()).decode()
        final = f"c={bound},r={nonce}"
        signed = f"{self._bare},{text},{final}".encode()
        client = hmac.digest(salted, b"Client Key", name)
        signature = hmac.digest(hashlib.new(name, client).digest(), signed, name)
        proof = bytes(a ^ b for a, b in zip(client, signature, strict=True))
        self._signature = hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name)
        return f"{final},p={base64.b64encode(proof).decode()}".encode()

    def confirm(self, final: bytes) -> None:
        """Return when the peer has shown that it knows the password, too."""
        _, said = _attributes(final, "v")
        if not self._signature or not hmac.compare_digest(
            _base64(said["v"], "signature"), self._signature
        ):
            raise NotScram("the broker does not know the password either")


def _attributes(said: bytes, *wanted: str) -> tuple[str, dict[str, str]]:
    """The text, and its attributes: those that are wanted first and in their order; extensions may follow."""
    if len(said) > _LONGEST:
        raise NotScram(f"it says {len(said):,} bytes")
    try:
        text = said.decode("utf-8")
    except UnicodeDecodeError:
        raise NotScram("what it says is no text") from None
    parts = [part.partition("=") for part in text.split(",")]
    if parts[0][0] == "e":
        raise NotScram(f"it says {parts[0][2][:100]!r}")
    if any(name == "m" for name, _, _ in parts):
        raise NotScram("it asks for an extension that is not known here")
    if tuple(name for name, _, _ in parts[: len(wanted)]) != wanted:
        raise NotScram(f"what it says does not begin with {', '.join(wanted)}")
    return text, {name: value for name, _, value in parts[: len(wanted)]}


def _base64(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise NotScram(f"its {what} is no base64") from None


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise NotScram("its number of iterations is no number")
    count = int(text)
    if not LEAST_ITERATIONS <= count <= MOST_ITERATIONS:
        raise NotScram(
            f"it asks for {count:,} iterations; from {LEAST_ITERATIONS:,} to {MOST_ITERATIONS:,} are taken"
        )
    return count
