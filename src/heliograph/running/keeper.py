"""Saving what a flow knows: where records went, its positions, and its owner, in this order."""

import logging
from collections.abc import Callable, Mapping
from datetime import timedelta

from heliograph.config.flow import FlowConfig
from heliograph.driving.job import FlowJob
from heliograph.errors import FlowFenced, KafkaFault, MirrorError
from heliograph.model import TopicPartition
from heliograph.running.positions import offsets_of
from heliograph.running.salvage import Salvage
from heliograph.running.tenure import Tenure
from heliograph.saved.group_progress import GroupProgress
from heliograph.saved.progress import ProgressStore
from heliograph.saved.runs import RunStore
from heliograph.wire.connect_records import SourceOffset

log = logging.getLogger(__name__)

SAVE = timedelta(seconds=3)
_OWNER = "the owner could not be saved"
_LOST = "what it had saved was deleted; all is saved again, and it goes on"


class Complaints:
    """The failures of what a flow keeps retrying: logged once for each reason."""

    def __init__(self, config: FlowConfig) -> None:
        self._flow = config.flow
        self._known: dict[str, str] = {}

    def note(self, what: str, exc: MirrorError) -> None:
        if self._known.get(what) != str(exc):
            log.warning("flow=%s %s: %s", self._flow, what, exc)
        self._known[what] = str(exc)

    def clear(self, what: str) -> None:
        self._known.pop(what, None)


class Keeper:
    """Saves for one start of a flow; for one thread."""

    def __init__(
        self,
        config: FlowConfig,
        tenure: Tenure,
        store: ProgressStore | GroupProgress,
        runs: RunStore,
        complaints: Complaints,
    ) -> None:
        self._config = config
        self._tenure = tenure
        self._store = store
        self._runs = runs
        self._complaints = complaints
        self._is_lost = False

    def save(self, job: FlowJob) -> None:
        """Save positions, and before them the runs that lead up to them.

        If one of their topics was deleted, it is recreated, and all is saved. If tasks save both, in their
        transactions, that must wait until the tasks have ended, and this raises.
        """
        if not job.is_sure():
            return  # another driver may own the flow, and have newer positions
        self._try(job, "topics of its own could not be looked at", self._restore)
        if not self._is_lost:
            self._save(job, SAVE)
        self._try(job, _OWNER, lambda: self._tenure.record(SAVE))
        if self._is_lost:
            raise MirrorError(_LOST)

    def save_last(self, job: FlowJob, within: timedelta, *, released: bool) -> Salvage | None:
        """Save what is left when tasks have ended; `released` says that the flow then has no owner.

        Return what the next start must save, when nothing else can be committed at the same time.
        """
        if not job.is_sure():
            return None
        if not self._is_lost:
            self._save(job, within)
        self._try(job, _OWNER, lambda: self._tenure.record(within, released=released))
        return Salvage.of(job, self._runs) if self._is_lost else None

    def _restore(self) -> None:
        for restore in (self._runs.restore, self._store.restore):
            if restore(SAVE) and self._config.transactions:
                self._is_lost = True

    def _save(self, job: FlowJob, within: timedelta) -> None:
        """Save what this driver saves: positions are only a shortcut to the target's tail."""
        offsets = offsets_of(job)

        def save() -> None:
            self._runs.save(within)
            if not self._config.transactions:  # else tasks save them, with their records
                self._save_positions(offsets, within)

        self._try(job, "progress could not be saved", save)

    def _try(self, job: FlowJob, saying: str, save: Callable[[], None]) -> None:
        """Save something; what cannot be saved now is saved next time, and logged with `saying`."""
        try:
            save()
        except FlowFenced as exc:
            job.lose(str(exc))
        except MirrorError as exc:
            self._complaints.note(saying, exc)
        else:
            self._complaints.clear(saying)

    def begin(self, offsets: Mapping[TopicPartition, SourceOffset]) -> dict[TopicPartition, str]:
        """Save where partitions begin; return those whose start cannot be saved, and why: they must not begin."""
        try:
            self._runs.save(SAVE)
        except KafkaFault as exc:
            self._complaints.note("runs could not be saved", exc)
        return self._store.save_each(offsets, SAVE)

    def _save_positions(
        self, offsets: Mapping[TopicPartition, SourceOffset], within: timedelta
    ) -> None:
        """Save all positions, or those that can be saved."""
        try:
            self._store.save(offsets, within)
        except KafkaFault:
            self._store.save_each(offsets, within)
            raise
