"""A worker's membership of its group: which connectors it runs, and which worker leads.

There are two threads. One joins, passes the assignment to the herder, and waits for a reason to join
again. The other sends heartbeats all the time, also during a join and while the herder stops something.

A worker claims what it runs, and only that. If the group may have continued without it (it was
removed, or no coordinator has answered for a session's length), it first stops everything and then
claims nothing.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from heliograph.config.connectors import WorkerConfig
from heliograph.config.settings_worker import WorkerSettings
from heliograph.connect.shares import Claim, plan_shares
from heliograph.errors import MirrorError
from heliograph.groups.member import Joined, Member, MemberLost
from heliograph.wire.share_records import (
    Given,
    Told,
    decode_given,
    decode_told,
    encode_given,
    encode_told,
)

log = logging.getLogger(__name__)

NO_GENERATION = -1
_PAUSE = 1.0
_END = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Assignment:
    """What this worker must run from now on, and what it must stop.

    A worker that lost its group has a generation of -1, no leader, and nothing to run. `owners` are the
    URLs of the workers that run each connector in this generation; one that moves has none.
    """

    generation: int
    leader_id: str
    leader_url: str
    member_id: str
    is_leader: bool
    connectors: tuple[str, ...]
    revoked: tuple[str, ...]
    owners: Mapping[str, str] = field(default_factory=dict)


class Membership:
    """Keeps a worker in its group from `start` to `close`.

    `on_assigned` is called from a thread of this class, never twice at a time, after every join; it may
    block, and returns when what was revoked has stopped. `connectors` is called if this worker leads, and
    returns the names of all existing connectors; it may block and raise.
    """

    def __init__(
        self,
        worker: WorkerConfig,
        url: str,
        on_assigned: Callable[[Assignment], None],
        connectors: Callable[[], set[str]],
    ) -> None:
        self._url = url
        self._on_assigned = on_assigned
        self._connectors = connectors
        settings = WorkerSettings(worker.props)
        self._session = settings.session_timeout
        self._interval = settings.heartbeat_interval
        self._member = Member(
            worker.endpoint,
            worker.group_id,
            session_timeout=self._session,
            rebalance_timeout=settings.rebalance_timeout,
            heartbeat_interval=self._interval,
        )
        self._calling = threading.RLock()
        self._stopping = threading.Event()
        self._wanted = threading.Event()  # a reason to join again
        self._joining = True
        self._leads = False
        self._claim = Claim()
        self._contact = time.monotonic()
        self._state = ("starting", f"joins group {worker.group_id}")
        self._place: str | None = None
        self._threads = [
            threading.Thread(target=self._repeat, args=[step], name=f"{name}-{url}", daemon=True)
            for name, step in (("membership", self._take_part), ("heartbeat", self._beat))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def state(self) -> tuple[str, str]:
        """Return "healthy", "starting" or "unhealthy", and a sentence."""
        return self._state

    def rejoin(self) -> None:
        """Join again, because connectors were created or deleted.

        Only the leader's request counts, and every worker learns of the same connectors: all may call this.
        """
        if self._leads or self._joining:
            self._wanted.set()

    def close(self) -> None:
        """Stop all connectors of this worker, then leave the group; the others take over at once."""
        self._stopping.set()
        self._wanted.set()
        try:
            self._release("the worker stops")
        finally:
            self._leave()
            for thread in self._threads:
                if thread.is_alive():
                    thread.join(_END.total_seconds())
            self._leave()
            self._member.close()

    def _leave(self) -> None:
        try:
            self._member.leave()
        except MirrorError as exc:
            log.warning("group=%s could not be left: %s", self._member.group_id, exc)

    def _repeat(self, step: Callable[[], None]) -> None:
        while not self._stopping.is_set():
            try:
                step()
            except MemberLost as exc:
                self._release(str(exc))
                self._wanted.set()
            except MirrorError as exc:
                self._unwell(str(exc))
            except Exception as exc:  # the edge of a thread that must not end
                log.exception("group=%s", self._member.group_id)
                self._unwell(f"{type(exc).__name__}: {exc}. See the log.")

    def _unwell(self, why: str) -> None:
        if self._state != ("unhealthy", why):
            log.warning("group=%s %s", self._member.group_id, why)
        self._state = ("unhealthy", why)
        self._give_up_if_alone()
        self._stopping.wait(_PAUSE)

    def _take_part(self) -> None:
        """Join once, apply the assignment, and wait for a reason to join again."""
        self._joining = True
        self._place = None
        self._wanted.clear()
        claim = self._claim
        told = Told(self._url, claim.connectors, claim.generation)
        joined = self._member.join(encode_told(told), self._assign)
        self._contact = time.monotonic()
        self._leads = joined.is_leader
        self._joining = False
        self._deliver(joined, decode_given(joined.assignment))
        while not self._wanted.wait(self._interval.total_seconds()):
            self._give_up_if_alone()

    def _assign(self, members: dict[str, bytes]) -> dict[str, bytes]:
        """Assign the connectors as the leader; `members` are all, by id."""
        told = {member: decode_told(data) for member, data in members.items()}
        claims = {member: Claim(t.connectors, t.generation) for member, t in told.items()}
        shares = plan_shares(self._connectors(), claims)
        owners = {name: told[m].url for m, names in shares.items() for name in names}
        return {
            member: encode_given(Given(self._url, names, owners))
            for member, names in shares.items()
        }

    def _deliver(self, joined: Joined, given: Given) -> None:
        with self._calling:
            if self._stopping.is_set():
                return
            revoked = self._claim.connectors - given.connectors
            # Until the herder has finished, all of these count as running here.
            self._claim = Claim(given.connectors | revoked, joined.generation)
            assignment = Assignment(
                joined.generation,
                joined.leader_id,
                given.leader_url,
                joined.member_id,
                joined.is_leader,
                tuple(sorted(given.connectors)),
                tuple(sorted(revoked)),
                given.owners,
            )
            try:
                self._on_assigned(assignment)
            except BaseException:
                self._wanted.set()
                raise
            self._claim = Claim(given.connectors, joined.generation)
        group = self._member.group_id
        self._place = f"member {joined.member_id} of group {group}, generation {joined.generation}"
        self._state = ("healthy", self._place)
        if revoked:
            self._wanted.set()

    def _beat(self) -> None:
        """Send one heartbeat."""
        if self._stopping.wait(self._interval.total_seconds()):
            return
        began = time.monotonic()
        if not self._member.heartbeat() and not self._joining:
            self._wanted.set()
        self._contact = max(self._contact, began)
        if self._place is not None:
            self._state = ("healthy", self._place)

    def _give_up_if_alone(self) -> None:
        silence = time.monotonic() - self._contact
        if self._claim.connectors and silence > self._session.total_seconds():
            self._release(f"no coordinator has answered for {silence:.0f} s")
            self._wanted.set()

    def _release(self, why: str) -> None:
        """Stop everything that runs here, and claim nothing."""
        with self._calling:
            held = tuple(sorted(self._claim.connectors))
            if held:
                log.warning("group=%s connectors=%s stop: %s", self._member.group_id, held, why)
                self._on_assigned(Assignment(NO_GENERATION, "", "", "", False, (), held))
            self._claim = Claim()
            self._leads = False
