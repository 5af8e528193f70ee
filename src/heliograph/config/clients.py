"""From a connector's properties to the endpoints its clients use.

A client's own settings are, from weakest to strongest: `source.cluster.*` as far as they say how to
reach the cluster, `consumer.*`, `source.consumer.*`; likewise for target, producer and admin.
"""

from collections.abc import Mapping
from typing import Literal

from heliograph.config.fields import NotAllowed, invalid
from heliograph.config.jaas import parse_jaas
from heliograph.config.mistakes import MissingSetting
from heliograph.config.settings import CLIENT_KEYS
from heliograph.config.settings_own import ReadSettings
from heliograph.config.settings_security import (
    BootstrapSettings,
    ClientSettings,
    SecurityProtocol,
)
from heliograph.model import Endpoint, Sasl, Tls

Side = Literal["source", "target"]
Role = Literal["consumer", "producer", "admin"]

_WITH_TLS = (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)
_WITH_LOGIN = (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
_SERVERS = BootstrapSettings.servers
_NEEDS_LOGIN = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MECHANISMS = (*_NEEDS_LOGIN, "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM")


def strip_prefix(props: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key[len(prefix) :]: props[key] for key in props if key.startswith(prefix)}


def client_props(props: Mapping[str, str], side: Side, role: Role) -> dict[str, str]:
    """Return what one client of a connector is configured with."""
    cluster = strip_prefix(props, f"{side}.cluster.")
    client = {key: value for key, value in cluster.items() if key in CLIENT_KEYS}
    client |= strip_prefix(props, f"{role}.")
    # consumer.poll.timeout.ms and admin.timeout.ms are the connector's, despite their names.
    client.pop("poll.timeout.ms" if role == "consumer" else "timeout.ms", None)
    client |= strip_prefix(props, f"{side}.{role}.")
    if role == "consumer":
        client["enable.auto.commit"] = "false"
        reset = ReadSettings.auto_offset_reset
        client.setdefault(reset.name, reset.default)
    return client


def endpoint(
    client: Mapping[str, str], cluster: str, client_id: str, file: str, prefix: str
) -> Endpoint:
    """Return how to reach a cluster; `prefix` is how `file` writes that cluster's keys."""
    if _SERVERS.name not in client:
        raise MissingSetting(
            file, prefix + _SERVERS.name, "brokers to ask first, as host:port,host:port"
        )
    bootstrap = _bootstrap(client)
    protocol = ClientSettings(client).security_protocol
    own_id = client.get("client.id")
    return Endpoint(
        cluster=cluster,
        bootstrap=bootstrap,
        client_id=f"{own_id}|{client_id}" if own_id else client_id,
        tls=read_tls(client) if protocol in _WITH_TLS else None,
        sasl=_sasl(client, file, prefix) if protocol in _WITH_LOGIN else None,
    )


def _bootstrap(client: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    servers = tuple(server for server in _SERVERS.read(client) if server)
    raw = client[_SERVERS.name]
    if not servers:
        raise invalid(_SERVERS.name, raw, "at least one host:port")
    return tuple(_host_and_port(raw, server) for server in servers)


def _host_and_port(raw: str, server: str) -> tuple[str, int]:
    key = _SERVERS.name
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
    ssl = ClientSettings(client)
    return Tls(
        truststore_location=_plain(ssl.ssl_truststore_location),
        truststore_type=ssl.ssl_truststore_type.strip().upper(),
        truststore_password=_plain(ssl.ssl_truststore_password),
        truststore_certificates=_plain(ssl.ssl_truststore_certificates),
        keystore_location=_plain(ssl.ssl_keystore_location),
        keystore_type=ssl.ssl_keystore_type.strip().upper(),
        keystore_password=_plain(ssl.ssl_keystore_password),
        keystore_key=_plain(ssl.ssl_keystore_key),
        keystore_certificate_chain=_plain(ssl.ssl_keystore_certificate_chain),
        key_password=_plain(ssl.ssl_key_password),
        check_hostname=bool(ssl.ssl_endpoint_identification_algorithm),
        protocols=ssl.ssl_enabled_protocols or ClientSettings.ssl_enabled_protocols.default,
        cipher_suites=ssl.ssl_cipher_suites,
    )


def _plain(value: str | None) -> str | None:
    """Return a value without its origin, which is not for tasks."""
    return None if value is None else str(value)


def _sasl(client: Mapping[str, str], file: str, prefix: str) -> Sasl:
    """Return the login: the JAAS options, then other `sasl.*` keys under their full names."""
    mechanism = ClientSettings.sasl_mechanism.read(client).strip().upper()
    if mechanism not in _MECHANISMS:
        raise invalid(
            ClientSettings.sasl_mechanism.name,
            client[ClientSettings.sasl_mechanism.name],
            f"one of {', '.join(_MECHANISMS)}",
        )
    raw = client.get(ClientSettings.sasl_jaas_config.name)
    options: tuple[tuple[str, str], ...] = ()
    if raw is not None:
        try:
            options = parse_jaas(raw).options
        except NotAllowed as exc:
            raise invalid(ClientSettings.sasl_jaas_config.name, raw, str(exc)) from None
    elif mechanism in _NEEDS_LOGIN:
        key = prefix + ClientSettings.sasl_jaas_config.name
        raise MissingSetting(file, key, f"{mechanism} needs a user and a password")
    others = tuple(
        (key, str(value))
        for key, value in sorted(client.items())
        if key.startswith("sasl.")
        and key not in (ClientSettings.sasl_jaas_config.name, ClientSettings.sasl_mechanism.name)
    )
    of_tokens = {key: value for key, value in options if key.startswith("ssl.")}
    return Sasl(mechanism, options + others, read_tls(of_tokens) if of_tokens else None)
