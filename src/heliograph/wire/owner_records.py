"""Which driver owns a flow, and its producer identities, as JSON in the runs topic of the flow's target.

    key     owner heliograph-MirrorSourceConnector-A->B
    value   {"driver":"host pid 7 (3f2a)","beat":12,"released":false,"identities":{"<transactional id>":[1000,4]}}

A key of this kind is not the key of a run, so readers of runs skip it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from heliograph.errors import CorruptRecord
from heliograph.model import ProducerIdentity
from heliograph.wire.primitives import excerpt

_PREFIX = b"owner "


@dataclass(frozen=True, slots=True)
class Owner:
    """The driver that owns a flow, or owned it last. `beat` grows while it runs; `released` says that it has ended."""

    driver: str
    beat: int
    released: bool = False
    identities: Mapping[str, ProducerIdentity] = field(default_factory=dict)


def encode_owner_key(flow_id: str) -> bytes:
    return _PREFIX + flow_id.encode()


def encode_owner(owner: Owner) -> bytes:
    identities = {name: [i.producer_id, i.epoch] for name, i in owner.identities.items()}
    content = {
        "driver": owner.driver,
        "beat": owner.beat,
        "released": owner.released,
        "identities": identities,
    }
    return json.dumps(content, separators=(",", ":")).encode()


def decode_owner(value: bytes) -> Owner:
    """Return an owner; raise CorruptRecord for anything else."""
    try:
        content = json.loads(value)
        owner = Owner(
            driver=_text(content["driver"]),
            beat=_number(content["beat"]),
            released=content["released"] is True,
            identities={
                name: ProducerIdentity(_number(producer_id), _number(epoch))
                for name, (producer_id, epoch) in content["identities"].items()
            },
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise CorruptRecord(
            f"value {excerpt(value)} does not say who owns a flow. Check what else writes to this topic."
        ) from exc
    return owner


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise TypeError("text is expected")
    return found


def _number(found: object) -> int:
    if type(found) is not int:
        raise TypeError("a number is expected")
    return found
