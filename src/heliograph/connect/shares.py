"""Which worker of a group runs which connectors.

No worker may run what another still runs, so a connector moves in two steps. In one generation it is
taken from a worker that has too many, and assigned to none. In the next, when that worker has stopped
it and no longer claims it, it is assigned again. No worker claims what a lost worker had, so that is
assigned at once.

A   No connector is assigned to two workers.
B   What a worker claims is never assigned to another one.
C   What no worker claims is assigned to some worker.
D   If loads differ by one at most, nothing is taken away.
E   After two generations loads differ by one at most, if claims are correct and no worker joins or leaves.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """What a worker says that it runs, and the generation that assigned it."""

    connectors: frozenset[str] = frozenset()
    generation: int = -1


def plan_shares(
    connectors: Collection[str], claims: Mapping[str, Claim]
) -> dict[str, frozenset[str]]:
    """Return what each worker must run in the next generation.

    A connector claimed twice stays with the later claim: the other worker was lost, and did not notice.
    """
    shares = _kept(set(connectors), claims)
    claimed = {name for claim in claims.values() for name in claim.connectors}
    for name in sorted(set(connectors) - claimed):
        least = min(shares, key=lambda member: (len(shares[member]), member), default=None)
        if least is not None:
            shares[least].add(name)
    _level(shares)
    return {member: frozenset(names) for member, names in shares.items()}


def _kept(existing: set[str], claims: Mapping[str, Claim]) -> dict[str, set[str]]:
    """Return what each worker may keep of its claim."""
    shares: dict[str, set[str]] = {member: set() for member in claims}
    taken: set[str] = set()
    for member in sorted(claims, key=lambda m: (-claims[m].generation, m)):
        shares[member] = set(claims[member].connectors & existing) - taken
        taken |= shares[member]
    return shares


def _level(shares: dict[str, set[str]]) -> None:
    """Take from the workers that have too many; none of those was just assigned something."""
    if not shares:
        return
    floor, extra = divmod(sum(map(len, shares.values())), len(shares))
    for place, member in enumerate(sorted(shares, key=lambda m: (-len(shares[m]), m))):
        most = floor + (1 if place < extra else 0)
        too_many = len(shares[member]) - most
        if too_many > 0:
            shares[member] -= set(sorted(shares[member])[-too_many:])
