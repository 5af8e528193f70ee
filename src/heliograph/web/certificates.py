"""The certificates of the REST API: PEM or Java's stores, from files or from the settings themselves."""

import ssl

from heliograph.config.listeners import Https
from heliograph.errors import ConfigError
from heliograph.net.ciphers import restrict
from heliograph.net.tls import ContextKeeper, check_store_types, load_chain, load_trusted

_PREFIX = "listeners.https."
_VERIFY = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def server_context(https: Https) -> ssl.SSLContext:
    """Return a server's context; ConfigError says which key is wrong.

    A handshake that begins after a file has changed uses the new content.
    """
    keeper = ContextKeeper(https.tls, lambda: _make_context(https))
    first = keeper.current()

    def renew(connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:  # noqa: ARG001
        connection.context = keeper.current()

    first.sni_callback = renew
    return first


def _make_context(https: Https) -> ssl.SSLContext:
    tls = https.tls
    check_store_types(tls, _PREFIX)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    restrict(context, tls, _PREFIX)
    if not load_chain(context, tls, _PREFIX):
        raise ConfigError(
            f"{_PREFIX}ssl.keystore.location is missing: https needs a file with certificate "
            f"chain and key, and {_PREFIX}ssl.keystore.type (PEM, PKCS12 or JKS)."
        )
    context.verify_mode = _VERIFY[https.client_auth]
    if https.client_auth != "none" and not load_trusted(context, tls, _PREFIX):
        raise ConfigError(
            f"{_PREFIX}ssl.truststore.location is missing: ssl.client.auth needs the certificates "
            "to believe."
        )
    return context
