"""What is locked is compared with known holes, licences and hashes; each comparison can fail."""

import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools import supply

FILES = ["requirements.lock", "build.lock", "pyproject.toml", "Makefile", supply.JARS_LOCK]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of what the tool reads."""
    for name in [*FILES, str(supply.KNOWN)]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(supply.ROOT / name, tmp_path / name)
    return tmp_path


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def run(project: Path, capsys, *words: str) -> tuple[int, str]:
    status = supply.main([*words, "--root", str(project)])
    return status, capsys.readouterr().err


def test_the_project_is_as_it_should_be(capsys):
    assert supply.main([]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "old", "new", "hole"),
    [
        ("requirements.lock", "h11==0.16.0", "h11==0.15.0", "CVE-2025-43859"),
        ("build.lock", "setuptools==", "setuptools==70.0.0 # ", "CVE-2025-47273"),
        (supply.JARS_LOCK, "org.yaml:snakeyaml:2.5", "org.yaml:snakeyaml:1.33", "CVE-2022-1471"),
        (supply.JARS_LOCK, "log4j-core:2.25.1", "log4j-core:2.14.1", "CVE-2021-44228"),
        (supply.JARS_LOCK, "kafka-clients:3.9.2", "kafka-clients:3.9.0", "CVE-2025-27817"),
    ],
)
def test_a_version_with_a_known_hole_fails(project, capsys, file, old, new, hole):
    replace(project / file, old, new)
    status, said = run(project, capsys)
    assert status == 1
    assert hole in said


def test_a_licence_that_nobody_wrote_down_or_that_is_not_allowed_fails(project, capsys):
    replace(project / supply.JARS_LOCK, "org.yaml:snakeyaml:2.5", "org.unknown:thing:1.0")
    replace(
        project / supply.KNOWN, '"at.yawk.lz4:" = "Apache-2.0"', '"at.yawk.lz4:" = "AGPL-3.0-only"'
    )
    status, said = run(project, capsys)
    assert status == 1
    assert "org.unknown:thing 1.0: nobody has written down its licence" in said
    assert "AGPL-3.0-only is not in the list" in said


@pytest.mark.parametrize(
    ("licence", "is_allowed"),
    [
        ("MIT", True),
        ("GPL-2.0-only", False),
        ("GPL-2.0-only OR MIT", True),
        ("MIT AND GPL-3.0-or-later", False),
        ("MIT AND (ISC)", True),
        ("", False),
    ],
)
def test_a_choice_of_licences_and_several_at_once(licence, is_allowed):
    assert supply.is_allowed(licence, ["MIT", "ISC"]) is is_allowed


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("requirements.lock", " \\\n    --hash=sha256:5ad689d5", "\n    # sha256:5ad689d5"),
        ("pyproject.toml", "hatchling==1.33.0", "hatchling>=1.27"),
        ("pyproject.toml", 'requires = ["', 'requires = ["wheel", "'),
        ("Makefile", "--no-build-isolation --require-hashes", "--require-hashes"),
        ("Makefile", "--require-hashes -r build.lock", "-r build.lock"),
    ],
)
def test_what_could_be_installed_without_a_hash_fails(project, capsys, file, old, new):
    replace(project / file, old, new)
    assert run(project, capsys)[0] == 1


@given(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(1, 5))
def test_versions_are_ordered_as_numbers(numbers, more):
    version = ".".join(map(str, numbers))
    later = ".".join(map(str, [*numbers[:-1], numbers[-1] + more]))
    assert supply.is_in(version, f"<{later}")
    assert supply.is_in(later, f">={version}")
    assert not supply.is_in(later, f"<{version}")
    assert supply.is_in(f"{version}.0", f"=={version}")


def test_a_range_that_says_nothing_is_an_error():
    with pytest.raises(ValueError, match="a range is to be"):
        supply.is_in("1.0", "1.x")


class Osv(BaseHTTPRequestHandler):
    """As osv.dev answers, in two pages: one package has a hole."""

    asked: ClassVar[list[dict]] = []

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        results = []
        for query in document["queries"]:
            self.asked.append(query)
            is_h11 = query["package"]["name"] == "h11"
            first = {"vulns": [{"id": "GHSA-1", "modified": "x"}], "next_page_token": "more"}
            second = {"vulns": [{"id": "GHSA-2", "modified": "x"}]}
            results.append((second if "page_token" in query else first) if is_h11 else {})
        answer = json.dumps({"results": results}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


def test_what_osv_answers_counts_and_is_kept(project, capsys, monkeypatch):
    with HTTPServer(("127.0.0.1", 0), Osv) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OSV_URL", f"http://127.0.0.1:{server.server_port}")
        try:
            status, said = run(project, capsys, "--ask")
        finally:
            server.shutdown()
    assert status == 1
    assert "h11 0.16.0 has GHSA-1 (osv.dev)" in said
    assert "h11 0.16.0 has GHSA-2 (osv.dev)" in said
    assert {query["package"]["ecosystem"] for query in Osv.asked} == {"PyPI", "Maven"}
    status, said = run(project, capsys)
    assert status == 1, "the answer is kept"
    assert "never asked" not in said
    replace(project / "requirements.lock", "idna==3.20", "idna==3.21")
    assert "never asked about 1 of" in run(project, capsys)[1]


def test_without_the_network_the_audit_fails_and_checks_the_rest(project, capsys, monkeypatch):
    monkeypatch.setenv("OSV_URL", "http://127.0.0.1:9")
    status, said = run(project, capsys, "--ask")
    assert status == 1
    assert "osv.dev could not be asked: <urlopen error" in said
    assert "Traceback" not in said
    assert "never asked about" in said


def test_it_does_not_say_that_there_are_no_holes_if_nobody_was_asked(project, capsys):
    assert supply.main(["--root", str(project)]) == 0
    said = capsys.readouterr().out
    assert "no known hole" not in said
    assert "no hole that tools/supply.toml names" in said
