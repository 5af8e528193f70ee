"""Compares every declared key with what MirrorMaker 2 4.3.1 declares (mm2-4.3.1-keys.txt)."""

from datetime import timedelta
from pathlib import Path

import pytest

from heliograph.config.fields import Field, Part
from heliograph.config.settings import FIELDS

KEYS = Path(__file__).parent / "mm2-4.3.1-keys.txt"
HEADS = {
    "MirrorSourceConfig": Part.SOURCE,
    "MirrorCheckpointConfig": Part.CHECKPOINT,
    "MirrorHeartbeatConfig": Part.HEARTBEAT,
    "MirrorClientConfig.CLIENT_CONFIG_DEF": Part.CLIENT,
}
BY_NAME = {field.name: field for field in FIELDS}


def _declared() -> list[tuple[Part, str, str, str]]:
    rows: list[tuple[Part, str, str, str]] = []
    part: Part | None = None
    for line in KEYS.read_text().splitlines():
        if line.startswith("## "):
            part = next((p for head, p in HEADS.items() if line[3:].startswith(head)), None)
        elif part:
            name, kind, default = (cell.strip() for cell in line.split(" | ", 2))
            rows.append((part, name, kind, default))
    return rows


def _default(field: Field[object]) -> str:
    match field.default:
        case _ if field.required:
            return "required"
        case None:
            return "null"
        case bool():
            return str(field.default).lower()
        case timedelta():
            unit = timedelta(milliseconds=1) if field.name.endswith(".ms") else timedelta(seconds=1)
            return str(field.default // unit)
        case tuple():
            return f"[{', '.join(map(str, field.default))}]"
        case _:
            return str(field.default)


@pytest.mark.parametrize(("part", "name", "kind", "default"), _declared())
def test_key_is_declared_as_mm2_declares_it(part: Part, name: str, kind: str, default: str) -> None:
    field = BY_NAME[name]
    assert part in field.by
    assert field.kind.name == kind
    assert _default(field) == default.removeprefix("class ")
