"""A consumer that fails over to another cluster when its own cluster is gone, and comes back.

Each member of a group moves by itself. The first member to arrive commits for all of them:

    the cluster is silent for `detect_after`  ->  the committed offsets of the group, as last seen, are
    translated to the other cluster (places.py)  ->  committed there for the group, never moving it back
    ->  a pause, so that the other members add what only they know  ->  join the group there

A cluster that is not gone is left in order: all members leave first, then the last positions are moved.
A member that gives up meanwhile continues to read where it was. So no member joins the other cluster
before it has checked the first one again.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, get_args

from heliograph.client.homeward import Homeward
from heliograph.client.mirror import Where, client_endpoint, client_naming
from heliograph.client.passage import Passage
from heliograph.client.places import Plan, Stream, refuse_same_names
from heliograph.client.watch import Pulse, Watch, answers
from heliograph.config.settings_connector import ConnectorSettings
from heliograph.errors import (
    ClusterUnreachable,
    ConfigError,
    DeadlinePassed,
    KafkaFault,
    MirrorError,
    NotTranslated,
)
from heliograph.groups.consumer import SESSION_TIMEOUT, Member, Record
from heliograph.model import Endpoint, TopicPartition
from heliograph.policy.naming import DefaultNaming, NamingPolicy, runs_topic

log = logging.getLogger(__name__)

_SLICE = timedelta(milliseconds=200)
_LONGEST_INTERVAL = timedelta(seconds=1)
_ASKING = timedelta(seconds=2)
_JOINING = timedelta(seconds=10)
_LATER = timedelta(seconds=3)  # the other members notice within this time
_SESSION_TIMEOUT_MS = 45_000

Why: TypeAlias = Literal["gone", "told", "home is back"]
Untranslated: TypeAlias = Literal["refuse", "reset"]


@dataclass(frozen=True, slots=True)
class Move:
    """One change of the cluster: when, why, and where the group continued."""

    at: datetime
    source: str
    target: str
    why: Why
    took: timedelta
    plan: Plan

    @property
    def repeats(self) -> int:
        """How many records the group may get again, at most."""
        return self.plan.repeats

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """Where the group continued, by partitions of the cluster it went to."""
        return {partition: place.offset for partition, place in self.plan.places.items()}


class FailoverConsumer:
    """A member of a consumer group that has its home on one cluster and may continue on another.

    Use it from one thread. Iterate over it or call `poll`, and `commit` what was processed.
    """

    def __init__(
        self,
        topics: Iterable[str],
        *,
        group_id: str,
        home: tuple[str, Where],
        other: tuple[str, Where],
        others: Iterable[str] = (),
        start: str | None = None,
        naming: NamingPolicy | str | None = None,
        detect_after: timedelta = timedelta(seconds=10),
        return_home: bool = False,
        exact_within: timedelta = timedelta(seconds=15),
        gather_within: timedelta = timedelta(seconds=60),
        auto_offset_reset: str | None = None,
        untranslated: Untranslated = "refuse",
        **options: Any,
    ) -> None:
        """Connect to nothing yet.

        Args:
            topics: what to read, by names at home, where it is written.
            group_id: the group, on both clusters.
            home: the preferred cluster, as (alias, bootstrap servers or client properties).
            other: the cluster to go to when home is gone, in the same form.
            others: what to read that is written on the other cluster, by names there.
            start: the alias of the cluster to start on. Without it that is home, unless the group is in
                use on the other cluster only, or is in use on neither and has read more on the other.
            naming: how the mirror names remote topics: an object, or as `replication.policy.class`.
            detect_after: a cluster is gone if none of its brokers answers for this long.
            return_home: whether to go home by itself once home has answered for `detect_after` again.
            exact_within: how long to wait for a run map that is behind, rather than repeat records.
            gather_within: how long to wait for the other members before leaving a cluster that is alive.
            auto_offset_reset: earliest or latest: where to start with what the group has never read;
                without it, such a case raises NotTranslated.
            untranslated: what a move does if it is unknown where to continue with something that was read:
                refuse raises NotTranslated, reset starts as `auto_offset_reset` says.
            options: settings of kafka-python's KafkaConsumer, for both clusters.
        """
        self._group = group_id
        self._naming = _naming(naming)
        self._sites = {alias: _endpoint(alias, where) for alias, where in (home, other)}
        if len(self._sites) != 2:
            raise ConfigError(f"home and other are both called {home[0]}. Give them two aliases.")
        self.home, self.other = home[0], other[0]
        self._streams = [
            *(Stream(self.home, topic) for topic in _listed(topics)),
            *(Stream(self.other, topic) for topic in _listed(others)),
        ]
        if not self._streams:
            raise ConfigError(f"{group_id}: no topics to read. Name at least one.")
        refuse_same_names(self._streams, self._sites, self._naming)
        self._detect_after = detect_after
        self._interval = min(detect_after / 10, _LONGEST_INTERVAL)
        self._return_home = return_home
        self._exact_within = exact_within
        self._gather_within = gather_within
        self._may_begin = auto_offset_reset is not None
        self._may_reset = _may_reset(untranslated, auto_offset_reset)
        self._options = dict(options)
        if auto_offset_reset is not None:
            self._options["auto_offset_reset"] = auto_offset_reset
        session = int(options.get(SESSION_TIMEOUT, _SESSION_TIMEOUT_MS))
        self._session_timeout = timedelta(milliseconds=session)
        self._member: Member | None = None
        self._watch: Watch | None = None
        self._home_pulse: Pulse | None = None
        self._homeward = Homeward(detect_after, exact_within, gather_within)
        self._former: dict[str, str] = {}
        self._begun = start is not None
        self._closed = False
        self._retry_at = 0.0
        if start is not None and start not in self._sites:
            raise ConfigError(
                f"{start} is neither {self.home} nor {self.other}. Start on one of them."
            )
        self.cluster = start or self.home
        self.moves: list[Move] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the group; what was not committed is read again by the member that takes over."""
        self._closed = True
        self._leave()
        self._unattend()

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        """Return the next record, waiting as long as needed; iteration ends when the consumer is closed."""
        while not self._closed:
            member = self._stand()
            if member is None:
                self._pause()
            elif (record := member.next(_SLICE)) is not None:
                return record
        raise StopIteration

    def poll(
        self, within: timedelta = timedelta(seconds=1), max_records: int | None = None
    ) -> list[Record]:
        """Return the available records; none if none arrive in time.

        `within` does not limit a move. Records are kafka-python's, each with its topic's name on the
        cluster it was read from.
        """
        deadline = time.monotonic() + within.total_seconds()
        while True:
            left = timedelta(seconds=max(deadline - time.monotonic(), 0))
            member = self._stand()
            found = member.poll(min(left, _SLICE), max_records) if member else []
            if found or time.monotonic() >= deadline:
                return found
            if member is None:
                self._pause()

    def commit(self, within: timedelta = timedelta(seconds=60)) -> None:
        """Commit all records that were returned, and return when a cluster has stored the commit.

        If the cluster is gone meanwhile, the consumer moves, and the other cluster stores it. KafkaFault
        means that the group continued without this member, which gets records again.
        """
        deadline = time.monotonic() + within.total_seconds()
        member, watch = self._member, self._watch
        consumed = member.consumed() if member else {}
        if member is None or watch is None or not consumed:
            return
        while True:
            try:
                left = self._detect_after - watch.silence()
                member.commit(consumed, max(min(left, _ASKING), _SLICE))
                watch.note_commit(consumed)
                return  # noqa: TRY300 - the rest is for the commit that was not stored
            except DeadlinePassed as exc:
                log.debug("group=%s %s", self._group, exc)
            if watch.silence() >= self._detect_after:
                watch.note_commit(consumed)
                if self._try_to_move():
                    return
                self._pause()
            if time.monotonic() > deadline:
                doing = f"commit for group {self._group} on {self.cluster}"
                raise DeadlinePassed(doing, within.total_seconds())

    def move_to(self, cluster: str) -> None:
        """Move to a cluster now; if the group has several members, call this on each of them.

        Commit first: what is not committed is read again there.
        """
        if cluster not in self._sites:
            known = " nor ".join(self._sites)
            raise ConfigError(
                f"{cluster} is neither {known}. Name one of this consumer's clusters."
            )
        self._begin()
        if cluster != self.cluster:
            self._move("told")

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that this member reads now, by their names on its cluster."""
        return self._member.assignment() if self._member else set()

    def home_topic(self, topic: str) -> str:
        """Return the name of a topic at home, given its name on this cluster."""
        for stream in self._streams:
            if stream.on(self.cluster, self._naming) == topic:
                return stream.on(self.home, self._naming)
        return topic

    def _stand(self) -> Member | None:
        """Return the member to read with, after a move if one is due; None while no cluster answers."""
        self._begin()
        watch = self._watch
        if watch is not None and watch.silence() >= self._detect_after:
            self._try_to_move()
        elif self._home_pulse is not None and self._home_pulse.answering() >= self._detect_after:
            self._try_to_go_home()
        if self._member is None:
            self._join()
        return self._member

    def _begin(self) -> None:
        """Start where the group is in use; if nowhere, where it has read most; otherwise at home."""
        if self._watch is not None:
            return
        if self._begun:
            self._attend()
            return
        passage = self._passage(self.other)
        there, here = (_tell(passage.is_in_use, self._sites[a]) for a in (self.other, self.home))
        left = there is False and here is not None and self._was_there_last(passage)
        if left or (there and not here):
            self.cluster = self.other
        self._begun = True
        self._attend()
        if left and self._return_home:
            self._try_to_go_home()

    def _was_there_last(self, passage: Passage) -> bool:
        """Whether the group has read more on the other cluster, which it has left, than at home."""
        try:
            plan = passage.plan_further()
            if plan is None:
                return False
            # A member that was at home when home died is in the group until its session times out.
            passage.await_empty(2 * self._session_timeout)
        except MirrorError as exc:
            log.warning("group=%s begins at home, and may repeat there: %s", self._group, exc)
            return False
        log.info("group=%s has read more on %s than at home", self._group, self.other)
        try:
            passage.commit(plan, None, 2 * self._session_timeout)
        except MirrorError as exc:
            log.warning("group=%s begins on %s as it was there: %s", self._group, self.other, exc)
        return True

    def _attend(self, committed: Mapping[TopicPartition, int] | None = None) -> None:
        """Watch the cluster that the consumer is on, and home too while it is away."""
        self._unattend()
        elsewhere = self._elsewhere()
        topics = [stream.on(self.cluster, self._naming) for stream in self._streams]
        runs = runs_topic(self._naming, elsewhere)
        endpoint = self._sites[self.cluster]
        self._watch = Watch(
            endpoint, self._interval, self._group, topics, runs, committed=committed
        )
        self._watch.start()
        if self._return_home and self.cluster != self.home:
            self._home_pulse = Pulse(self._sites[self.home], self._interval)
            self._home_pulse.start()

    def _unattend(self) -> None:
        for pulse in (self._watch, self._home_pulse):
            if pulse is not None:
                pulse.stop()
        self._watch = self._home_pulse = None

    def _try_to_move(self) -> bool:
        """Move because the cluster is gone, or stay and try again later if the other one is no better."""
        if time.monotonic() < self._retry_at:
            return False
        watch = self._watch
        assert watch is not None, "a consumer that has begun watches its cluster"
        # The thread of the watch may have been kept from asking, or from receiving the answer.
        if answers(self._sites[self.cluster], min(self._detect_after, _ASKING)):
            watch.note_answer()
            return False
        try:
            self._move("gone")
        except MirrorError as exc:
            passes = isinstance(exc, ClusterUnreachable | DeadlinePassed) or (
                isinstance(exc, KafkaFault) and exc.retriable
            )
            if not passes:
                raise
            self._retry_at = time.monotonic() + self._detect_after.total_seconds()
            log.warning("group=%s stays on %s: %s", self._group, self.cluster, exc)
            return False
        return True

    def _try_to_go_home(self) -> None:
        """Go home if nothing prevents it; this is optional, so a failure is logged and reading continues."""
        now, homeward, passage = time.time(), self._homeward, self._passage(self.home)
        if not homeward.is_due(now):
            return
        was_in = self._member is not None
        try:
            plan = passage.plan(
                lambda: homeward.mark(now, passage.ask_source()), timedelta(0), is_alive=True
            )
            if not self._check(plan).may_improve(is_alive=True):
                self._move("home is back")
                homeward.arrive()
            elif not homeward.may_wait(time.time()):
                raise self._not_exact(self.home)
        except MirrorError as exc:
            homeward.fail(time.time(), stopped=was_in and self._member is None)
            log.warning("group=%s stays on %s: %s", self._group, self.cluster, exc)

    def _move(self, why: Why) -> None:
        began, at = time.monotonic(), datetime.now(UTC)
        source, target = self.cluster, self._elsewhere()
        log.info("group=%s moves from %s to %s: %s", self._group, source, target, why)
        passage = self._passage(target)
        plan = self._flee(passage) if why == "gone" else self._depart(passage)
        self._former.pop(target, None)
        self.cluster = target
        self._attend({partition: place.offset for partition, place in plan.places.items()})
        self._join()
        move = Move(at, source, target, why, timedelta(seconds=time.monotonic() - began), plan)
        self.moves.append(move)
        log.info("group=%s is on %s repeats=%d at most", self._group, target, plan.repeats)
        for reason in (*plan.unknown, *plan.unread):
            log.warning("group=%s %s on %s: auto_offset_reset decides", self._group, reason, target)
        for partition in plan.absent:
            log.warning(
                "group=%s %s of %s is not on %s. Come back to %s to read it.",
                *(self._group, partition, source, target, source),
            )

    def _flee(self, passage: Passage) -> Plan:
        """Make the group continue from what a cluster that is gone last reported."""
        watch = self._watch
        assert watch is not None, "a consumer that has begun watches its cluster"
        plan = self._check(passage.plan(watch.seen, self._exact_within, is_alive=False))
        plan = self._commit_there(passage, plan)
        self._leave()
        time.sleep(_LATER.total_seconds())
        return plan

    def _depart(self, passage: Passage) -> Plan:
        """Make the group continue from the last positions of all members, once they have left."""
        self._check(passage.plan(passage.ask_source, timedelta(0), is_alive=True))
        self._leave()
        passage.await_empty(self._gather_within)
        plan = self._check(passage.plan(passage.ask_source, self._exact_within, is_alive=True))
        if plan.may_improve(is_alive=True):
            raise self._not_exact(self._elsewhere())
        plan = self._commit_there(passage, plan)
        # A member that could not go continues here, and may have given up only now: then all members stay.
        passage.await_empty(timedelta(0))
        return plan

    def _commit_there(self, passage: Passage, plan: Plan) -> Plan:
        # A session that started again when the cluster came back has timed out by then.
        return passage.commit(plan, self._former.get(self._elsewhere()), 2 * self._session_timeout)

    def _not_exact(self, target: str) -> DeadlinePassed:
        doing = f"copy to {target}, and tell of, all that group {self._group} has read"
        return DeadlinePassed(doing, self._exact_within.total_seconds())

    def _check(self, plan: Plan) -> Plan:
        refused = (
            *(() if self._may_reset else plan.unknown),
            *(() if self._may_begin else plan.unread),
        )
        if refused:
            raise NotTranslated(self._group, self._elsewhere(), refused)
        return plan

    def _join(self) -> None:
        """Open a member on the cluster if that answers; it joins when it is asked for records."""
        # A KafkaConsumer that reaches no broker leaves a thread behind, so it is not used as a probe.
        if self._watch is None or not self._watch.answering():
            return
        topics = [stream.on(self.cluster, self._naming) for stream in self._streams]
        endpoint = self._sites[self.cluster]
        try:
            self._member = Member(endpoint, self._group, topics, self._options, within=_JOINING)
        except ClusterUnreachable as exc:
            log.debug("group=%s %s", self._group, exc)

    def _leave(self) -> None:
        member, self._member = self._member, None
        if member is not None:
            self._former[self.cluster] = member.member_id
            member.close()

    def _passage(self, target: str) -> Passage:
        source = self.other if target == self.home else self.home
        ends = self._sites[source], self._sites[target]
        return Passage(self._group, self._streams, self._naming, *ends)

    def _elsewhere(self) -> str:
        return self.other if self.cluster == self.home else self.home

    def _pause(self) -> None:
        time.sleep(_SLICE.total_seconds())


def _tell(ask: Callable[[Endpoint], bool], endpoint: Endpoint) -> bool | None:
    """Return the answer, or None if there is none."""
    try:
        return ask(endpoint)
    except (ClusterUnreachable, KafkaFault) as exc:
        log.info("cluster=%s cannot be asked who is in a group: %s", endpoint.cluster, exc)
        return None


def _may_reset(untranslated: str, auto_offset_reset: str | None) -> bool:
    if untranslated not in get_args(Untranslated):
        raise ConfigError(f"untranslated is {untranslated}. Give refuse or reset.")
    if untranslated == "reset" and auto_offset_reset is None:
        raise ConfigError("untranslated is reset, but to what? Give auto_offset_reset too.")
    return untranslated == "reset"


def _listed(topics: Iterable[str]) -> Iterable[str]:
    return [topics] if isinstance(topics, str) else topics


def _endpoint(alias: str, where: Where) -> Endpoint:
    if isinstance(where, str):
        where = {"bootstrap.servers": where}
    found = where if isinstance(where, Endpoint) else client_endpoint(where, "consumer.")
    return replace(found, cluster=alias)


def _naming(naming: NamingPolicy | str | None) -> NamingPolicy:
    if isinstance(naming, str):
        return client_naming({ConnectorSettings.replication_policy_class.name: naming})
    return naming or DefaultNaming()
