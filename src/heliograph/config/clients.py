"""From a connector's properties to the endpoints its clients use.

A client's own settings are, from weakest to strongest: `source.cluster.*` as far as they say how to
reach the cluster, `consumer.*`, `source.consumer.*`; likewise for target, producer and admin.
"""

from collections.abc import Mapping
from typing import Literal

from heliograph.config.fields import Field, NotAllowed, invalid
from heliograph.config.jaas import parse_jaas
from heliograph.config.mistakes import MissingSetting
from heliograph.config.settings import CLIENT_KEYS
from heliograph.config.settings_own import AUTO_OFFSET_RESET
from heliograph.config.settings_security import (
    BOOTSTRAP_SERVERS,
    SASL_JAAS_CONFIG,
    SASL_MECHANISM,
    SECURITY,
    SECURITY_PROTOCOL,
    SSL_CIPHER_SUITES,
    SSL_ENABLED_PROTOCOLS,
    SSL_ENDPOINT_IDENTIFICATION,
    SSL_KEY_PASSWORD,
    SSL_KEYSTORE_CHAIN,
    SSL_KEYSTORE_KEY,
    SSL_KEYSTORE_LOCATION,
    SSL_KEYSTORE_PASSWORD,
    SSL_KEYSTORE_TYPE,
    SSL_TRUSTSTORE_CERTIFICATES,
    SSL_TRUSTSTORE_LOCATION,
    SSL_TRUSTSTORE_PASSWORD,
    SSL_TRUSTSTORE_TYPE,
)
from heliograph.model import Endpoint, Sasl, Tls

Side = Literal["source", "target"]
Role = Literal["consumer", "producer", "admin"]

_NEEDS_LOGIN = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MECHANISMS = (*_NEEDS_LOGIN, "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM")


def strip_prefix(props: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key[len(prefix) :]: props[key] for key in props if key.startswith(prefix)}


def client_props(props: Mapping[str, str], side: Side, role: Role) -> dict[str, str]:
    """Return what one client of a connector is configured with."""
    cluster = strip_prefix(props, f"{side}.cluster.")
    client = {key: value for key, value in cluster.items() if key in CLIENT_KEYS}
    client |= strip_prefix(props, f"{role}.")
    # consumer.poll.timeout.ms and admin.timeout.ms are the connector's, whatever they look like.
    client.pop("poll.timeout.ms" if role == "consumer" else "timeout.ms", None)
    client |= strip_prefix(props, f"{side}.{role}.")
    if role == "consumer":
        client["enable.auto.commit"] = "false"
        client.setdefault(AUTO_OFFSET_RESET.name, AUTO_OFFSET_RESET.default)
    return client


def endpoint(
    client: Mapping[str, str], cluster: str, client_id: str, file: str, prefix: str
) -> Endpoint:
    """Return how to reach a cluster; `prefix` is how `file` writes that cluster's keys."""
    if BOOTSTRAP_SERVERS.name not in client:
        raise MissingSetting(
            file, prefix + BOOTSTRAP_SERVERS.name, "brokers to ask first, as host:port,host:port"
        )
    bootstrap = _bootstrap(client)
    for field in SECURITY:
        field.read(client)
    protocol = SECURITY_PROTOCOL.read(client)
    own_id = client.get("client.id")
    return Endpoint(
        cluster=cluster,
        bootstrap=bootstrap,
        client_id=f"{own_id}|{client_id}" if own_id else client_id,
        tls=read_tls(client) if protocol in ("SSL", "SASL_SSL") else None,
        sasl=_sasl(client, file, prefix) if protocol.startswith("SASL_") else None,
    )


def _bootstrap(client: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    servers = tuple(server for server in BOOTSTRAP_SERVERS.read(client) if server)
    raw = client[BOOTSTRAP_SERVERS.name]
    if not servers:
        raise invalid(BOOTSTRAP_SERVERS.name, raw, "at least one host:port")
    return tuple(_host_and_port(raw, server) for server in servers)


def _host_and_port(raw: str, server: str) -> tuple[str, int]:
    key = BOOTSTRAP_SERVERS.name
    if "://" in server:
        protocol = server.split("://", 1)[0]
        raise invalid(
            key, raw, f"host:port without {protocol}://; security.protocol={protocol} says the rest"
        )
    host, colon, port = server.rpartition(":")
    if not colon or not host:
        raise invalid(key, raw, "every server is host:port, and one has no port")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise invalid(key, raw, "every server is host:port with a port from 1 to 65535")
    bare = host.removeprefix("[").removesuffix("]")
    if ":" in bare and bare == host:
        raise invalid(key, raw, "an IPv6 address stands in brackets, as [::1]:9092")
    return bare, int(port)


def read_tls(client: Mapping[str, str]) -> Tls:
    """Return what the `ssl.*` keys say."""

    def text(field: Field[str | None]) -> str | None:
        found = field.read(client)
        return None if found is None else str(found)

    return Tls(
        truststore_location=text(SSL_TRUSTSTORE_LOCATION),
        truststore_type=SSL_TRUSTSTORE_TYPE.read(client).strip().upper(),
        truststore_password=text(SSL_TRUSTSTORE_PASSWORD),
        truststore_certificates=text(SSL_TRUSTSTORE_CERTIFICATES),
        keystore_location=text(SSL_KEYSTORE_LOCATION),
        keystore_type=SSL_KEYSTORE_TYPE.read(client).strip().upper(),
        keystore_password=text(SSL_KEYSTORE_PASSWORD),
        keystore_key=text(SSL_KEYSTORE_KEY),
        keystore_certificate_chain=text(SSL_KEYSTORE_CHAIN),
        key_password=text(SSL_KEY_PASSWORD),
        check_hostname=bool(SSL_ENDPOINT_IDENTIFICATION.read(client)),
        protocols=tuple(SSL_ENABLED_PROTOCOLS.read(client)) or SSL_ENABLED_PROTOCOLS.default,
        cipher_suites=tuple(SSL_CIPHER_SUITES.read(client)),
    )


def _sasl(client: Mapping[str, str], file: str, prefix: str) -> Sasl:
    """Return the login: the JAAS options, then other `sasl.*` keys under their full names."""
    mechanism = SASL_MECHANISM.read(client).strip().upper()
    if mechanism not in _MECHANISMS:
        raise invalid(
            SASL_MECHANISM.name, client[SASL_MECHANISM.name], f"one of {', '.join(_MECHANISMS)}"
        )
    raw = client.get(SASL_JAAS_CONFIG.name)
    options: tuple[tuple[str, str], ...] = ()
    if raw is not None:
        try:
            options = parse_jaas(raw).options
        except NotAllowed as exc:
            raise invalid(SASL_JAAS_CONFIG.name, raw, str(exc)) from None
    elif mechanism in _NEEDS_LOGIN:
        key = prefix + SASL_JAAS_CONFIG.name
        raise MissingSetting(file, key, f"{mechanism} needs a user and a password")
    others = tuple(
        (key, str(value))
        for key, value in sorted(client.items())
        if key.startswith("sasl.") and key not in (SASL_JAAS_CONFIG.name, SASL_MECHANISM.name)
    )
    of_tokens = {key: value for key, value in options if key.startswith("ssl.")}
    return Sasl(mechanism, options + others, read_tls(of_tokens) if of_tokens else None)
