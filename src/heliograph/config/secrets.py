"""Which values must not be shown, by the name of their key or by where they came from."""

from collections.abc import Mapping

HIDDEN = "[hidden]"

_WORDS = ("password", "passphrase", "secret", "credential", "token")
# Kafka's PASSWORD keys whose names say nothing; a test compares this with the declared fields.
_NAMES = (
    "sasl.jaas.config",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.certificates",
)


def is_secret(key: str) -> bool:
    """Return whether a key, with any prefix, holds a secret."""
    lower = key.lower()
    return lower.endswith(_NAMES) or any(word in lower for word in _WORDS)


def redact(props: Mapping[str, str]) -> dict[str, str]:
    """Return a copy that may be shown: secrets by name and values from a provider are hidden."""
    return {
        key: HIDDEN if is_secret(key) or getattr(value, "secret", False) else str(value)
        for key, value in props.items()
    }


def unmask(sent: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    """Return what was sent, with the stored value of each secret that came back as its mask."""
    return {
        key: stored[key] if value == HIDDEN and key in stored and is_secret(key) else value
        for key, value in sent.items()
    }
