"""Whether a remote partition holds what its source partition holds: pure, over two streams of chunks.

    source   [ gone ][ copied            ][ not copied yet ]
    target   [ kept ][ copied            ]
             expired  compared             lag

Either head may be gone by retention: `expired` records are only on the target, `trimmed` ones only on
the source. Heads are aligned by content; a saved position checks that. What may not be gone, because
its log still starts at 0, counts as missing. If more than one alignment fits, the result is unknown.

The streams are walked in step, and looking ahead starts only at the first unequal pair, so memory
does not grow with the partition. A compacted partition is held as digests from there on.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from itertools import islice

from heliograph.verify.compacted import CompactedTerms, LaterKeys, judge_compacted
from heliograph.verify.heads import HEAD, Fit, Place, Run, count_before, count_run, seek
from heliograph.verify.items import (
    Difference,
    Identity,
    Item,
    Kind,
    Pair,
    align,
    are_kin,
    differing_fields,
    first_row,
    item_of,
)
from heliograph.verify.streams import Cursor, Findings, Open, Terms
from heliograph.wire.records import RawRecord

SHOWN = 10
_GRAM = 8
_FIRST_LOOK = 64
_FAR = 1 << 16
_KEPT = 10_000

NO_ALIGNMENT = "the records repeat, and no saved position says which copy is which"
NO_OVERLAP = "the two sides share no record, and no saved position says how far copying came"
NO_PROOF = "compaction may have dropped records before they were copied"
NO_FIT = "the saved position does not fit where the records are"


class Ambiguous(Exception):
    """More than one alignment fits."""


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

    `later_source` and `later_target` return which of some keys appear after the streams' ends: there
    compaction may have found a reason to drop a record.
    """
    audit = _Audit(source, target, terms, on_progress)
    try:
        return audit.run(later_source, later_target)
    except Ambiguous as exc:
        if terms.compacted or terms.upstream is None or terms.downstream is None:
            return audit.unknown(str(exc))
    audit = _Audit(source, target, terms, on_progress, by_position=True)
    try:
        return audit.run(later_source, later_target)
    except Ambiguous as exc:
        return audit.unknown(str(exc))


class _Audit:
    """One attempt, with heads aligned by content or else by counting back from the position."""

    def __init__(
        self,
        source: Open,
        target: Open,
        terms: Terms,
        on_progress: Callable[[int], None],
        *,
        by_position: bool = False,
    ) -> None:
        self._open = {"source": source, "target": target}
        self._source, self._target = Cursor(source()), Cursor(target())
        self._terms = terms
        self._by_position = by_position
        self._on_progress = on_progress
        self._free = not terms.compacted and (terms.may_expire or terms.may_trim)
        self._proved = (terms.source_start, terms.target_start)
        self._compared = self._lag = self._expired = self._trimmed = self._vanished = 0
        self._required = 0
        self._counts: Counter[Kind] = Counter()
        self._missing: dict[Identity, deque[tuple[int, int]]] = {}
        self._extra: dict[Identity, deque[tuple[int, int]]] = {}
        self._found: list[tuple[int, Difference]] = []
        self._noted = 0
        self._reason = ""
        self._may_expire, self._may_trim = terms.may_expire, terms.may_trim
        self._found_by: Run | None = None
        self._head: list[RawRecord] = []
        self._begun: list[int] = []
        self._returns_at: int | None = None
        self._watched = 0

    def run(self, later_source: LaterKeys, later_target: LaterKeys) -> Findings:
        if self._free and not self._lay_heads():
            return self._judge_no_overlap()
        if self._terms.compacted:
            if self._walk() or self._ends_matter():
                self._judge_compacted(later_source, later_target)
            else:
                self._settle_ends()
            return self._finish()
        while not self._reason and self._walk():
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

    def _lay_heads(self) -> bool:
        """Skip what only one side can still have; return False if the sides share nothing."""
        heads = {"target": self._source.ahead(HEAD), "source": self._target.ahead(HEAD)}
        if not all(heads.values()):
            return True
        if self._by_position:
            self._lay_by_position()
            return True
        allowed = {"target": self._terms.may_expire, "source": self._terms.may_trim}
        sides = [side for side in ("target", "source") if allowed[side]]
        if self._terms.timestamps and heads["target"][0].timestamp <= heads["source"][0].timestamp:
            sides.reverse()
        for gram in (_GRAM, 1) if self._terms.timestamps else (_GRAM,):
            for side in sides:
                head = self._identities(heads[side])
                place = seek(head, self._open[side], gram, self._terms.timestamps)
                if place is not None:
                    self._lay_at(place, side)
                    return True
        return False

    def _lay_at(self, place: Place, side: str) -> None:
        """Skip what one side has before the place; the other one's head is then whole."""
        self._found_by = place.run
        self._may_expire &= side == "target" or place.stream == 0
        self._may_trim &= side == "source" or place.stream == 0
        if place.head <= place.stream:
            self._skip_head(side, place.stream - place.head)
        elif self._may_trim if side == "target" else self._may_expire:
            other = "source" if side == "target" else "target"
            self._skip_head(other, place.head - place.stream)
        else:
            self._skip_head(side, 0)

    def _is_sole(self) -> bool:
        """Return whether the run that aligned the heads occurs only once, so that the alignment is right.

        A run of few or repeated records may be equal by chance, unless some of what it led to was surely copied.
        """
        if self._found_by is None:
            return True
        run = self._found_by
        if len(set(run)) < _GRAM and not self._required:
            return False
        stamped = self._terms.timestamps
        return all(count_run(run, stream, stamped) == 1 for stream in self._open.values())

    def _is_only_fit(self) -> bool:
        """Return whether nothing fits better: a place where all that both sides hold is equal."""
        if self._by_position or not self._free:
            return True
        source, target = self._open["source"], self._open["target"]
        fit = Fit(
            source, target, self._terms.timestamps, count_before(source, self._terms.upstream or 0)
        )
        return not (
            (self._terms.may_expire and fit.without_head_of_source())
            or (self._terms.may_trim and fit.without_head_of_target())
        )

    def _lay_by_position(self) -> None:
        """Align both sides so that their records before the saved position end together."""
        upstream, downstream = self._terms.upstream, self._terms.downstream
        assert upstream is not None
        assert downstream is not None
        if upstream < self._terms.source_start or downstream < self._terms.target_start:
            raise Ambiguous(NO_ALIGNMENT)
        expired = count_before(self._open["target"], downstream)
        expired -= count_before(self._open["source"], upstream)
        if not (self._terms.may_expire if expired > 0 else self._terms.may_trim or not expired):
            raise Ambiguous(NO_FIT)
        self._skip_head("target" if expired > 0 else "source", abs(expired))

    def _skip_head(self, side: str, count: int) -> None:
        if side == "target":
            self._target.skip(count)
            self._expired = count
        else:
            self._source.skip(count)
            self._trimmed = count
        if not self._by_position:
            self._target.fill(_GRAM)
            self._source.fill(_GRAM)
            common = min(_GRAM, len(self._target.records))
            self._head = list(islice(self._source.records, common))

    def _watch(self, record: RawRecord) -> None:
        """Note where the head occurs again in the source: another alignment might fit as well."""
        if self._returns_at is not None:
            return
        at, self._watched = self._watched, self._watched + 1
        if at:
            self._begun.append(at)
        begun = self._begun
        if begun:
            self._begun = [p for p in begun if self._alike(record, self._head[at - p])]
            if self._begun and at - self._begun[0] + 1 == len(self._head):
                self._returns_at = self._begun[0]

    def _alike(self, a: RawRecord, b: RawRecord) -> bool:
        return a.body == b.body and (not self._terms.timestamps or a.timestamp == b.timestamp)

    def _check_unique(self) -> None:
        """Raise if the source could align elsewhere on the target, before its lag is examined."""
        if not (self._head and self._terms.may_expire):
            return
        # With n pairs, shifting by p leaves n - p of them: not fewer than were surely copied.
        room = self._compared - self._required
        again = self._begun[0] if self._begun else None
        if self._returns_at is not None:
            again = self._returns_at
        if again is not None and again <= room:
            raise Ambiguous(NO_ALIGNMENT)

    def _walk(self) -> bool:
        """Skip all that is equal; return whether both sides continue, with unequal records."""
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
        self._compared += count
        if self._terms.upstream is not None and upstream < self._terms.upstream:
            self._required = self._compared
        if not self._noted:
            self._proved = (upstream + 1, downstream + 1)
        if count:
            self._on_progress(count)

    def _mend(self) -> None:
        """Look ahead until both sides agree again, and note what lies before that."""
        size = _FIRST_LOOK
        while True:
            a, b = self._source.ahead(size), self._target.ahead(size)
            pairs = align(self._identities(a), self._identities(b))
            ended = len(a) < size and len(b) < size
            cut = (len(a), len(b)) if ended else first_row(pairs)
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
        """Note a block's differences; return how many records of the source are processed."""
        done = 0
        stops = [*pairs, (len(a), len(b))]
        for (a_from, b_from), (a_to, b_to) in zip([(-1, -1), *pairs], stops, strict=True):
            last = ended and (a_to, b_to) == stops[-1]
            done = self._note_gap(a[a_from + 1 : a_to], b[b_from + 1 : b_to], last) + a_from + 1
            if (a_to, b_to) != stops[-1]:
                self._note_equal(a[a_to].offset, b[b_to].offset, 1)
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
        if self._may_trim and not self._compared:
            self._trimmed += 1
            return
        self._keep(self._missing, item, Kind.MISSING)

    def _note_extra(self, item: Item) -> None:
        if self._may_expire and not self._compared:
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

    def _ends_matter(self) -> bool:
        """Return whether anything is left over other than records of the source not copied yet."""
        if self._target.fill():
            return True
        surely_copied = self._terms.upstream or 0
        return self._source.fill() and self._source.records[0].offset < surely_copied

    def _settle_ends(self) -> None:
        """Distinguish lag from loss at the source's end; what is left of the target has no origin."""
        if not self._noted:
            self._check_unique()
        untouched = not self._compared and not self._target.fill()
        for record in self._source.rest():
            if record.offset >= (self._terms.upstream or 0):
                self._note_lag(record)
            elif untouched and self._terms.may_trim:
                self._trimmed += 1
            else:
                self._keep(self._missing, item_of(record), Kind.MISSING)
        for record in self._target.rest():
            self._note_extra(item_of(record))
        again = self._returns_at
        if not self._noted and self._terms.may_trim and again is not None and again <= self._lag:
            raise Ambiguous(NO_ALIGNMENT)

    def _note_lag(self, record: RawRecord) -> None:
        if self._extra and self._identity(item_of(record)) in self._extra:
            self._keep(self._missing, item_of(record), Kind.MISSING)
            return
        self._lag += 1
        if self._head:
            self._watch(record)

    def _judge_no_overlap(self) -> Findings:
        terms = self._terms
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
        """Start again with both sides in memory, as digests: any record may affect any later one."""
        self._compared = 0
        source, target = Cursor(self._open["source"]()), Cursor(self._open["target"]())
        terms = self._terms
        verdict = judge_compacted(
            [item_of(record) for record in source.rest()],
            [item_of(record) for record in target.rest()],
            CompactedTerms(
                surely_copied=terms.upstream or 0,
                complete=terms.upstream is not None and terms.upstream >= terms.source_end,
                source_may_lack_head=terms.may_expire,
                target_may_lack_head=terms.may_trim,
                timestamps=terms.timestamps,
                later_source=later_source,
                later_target=later_target,
            ),
        )
        if verdict.nothing_shared and terms.upstream is None:
            raise Ambiguous(NO_OVERLAP)
        if verdict.differences and not verdict.certain:
            raise Ambiguous(NO_PROOF)
        wrong = [d.upstream for d in verdict.differences if d.upstream is not None]
        self._proved = (terms.source_start, terms.target_start)
        for a, b in verdict.pairs:
            if not verdict.differences or a.offset < min(wrong, default=0):
                self._proved = (a.offset + 1, b.offset + 1)
        self._compared = len(verdict.pairs)
        self._lag, self._vanished = verdict.lag, verdict.vanished
        for difference in verdict.differences:
            self._tell(self._next_note(), difference)

    def _finish(self) -> Findings:
        if self._noted and not (self._is_sole() and self._is_only_fit()):
            raise Ambiguous(NO_ALIGNMENT)
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
        """Distinguish repeated records from those with no origin, which reads the source again."""
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
