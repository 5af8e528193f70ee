"""Whether a remote partition holds what its source partition holds: pure, over two streams of chunks.

    source   [ gone ][ copied            ][ not copied yet ]
    target   [ kept ][ copied            ]
             expired  compared             lag

Either head may be gone by retention: `expired` records are only on the target, `trimmed` ones only on
the source. Heads are laid on each other by content; a saved position checks that. What may not be gone,
because its log still starts at 0, is missed. Where more than one way to lay them fits, nobody can tell.

The streams are walked in step and only the first unequal pair makes anybody look ahead, so memory
does not grow with the partition. A compacted partition is held as digests from there on.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from heliograph.policy.audit_compacted import LaterKeys, judge_compacted
from heliograph.policy.audit_items import (
    Difference,
    Identity,
    Item,
    Kind,
    Pair,
    align,
    are_kin,
    differing_fields,
    item_of,
)
from heliograph.wire.records import RawRecord

SHOWN = 10
_HEAD = 256
_GRAM = 8
_RUN = 16
_FIRST_LOOK = 64
_FAR = 1 << 16
_KEPT = 10_000
_OCCURRENCES = 8

NO_ALIGNMENT = "the records repeat, and no saved position says which copy is which"
NO_OVERLAP = "the two sides share no record, and no saved position says how far copying came"
NO_FIT = "the saved position does not fit where the records are"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some records in a row, unpacked when asked for; equal seals mean equal records."""

    count: int
    first: int
    last: int
    seal: object
    unpack: Callable[[], list[RawRecord]]


Open = Callable[[], Iterator[Chunk]]


@dataclass(frozen=True, slots=True)
class Terms:
    """What is known beforehand; `upstream` and `downstream` are the saved position, as far as there is one."""

    source_start: int = 0
    target_start: int = 0
    upstream: int | None = None
    downstream: int | None = None
    compacted: bool = False
    timestamps: bool = True
    begins_late: bool = False

    @property
    def may_expire(self) -> bool:
        return self.source_start > 0

    @property
    def may_trim(self) -> bool:
        return self.target_start > 0 or self.begins_late


@dataclass(frozen=True, slots=True)
class Findings:
    """What an audit of one partition came to. `equal` is None where nobody could tell, `reason` says why.

    Everything before `upstream` is proved equal to everything before `downstream`.
    """

    equal: bool | None
    compared: int
    upstream: int
    downstream: int
    lag: int = 0
    expired: int = 0
    trimmed: int = 0
    vanished: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()
    reason: str = ""


class Ambiguous(Exception):  # noqa: N818 - never leaves this module
    """More than one alignment fits."""


class Cursor:
    """A place in a stream of chunks."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._chunks = iter(chunks)
        self._chunk: Chunk | None = None
        self.records: deque[RawRecord] = deque()

    def fresh(self) -> Chunk | None:
        """Return the chunk that begins here, unless it is unpacked already."""
        if self.records:
            return None
        while self._chunk is None or not self._chunk.count:
            self._chunk = next(self._chunks, None)
            if self._chunk is None:
                return None
        return self._chunk

    def pass_chunk(self) -> None:
        self._chunk = None

    def fill(self, count: int = 1) -> bool:
        """Unpack until `count` records are ahead; return whether they are."""
        while len(self.records) < count:
            held, self.records = self.records, deque()
            chunk = self.fresh()
            self.records = held
            if chunk is None:
                return False
            self._chunk = None
            self.records.extend(chunk.unpack())
        return True

    def ahead(self, count: int) -> list[Item]:
        self.fill(count)
        return [item_of(record) for record in islice(self.records, count)]

    def skip(self, count: int) -> None:
        while count:
            chunk = self.fresh()
            if chunk is not None and chunk.count <= count:
                self.pass_chunk()
                count -= chunk.count
            elif self.fill():
                self.records.popleft()
                count -= 1
            else:
                return

    def rest(self) -> Iterator[RawRecord]:
        while self.fill():
            yield self.records.popleft()


def compare(
    source: Open,
    target: Open,
    terms: Terms,
    *,
    later_source: LaterKeys = lambda _: set(),
    later_target: LaterKeys = lambda _: set(),
    on_progress: Callable[[int], None] = lambda _: None,
) -> Findings:
    """Return what two partitions have in common and what not; a stream may be opened more than once.

    `later_source` and `later_target` tell which of some keys appear after the streams' ends: there
    compaction may have found a reason to drop a record.
    """
    for occurrence in range(_OCCURRENCES):
        audit = _Audit(source, target, terms, occurrence, on_progress)
        try:
            findings = audit.run(later_source, later_target)
        except Ambiguous as exc:
            return audit.unknown(str(exc))
        if not audit.misfit:
            return findings
    return audit.unknown(NO_FIT)


class _Audit:
    """One attempt, with heads laid on each other at the n-th place where that is possible."""

    def __init__(
        self,
        source: Open,
        target: Open,
        terms: Terms,
        occurrence: int,
        on_progress: Callable[[int], None],
    ) -> None:
        self._open = {"source": source, "target": target}
        self._source, self._target = Cursor(source()), Cursor(target())
        self._terms = terms
        self._occurrence = occurrence
        self._on_progress = on_progress
        self._free = not terms.compacted and (terms.may_expire or terms.may_trim)
        self._paired = terms.upstream is not None and terms.downstream is not None
        self.misfit = False
        self._proved = (terms.source_start, terms.target_start)
        self._compared = self._lag = self._expired = self._trimmed = self._vanished = 0
        self._required = 0
        self._counts: Counter[Kind] = Counter()
        self._missing: dict[Identity, deque[tuple[int, int]]] = {}
        self._extra: dict[Identity, deque[tuple[int, int]]] = {}
        self._found: list[tuple[int, Difference]] = []
        self._noted = 0
        self._reason = ""
        self._head: list[Identity] = []
        self._window: deque[Identity] = deque()
        self._returns_at: int | None = None
        self._watched = 0

    def run(self, later_source: LaterKeys, later_target: LaterKeys) -> Findings:
        if self._free and not self._lay_heads():
            return self._judge_no_overlap()
        while self._walk() and not self._reason:
            if self._terms.compacted:
                self._judge_compacted(later_source, later_target)
                return self._finish()
            self._mend()
        if not self._reason:
            self._settle_ends()
        return self._finish()

    def unknown(self, reason: str) -> Findings:
        return Findings(None, self._compared, *self._proved, self._lag, reason=reason)

    def _identity(self, item: Item) -> Identity:
        return item.identity(self._terms.timestamps)

    def _identities(self, items: Iterable[Item]) -> list[Identity]:
        return [self._identity(item) for item in items]

    # -- laying the heads on each other

    def _lay_heads(self) -> bool:
        """Skip what only one side can still have; return False where the sides share nothing."""
        heads = {"target": self._source.ahead(_HEAD), "source": self._target.ahead(_HEAD)}
        if not all(heads.values()):
            return True
        allowed = {"target": self._terms.may_expire, "source": self._terms.may_trim}
        sides = [side for side in ("target", "source") if allowed[side]]
        if self._terms.timestamps and heads["target"][0].timestamp <= heads["source"][0].timestamp:
            sides.reverse()
        for gram in (_GRAM, 1) if self._terms.timestamps else (_GRAM,):
            for side in sides:
                place = self._seek(self._identities(heads[side]), side, gram)
                if place is not None:
                    self._skip_head(side, max(0, place[1] - place[0]))
                    return True
        return False

    def _seek(self, head: list[Identity], side: str, gram: int) -> Pair | None:
        """Return where in `head` and where in the other side's stream the first common run starts."""
        gram = min(gram, len(head))
        runs: dict[tuple[Identity, ...], int] = {}
        for at in range(len(head) - gram + 1):
            runs.setdefault(tuple(head[at : at + gram]), at)
        window: deque[Identity] = deque(maxlen=gram)
        left = self._occurrence
        for at, record in enumerate(Cursor(self._open[side]()).rest()):
            window.append(self._identity(item_of(record)))
            found = runs.get(tuple(window)) if len(window) == gram else None
            if found is not None and (left == 0 or found == 0):
                if left == 0:
                    return found, at - gram + 1
                left -= 1
        return None

    def _skip_head(self, side: str, count: int) -> None:
        if side == "target":
            self._target.skip(count)
            self._expired = count
        else:
            self._source.skip(count)
            self._trimmed = count
        if not self._paired:
            common = min(_GRAM, len(self._source.ahead(_GRAM)), len(self._target.ahead(_GRAM)))
            self._head = self._identities(self._source.ahead(common))
            self._window = deque(maxlen=len(self._head))

    def _watch(self, record: RawRecord) -> None:
        """Notice where the head comes again in the source: another alignment might fit as well."""
        self._window.append(self._identity(item_of(record)))
        self._watched += 1
        again = self._watched - len(self._head)
        if again > 0 and self._returns_at is None and list(self._window) == self._head:
            self._returns_at = again

    def _check_unique(self) -> None:
        if not self._head:
            return
        if self._terms.may_expire:
            # With n pairs, shifting by p leaves n - p of them: not fewer than were surely copied.
            room = self._compared - self._required
            if self._returns_at is not None and self._returns_at <= room:
                raise Ambiguous(NO_ALIGNMENT)
            tail = list(self._window)[: self._compared]
            for size in range(max(1, self._required), min(len(self._head), self._compared)):
                if self._lag == 0 and tail[-size:] == self._head[:size]:
                    raise Ambiguous(NO_ALIGNMENT)
        if self._terms.may_trim and self._returns_at is not None and self._returns_at <= self._lag:
            raise Ambiguous(NO_ALIGNMENT)

    # -- walking in step

    def _walk(self) -> bool:
        """Pass all that is equal; return whether both sides go on, unequal."""
        source, target = self._source, self._target
        stamped = self._terms.timestamps
        while True:
            a, b = source.fresh(), target.fresh()
            if a and b and a.seal is not None and a.seal == b.seal and not self._head:
                self._note_equal(a.first, b.first, 0)
                self._note_equal(a.last, b.last, a.count)
                source.pass_chunk()
                target.pass_chunk()
                continue
            if not (source.fill() and target.fill()):
                return False
            for _ in range(min(len(source.records), len(target.records))):
                left, right = source.records[0], target.records[0]
                if left.body != right.body or (stamped and left.timestamp != right.timestamp):
                    return True
                source.records.popleft()
                target.records.popleft()
                self._note_equal(left.offset, right.offset, 1)
                if self._head:
                    self._watch(left)

    def _note_equal(self, upstream: int, downstream: int, count: int) -> None:
        terms = self._terms
        self._compared += count
        if terms.upstream is not None and upstream < terms.upstream:
            self._required = self._compared
        if (
            self._paired
            and self._free
            and terms.upstream is not None
            and terms.downstream is not None
            and (upstream < terms.upstream) != (downstream < terms.downstream)
        ):
            self.misfit = True
        if not self._noted:
            self._proved = (upstream + 1, downstream + 1)
        if count:
            self._on_progress(count)

    # -- after an unequal pair

    def _mend(self) -> None:
        """Look ahead until both sides agree again, and note what lies before that."""
        size = _FIRST_LOOK
        while True:
            a, b = self._source.ahead(size), self._target.ahead(size)
            pairs = align(self._identities(a), self._identities(b))
            ended = len(a) < size and len(b) < size
            cut = (len(a), len(b)) if ended else _first_run(pairs)
            if cut is not None:
                break
            if size >= _FAR:
                self._lose(a[0], b[0])
                return
            size *= 8
        inside = [pair for pair in pairs if pair < cut]
        passed = self._note_block(a[: cut[0]], b[: cut[1]], inside, ended)
        self._source.skip(passed)
        self._target.skip(cut[1])

    def _note_block(self, a: list[Item], b: list[Item], pairs: list[Pair], ended: bool) -> int:
        """Note a block's differences; return how many records of the source are done with."""
        done = 0
        stops = [*pairs, (len(a), len(b))]
        for (a_from, b_from), (a_to, b_to) in zip([(-1, -1), *pairs], stops, strict=True):
            last = ended and (a_to, b_to) == stops[-1]
            done = self._note_gap(a[a_from + 1 : a_to], b[b_from + 1 : b_to], last) + a_from + 1
            if (a_to, b_to) != stops[-1]:
                self._note_equal(a[a_to].offset, b[b_to].offset, 1)
                if self._head:
                    self._window.append(self._identity(a[a_to]))
                    self._watched += 1
                done = a_to + 1
        return done

    def _note_gap(self, a: list[Item], b: list[Item], last: bool) -> int:
        """Note the records between two equal pairs; in the last gap those of the source may be lag."""
        left = deque(enumerate(a, 1))
        done = 0
        theirs = {self._identity(item) for item in a}
        for item in b:
            kin = next((pair for pair in left if are_kin(pair[1], item)), None)
            if kin is None or self._identity(item) in theirs:
                self._note_extra(item)
                continue
            while left[0] is not kin:
                self._note_missing(left.popleft()[1])
            left.popleft()
            done = kin[0]
            self._note_different(kin[1], item)
        if last:
            return done
        for _, item in left:
            self._note_missing(item)
        return len(a)

    def _note_different(self, a: Item, b: Item) -> None:
        self._counts[Kind.DIFFERENT] += 1
        fields = differing_fields(a, b, self._terms.timestamps)
        self._found.append(
            (self._next_note(), Difference(Kind.DIFFERENT, a.offset, b.offset, fields))
        )

    def _note_missing(self, item: Item) -> None:
        if self._terms.may_trim and not self._compared and not self._terms.compacted:
            self._trimmed += 1
            return
        self._keep(self._missing, item, Kind.MISSING)

    def _note_extra(self, item: Item) -> None:
        if self._terms.may_expire and not self._compared and not self._terms.compacted:
            self._expired += 1
            return
        self._keep(self._extra, item, Kind.EXTRA)

    def _keep(self, where: dict[Identity, deque[tuple[int, int]]], item: Item, kind: Kind) -> None:
        note = self._next_note()
        if note > _KEPT:
            self._counts[kind] += 1
        else:
            where.setdefault(self._identity(item), deque()).append((note, item.offset))

    def _next_note(self) -> int:
        self._noted += 1
        return self._noted

    def _lose(self, a: Item, b: Item) -> None:
        self._note_missing(a)
        self._note_extra(b)
        self._reason = (
            f"nothing fits for {_FAR} records after upstream offset {a.offset} and downstream "
            f"offset {b.offset}; the rest is not judged"
        )

    # -- the ends

    def _settle_ends(self) -> None:
        """Tell lag from loss at the source's end; what is left of the target has no origin."""
        upstream = self._terms.upstream
        untouched = not self._compared and not self._target.fill()
        for record in self._source.rest():
            if upstream is None or record.offset >= upstream:
                self._lag += 1
                identity = self._identity(item_of(record)) if self._extra or self._head else None
                if identity in self._extra:
                    self._lag -= 1
                    self._keep(self._missing, item_of(record), Kind.MISSING)
                if self._head:
                    self._watch(record)
            elif untouched and self._terms.may_trim:
                self._trimmed += 1
            else:
                self._keep(self._missing, item_of(record), Kind.MISSING)
        for record in self._target.rest():
            self._note_extra(item_of(record))
        if not self._noted:
            self._check_unique()

    def _judge_no_overlap(self) -> Findings:
        terms = self._terms
        if self._occurrence:
            self.misfit = True
        if terms.upstream is None and terms.may_expire:
            raise Ambiguous(NO_OVERLAP)
        for record in self._source.rest():
            if terms.upstream is not None and record.offset < terms.upstream:
                self._keep(self._missing, item_of(record), Kind.MISSING)
            else:
                self._lag += 1
        for record in self._target.rest():
            if terms.may_expire:
                self._expired += 1
            else:
                self._keep(self._extra, item_of(record), Kind.EXTRA)
        return self._finish()

    def _judge_compacted(self, later_source: LaterKeys, later_target: LaterKeys) -> None:
        verdict = judge_compacted(
            [item_of(record) for record in self._source.rest()],
            [item_of(record) for record in self._target.rest()],
            upstream=self._terms.upstream,
            source_may_lack_head=self._terms.may_expire and not self._compared,
            target_may_lack_head=self._terms.may_trim and not self._compared,
            timestamps=self._terms.timestamps,
            later_source=later_source,
            later_target=later_target,
        )
        if verdict.nothing_shared and not self._compared and self._terms.upstream is None:
            raise Ambiguous(NO_OVERLAP)
        first = min(
            (d.upstream for d in verdict.differences if d.upstream is not None), default=None
        )
        for a, b in verdict.pairs:
            if not verdict.differences or (first is not None and a.offset < first):
                self._proved = (a.offset + 1, b.offset + 1)
        self._compared += len(verdict.pairs)
        self._on_progress(len(verdict.pairs))
        self._lag, self._vanished = verdict.lag, verdict.vanished
        for difference in verdict.differences:
            self._counts[difference.kind] += 1
            self._found.append((self._next_note(), difference))

    def _finish(self) -> Findings:
        for identity, extras in list(self._extra.items()):
            misses = self._missing.get(identity, deque())
            while extras and misses:
                (note, downstream), (other, upstream) = extras.popleft(), misses.popleft()
                self._tell(min(note, other), Difference(Kind.OUT_OF_ORDER, upstream, downstream))
        for misses in self._missing.values():
            for note, upstream in misses:
                self._tell(note, Difference(Kind.MISSING, upstream, None))
        self._tell_extras()
        self._found.sort(key=lambda found: found[0])
        return Findings(
            equal=not self._counts,
            compared=self._compared,
            upstream=self._proved[0],
            downstream=self._proved[1],
            lag=self._lag,
            expired=self._expired,
            trimmed=self._trimmed,
            vanished=self._vanished,
            counts={kind.value: self._counts[kind] for kind in Kind if self._counts[kind]},
            differences=tuple(difference for _, difference in self._found[:SHOWN]),
            reason=self._reason,
        )

    def _tell_extras(self) -> None:
        """Tell repeated records from those with no origin, which takes another look at the source."""
        left = {identity: extras for identity, extras in self._extra.items() if extras}
        origins: dict[Identity, int] = {}
        if left:
            for record in Cursor(self._open["source"]()).rest():
                identity = self._identity(item_of(record))
                if identity in left:
                    origins.setdefault(identity, record.offset)
                    if len(origins) == len(left):
                        break
        for identity, extras in left.items():
            kind = Kind.REPEATED if identity in origins else Kind.EXTRA
            for note, downstream in extras:
                self._tell(note, Difference(kind, origins.get(identity), downstream))

    def _tell(self, note: int, difference: Difference) -> None:
        self._counts[difference.kind] += 1
        self._found.append((note, difference))


def _first_run(pairs: list[Pair]) -> Pair | None:
    """Return where the first long unbroken row of equal pairs begins."""
    start = 0
    for at in range(1, len(pairs) + 1):
        if at - start >= _RUN:
            return pairs[start]
        if at < len(pairs) and pairs[at] != (pairs[at - 1][0] + 1, pairs[at - 1][1] + 1):
            start = at
    return None
