"""TLS versions and cipher suites: Java's names translated to OpenSSL's."""

import re
import ssl

from heliograph.errors import ConfigError
from heliograph.model import Tls

_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_OLD_AND_NEW = "_WITH_"  # in the name of every suite before TLS 1.3, and of none since


def restrict(context: ssl.SSLContext, tls: Tls, prefix: str = "") -> None:
    """Limit a context to the versions and suites of `tls`.

    OpenSSL chooses among the suites of TLS 1.3 itself; naming none of them leaves that version out.
    """
    key = f"{prefix}ssl.enabled.protocols"
    for name in tls.protocols:
        if name not in _VERSIONS:
            raise ConfigError(f"{key}={name}: use some of {', '.join(_VERSIONS)}.")
    older = [name for name in tls.cipher_suites if _OLD_AND_NEW in name]
    versions = {_VERSIONS[name] for name in tls.protocols}
    if tls.cipher_suites and not older:
        versions &= {ssl.TLSVersion.TLSv1_3}
    elif older and len(older) == len(tls.cipher_suites):
        versions -= {ssl.TLSVersion.TLSv1_3}
    if not versions:
        raise ConfigError(
            f"{key}: none of its versions is left for the suites of {prefix}ssl.cipher.suites."
        )
    context.minimum_version = min(versions)
    context.maximum_version = max(versions)
    if older:
        try:
            context.set_ciphers(":".join(map(openssl_name, older)))
        except ssl.SSLError as exc:
            raise ConfigError(
                f"{prefix}ssl.cipher.suites: none of them is known to OpenSSL. "
                "Use Java's names, or leave it out."
            ) from exc


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a suite: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256."""
    exchange, _, cipher = suite.removeprefix("TLS_").partition(_OLD_AND_NEW)
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).replace("_CBC_", "_")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    whole = cipher if exchange == "RSA" else f"{exchange}_{cipher}"
    return whole.replace("_", "-")
