from pathlib import Path

import pytest

from heliograph.config.clients import Role, Side, client_props, endpoint
from heliograph.config.fields import NotAllowed
from heliograph.config.jaas import parse_jaas
from heliograph.config.mirror import load_mirror
from heliograph.errors import ConfigError
from heliograph.model import Endpoint, Sasl, Tls

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "

LOGINS = [
    (PLAIN + 'username="ann" password="s3cret";', (("username", "ann"), ("password", "s3cret"))),
    (PLAIN + "username='ann' password=plain ;", (("username", "ann"), ("password", "plain"))),
    (PLAIN + r'password="a\"b\\c\n\101";', (("password", 'a"b\\c\nA'),)),
    (PLAIN + 'password="semi;colon = // kept";', (("password", "semi;colon = // kept"),)),
    ("software.amazon.msk.auth.iam.IAMLoginModule required;", ()),
    ("a.B$C REQUIRED\n  /* who */ use-it=true\n// end\n;", (("use-it", "true"),)),
]


@pytest.mark.parametrize(("line", "options"), LOGINS)
def test_a_login_reads_as_java_reads_it(line: str, options: tuple[tuple[str, str], ...]) -> None:
    assert parse_jaas(line).options == options


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('username="ann" password="hunter2";', "after the login module comes one of required"),
        (PLAIN + 'password="hunter2"', "the semicolon at its end is missing"),
        (PLAIN + 'password "hunter2";', "option 1 is not of the form"),
        (PLAIN + 'password="hunter2"; ' + PLAIN + ";", "it holds one login module"),
        (PLAIN + 'password="hunter2;', "character 75 does not belong there"),
        ("", "after the login module"),
    ],
)
def test_a_broken_login_is_explained_but_not_shown(line: str, message: str) -> None:
    with pytest.raises(NotAllowed) as caught:
        parse_jaas(line)
    assert str(caught.value).startswith(message)
    assert "hunter2" not in str(caught.value)


def reach(**client: str) -> Endpoint:
    props = {key.replace("_", "."): value for key, value in client.items()}
    return endpoint({"bootstrap.servers": "h:1"} | props, "A", "id", "mm2.properties", "A.")


def test_a_plain_endpoint_has_no_tls_and_no_login() -> None:
    found = reach(bootstrap_servers=" a:9092 , b:9093,[::1]:9094, ", ssl_key_password="x")
    assert found == Endpoint("A", (("a", 9092), ("b", 9093), ("::1", 9094)), "id")


@pytest.mark.parametrize(
    ("servers", "allowed"),
    [
        ("kafka", "every server is host:port, and one has no port"),
        ("a:9092,b", "every server is host:port, and one has no port"),
        (":9092", "every server is host:port, and one has no port"),
        ("a:nine", "every server is host:port with a port from 1 to 65535"),
        ("a:70000", "every server is host:port with a port from 1 to 65535"),
        ("SSL://a:9092", "host:port without SSL://; security.protocol=SSL says the rest"),
        ("::1:9092", "an IPv6 address stands in brackets, as [::1]:9092"),
        (" ", "at least one host:port"),
    ],
)
def test_a_bad_server_is_explained(servers: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        reach(bootstrap_servers=servers)
    assert str(caught.value) == f"bootstrap.servers={servers.strip()}: {allowed}."


def test_tls_follows_the_protocol_in_any_case() -> None:
    found = reach(
        security_protocol="ssl",
        ssl_truststore_location="/t.p12",
        ssl_truststore_type="pkcs12",
        ssl_truststore_password="pw ",
        ssl_endpoint_identification_algorithm="",
    )
    assert found.tls == Tls("/t.p12", "PKCS12", "pw ", check_hostname=False)
    assert found.sasl is None


def test_a_login_carries_its_options_and_the_other_sasl_keys() -> None:
    found = reach(
        security_protocol="SASL_SSL",
        sasl_mechanism="scram-sha-512",
        sasl_jaas_config='x.Scram required username="u" password="p";',
        sasl_login_class="x",
    )
    options = (("username", "u"), ("password", "p"), ("sasl.login.class", "x"))
    assert found.sasl == Sasl("SCRAM-SHA-512", options)
    assert found.tls == Tls()


@pytest.mark.parametrize(
    ("client", "message"),
    [
        (
            {"security_protocol": "TLS"},
            "security.protocol=TLS: one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL.",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"},
            "mm2.properties: A.sasl.jaas.config is missing: PLAIN needs a user and a password.",
        ),
        (
            {"security_protocol": "SSL", "ssl_endpoint_identification_algorithm": "none"},
            "ssl.endpoint.identification.algorithm=none: https, or empty to accept a certificate for any host.",
        ),
    ],
)
def test_a_bad_client_setting_is_explained(client: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        reach(**client)
    assert str(caught.value) == message


def test_the_more_exact_prefix_wins_for_a_client() -> None:
    props = {
        "source.cluster.bootstrap.servers": "a:1",
        "source.cluster.client.id": "not a client key",
        "source.cluster.sasl.mechanism": "PLAIN",
        "consumer.sasl.mechanism": "GSSAPI",
        "consumer.max.poll.records": "1",
        "source.consumer.max.poll.records": "2",
        "consumer.poll.timeout.ms": "5",
        "source.consumer.enable.auto.commit": "true",
        "target.consumer.x": "y",
        "admin.timeout.ms": "7",
    }
    assert client_props(props, "source", "consumer") == {
        "bootstrap.servers": "a:1",
        "sasl.mechanism": "GSSAPI",
        "max.poll.records": "2",
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
    }
    assert client_props(props, "source", "admin") == {
        "bootstrap.servers": "a:1",
        "sasl.mechanism": "PLAIN",
    }


def test_an_own_client_id_comes_first() -> None:
    assert reach(client_id="mine").client_id == "mine|id"


@pytest.mark.parametrize(
    ("side", "role"),
    [
        ("source", "consumer"),
        ("target", "consumer"),
        ("source", "producer"),
        ("target", "producer"),
        ("source", "admin"),
        ("target", "admin"),
    ],
)
def test_a_client_takes_the_keys_of_its_role_and_those_of_its_side(side: Side, role: Role) -> None:
    other: Side = "target" if side == "source" else "source"
    props = {
        f"{side}.cluster.bootstrap.servers": "h:1",
        f"{other}.cluster.bootstrap.servers": "h:2",
        f"{role}.by.role": "1",
        f"{side}.{role}.by.side": "2",
        f"{other}.{role}.of.the.other": "3",
    }
    forced = {"enable.auto.commit": "false", "auto.offset.reset": "earliest"}
    expected = {"bootstrap.servers": "h:1", "by.role": "1", "by.side": "2"}
    assert client_props(props, side, role) == expected | (forced if role == "consumer" else {})


@pytest.mark.parametrize("prefix", ["consumer.", "source.consumer."])
def test_a_consumer_may_begin_at_the_end_but_never_commits(prefix: str) -> None:
    props = {f"{prefix}auto.offset.reset": "latest", f"{prefix}enable.auto.commit": "true"}
    found = client_props(props, "source", "consumer")
    assert (found["auto.offset.reset"], found["enable.auto.commit"]) == ("latest", "false")


@pytest.mark.parametrize(
    ("key", "consumer", "admin"),
    [
        ("", "cluster", "cluster"),
        ("A.consumer.", "own", "cluster"),
        ("A.admin.", "cluster", "own"),
        ("A->B.source.consumer.", "own", "cluster"),
        ("A->B.source.admin.", "cluster", "own"),
        ("A->B.consumer.", "cluster", "cluster"),  # MirrorMaker's order: below A.
        ("A->B.source.cluster.", "cluster", "cluster"),
    ],
)
def test_a_kind_of_client_may_have_a_login_of_its_own_per_cluster_and_per_flow(
    tmp_path: Path, key: str, consumer: str, admin: str
) -> None:
    def login(name: str) -> str:
        return f'sasl.jaas.config = x.Plain required username="{name}" password="p";\n'

    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n"
        "A->B.enabled = true\nA.security.protocol = SASL_SSL\nA.sasl.mechanism = PLAIN\n"
        f"A.{login('cluster')}" + (f"{key}{login('own')}" if key else "")
    )
    config = next(each for each in load_mirror(file).flows if str(each.flow) == "A->B")

    assert config.source.sasl is not None
    assert config.source_admin.sasl is not None
    assert dict(config.source.sasl.options)["username"] == consumer
    assert dict(config.source_admin.sasl.options)["username"] == admin
    assert config.target.sasl is None


def test_what_gets_tokens_may_have_certificates_of_its_own() -> None:
    found = reach(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_jaas_config='x.Bearer required clientId="c" ssl.truststore.location="/t" '
        'ssl.truststore.type="PEM";',
    )
    assert found.sasl is not None
    assert found.sasl.tls == Tls("/t", "PEM")
    assert found.tls is None


def test_a_mechanism_that_nobody_knows_is_told_with_those_there_are() -> None:
    with pytest.raises(
        ConfigError, match=r"sasl\.mechanism=DIGEST-MD5: one of PLAIN, SCRAM-SHA-256"
    ):
        reach(security_protocol="SASL_SSL", sasl_mechanism="DIGEST-MD5")
