"""Every way to log in, on real brokers, by the settings of an mm2.properties: on either side and on both."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from heliograph.admin.configs import topic_configs
from heliograph.admin.topics import NewTopic, create_topics
from heliograph.config.clients import client_props, endpoint
from heliograph.errors import ClusterUnreachable, ConfigError, KafkaFault, TokenRefused
from heliograph.groups.admin import Committed, commit_offsets, fetch_committed, list_groups
from heliograph.groups.consumer import Member
from heliograph.kafka.cluster import Cluster
from heliograph.kafka.fencing import fence
from heliograph.kafka.offsets import LATEST, list_offsets
from heliograph.kafka.scan import scan
from heliograph.model import Endpoint, TopicPartition
from heliograph.tables.append import Appender
from heliograph.wire.records import decode_body
from heliograph.wire.unpack import unpack
from lab.clusters import eventually, unique_name
from tests.issuer import Issuer
from tests.secured import PASSWORD, SHORT_SESSION_MS, USER, SecuredCluster, start_secured_cluster
from tests.web.certificates import Certificates, java_stores, make_certificates, pkcs12, signed

pytestmark = pytest.mark.broker

STORE_PASSWORD = "swordfish"
SECRET = "the secret of the client"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


class Way(NamedTuple):
    """A door of the cluster and the keys that open it."""

    door: str
    keys: dict[str, str]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer(USER, SECRET) as issuer:
        yield issuer


@pytest.fixture(scope="module")
def east(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates, issuer: Issuer
) -> Iterator[SecuredCluster]:
    yield from _started("east", tmp_path_factory, certificates, issuer)


@pytest.fixture(scope="module")
def west(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates, issuer: Issuer
) -> Iterator[SecuredCluster]:
    yield from _started("west", tmp_path_factory, certificates, issuer)


def _started(
    name: str, folders: pytest.TempPathFactory, certificates: Certificates, issuer: Issuer
) -> Iterator[SecuredCluster]:
    live = start_secured_cluster(name, folders.mktemp(name), certificates, f"{issuer.url}/keys")
    try:
        live.add_user(USER, PASSWORD)
        for kind, resource in (
            (ResourceType.TOPIC, "*"),
            (ResourceType.GROUP, "*"),
            (ResourceType.BROKER, "kafka-cluster"),
            (ResourceType.TRANSACTIONAL_ID, "*"),
        ):
            live.allow("User:*", kind, resource, AclOperation.ALL)
        yield live
    finally:
        live.cluster.wipe()


@pytest.fixture(scope="module")
def ways(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates, issuer: Issuer
) -> dict[str, Way]:
    folder = tmp_path_factory.mktemp("stores")
    pem = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
    }
    mutual = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificates.client)}

    def stores(kind: str) -> dict[str, str]:
        trust, keys = java_stores(folder, certificates, kind, STORE_PASSWORD)
        return {
            "security.protocol": "SSL",
            "ssl.truststore.location": str(trust),
            "ssl.truststore.type": kind,
            "ssl.truststore.password": STORE_PASSWORD,
            "ssl.keystore.location": str(keys),
            "ssl.keystore.type": kind,
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.key.password": STORE_PASSWORD,
        }

    def login(mechanism: str, jaas: str, **more: str) -> dict[str, str]:
        return {
            **pem,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas,
            **{f"sasl.oauthbearer.{key}": value for key, value in more.items()},
        }

    user = f'required username="{USER}" password="{PASSWORD}";'
    asks = f'{BEARER} required clientId="{USER}" clientSecret="{SECRET}" scope="mirror";'
    url = {"token.endpoint.url": f"{issuer.url}/token"}
    return {
        "tls": Way("TLS", {**pem, "security.protocol": "SSL"}),
        "mutual-pem": Way("MUTUAL", {**pem, **mutual, "security.protocol": "SSL"}),
        "mutual-pkcs12": Way("MUTUAL", stores("PKCS12")),
        "mutual-jks": Way("MUTUAL", stores("JKS")),
        "plain": Way("PASSWORD", login("PLAIN", f"{PLAIN} {user}")),
        "scram-256": Way("PASSWORD", login("SCRAM-SHA-256", f"{SCRAM} {user}")),
        "scram-512": Way("PASSWORD", login("SCRAM-SHA-512", f"{SCRAM} {user}")),
        "scram-without-tls": Way(
            "OPEN",
            login("SCRAM-SHA-512", f"{SCRAM} {user}") | {"security.protocol": "SASL_PLAINTEXT"},
        ),
        "bearer-unsigned": Way(
            "UNSIGNED",
            login("OAUTHBEARER", f'{BEARER} required unsecuredLoginStringClaim_sub="{USER}";'),
        ),
        "bearer-oidc": Way("SIGNED", login("OAUTHBEARER", asks, **url)),
    }


WAYS = (
    *("tls", "mutual-pem", "mutual-pkcs12", "mutual-jks", "plain", "scram-256", "scram-512"),
    *("scram-without-tls", "bearer-unsigned", "bearer-oidc"),
)
OPEN_DOOR = Way("", {})


def reach(live: SecuredCluster, way: Way, **changes: str | None) -> Endpoint:
    keys = {**way.keys, **{key.replace("_", "."): value for key, value in changes.items()}}
    address = live.address(way.door) if way.door else live.bootstrap
    client = {"bootstrap.servers": address}
    client |= {key: value for key, value in keys.items() if value is not None}
    return endpoint(client, live.name, "test", "mm2.properties", f"{live.name}.")


@pytest.mark.parametrize("side", ["source", "target", "both"])
@pytest.mark.parametrize("name", WAYS)
def test_records_and_groups_cross_by_every_way(
    east: SecuredCluster, west: SecuredCluster, ways: dict[str, Way], name: str, side: str
) -> None:
    source = reach(east, OPEN_DOOR if side == "target" else ways[name])
    target = reach(west, OPEN_DOOR if side == "source" else ways[name])
    topic = east.create_topic()
    east.produce(topic, [b"%d" % number for number in range(100)])
    partition = TopicPartition(topic, 0)

    with closing(Cluster(source)) as reading, closing(Cluster(target)) as writing:
        assert topic in reading.describe()
        assert create_topics(writing, [NewTopic(topic, 1, 1)]).refused == {}
        eventually(lambda: west.partition_count(topic) == 1)
        fence(writing, f"fence-{topic}", [partition])
        rows = [(b"", value) for value in read(reading, partition)]
        with closing(Appender(writing, topic)) as appender:
            appender.append({0: rows})
        assert commit_offsets(writing, topic, {partition: Committed(50, "")}) == {}
        assert fetch_committed(writing, [topic])[0] == {topic: {partition: Committed(50, "")}}
        assert topic in list_groups(writing)
        assert topic_configs(writing, [topic], ["retention.ms"])
        values = read(writing, partition)
    assert values == [b"%d" % number for number in range(100)]


def read(cluster: Cluster, partition: TopicPartition) -> list[bytes | None]:
    end = list_offsets(cluster, [partition], LATEST)[partition]
    batches = scan(cluster, {partition: (0, end)}, committed_only=True, on_gap=_no_gap)
    return [decode_body(record.body).value for _, batch in batches for record in unpack(batch)]


def _no_gap(partition: TopicPartition, start: int, end: int) -> None:
    raise AssertionError(f"{partition}: {start} to {end} are gone")


@pytest.mark.parametrize("name", ["mutual-jks", "scram-512", "bearer-unsigned", "bearer-oidc"])
def test_an_application_of_the_client_logs_in_the_same_way(
    east: SecuredCluster, ways: dict[str, Way], name: str
) -> None:
    topic = east.create_topic()
    east.produce(topic, [b"one"])
    found = reach(east, ways[name])
    options = {"auto_offset_reset": "earliest"}
    with closing(
        Member(found, unique_name(), [topic], options, within=timedelta(seconds=20))
    ) as member:
        records = eventually(lambda: member.poll(timedelta(seconds=1), 10))
    assert [record.value for record in records] == [b"one"]


def test_a_certificate_for_another_host_is_refused_unless_told(
    east: SecuredCluster, ways: dict[str, Way]
) -> None:
    tls = Way("ELSEWHERE", ways["tls"].keys)
    with (
        closing(Cluster(reach(east, tls))) as cluster,
        pytest.raises(ClusterUnreachable, match=r"is not believed \(.*mismatch.*truststore"),
    ):
        cluster.describe()
    unchecked = reach(east, tls, ssl_endpoint_identification_algorithm="")
    with closing(Cluster(unchecked)) as cluster:
        assert cluster.cluster_id()


def test_an_authority_that_is_not_ours_is_refused(
    east: SecuredCluster, ways: dict[str, Way], tmp_path: Path
) -> None:
    other = make_certificates(tmp_path)
    found = reach(east, ways["tls"], ssl_truststore_location=str(other.authority))
    with (
        closing(Cluster(found)) as cluster,
        pytest.raises(ClusterUnreachable, match="not believed"),
    ):
        cluster.describe()


@pytest.mark.parametrize("versions", ["TLSv1.2", "TLSv1.3"])
def test_either_version_of_tls_serves(
    east: SecuredCluster, ways: dict[str, Way], versions: str
) -> None:
    with closing(Cluster(reach(east, ways["tls"], ssl_enabled_protocols=versions))) as cluster:
        assert cluster.cluster_id()


def test_a_renewed_client_certificate_is_used_by_the_next_connection(
    east: SecuredCluster, ways: dict[str, Way], certificates: Certificates, tmp_path: Path
) -> None:
    folder = tmp_path / "strangers"
    folder.mkdir()
    stranger = make_certificates(folder)
    store = pkcs12(tmp_path / "keys.p12", stranger.client, STORE_PASSWORD)
    found = reach(
        east,
        ways["mutual-pkcs12"],
        ssl_keystore_location=str(store),
        ssl_keystore_password=STORE_PASSWORD,
    )
    with closing(Cluster(found)) as cluster:
        with pytest.raises(ClusterUnreachable):
            cluster.describe()
        renewed = signed(certificates.authority.parent, "renewed")
        pkcs12(tmp_path / "new.p12", renewed, STORE_PASSWORD).replace(store)
        assert cluster.cluster_id()


@pytest.mark.parametrize(
    ("name", "jaas", "answered"),
    [
        ("plain", f'{PLAIN} required username="{USER}" password="a guess";', "SASL_AUTH"),
        ("scram-512", f'{SCRAM} required username="{USER}" password="a guess";', "SASL_AUTH"),
        ("scram-256", f'{SCRAM} required username="nobody" password="a guess";', "SASL_AUTH"),
    ],
)
def test_a_wrong_password_is_told_without_showing_it(
    east: SecuredCluster, ways: dict[str, Way], name: str, jaas: str, answered: str
) -> None:
    found = reach(east, ways[name], sasl_jaas_config=jaas)
    with closing(Cluster(found)) as cluster, pytest.raises(KafkaFault, match=answered) as told:
        cluster.describe()
    assert "a guess" not in repr(told.value) + str(told.value)
    assert found.cluster in repr(found)
    assert "a guess" not in repr(found)


def test_a_mechanism_that_a_broker_does_not_offer_is_told_with_those_it_does(
    east: SecuredCluster, ways: dict[str, Way]
) -> None:
    found = reach(east, Way("PASSWORD", ways["bearer-unsigned"].keys))
    with closing(Cluster(found)) as cluster, pytest.raises(KafkaFault, match="offers PLAIN, SCRAM"):
        cluster.describe()


def test_kerberos_says_what_it_lacks(east: SecuredCluster, ways: dict[str, Way]) -> None:
    found = reach(east, ways["plain"], sasl_mechanism="GSSAPI", sasl_jaas_config=None)
    with closing(Cluster(found)) as cluster, pytest.raises((ConfigError, KafkaFault)) as told:
        cluster.describe()
    assert "GSSAPI" in str(told.value)


def test_a_token_that_nobody_signed_is_refused_where_signed_ones_are_asked_for(
    east: SecuredCluster, ways: dict[str, Way]
) -> None:
    found = reach(east, Way("SIGNED", ways["bearer-unsigned"].keys))
    with closing(Cluster(found)) as cluster, pytest.raises(KafkaFault, match="SASL_AUTH"):
        cluster.describe()


@pytest.mark.parametrize(
    ("status", "again"), [(200, None), (503, True), (403, False)], ids=["wrong", "busy", "never"]
)
def test_an_identity_provider_that_says_no_is_told_without_the_secret(
    east: SecuredCluster, ways: dict[str, Way], issuer: Issuer, status: int, again: bool | None
) -> None:
    secret = "a guess" if again is None else SECRET
    jaas = f'{BEARER} required clientId="{USER}" clientSecret="{secret}" scope="{status}";'
    found = reach(east, ways["bearer-oidc"], sasl_jaas_config=jaas)
    issuer.status = status
    try:
        with closing(Cluster(found)) as cluster, pytest.raises(TokenRefused) as told:
            cluster.describe()
    finally:
        issuer.status = 200
    assert told.value.retriable is bool(again)
    assert "/token answered status" in str(told.value)
    assert secret not in str(told.value) + repr(told.value)


@pytest.mark.parametrize("name", ["plain", "scram-512"])
def test_a_session_that_ends_is_followed_by_another_while_batches_fly(
    east: SecuredCluster, ways: dict[str, Way], name: str
) -> None:
    found = reach(east, Way("SHORT", ways[name].keys))
    topic = east.create_topic()
    partition = TopicPartition(topic, 0)
    written: list[bytes] = []
    with closing(Cluster(found)) as cluster, closing(Appender(cluster, topic)) as appender:
        node = cluster.nodes()[0]
        first = cluster.channel(node)
        until = time.monotonic() + 3 * SHORT_SESSION_MS / 1000
        while time.monotonic() < until:
            rows = [b"%d" % number for number in range(len(written), len(written) + 100)]
            appender.append({0: [(b"", value) for value in rows]})
            written += rows
        assert cluster.channel(node) is not first, (
            "batches wait for no login: another connection has one"
        )
        assert read(cluster, partition) == written
        kept = cluster.channel(node)
        eventually(_later(2 * SHORT_SESSION_MS / 1000))  # longer than a session, and nobody calls
        assert cluster.describe([topic])
        assert list_offsets(cluster, [partition], LATEST) == {partition: len(written)}
        assert cluster.channel(node) is kept, "what is called for one by one logs in again"


def _later(seconds: float) -> Callable[[], bool]:
    at = time.monotonic() + seconds
    return lambda: time.monotonic() >= at


def test_a_role_of_a_cluster_and_a_flow_may_have_a_login_of_its_own(
    east: SecuredCluster, ways: dict[str, Way]
) -> None:
    """What a connector reads: `source.cluster.*`, under it `consumer.*`, above both `source.consumer.*`."""
    wrong = f'{SCRAM} required username="{USER}" password="a guess";'
    props = {
        "source.cluster.bootstrap.servers": east.address("PASSWORD"),
        **{f"source.cluster.{key}": value for key, value in ways["scram-512"].keys.items()},
        "source.consumer.sasl.jaas.config": wrong,
    }

    def ask(side_props: Mapping[str, str]) -> str:
        found = endpoint(side_props, "east", "test", "mm2.properties", "east.")
        with closing(Cluster(found)) as cluster:
            return cluster.cluster_id()

    assert ask(client_props(props, "source", "admin"))
    with pytest.raises(KafkaFault, match="SASL_AUTHENTICATION_FAILED"):
        ask(client_props(props, "source", "consumer"))
