"""What is asked of a Kafka Connect worker that has the mirror connectors: one story, in order.

`{source}` and `{target}` stand for the bootstrap servers of the two clusters. The source has a topic
`orders` of two partitions with records in it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

MIRROR = "org.apache.kafka.connect.mirror."
SOURCE_CLASS = MIRROR + "MirrorSourceConnector"
CHECKPOINT_CLASS = MIRROR + "MirrorCheckpointConnector"
HEARTBEAT_CLASS = MIRROR + "MirrorHeartbeatConnector"
_CLUSTERS = {
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "{source}",
    "target.cluster.bootstrap.servers": "{target}",
}
SOURCE = {
    "connector.class": SOURCE_CLASS,
    **_CLUSTERS,
    "topics": "orders",
    "tasks.max": "2",
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "refresh.topics.interval.seconds": "5",
}
CHECKPOINT = {
    "connector.class": CHECKPOINT_CLASS,
    **_CLUSTERS,
    "groups": "billing",
    "checkpoints.topic.replication.factor": "1",
    "refresh.groups.interval.seconds": "2",
    "emit.checkpoints.interval.seconds": "1",
}
HEARTBEAT = {
    "connector.class": HEARTBEAT_CLASS,
    **_CLUSTERS,
    "heartbeats.topic.replication.factor": "1",
}
NOTHING = object()


@dataclass(frozen=True, slots=True)
class Step:
    """One request. `raw` is sent as it is; a step with `until` is repeated until its answer fits."""

    says: str
    method: str
    path: str
    sent: object = NOTHING
    raw: str | None = None
    content_type: str = "application/json"
    until: Callable[[Any], bool] | None = None


def story() -> Iterator[Step]:
    yield from _the_worker()
    yield from _nothing_there()
    yield from _plugins()
    yield from _validation()
    yield from _refused()
    yield from _created()
    yield from _read()
    yield from _reconfigured()
    yield from _lifecycle()
    yield from _restarts()
    yield from _topics()
    yield from _source_offsets()
    yield from _other_offsets()
    yield from _failing()
    yield from _loggers()
    yield from _deleted()


def _the_worker() -> Iterator[Step]:
    yield Step("the worker tells what it is", "GET", "/")
    yield Step("the worker is healthy", "GET", "/health")
    yield Step("an unknown path", "GET", "/nothing")
    yield Step("an unknown path below a connector", "GET", "/connectors/msc/nothing")
    yield Step("a method that the root does not take", "POST", "/", {})
    yield Step("a method that the list does not take", "DELETE", "/connectors")
    yield Step("no connectors", "GET", "/connectors")
    yield Step("only the head of an answer", "HEAD", "/connectors")
    yield Step("no connectors, expanded", "GET", "/connectors?expand=status&expand=info")


def _nothing_there() -> Iterator[Step]:
    for says, method, path, body in (
        ("itself", "GET", "", NOTHING),
        ("its config", "GET", "/config", NOTHING),
        ("its status", "GET", "/status", NOTHING),
        ("its tasks", "GET", "/tasks", NOTHING),
        ("its tasks' configs", "GET", "/tasks-config", NOTHING),
        ("a task's status", "GET", "/tasks/0/status", NOTHING),
        ("its topics", "GET", "/topics", NOTHING),
        ("its offsets", "GET", "/offsets", NOTHING),
        ("patching its config", "PATCH", "/config", {"tasks.max": "1"}),
        ("pausing it", "PUT", "/pause", NOTHING),
        ("resuming it", "PUT", "/resume", NOTHING),
        ("stopping it", "PUT", "/stop", NOTHING),
        ("restarting it", "POST", "/restart", NOTHING),
        ("restarting it with tasks", "POST", "/restart?includeTasks=true", NOTHING),
        ("restarting a task", "POST", "/tasks/0/restart", NOTHING),
        ("resetting its topics", "PUT", "/topics/reset", NOTHING),
        (
            "altering its offsets",
            "PATCH",
            "/offsets",
            {"offsets": [{"partition": {"cluster": "A"}, "offset": None}]},
        ),
        ("resetting its offsets", "DELETE", "/offsets", NOTHING),
        ("deleting it", "DELETE", "", NOTHING),
    ):
        yield Step(f"of an unknown connector: {says}", method, "/connectors/none" + path, body)


def _plugins() -> Iterator[Step]:
    yield Step("the connector plug-ins", "GET", "/connector-plugins")
    yield Step("all plug-ins", "GET", "/connector-plugins?connectorsOnly=false")
    for name in (SOURCE_CLASS, CHECKPOINT_CLASS, HEARTBEAT_CLASS):
        yield Step("the keys of a plug-in", "GET", f"/connector-plugins/{name}/config")
    yield Step("a plug-in by its simple name", "GET", "/connector-plugins/MirrorHeartbeat/config")
    yield Step("the keys of an unknown plug-in", "GET", "/connector-plugins/org.none.None/config")
    yield Step("a method that plug-ins do not take", "DELETE", "/connector-plugins")


def _validation() -> Iterator[Step]:
    for config in (SOURCE, CHECKPOINT, HEARTBEAT):
        plugin = config["connector.class"]
        yield _validate("a good config is validated", {"name": "good"} | config, plugin)
    yield _validate("validation by the simple name", HEARTBEAT, "MirrorHeartbeatConnector")
    yield _validate(
        "validation by half the simple name",
        {"name": "x"} | HEARTBEAT | {"connector.class": "MirrorHeartbeat"},
        "MirrorHeartbeat",
    )
    yield _validate("only the class is given", {"connector.class": SOURCE_CLASS})
    yield _validate("a class other than the path's", {"name": "x"} | HEARTBEAT, SOURCE_CLASS)
    yield _validate("no class", {"name": "x"}, SOURCE_CLASS)
    yield _validate("an empty object", {}, SOURCE_CLASS)
    yield _validate(
        "an unknown plug-in", {"connector.class": "org.none.None", "name": "x"}, "org.none.None"
    )
    yield _validate(
        "numbers, booleans and null as values",
        {"name": "x"}
        | SOURCE
        | {"tasks.max": 3, "enabled": True, "admin.timeout.ms": None, "offset.lag.max": 7.5},
    )
    yield _validate("an object as a value", {"name": "x"} | SOURCE | {"topics": {"a": 1}})
    yield _validate("a list as a value", {"name": "x"} | SOURCE | {"topics": ["a", "b"]})
    yield _validate(
        "wrong types everywhere",
        {
            "name": "x",
            "connector.class": SOURCE_CLASS,
            "tasks.max": "many",
            "enabled": "perhaps",
            "refresh.topics.interval.seconds": "soon",
            "replication.factor": "1.5",
            "offset-syncs.topic.replication.factor": "99999",
            "offset.lag.max": "x",
            "security.protocol": "TELEPATHY",
            "offset-syncs.topic.location": "elsewhere",
            "replication.policy.class": "org.none.Policy",
            "topic.filter.class": "org.none.Filter",
            "errors.tolerance": "some",
            "config.action.reload": "never",
            "key.converter": "org.none.Converter",
            "exactly.once.support": "maybe",
            "sasl.login.refresh.min.period.seconds": "-5",
            "sasl.kerberos.ticket.renew.jitter": "none",
            "ssl.protocol": "",
        },
    )
    yield _validate("no tasks", {"name": "x"} | SOURCE | {"tasks.max": "0"})
    yield _validate("a broken pattern", {"name": "x"} | SOURCE | {"topics": "a(b"})
    yield _validate(
        "an interval of nothing", {"name": "x"} | SOURCE | {"refresh.topics.interval.seconds": "0"}
    )
    yield _validate("exactly once", {"name": "x"} | SOURCE | {"exactly.once.support": "required"})
    yield _validate(
        "exactly once, committed records only",
        {"name": "x"}
        | SOURCE
        | {
            "exactly.once.support": "required",
            "source.consumer.isolation.level": "read_committed",
        },
    )
    yield _validate(
        "no offset syncs, and yet their topic",
        {"name": "x"} | SOURCE | {"emit.offset-syncs.enabled": "false"},
    )
    yield _validate(
        "a checkpoint connector that writes none",
        {"name": "x"}
        | CHECKPOINT
        | {"emit.checkpoints.enabled": "false", "emit.offset-syncs.enabled": "false"},
    )
    yield _validate(
        "the same, switched off",
        {"name": "x"}
        | CHECKPOINT
        | {
            "enabled": "false",
            "emit.checkpoints.enabled": "false",
            "emit.offset-syncs.enabled": "false",
        },
    )
    yield _validate(
        "an unreachable source cluster",
        {"name": "x"} | SOURCE | {"source.cluster.bootstrap.servers": "127.0.0.1:1"},
    )
    yield _validate(
        "no source cluster", {"name": "x"} | _without(SOURCE, "source.cluster.bootstrap.servers")
    )
    yield _validate("a transform that is none", {"name": "x"} | SOURCE | {"transforms": "t"})
    path = f"/connector-plugins/{SOURCE_CLASS}/config/validate"
    yield Step("validation of malformed JSON", "PUT", path, raw='{"name": ')
    yield Step("validation of a list", "PUT", path, ["name"])
    yield Step("validation of nothing", "PUT", path, raw="")
    yield Step("validation by POST", "POST", path, {})
    yield Step("validation of a text", "PUT", path, raw="name=x", content_type="text/plain")


def _refused() -> Iterator[Step]:
    post = _create
    yield Step("creating with malformed JSON", "POST", "/connectors", raw='{"name": "msc", ')
    yield Step("creating with an empty body", "POST", "/connectors", raw="")
    yield Step("creating with a list", "POST", "/connectors", [])
    yield Step("creating with null", "POST", "/connectors", None)
    yield Step("creating with a text", "POST", "/connectors", raw="{}", content_type="text/plain")
    yield Step("creating without a config", "POST", "/connectors", {"name": "msc"})
    yield Step("creating with nothing", "POST", "/connectors", {})
    yield Step("creating without a name", "POST", "/connectors", {"config": SOURCE})
    yield post("creating with an empty name", "", SOURCE)
    yield post("creating with an unknown field", "msc", SOURCE, colour="red")
    yield post("creating in an unknown state", "msc", SOURCE, initial_state="SLEEPING")
    yield post("creating with a number as state", "msc", SOURCE, initial_state=7)
    yield post(
        "creating with an unknown class", "msc", SOURCE | {"connector.class": "org.none.None"}
    )
    yield post("creating without a class", "msc", _without(SOURCE, "connector.class"))
    yield post("creating without an alias", "msc", _without(SOURCE, "source.cluster.alias"))
    yield post("creating with a wrong type", "msc", SOURCE | {"tasks.max": "many"})
    yield post(
        "creating with three mistakes",
        "msc",
        SOURCE | {"tasks.max": "0", "enabled": "perhaps", "security.protocol": "TELEPATHY"},
    )
    yield post("creating with another name in the config", "msc", SOURCE | {"name": "other"})
    yield post("creating with a text as config", "msc", "topics=orders")
    yield post("creating with a number as name", 7, SOURCE | {"tasks.max": "many"})
    yield post("creating with a control character", "a\tb", SOURCE)


def _created() -> Iterator[Step]:
    yield _create("the source connector is created", "msc", SOURCE)
    yield _create("it is created again", "msc", SOURCE)
    yield Step(
        "the checkpoint connector is created by PUT", "PUT", "/connectors/cpc/config", CHECKPOINT
    )
    yield _create(
        "the heartbeat connector is created, stopped, with blanks around its name",
        "  hbc ",
        HEARTBEAT | {"name": "hbc"},
        initial_state="stopped",
    )
    yield _status("msc", "RUNNING", 2, "the source connector runs")
    yield _status("cpc", "RUNNING", 1, "the checkpoint connector runs")
    yield _status("hbc", "STOPPED", 0, "the heartbeat connector is stopped")
    yield _create(
        "a connector with a blank in its name, paused",
        "odd name",
        HEARTBEAT | {"tasks.max": 1, "enabled": True},
        initial_state="PAUSED",
    )
    yield Step("the odd name in a path", "GET", "/connectors/odd%20name")
    yield Step("a slash in a name in a path", "GET", "/connectors/odd%2Fname")
    yield _status("odd%20name", "PAUSED", 0, "the odd one is paused, and had no tasks yet")
    yield Step("the odd one is deleted", "DELETE", "/connectors/odd%20name")


def _read() -> Iterator[Step]:
    yield Step("all connectors", "GET", "/connectors", until=lambda names: len(names) == 3)
    yield Step("all connectors with status", "GET", "/connectors?expand=status")
    yield Step("all connectors with info", "GET", "/connectors?expand=info")
    yield Step("all connectors with both", "GET", "/connectors?expand=info&expand=status")
    yield Step("expanded by an unknown word", "GET", "/connectors?expand=colour")
    yield Step(
        "expanded by one known and one unknown", "GET", "/connectors?expand=colour&expand=info"
    )
    for name in ("msc", "cpc", "hbc"):
        yield Step("a connector", "GET", f"/connectors/{name}")
        yield Step("its config", "GET", f"/connectors/{name}/config")
        yield Step("its tasks", "GET", f"/connectors/{name}/tasks")
    yield Step("its tasks, the older way", "GET", "/connectors/cpc/tasks-config")
    yield Step("a task's status", "GET", "/connectors/msc/tasks/1/status")
    yield Step("the status of a task that is not there", "GET", "/connectors/msc/tasks/9/status")
    yield Step("the status of a task without a number", "GET", "/connectors/msc/tasks/one/status")
    yield Step("a connector with a slash behind it", "GET", "/connectors/msc/")
    yield Step("a connector by POST", "POST", "/connectors/msc", {})


def _reconfigured() -> Iterator[Step]:
    put = "/connectors/cpc/config"
    yield Step(
        "a config is replaced",
        "PUT",
        put,
        CHECKPOINT | {"groups": "billing,shipping", "name": "cpc"},
    )
    yield Step(
        "a config is replaced by one of another name", "PUT", put, CHECKPOINT | {"name": "other"}
    )
    yield Step("a config is replaced by malformed JSON", "PUT", put, raw="{groups")
    yield Step("a config is replaced by a list", "PUT", put, [])
    yield Step("a config is replaced by nothing", "PUT", put, raw="")
    yield Step("a config is replaced by an empty one", "PUT", put, {})
    yield Step(
        "a config is replaced by a bad one",
        "PUT",
        put,
        CHECKPOINT | {"emit.checkpoints.enabled": "false"},
    )
    yield Step(
        "a config is replaced by one without class",
        "PUT",
        put,
        _without(CHECKPOINT, "connector.class"),
    )
    yield Step(
        "a config is patched", "PATCH", put, {"groups": "billing", "admin.timeout.ms": 30000}
    )
    yield Step("a key is taken away", "PATCH", put, {"admin.timeout.ms": None})
    yield Step("a config is patched with a mistake", "PATCH", put, {"tasks.max": "many"})
    yield Step("a config is patched with malformed JSON", "PATCH", put, raw="{")
    yield Step("a config is patched with nothing", "PATCH", put, {})
    yield Step("a config is posted", "POST", put, {})
    yield Step("the config then", "GET", put)
    yield _status("cpc", "RUNNING", 1, "it runs with it")


def _lifecycle() -> Iterator[Step]:
    yield Step("a connector is paused", "PUT", "/connectors/msc/pause")
    yield _status("msc", "PAUSED", 2, "it is paused, with its tasks")
    yield Step("it is paused again", "PUT", "/connectors/msc/pause")
    yield Step("it is paused by POST", "POST", "/connectors/msc/pause")
    yield Step("it is resumed", "PUT", "/connectors/msc/resume")
    yield _status("msc", "RUNNING", 2, "it runs again")
    yield Step("it is resumed again", "PUT", "/connectors/msc/resume")
    yield Step("it is stopped", "PUT", "/connectors/msc/stop")
    yield _status("msc", "STOPPED", 0, "it is stopped, without tasks")
    yield Step("it is stopped again", "PUT", "/connectors/msc/stop")
    yield Step("a stopped connector", "GET", "/connectors/msc")
    yield Step("tasks of a stopped connector", "GET", "/connectors/msc/tasks")
    yield Step("a stopped connector is paused", "PUT", "/connectors/msc/pause")
    yield Step("it is resumed from there", "PUT", "/connectors/msc/resume")
    yield _status("msc", "RUNNING", 2, "it runs once more")


def _restarts() -> Iterator[Step]:
    restart = "/connectors/msc/restart"
    yield Step("a connector is restarted", "POST", restart)
    yield _status("msc", "RUNNING", 2, "it runs after that")
    yield Step("a connector is restarted with its tasks", "POST", restart + "?includeTasks=true")
    yield _status("msc", "RUNNING", 2, "it runs after that")
    yield Step(
        "only failed ones are restarted", "POST", restart + "?includeTasks=true&onlyFailed=true"
    )
    yield Step("only a failed connector is restarted", "POST", restart + "?onlyFailed=true")
    yield Step("a connector is restarted with odd words", "POST", restart + "?includeTasks=banana")
    yield _status("msc", "RUNNING", 2, "it runs after that")
    yield Step("a connector is restarted by PUT", "PUT", restart)
    yield Step("a task is restarted", "POST", "/connectors/msc/tasks/0/restart")
    yield Step("a task that is not there is restarted", "POST", "/connectors/msc/tasks/9/restart")
    yield Step("a task without a number is restarted", "POST", "/connectors/msc/tasks/one/restart")
    yield _status("msc", "RUNNING", 2, "it runs after that")
    yield Step("a stopped connector is restarted", "POST", "/connectors/hbc/restart")
    yield Step(
        "a stopped one is restarted with tasks", "POST", "/connectors/hbc/restart?includeTasks=true"
    )


def _topics() -> Iterator[Step]:
    yield Step(
        "the topics it has written to",
        "GET",
        "/connectors/msc/topics",
        until=lambda body: "A.orders" in body["msc"]["topics"],
    )
    yield Step("topics of one that has not run", "GET", "/connectors/hbc/topics")
    yield Step("they are reset", "PUT", "/connectors/msc/topics/reset")
    yield Step(
        "they are forgotten",
        "GET",
        "/connectors/msc/topics",
        until=lambda body: not body["msc"]["topics"],
    )
    yield Step("they are reset by POST", "POST", "/connectors/msc/topics/reset")


def _source_offsets() -> Iterator[Step]:
    path = "/connectors/msc/offsets"

    def alter(says: str, *offsets: object) -> Step:
        return Step(f"offsets are altered: {says}", "PATCH", path, {"offsets": list(offsets)})

    place = {"cluster": "A", "partition": 0, "topic": "orders"}
    good = {"partition": place, "offset": {"offset": 3}}
    yield Step(
        "the offsets of the source connector",
        "GET",
        path,
        until=lambda body: [o["offset"]["offset"] for o in body["offsets"]] == [9, 9],
    )
    yield alter("the connector runs", good)
    yield Step("offsets are reset: the connector runs", "DELETE", path)
    yield Step("it is paused", "PUT", "/connectors/msc/pause")
    yield _status("msc", "PAUSED", 2, "it is paused")
    yield alter("the connector is paused", good)
    yield Step("it is stopped", "PUT", "/connectors/msc/stop")
    yield _status("msc", "STOPPED", 0, "it is stopped")
    yield Step("offsets are altered: malformed JSON", "PATCH", path, raw='{"offsets": [')
    yield Step("offsets are altered: no body", "PATCH", path, raw="")
    yield Step("offsets are altered: nothing in it", "PATCH", path, {})
    yield Step("offsets are altered: null", "PATCH", path, {"offsets": None})
    yield Step("offsets are altered: no list", "PATCH", path, {"offsets": {"orders": 3}})
    yield Step("offsets are altered: an unknown field", "PATCH", path, {"offsets": [good], "x": 1})
    yield alter("an empty list")
    yield alter("a text", "orders")
    yield alter("no partition", {"offset": {"offset": 3}})
    yield alter("a null partition", {"partition": None, "offset": {"offset": 3}})
    yield alter("an unknown field", good | {"colour": "red"})
    yield alter(
        "a partition without topic",
        {"partition": {"cluster": "A", "partition": 0}, "offset": {"offset": 3}},
    )
    yield alter(
        "a partition that is a text",
        {"partition": place | {"partition": "0"}, "offset": {"offset": 3}},
    )
    yield alter(
        "a negative partition", {"partition": place | {"partition": -1}, "offset": {"offset": 3}}
    )
    yield alter("a negative offset", {"partition": place, "offset": {"offset": -1}})
    yield alter("an offset that is a text", {"partition": place, "offset": {"offset": "3"}})
    yield alter("an offset without its number", {"partition": place, "offset": {}})
    yield alter("a partition twice", good, {"partition": place, "offset": {"offset": 4}})
    yield alter("one partition, to 3", good)
    yield Step("the offsets then", "GET", path)
    yield alter("one partition is forgotten", {"partition": place, "offset": None})
    yield Step("the offsets without it", "GET", path)
    yield alter("garbage is forgotten", {"partition": {"rubbish": True}, "offset": None})
    yield Step("offsets are reset", "DELETE", path)
    yield Step("no offsets", "GET", path, until=lambda body: not body["offsets"])
    yield Step("offsets by PUT", "PUT", path, {"offsets": [good]})
    yield Step("it is resumed", "PUT", "/connectors/msc/resume")
    yield _status("msc", "RUNNING", 2, "it runs")


def _other_offsets() -> Iterator[Step]:
    yield Step("the checkpoint connector is stopped", "PUT", "/connectors/cpc/stop")
    yield _status("cpc", "STOPPED", 0, "it is stopped")
    group = {"group": "billing", "topic": "orders", "partition": 0}
    beat = {"sourceClusterAlias": "A", "targetClusterAlias": "B"}
    for name, partition in (("cpc", group), ("hbc", beat)):
        path = f"/connectors/{name}/offsets"
        for says, offset in (("to 0", {"offset": 0}), ("to 1", {"offset": 1}), ("away", None)):
            yield Step(
                f"offsets of {name} are altered, {says}",
                "PATCH",
                path,
                {"offsets": [{"partition": partition, "offset": offset}]},
            )
            yield Step("the offsets then", "GET", path)
        yield Step(
            f"offsets of {name} are altered, of another's partition",
            "PATCH",
            path,
            {"offsets": [{"partition": {"cluster": "A"}, "offset": {"offset": 0}}]},
        )
        yield Step(f"offsets of {name} are reset", "DELETE", path)
    yield Step("the heartbeat connector starts", "PUT", "/connectors/hbc/resume")
    yield _status("hbc", "RUNNING", 1, "it runs")


def _failing() -> Iterator[Step]:
    away = SOURCE | {"source.cluster.bootstrap.servers": "127.0.0.1:1", "admin.timeout.ms": "2000"}
    yield _create("a connector with an unreachable source cluster", "far", away)
    yield Step("it is deleted", "DELETE", "/connectors/far")
    bare = _without(SOURCE, "source.cluster.bootstrap.servers")
    yield _create("a connector without a source cluster", "lame", bare)
    yield _status("lame", "FAILED", 0, "it fails")
    yield Step(
        "it is restarted", "POST", "/connectors/lame/restart?onlyFailed=true&includeTasks=true"
    )
    yield Step("it is deleted", "DELETE", "/connectors/lame")


def _loggers() -> Iterator[Step]:
    level = {"level": "DEBUG"}
    yield Step("all loggers", "GET", "/admin/loggers")
    yield Step("the root logger", "GET", "/admin/loggers/root")
    yield Step("an unknown logger", "GET", "/admin/loggers/org.none.Logger")
    yield Step("a level is set", "PUT", "/admin/loggers/org.none.Logger", level)
    yield Step("it is set", "GET", "/admin/loggers/org.none.Logger")
    yield Step(
        "a level in small letters", "PUT", "/admin/loggers/org.none.Logger", {"level": "warn"}
    )
    yield Step("a level below", "GET", "/admin/loggers/org.none")
    yield Step(
        "a level for all workers", "PUT", "/admin/loggers/org.none.Logger?scope=cluster", level
    )
    loud = {"level": "ERROR"}
    yield Step("an unknown scope", "PUT", "/admin/loggers/org.none.Logger?scope=galaxy", loud)
    yield Step("the same level again", "PUT", "/admin/loggers/org.none.Logger", loud)
    yield Step("an unknown level", "PUT", "/admin/loggers/org.none.Logger", {"level": "LOUD"})
    yield Step("no level", "PUT", "/admin/loggers/org.none.Logger", {})
    yield Step("a number as level", "PUT", "/admin/loggers/org.none.Logger", {"level": 7})
    yield Step("malformed JSON as level", "PUT", "/admin/loggers/org.none.Logger", raw="{")
    yield Step("no body as level", "PUT", "/admin/loggers/org.none.Logger", raw="")
    yield Step("a logger is deleted", "DELETE", "/admin/loggers/org.none.Logger")


def _deleted() -> Iterator[Step]:
    for name in ("msc", "cpc", "hbc"):
        yield Step("a connector is deleted", "DELETE", f"/connectors/{name}")
    yield Step("it is deleted again", "DELETE", "/connectors/msc")
    yield Step("no connectors are left", "GET", "/connectors", until=lambda names: not names)
    yield Step(
        "the status of a deleted connector", "GET", "/connectors/msc/status", until=_is_error
    )


def _create(says: str, name: object, config: object, **more: object) -> Step:
    return Step(says, "POST", "/connectors", {"name": name, "config": config, **more})


def _validate(says: str, config: dict[str, Any], plugin: str = "") -> Step:
    name = plugin or config["connector.class"]
    return Step(says, "PUT", f"/connector-plugins/{name}/config/validate", config)


def _status(name: str, state: str, tasks: int, says: str) -> Step:
    def settled(body: Any) -> bool:
        wanted = [state] * tasks
        return bool(
            "connector" in body
            and body["connector"]["state"] == state
            and [task["state"] for task in body["tasks"]] == wanted
        )

    return Step(says, "GET", f"/connectors/{name}/status", until=settled)


def _is_error(body: Any) -> bool:
    return "error_code" in body


def _without(config: dict[str, str], key: str) -> dict[str, str]:
    return {name: value for name, value in config.items() if name != key}
