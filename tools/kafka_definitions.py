"""Writes what the capture proxy knows of Kafka's protocol, from the definitions in Kafka's client jars.

python tools/kafka_definitions.py kafka-clients-4.4.0.jar kafka-clients-3.9.2.jar

The first jar has the say; the others add the versions that it no longer has. Texts for people, and
what only brokers and controllers say to each other, are left out.
"""

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parent.parent / "src/playhead/capture/definitions.json"
_LATEST = 32_767
# A comment ends its line and never holds a quotation mark that matters; a text never holds `//`.
_COMMENT = re.compile(r'^\s*//.*$|//[^"\n]*$', re.MULTILINE)


def read_jar(jar: Path) -> dict[tuple[int, str], dict[str, Any]]:
    found = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if re.fullmatch(r"common/message/\w+\.json", name):
                text = archive.read(name).decode()
                definition = json.loads(_COMMENT.sub("", text))
                if definition["type"] in ("request", "response"):
                    found[definition["apiKey"], definition["type"]] = definition
    return found


def versions(text: str | None) -> list[int] | None:
    """`3-7`, `3+`, `3` as a pair; `none` and nothing are None."""
    if text is None or text == "none":
        return None
    first, dash, last = text.removesuffix("+").partition("-")
    return [int(first), int(last) if dash else _LATEST if text.endswith("+") else int(first)]


def field(found: dict[str, Any], common: dict[str, list[Any]]) -> list[Any]:
    """Name, type, versions, versions with null, tag, versions with a tag, fields."""
    kind = found["type"]
    inner = found.get("fields") or common.get(kind.removeprefix("[]"))
    return [
        found["name"][0].lower() + found["name"][1:],
        kind,
        versions(found["versions"]),
        versions(found.get("nullableVersions")),
        found.get("tag"),
        versions(found.get("taggedVersions")),
        [field(each, common) for each in inner] if inner else None,
    ]


def side(definition: dict[str, Any]) -> dict[str, Any]:
    common = {each["name"]: each["fields"] for each in definition.get("commonStructs", ())}
    return {
        "flexible": versions(definition.get("flexibleVersions")),
        "fields": [field(each, common) for each in definition.get("fields", ())],
    }


def main() -> None:
    jars = [Path(word) for word in sys.argv[1:]]
    apis: dict[int, dict[str, Any]] = {}
    for jar in jars:
        definitions = read_jar(jar)
        for (key, kind), request in definitions.items():
            if kind != "request" or "broker" not in request.get("listeners", ()):
                continue
            valid = versions(request["validVersions"])
            if valid is None:
                continue
            api = apis.setdefault(
                key, {"name": request["name"].removesuffix("Request"), "forms": []}
            )
            if api["forms"]:
                valid = [valid[0], min(valid[1], api["forms"][-1]["versions"][0] - 1)]
            if valid[0] <= valid[1]:
                form = {"request": side(request), "response": side(definitions[key, "response"])}
                api["forms"].append({"versions": valid, **form})
    origin = f"Derived from the definitions in {', '.join(jar.name for jar in jars)} (Apache-2.0)"
    # A line for each API, so that a difference can be read.
    lines = [f'"{key}":{json.dumps(apis[key], separators=(",", ":"))}' for key in sorted(apis)]
    text = f'{{"origin":{json.dumps(origin)},"apis":{{\n' + ",\n".join(lines) + "\n}}\n"
    FILE.write_text(text, encoding="utf-8")
    print(f"{FILE}: {len(apis)} APIs, {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
