"""A whole mirror between locked clusters, by a user with the rights that docs/security.md lists and no others."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import httpx
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclOperation,
    NewPartitions,
    ResourcePatternType,
    ResourceType,
)

from heliograph.embedded.nodes import LOG4J
from heliograph.embedded.ports import pick_port
from lab.clusters import eventually
from lab.commands import run_command
from lab.mirrors import Mirror, assert_copied, mesh_properties
from lab.processes import tree
from tests.contract.brokers import alter_topic, commit, committed, topic_configs
from tests.secured import SecuredCluster, start_secured_cluster
from tests.web.certificates import java_stores, make_certificates

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

PAGE = Path("docs/security.md")
USER = "mirror"
PASSWORDS = {"A": "what-A-wants-to-hear", "B": "what-B-wants-to-hear"}
STORE_PASSWORD = "what-the-stores-want"
TOPIC, GROUP = "orders", "billing"
REMOTE = f"A.{TOPIC}"
ALLOWED_IS_LOGGED = """logger.rights.name = kafka.authorizer.logger
logger.rights.level = debug
"""
ALLOWED = (
    rf"User:{USER} is Allowed operation = (\w+) .*? on resource = (\w+):LITERAL:(\S+) "
    r"for request = (?!CreateTopics)"  # which tells configs to who may see them, and works without
)
CREATED = rf"User:{USER} is Allowed operation = (CREATE) .*? on resource = (\w+):LITERAL:(\S+) "
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
KINDS = {
    "Topic": ResourceType.TOPIC,
    "Group": ResourceType.GROUP,
    "Cluster": ResourceType.BROKER,
    "TransactionalId": ResourceType.TRANSACTIONAL_ID,
}


class Right(NamedTuple):
    """A row of the page, for one operation."""

    side: str
    kind: str
    name: str
    operation: str


class Scene(NamedTuple):
    a: SecuredCluster
    b: SecuredCluster
    mirror: Mirror
    url: str


def rights() -> list[Right]:
    """Return what the page says that a mirror needs."""
    found = []
    for side in ("source", "target"):
        section = PAGE.read_text().split(f"### On the {side}\n")[1].split("\n#")[0]
        rows = re.findall(r"^\| (\w+) \| `([^`]+)` \| ([\w, ]+) \|", section, re.M)
        assert rows, f"{PAGE} has no rows for the {side}"
        for kind, name, operations in rows:
            named = name.replace("<topic>", TOPIC).replace("<group>", GROUP)
            found += [Right(side, kind, named, each) for each in operations.split(", ")]
    return found


def grant(scene_side: SecuredCluster, right: Right, *, revoke: bool = False) -> None:
    prefixed = right.name.endswith("*")
    change = scene_side.revoke if revoke else scene_side.allow
    change(
        f"User:{USER}",
        KINDS[right.kind],
        right.name.removesuffix("*"),
        AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", right.operation).upper()],
        pattern=ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL,
    )


def could_commit(a: SecuredCluster, offset: int) -> bool:
    """Commit as the group, unless its coordinator is not there yet."""
    try:
        commit(a, GROUP, TOPIC, {0: offset})
    except KafkaException:
        return False
    return True


def login(alias: str, live: SecuredCluster, trust: Path) -> dict[str, str]:
    jaas = f'{SCRAM} required username="{USER}" password="{PASSWORDS[alias]}";'
    return {
        f"{alias}.bootstrap.servers": live.address("PASSWORD"),
        f"{alias}.security.protocol": "SASL_SSL",
        f"{alias}.ssl.truststore.location": str(trust),
        f"{alias}.ssl.truststore.password": STORE_PASSWORD,
        f"{alias}.sasl.mechanism": "SCRAM-SHA-512",
        f"{alias}.sasl.jaas.config": jaas,
    }


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("secured")
    made = make_certificates(folder)
    trust, _ = java_stores(folder, made, "JKS", STORE_PASSWORD)
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr("heliograph.embedded.cluster.LOG4J", LOG4J + ALLOWED_IS_LOGGED)
        clusters = {}
        for alias in ("A", "B"):
            live = clusters[alias] = start_secured_cluster(alias, folder / alias, made)
            stack.callback(live.cluster.wipe)
            live.add_user(USER, PASSWORDS[alias])
        a, b = clusters["A"], clusters["B"]
        a.create_topic(4, {"retention.ms": "86400000"}, name=TOPIC)
        a.produce(TOPIC, [b"%d" % number for number in range(1000)])
        eventually(lambda: could_commit(a, 10))
        a.allow("User:ann", ResourceType.TOPIC, TOPIC, AclOperation.READ)
        for right in rights():
            grant(a if right.side == "source" else b, right)
        url = f"http://127.0.0.1:{pick_port()}"
        properties = {
            **mesh_properties(
                {"A": "", "B": ""},
                {"A->B": TOPIC},
                sync_group_offsets_enabled="true",
                sync_group_offsets_interval_seconds="1",
                emit_checkpoints_interval_seconds="1",
                emit_heartbeats_interval_seconds="1",
                sync_topic_configs_interval_seconds="1",
                sync_topic_acls_interval_seconds="1",
            ),
            **login("A", a, trust),
            **login("B", b, trust),
        }
        arguments = ["--listen", url.removeprefix("http://"), "--reports", str(folder / "reports")]
        mirror = Mirror(folder / "mirror", properties, arguments=arguments)
        stack.enter_context(mirror)
        yield Scene(a, b, mirror, url)


def test_a_user_with_the_listed_rights_mirrors_all(scene: Scene) -> None:
    a, b, mirror, _ = scene
    assert_copied(a, TOPIC, b, REMOTE, mirror, within=240)
    eventually(lambda: committed(b, GROUP, REMOTE), 60, mirror.tail)
    eventually(lambda: topic_configs(b, REMOTE).get("retention.ms") == "86400000", 60, mirror.tail)
    eventually(lambda: "User:ann" in b.principals(REMOTE), 60, mirror.tail)
    eventually(lambda: "A.heartbeats" in b.topics(), 60, mirror.tail)
    a.admin.create_partitions([NewPartitions(TOPIC, 5)])[TOPIC].result(timeout=30)
    eventually(lambda: b.partition_count(REMOTE) == 5, 60, mirror.tail)
    a.produce(TOPIC, [b"%d" % number for number in range(1000)])
    assert_copied(a, TOPIC, b, REMOTE, mirror, within=60)
    change_retention(a, b, mirror, "3600000")

    done = run_command("verify", "--config", str(mirror.file), "--flow", "A->B", within=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not secrets_in(done.stdout + done.stderr)
    assert not mirror.lines("AUTHORIZATION"), mirror.lines("AUTHORIZATION")


def test_every_right_on_the_page_is_made_use_of(scene: Scene) -> None:
    """A broker logs what it allows: the page lists nothing that nobody asks for."""
    logs = {"source": scene.a.cluster.log(1), "target": scene.b.cluster.log(1)}
    used = {
        side: {*re.findall(ALLOWED, log.read_text()), *re.findall(CREATED, log.read_text())}
        for side, log in logs.items()
    }

    def is_used(right: Right) -> bool:
        wanted = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", right.operation).upper()
        prefix = right.name.removesuffix("*")
        return any(
            operation == wanted
            and kind == right.kind
            and (name.startswith(prefix) if right.name.endswith("*") else name == prefix)
            for operation, kind, name in used[right.side]
        )

    unused = [right for right in rights() if not is_used(right)]
    assert not unused, "\n".join(map(str, [*unused, used]))


@pytest.mark.parametrize(
    ("right", "words"),
    [
        (
            Right("source", "Cluster", "kafka-cluster", "Describe"),
            (
                "A: cannot describe the topic ACLs",
                "Allow the mirror's user DESCRIBE on the cluster",
            ),
        ),
        (
            Right("target", "Cluster", "kafka-cluster", "Alter"),
            ("B: cannot describe the topic ACLs", "Allow the mirror's user"),
        ),
        (
            Right("source", "Topic", TOPIC, "DescribeConfigs"),
            ("A: cannot read the configuration of topic orders", "user DESCRIBE_CONFIGS on it"),
        ),
        (
            Right("target", "Topic", "A.*", "AlterConfigs"),
            ("B: topic A.orders does not get", "Allow the mirror's user ALTER_CONFIGS"),
        ),
        (
            Right("target", "Group", GROUP, "Read"),
            (GROUP, "this client may not use the group"),
        ),
    ],
    ids=lambda value: f"{value.side}-{value.kind}-{value.operation}" if len(value) == 4 else "",
)
def test_a_right_that_is_missing_is_told_by_name(
    scene: Scene, right: Right, words: tuple[str, ...]
) -> None:
    told = len(scene.mirror.lines(*words))
    live = scene.a if right.side == "source" else scene.b
    grant(live, right, revoke=True)
    try:
        commit(scene.a, GROUP, TOPIC, {0: 20 + told})
        alter_topic(scene.a, TOPIC, {"retention.ms": "7200000"})
        eventually(lambda: len(scene.mirror.lines(*words)) > told, 60, scene.mirror.tail)
    finally:
        grant(live, right)
    change_retention(scene.a, scene.b, scene.mirror, "1800000")


def change_retention(a: SecuredCluster, b: SecuredCluster, mirror: Mirror, wanted: str) -> None:
    alter_topic(a, TOPIC, {"retention.ms": wanted})
    eventually(lambda: topic_configs(b, REMOTE).get("retention.ms") == wanted, 60, mirror.tail)


def test_secrets_are_nowhere_to_be_seen(scene: Scene) -> None:
    assert secrets_in(scene.mirror.file.read_text()), "they are in the file, to begin with"
    seen = {"log": scene.mirror.text()}
    for path in readable_paths(scene.url):
        seen[path] = httpx.get(scene.url + path, timeout=30).text
    for pid in tree(scene.mirror.pid):
        for kind in ("cmdline", "environ"):
            file = Path(f"/proc/{pid}/{kind}")
            with suppress(OSError):
                seen[str(file)] = file.read_bytes().decode(errors="replace")

    assert "sasl.jaas.config" in "".join(seen.values()), "connectors show their configuration"
    assert len(seen) > 30
    assert {place: found for place, text in seen.items() if (found := secrets_in(text))} == {}


def readable_paths(url: str) -> list[str]:
    """Return every path that answers a GET, with names that exist in it; not the stream, which never ends."""
    paths = httpx.get(f"{url}/openapi.json", timeout=30).json()["paths"]
    names = {"alias": "A", "flow": quote("A->B"), "topic": TOPIC, "task": "0", "name": "none"}
    connectors = httpx.get(f"{url}/connectors", timeout=30).json()
    found = ["/connectors?expand=info&expand=status", "/metrics"]
    for path, methods in paths.items():
        if "get" not in methods or path == "/api/live":
            continue
        for connector in connectors if "{connector}" in path else [""]:
            filled = path.replace("{connector}", quote(connector))
            found.append(re.sub(r"{(\w+)[^}]*}", lambda m: names.get(m[1], "x"), filled))
    return found


def test_a_login_that_is_refused_is_told_without_its_password(scene: Scene, tmp_path: Path) -> None:
    wrong = "not-at-all-the-password"
    file = tmp_path / "mm2.properties"
    file.write_text(scene.mirror.file.read_text().replace(PASSWORDS["A"], wrong))
    done = run_command("plan", str(file), within=120)
    assert done.returncode != 0
    assert "SASL_AUTHENTICATION_FAILED" in done.stderr + done.stdout
    assert wrong not in done.stderr + done.stdout
    assert not secrets_in(done.stderr + done.stdout)


def secrets_in(text: str) -> list[str]:
    return [secret for secret in (*PASSWORDS.values(), STORE_PASSWORD) if secret in text]
