"""Prints docs/configuration.md: `python -m heliograph.config.document > docs/configuration.md`."""

import sys
from datetime import timedelta

from heliograph.config.fields import CONNECTORS, Field
from heliograph.config.settings import FAMILIES

_HEAD = """# Configuration

Generated from `src/heliograph/config`; `python -m heliograph.config.document` prints it.

The file is MirrorMaker 2's own: `key` for everything, `A.key` for a cluster, `A->B.key` for a flow, and the
more exact one wins. `${file:/path:key}`, `${env:NAME}` and `${dir:/path:name}` are replaced in every value.
`spark.*` goes to Spark, bare or for a flow. Old names that still work: `topics.blacklist`, `groups.blacklist`,
`config.properties.blacklist`. `epoch.seconds` of version 0.1.0 does nothing: it is accepted with a warning.
"""


def document() -> str:
    """Return the page: a table for each family of keys."""
    parts = [_HEAD]
    for title, settings in FAMILIES:
        rows = "\n".join(_row(field) for each in settings for field in each.FIELDS)
        parts.append(
            f"## {title}\n\n| key | type | default | read by | meaning |\n|---|---|---|---|---|\n{rows}\n"
        )
    return "\n".join(parts)


def _row(field: Field[object]) -> str:
    readers = "all connectors" if set(CONNECTORS) <= set(field.by) else ", ".join(field.by)
    default = "**required**" if field.required else _default(field)
    meaning = field.doc.replace("|", "\\|")
    return f"| `{field.name}` | {field.kind.name} | {default} | {readers} | {meaning} |"


def _default(field: Field[object]) -> str:
    match field.default:
        case None:
            return ""
        case bool():
            return f"`{str(field.default).lower()}`"
        case timedelta():
            unit = timedelta(milliseconds=1) if field.name.endswith(".ms") else timedelta(seconds=1)
            return f"`{field.default // unit}`"
        case tuple():
            return f"`{', '.join(map(str, field.default))}`" if field.default else "empty"
        case "":
            return "empty"
        case _:
            return f"`{field.default}`"


if __name__ == "__main__":
    sys.stdout.write(document())
