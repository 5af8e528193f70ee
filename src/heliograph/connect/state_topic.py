"""A topic in which Connect keeps its state, on the worker's cluster, over a separate connection."""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Literal

from heliograph.admin.configs import topic_configs
from heliograph.config.connectors import WorkerConfig
from heliograph.config.settings_worker import WorkerSettings
from heliograph.errors import ConfigError, DeadlinePassed
from heliograph.kafka.cluster import Cluster, patiently
from heliograph.tables.append import Row
from heliograph.tables.follow import FollowedTopic

_PATIENCE = timedelta(seconds=30)
_PAUSE = 0.05
_POLICY = "cleanup.policy"
_NOT_FOR_THE_TOPIC = ("topic", "partitions", "replication.factor", _POLICY)


class StateTopic:
    """One of the worker's topics; thread-safe.

    `apply` gets every row once, in the order of its partition, from whichever thread reads it. `forget`
    is called if the topic was recreated, before the first of its rows.
    """

    def __init__(
        self,
        worker: WorkerConfig,
        storage: Literal["config", "status"],
        apply: Callable[[Row], None],
        forget: Callable[[], None],
    ) -> None:
        self._worker = worker
        self._storage = storage
        self._apply = apply
        self._lock = threading.Lock()
        settings = WorkerSettings(worker.props)
        is_config = storage == "config"
        self.name = str(
            settings.config_storage_topic if is_config else settings.status_storage_topic
        )
        self._partitions = 1 if is_config else settings.status_storage_partitions
        self._replication_factor = (
            settings.config_storage_replication_factor
            if is_config
            else settings.status_storage_replication_factor
        )
        self._cluster = Cluster(worker.endpoint)
        self._topic = FollowedTopic(self._cluster, self.name, on_anew=forget)

    def open(self) -> None:
        """Create the topic if it does not exist, check that it is usable, and read all of it."""
        with self._lock:
            self._topic.ensure(self._partitions, self._replication_factor, self._settings())
            self._check()
        self.refresh()

    def close(self) -> None:
        with self._lock:
            self._topic.close()
            self._cluster.close()

    def refresh(self) -> None:
        """Apply what was written since the last time, by any worker."""
        with self._lock:
            self._read()

    def write(self, rows: Sequence[Row]) -> None:
        """Store rows, and return when they were read back and applied, as all before them were."""
        deadline = time.monotonic() + _PATIENCE.total_seconds()
        with self._lock:
            self._topic.append(rows)
            unseen = set(rows)
            while True:
                unseen.difference_update(self._read())
                if not unseen:
                    return
                if time.monotonic() > deadline:
                    raise DeadlinePassed(f"read back {self.name}", _PATIENCE.total_seconds())
                time.sleep(_PAUSE)

    def _read(self) -> list[Row]:
        rows = self._topic.refresh()
        for row in rows:
            self._apply(row)
        return rows

    def _settings(self) -> dict[str, str]:
        """Return the settings of a new topic, as `config.storage.<setting>` defines them."""
        prefix = f"{self._storage}.storage."
        given = {
            key.removeprefix(prefix): str(value)
            for key, value in self._worker.props.items()
            if key.startswith(prefix)
        }
        return {key: value for key, value in given.items() if key not in _NOT_FOR_THE_TOPIC}

    def _check(self) -> None:
        key = f"{self._storage}.storage.topic"
        topics = patiently(lambda: self._cluster.describe([self.name]))
        count = len(topics[self.name].leaders) if self.name in topics else 0
        if self._storage == "config" and count > 1:
            raise ConfigError(
                f"{self.name}: has {count} partitions, but connectors need one, for their order. "
                f"Name another topic in {key}."
            )
        found = patiently(lambda: topic_configs(self._cluster, [self.name], [_POLICY]))
        policy = found.get(self.name, {}).get(_POLICY, "compact")
        if policy != "compact":
            raise ConfigError(
                f"{self.name}: {_POLICY} is {policy}, and old rows would be lost. "
                f"Set it to compact, or name another topic in {key}."
            )
