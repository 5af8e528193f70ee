"""The client's half of each SASL mechanism: what to send, and what an answer means.

A login is a generator. It yields what to send and receives the answer; it ends once the broker needs no
more. If it raises Refused, the broker is not what it claims to be.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Generator
from typing import Final

from kafka.errors import KafkaConfigurationError
from kafka.net.sasl import get_sasl_mechanism

from heliograph.errors import ConfigError
from heliograph.model import Sasl
from heliograph.net.tokens import Token, token_for

Login = Generator[bytes, bytes, None]

_SCRAM: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_LEAST_ROUNDS = 4096  # Kafka's own minimum; fewer would let a false broker learn the password
_MOST_ROUNDS = 1_000_000


class Refused(Exception):
    """An answer that an honest broker does not give."""


def log_in(sasl: Sasl, host: str) -> Login:
    """Return the login of one connection to `host`."""
    options = dict(sasl.options)
    if sasl.mechanism == "GSSAPI":
        return _gssapi(options, host)
    if sasl.mechanism == "AWS_MSK_IAM":
        return _foreign("AWS_MSK_IAM", "botocore", host=host, security_protocol="SASL_SSL")
    if sasl.mechanism == "OAUTHBEARER":
        return _bearer(token_for(sasl))
    name, password = _option(sasl, options, "username"), _option(sasl, options, "password")
    if sasl.mechanism == "PLAIN":
        return _plain(name, password)
    if sasl.mechanism in _SCRAM:
        return _scram(_SCRAM[sasl.mechanism], name, password, secrets.token_urlsafe(24))
    raise ConfigError(f"sasl.mechanism={sasl.mechanism}: this mechanism is not known.")


def _option(sasl: Sasl, options: dict[str, str], name: str) -> str:
    if name not in options:
        raise ConfigError(f"sasl.jaas.config: {sasl.mechanism} needs the option {name}.")
    return options[name]


def _plain(name: str, password: str) -> Login:
    yield f"\0{name}\0{password}".encode()


def _scram(algorithm: str, name: str, password: str, nonce: str) -> Login:
    """RFC 5802, without channel binding, as Kafka implements it."""
    first = f"n={name.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    challenge = yield f"n,,{first}".encode()
    told = _fields(challenge)
    if not told.get("r", "").startswith(nonce):
        raise Refused("it did not repeat our nonce")
    try:
        rounds = int(told["i"])
        salt = base64.b64decode(told["s"], validate=True)
    except (KeyError, ValueError) as exc:
        raise Refused("its challenge is incomplete") from exc
    if not _LEAST_ROUNDS <= rounds <= _MOST_ROUNDS:
        raise Refused(f"it asks for {rounds} iterations")
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, rounds)
    final = f"c=biws,r={told['r']}"
    signed = b",".join((first.encode(), challenge, final.encode()))
    key = hmac.digest(salted, b"Client Key", algorithm)
    signature = hmac.digest(hashlib.new(algorithm, key).digest(), signed, algorithm)
    proof = bytes(left ^ right for left, right in zip(key, signature, strict=True))
    answer = yield f"{final},p={base64.b64encode(proof).decode()}".encode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", algorithm), signed, algorithm)
    if not hmac.compare_digest(base64.b64encode(expected), _fields(answer).get("v", "").encode()):
        raise Refused("it does not know our password")


def _fields(message: bytes) -> dict[str, str]:
    parts = message.decode(errors="replace").split(",")
    return {part[:1]: part[2:] for part in parts if part[1:2] == "="}


def _bearer(token: Token) -> Login:
    extensions = "".join(f"\x01{key}={value}" for key, value in token.extensions)
    answer = yield f"n,,\x01auth=Bearer {token.text}{extensions}\x01\x01".encode()
    if answer:
        yield b"\x01"  # the broker then says in its own words that the token is not valid


def _gssapi(options: dict[str, str], host: str) -> Login:
    service = options.get("serviceName") or options.get("sasl.kerberos.service.name") or "kafka"
    return _foreign("GSSAPI", "gssapi", host=host, sasl_kerberos_service_name=service)


def _foreign(mechanism: str, package: str, **config: str) -> Login:
    """Log in by a mechanism of kafka-python, which needs a package that is rarely installed."""
    try:
        spoken = get_sasl_mechanism(mechanism)(**config)
        while not spoken.is_done():
            spoken.receive((yield spoken.auth_bytes()))
    except KafkaConfigurationError as exc:
        raise ConfigError(f"sasl.mechanism={mechanism}: {str(exc).rstrip('.')}.") from exc
    except RuntimeError as exc:
        raise ConfigError(
            f"sasl.mechanism={mechanism}: the Python package {package} is not installed. "
            "Install it beside heliograph, or use another mechanism."
        ) from exc
