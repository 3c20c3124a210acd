"""The client's side of SCRAM (RFC 5802); a peer that breaks a rule is refused."""

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final

from playhead.secrets import redacted_start

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# RFC 7677 requires at least 4096: with fewer, an eavesdropper could try passwords. Kafka's maximum
# is 16,384; a peer that asks for millions wants to waste the processor.
LEAST_ITERATIONS, MOST_ITERATIONS = 4_096, 1_000_000
_HEADER: Final = "n,,"
_NONCE_BYTES: Final = 24
_LONGEST: Final = 8_192


class NotScram(Exception):
    """The peer breaks a rule of SCRAM."""


@dataclass(slots=True)
class Scram:
    """One login: send `first`, answer the challenge with `last`, check the peer's proof with `confirm`."""

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
        """Return the proof of the password for this challenge, which does not reveal the password."""
        name = HASHES[self.mechanism]
        text, said = _attributes(challenge, "r", "s", "i")
        nonce, salt, iterations = said["r"], _base64(said["s"], "salt"), _count(said["i"])
        if not nonce.startswith(self.nonce) or len(nonce) == len(self.nonce):
            raise NotScram("its nonce does not begin with ours")
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
        """Return if the peer has proved that it knows the password too."""
        _, said = _attributes(final, "v")
        if not self._signature or not hmac.compare_digest(
            _base64(said["v"], "signature"), self._signature
        ):
            raise NotScram("the broker does not prove that it knows the password")


def _attributes(said: bytes, *wanted: str) -> tuple[str, dict[str, str]]:
    """Split a text into its attributes: the wanted ones first and in order; extensions may follow."""
    if len(said) > _LONGEST:
        raise NotScram(f"its text has {len(said):,} bytes")
    try:
        text = said.decode("utf-8")
    except UnicodeDecodeError:
        raise NotScram("its answer is not text") from None
    parts = [part.partition("=") for part in text.split(",")]
    if parts[0][0] == "e":
        raise NotScram(f"it reports the error {redacted_start(parts[0][2], 100)!r}")
    if any(name == "m" for name, _, _ in parts):
        raise NotScram("it requires an unknown extension")
    if tuple(name for name, _, _ in parts[: len(wanted)]) != wanted:
        raise NotScram(f"its text does not begin with {', '.join(wanted)}")
    return text, {name: value for name, _, value in parts[: len(wanted)]}


def _base64(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise NotScram(f"its {what} is not base64") from None


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise NotScram("its number of iterations is not a number")
    count = int(text)
    if not LEAST_ITERATIONS <= count <= MOST_ITERATIONS:
        raise NotScram(
            f"it requires {count:,} iterations, needed {LEAST_ITERATIONS:,} to {MOST_ITERATIONS:,}"
        )
    return count
