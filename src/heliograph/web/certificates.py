"""The certificates of the REST API: PEM, from files or from the settings themselves."""

import ssl

from heliograph.config.listeners import Https
from heliograph.errors import ConfigError
from heliograph.kafka.tls import check_store_types, load_chain, load_trusted, open_chain

_PREFIX = "listeners.https."
_VERIFY = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def server_context(https: Https) -> ssl.SSLContext:
    """Return a server's context; ConfigError says which key is wrong."""
    tls = https.tls
    check_store_types(tls, _PREFIX)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with open_chain(tls) as file:
        if file is None:
            raise ConfigError(
                f"{_PREFIX}ssl.keystore.location is missing: https needs a PEM file with certificate "
                f"chain and key, and {_PREFIX}ssl.keystore.type=PEM."
            )
        load_chain(context, file, tls, _PREFIX)
    context.verify_mode = _VERIFY[https.client_auth]
    if https.client_auth != "none" and not load_trusted(context, tls, _PREFIX):
        raise ConfigError(
            f"{_PREFIX}ssl.truststore.location is missing: ssl.client.auth needs the certificates "
            "to believe."
        )
    return context
