"""Translation of offsets as MirrorMaker 2 does it: from few offset syncs, sparser the older they are.

It is the fallback for records that a MirrorMaker copied before heliograph took over its flow; heliograph
knows more about its own records. For u[k], the upstream offset of the sync in slot k of 64:

    A   slot 0 holds the newest sync;
    B   u[i] <= u[j] + 2**j - 2**i        for i < j: neighbours are not too far apart,
    C   u[i] >= u[j] + 2**max(i - 2, 0)   nor closer than they need to be;
    D   slot 63 holds the first sync since the start, or since upstream offsets went backwards.

B and C hold for the same sync in two slots; another sync with equal offsets is a different sync. As
in Java's 64 bits, a bound that overflows makes B true and C false.
"""

from dataclasses import dataclass

_SLOTS = 64
_LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False)
class _Sync:
    upstream: int
    downstream: int


class SyncHistory:
    """The offset syncs of one source partition that are kept."""

    def __init__(self) -> None:
        self._slots: list[_Sync] = []

    def add(self, upstream: int, downstream: int) -> None:
        newest = self._slots[0] if self._slots else None
        if newest is None or upstream < newest.upstream or downstream < newest.downstream:
            # The first sync, or one of the two topics is not what it was.
            self._slots = [_Sync(upstream, downstream)] * _SLOTS
        else:
            self._slots = _with_newest(self._slots, _Sync(upstream, downstream))

    def downstream_of(self, offset: int) -> int | None:
        """Where a group that would read `offset` next may continue, or None if that is too long ago.

        Past a sync it is one past its record and no further: between two syncs anything may be missing.
        """
        for sync in self._slots:
            if sync.upstream <= offset:
                return sync.downstream + (sync.upstream < offset)
        return None


def _with_newest(prior: list[_Sync], newest: _Sync) -> list[_Sync]:
    slots = prior.copy()
    slots[0] = filler = newest
    cursor = 0
    for k in range(1, _SLOTS):
        filler, cursor = _choose_filler(prior, slots, k, filler, cursor)
        if _is_recent(slots[k - 1], slots[k], k):
            break
        slots[k] = filler
    return slots


def _choose_filler(
    prior: list[_Sync], slots: list[_Sync], k: int, filler: _Sync, cursor: int
) -> tuple[_Sync, int]:
    """Return what slot k may hold, from `prior` where that keeps more syncs, and the next to look at."""
    while True:
        old = prior[cursor]
        is_separate = _is_separate(slots[k - 1], old, k - 1)
        if (
            is_separate
            and _is_recent(slots[k - 1], old, k)
            and (k + 1 == _SLOTS or _is_separate(old, slots[k + 1], k))
        ):
            filler = old
        is_useless = not is_separate or (cursor + 1 < _SLOTS and prior[cursor + 1] is old)
        if is_useless or filler is old:
            cursor += 1
        if not is_useless or cursor >= k:
            return filler, cursor


def _is_recent(newer: _Sync, older: _Sync, slot: int) -> bool:
    """Invariant B between two neighbours, of which `slot` holds the older."""
    bound = older.upstream + (1 << slot) - (1 << (slot - 1))
    return newer is older or bound > _LONG_MAX or newer.upstream <= bound


def _is_separate(newer: _Sync, older: _Sync, slot: int) -> bool:
    """Invariant C between two neighbours, of which `slot` holds the newer."""
    bound = older.upstream + (1 << max(slot - 2, 0))
    return newer is older or newer.upstream >= bound <= _LONG_MAX
