"""Real certificates and keys, as files and as text."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization as keys

Properties = dict[str, str]


@dataclass(frozen=True)
class Tls:
    ca: Path
    chain: Path
    key: Path
    encrypted: Path
    both: Path
    pkcs1: Path


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    folder = tmp_path_factory.mktemp("tls")
    ca = trustme.CA(key_type=trustme.KeyType.ECDSA)
    certificate = ca.issue_cert("localhost", key_type=trustme.KeyType.ECDSA)
    key = keys.load_pem_private_key(certificate.private_key_pem.bytes(), None)

    def write(name: str, content: bytes) -> Path:
        path = folder / name
        path.write_bytes(content)
        return path

    def pkcs8(encryption: keys.KeySerializationEncryption) -> bytes:
        return key.private_bytes(keys.Encoding.PEM, keys.PrivateFormat.PKCS8, encryption)

    chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
    plain = pkcs8(keys.NoEncryption())
    return Tls(
        ca=write("ca.pem", ca.cert_pem.bytes()),
        chain=write("client.crt", chain),
        key=write("client.key", plain),
        encrypted=write("sealed.key", pkcs8(keys.BestAvailableEncryption(b"pass phrase"))),
        both=write("client.pem", plain + chain),
        pkcs1=write("old.key", certificate.private_key_pem.bytes()),
    )
