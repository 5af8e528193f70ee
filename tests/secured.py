"""A cluster with a door for each way to log in, and one without a lock for the test itself.

Whoever comes by a locked door may do only what ACLs allow. The test's own door, on which the brokers
also talk to each other, makes everybody ANONYMOUS, who is a super user.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from heliograph.embedded.cluster import start_cluster
from heliograph.embedded.ports import LOOPBACK, pick_port
from lab.clusters import LiveCluster, eventually
from tests.web.certificates import Certificates, signed

USER = "mirror"
PASSWORD = "open sesame, said she=he"
SHORT_SESSION_MS = 1500

_LOGINS = "org.apache.kafka.common.security."
_TLS = "SSL"
_SASL = "SASL_SSL"


@dataclass(frozen=True, slots=True)
class Door:
    """A listener: its name, its protocol, and what its settings are, `listener.name.x.` left out."""

    name: str
    protocol: str
    config: Mapping[str, str]


def doors(elsewhere: Path, keys_url: str | None) -> list[Door]:
    plain = f'{_LOGINS}plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    scram = f"{_LOGINS}scram.ScramLoginModule required;"
    bearer = f"{_LOGINS}oauthbearer.OAuthBearerLoginModule required"
    passwords = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "plain.sasl.jaas.config": plain,
        "scram-sha-256.sasl.jaas.config": scram,
        "scram-sha-512.sasl.jaas.config": scram,
    }
    unsigned = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "oauthbearer.sasl.jaas.config": f'{bearer} unsecuredLoginStringClaim_sub="broker";',
    }
    signed_tokens = (
        {}
        if keys_url is None
        else {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "oauthbearer.sasl.jaas.config": f"{bearer};",
            "oauthbearer.sasl.server.callback.handler.class": (
                f"{_LOGINS}oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
            "sasl.oauthbearer.jwks.endpoint.url": keys_url,
            "sasl.oauthbearer.expected.audience": "kafka",
        }
    )
    short = {
        f"{mechanism}.connections.max.reauth.ms": str(SHORT_SESSION_MS)
        for mechanism in ("plain", "scram-sha-256", "scram-sha-512")
    }
    with_keys = [Door("SIGNED", _SASL, signed_tokens)] if signed_tokens else []
    return [
        Door("TLS", _TLS, {}),
        Door("MUTUAL", _TLS, {"ssl.client.auth": "required"}),
        Door("ELSEWHERE", _TLS, {"ssl.keystore.location": str(elsewhere)}),
        Door("PASSWORD", _SASL, passwords),
        Door("OPEN", "SASL_PLAINTEXT", passwords),
        Door("SHORT", _SASL, passwords | short),
        Door("UNSIGNED", _SASL, unsigned),
        *with_keys,
    ]


class SecuredCluster(LiveCluster):
    """Reached by `address(door)`; all that a LiveCluster does goes by the open door."""

    ports: dict[str, int]

    def address(self, door: str) -> str:
        return f"{LOOPBACK}:{self.ports[door]}"

    def allow(
        self,
        principal: str,
        kind: ResourceType,
        name: str,
        operation: AclOperation,
        *,
        pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    ) -> None:
        binding = AclBinding(
            kind, name, pattern, principal, "*", operation, AclPermissionType.ALLOW
        )
        self.admin.create_acls([binding])[binding].result(timeout=30)

    def revoke(
        self,
        principal: str,
        kind: ResourceType,
        name: str,
        operation: AclOperation,
        *,
        pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    ) -> None:
        """Take back what was allowed."""
        chosen = AclBindingFilter(
            kind, name, pattern, principal, "*", operation, AclPermissionType.ALLOW
        )
        assert len(self.admin.delete_acls([chosen])[chosen].result(timeout=30)) == 1

    def principals(self, topic: str) -> set[str]:
        """Return who has an ACL on a topic of exactly that name."""
        chosen = AclBindingFilter(
            *(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, None, None),
            *(AclOperation.ANY, AclPermissionType.ANY),
        )
        return {found.principal for found in self.admin.describe_acls(chosen).result(timeout=30)}

    def add_user(self, name: str, password: str) -> None:
        """Let a user log in by SCRAM."""
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            change = UserScramCredentialUpsertion(name, info, password.encode())
            self.admin.alter_user_scram_credentials([change])[name].result(timeout=30)
        eventually(
            lambda: (
                len(
                    self.admin.describe_user_scram_credentials([name])[name]
                    .result(timeout=30)
                    .scram_credential_infos
                )
                == 2
            )
        )


def start_secured_cluster(
    name: str, folder: Path, made: Certificates, keys_url: str | None = None
) -> SecuredCluster:
    """Start one broker, with a door for signed tokens if it is told where their keys are; the caller wipes it."""
    elsewhere = made.authority.parent / "elsewhere.pem"
    if not elsewhere.exists():
        signed(made.authority.parent, "elsewhere", "DNS:elsewhere.example")
    every = doors(elsewhere, keys_url)
    own, controller, *rest = _pick_ports(len(every) + 2)
    ports = dict(zip((door.name for door in every), rest, strict=True))
    listeners = [f"CLIENT://{LOOPBACK}:{own}"]
    listeners += [f"{door}://{LOOPBACK}:{port}" for door, port in ports.items()]
    kinds = ["CLIENT:PLAINTEXT", "CONTROLLER:PLAINTEXT"]
    kinds += [f"{door.name}:{door.protocol}" for door in every]
    config = {
        "listeners": ",".join([*listeners, f"CONTROLLER://{LOOPBACK}:{controller}"]),
        "advertised.listeners": ",".join(listeners),
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
        "listener.security.protocol.map": ",".join(kinds),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(made.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(made.authority),
    }
    for door in every:
        prefix = f"listener.name.{door.name.lower()}."
        config |= {f"{prefix}{key}": value for key, value in door.config.items()}
    with _java_believes(keys_url or ""):
        started = start_cluster(name, port=own, data_root=folder, config=config)
    live = SecuredCluster(started)
    live.ports = ports
    return live


def _pick_ports(count: int) -> list[int]:
    ports: list[int] = []
    while len(ports) < count:
        ports.append(pick_port(taken=ports))
    return ports


@contextmanager
def _java_believes(url: str) -> Iterator[None]:
    """Let a broker fetch the keys of tokens from `url`, which it refuses unless its JVM is told."""
    name = "JAVA_TOOL_OPTIONS"
    before = os.environ.get(name)
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"
    os.environ[name] = f"{before} {allowed}" if before else allowed
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
