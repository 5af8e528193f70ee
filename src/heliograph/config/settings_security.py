"""How a client reaches a cluster: the keys that MM2 lets through from every level of the file."""

from datetime import timedelta

from heliograph.config.fields import (
    BOOLEAN,
    CLASS,
    CONNECTORS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    MILLISECONDS,
    PASSWORD,
    SHORT,
    STRING,
    Field,
    Kind,
    NotAllowed,
    Part,
    one_of,
)

_ALL = (*CONNECTORS, Part.CLIENT)
_OAUTH = "org.apache.kafka.common.security.oauthbearer."


def _hostname_check(text: str) -> str:
    if text.strip().lower() in ("", "https"):
        return text.strip().lower()
    raise NotAllowed("https, or empty to accept a certificate for any host")


BOOTSTRAP_SERVERS = Field(
    "bootstrap.servers",
    LIST,
    (),
    "Brokers to ask first, as host:port, separated by commas.",
    (Part.CLIENT,),
    required=True,
)
SECURITY_PROTOCOL = Field(
    "security.protocol",
    one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "PLAINTEXT",
    "How to talk to the brokers.",
    _ALL,
)
SSL_KEYSTORE_TYPE = Field(
    "ssl.keystore.type", STRING, "JKS", "Format of the key store: JKS, PKCS12 or PEM.", _ALL
)
SSL_KEYSTORE_LOCATION = Field(
    "ssl.keystore.location", STRING, None, "File with the client's key.", _ALL
)
SSL_KEYSTORE_PASSWORD = Field("ssl.keystore.password", PASSWORD, None, "Opens the key store.", _ALL)
SSL_KEY_PASSWORD = Field("ssl.key.password", PASSWORD, None, "Opens the private key.", _ALL)
SSL_KEYSTORE_KEY = Field(
    "ssl.keystore.key", PASSWORD, None, "The private key itself, as PEM.", _ALL
)
SSL_KEYSTORE_CHAIN = Field(
    "ssl.keystore.certificate.chain", PASSWORD, None, "The client's certificates, as PEM.", _ALL
)
SSL_TRUSTSTORE_CERTIFICATES = Field(
    "ssl.truststore.certificates", PASSWORD, None, "The certificates to trust, as PEM.", _ALL
)
SSL_TRUSTSTORE_TYPE = Field(
    "ssl.truststore.type", STRING, "JKS", "Format of the trust store: JKS, PKCS12 or PEM.", _ALL
)
SSL_TRUSTSTORE_LOCATION = Field(
    "ssl.truststore.location", STRING, None, "File with the certificates to trust.", _ALL
)
SSL_TRUSTSTORE_PASSWORD = Field(
    "ssl.truststore.password", PASSWORD, None, "Opens the trust store.", _ALL
)
SSL_ENDPOINT_IDENTIFICATION = Field(
    "ssl.endpoint.identification.algorithm",
    Kind("STRING", _hostname_check),
    "https",
    "Check that a certificate names its host; empty turns it off.",
    _ALL,
)
SSL_ENABLED_PROTOCOLS = Field(
    "ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), "TLS versions to offer.", _ALL
)
SSL_CIPHER_SUITES = Field(
    "ssl.cipher.suites", LIST, (), "Cipher suites to offer; empty means the defaults.", _ALL
)
SASL_MECHANISM = Field("sasl.mechanism", STRING, "GSSAPI", "How to log in.", _ALL)
SASL_JAAS_CONFIG = Field("sasl.jaas.config", PASSWORD, None, "The login, as one JAAS line.", _ALL)

SECURITY: tuple[Field[object], ...] = (
    SECURITY_PROTOCOL,
    Field("ssl.protocol", STRING, "TLSv1.3", "Java TLS context; not used.", _ALL),
    Field("ssl.provider", STRING, None, "Java security provider; not used.", _ALL),
    SSL_CIPHER_SUITES,
    SSL_ENABLED_PROTOCOLS,
    SSL_KEYSTORE_TYPE,
    SSL_KEYSTORE_LOCATION,
    SSL_KEYSTORE_PASSWORD,
    SSL_KEY_PASSWORD,
    SSL_KEYSTORE_KEY,
    SSL_KEYSTORE_CHAIN,
    SSL_TRUSTSTORE_CERTIFICATES,
    SSL_TRUSTSTORE_TYPE,
    SSL_TRUSTSTORE_LOCATION,
    SSL_TRUSTSTORE_PASSWORD,
    Field("ssl.keymanager.algorithm", STRING, "SunX509", "Java key manager; not used.", _ALL),
    Field("ssl.trustmanager.algorithm", STRING, "PKIX", "Java trust manager; not used.", _ALL),
    SSL_ENDPOINT_IDENTIFICATION,
    Field(
        "ssl.secure.random.implementation", STRING, None, "Java random generator; not used.", _ALL
    ),
    Field("ssl.engine.factory.class", CLASS, None, "Java TLS engine; not used.", _ALL),
    Field("sasl.kerberos.service.name", STRING, None, "Kerberos principal of the brokers.", _ALL),
    Field("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", "Where kinit is.", _ALL),
    Field(
        "sasl.kerberos.ticket.renew.window.factor",
        DOUBLE,
        0.8,
        "Part of a ticket's life after which to renew.",
        _ALL,
    ),
    Field("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, "Random part of that time.", _ALL),
    Field(
        "sasl.kerberos.min.time.before.relogin",
        LONG,
        60000,
        "Milliseconds between two logins at least.",
        _ALL,
    ),
    Field(
        "sasl.login.refresh.window.factor",
        DOUBLE,
        0.8,
        "Part of a token's life after which to refresh.",
        _ALL,
    ),
    Field("sasl.login.refresh.window.jitter", DOUBLE, 0.05, "Random part of that time.", _ALL),
    Field(
        "sasl.login.refresh.min.period.seconds",
        SHORT,
        60,
        "Wait at least so long before a refresh.",
        _ALL,
    ),
    Field(
        "sasl.login.refresh.buffer.seconds",
        SHORT,
        300,
        "Refresh at least so long before the end.",
        _ALL,
    ),
    SASL_MECHANISM,
    SASL_JAAS_CONFIG,
    Field(
        "sasl.client.callback.handler.class",
        CLASS,
        None,
        "Java callback of the login; not used.",
        _ALL,
    ),
    Field(
        "sasl.login.callback.handler.class",
        CLASS,
        None,
        "Java callback that fetches a token; not used.",
        _ALL,
    ),
    Field("sasl.login.class", CLASS, None, "Java login; not used.", _ALL),
    Field("sasl.login.connect.timeout.ms", INT, None, "Time to reach the identity provider.", _ALL),
    Field("sasl.login.read.timeout.ms", INT, None, "Time for its answer.", _ALL),
    Field(
        "sasl.login.retry.backoff.max.ms",
        MILLISECONDS,
        timedelta(seconds=10),
        "Longest pause between logins.",
        _ALL,
    ),
    Field(
        "sasl.login.retry.backoff.ms",
        MILLISECONDS,
        timedelta(milliseconds=100),
        "First pause between logins.",
        _ALL,
    ),
    Field(
        "sasl.oauthbearer.jwt.retriever.class",
        CLASS,
        _OAUTH + "DefaultJwtRetriever",
        "Java class that gets tokens; not used.",
        _ALL,
    ),
    Field(
        "sasl.oauthbearer.jwt.validator.class",
        CLASS,
        _OAUTH + "DefaultJwtValidator",
        "Java class that checks tokens; not used.",
        _ALL,
    ),
    Field("sasl.oauthbearer.scope", STRING, None, "Scope to ask a token for.", _ALL),
    Field(
        "sasl.oauthbearer.client.credentials.client.id",
        STRING,
        None,
        "Client id for the token endpoint.",
        _ALL,
    ),
    Field(
        "sasl.oauthbearer.client.credentials.client.secret",
        PASSWORD,
        None,
        "Client secret for the token endpoint.",
        _ALL,
    ),
    Field(
        "sasl.oauthbearer.assertion.algorithm", STRING, "RS256", "How an assertion is signed.", _ALL
    ),
    Field("sasl.oauthbearer.assertion.claim.aud", STRING, None, "Audience of the assertion.", _ALL),
    Field("sasl.oauthbearer.assertion.claim.exp.seconds", INT, 300, "Life of the assertion.", _ALL),
    Field("sasl.oauthbearer.assertion.claim.iss", STRING, None, "Issuer of the assertion.", _ALL),
    Field(
        "sasl.oauthbearer.assertion.claim.jti.include",
        BOOLEAN,
        False,
        "Give each assertion an id.",
        _ALL,
    ),
    Field(
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        INT,
        60,
        "How far back an assertion is valid.",
        _ALL,
    ),
    Field("sasl.oauthbearer.assertion.claim.sub", STRING, None, "Subject of the assertion.", _ALL),
    Field("sasl.oauthbearer.assertion.file", STRING, None, "File with a ready assertion.", _ALL),
    Field(
        "sasl.oauthbearer.assertion.private.key.file",
        STRING,
        None,
        "File with the key that signs it.",
        _ALL,
    ),
    Field(
        "sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None, "Opens that key.", _ALL
    ),
    Field("sasl.oauthbearer.assertion.template.file", STRING, None, "File with more claims.", _ALL),
    Field(
        "sasl.oauthbearer.scope.claim.name", STRING, "scope", "Claim that holds the scope.", _ALL
    ),
    Field("sasl.oauthbearer.sub.claim.name", STRING, "sub", "Claim that holds the subject.", _ALL),
    Field("sasl.oauthbearer.token.endpoint.url", STRING, None, "Where tokens come from.", _ALL),
    Field(
        "sasl.oauthbearer.jwks.endpoint.url",
        STRING,
        None,
        "Where the keys that sign tokens are.",
        _ALL,
    ),
    Field(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        MILLISECONDS,
        timedelta(hours=1),
        "How often to fetch them.",
        _ALL,
    ),
    Field(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        MILLISECONDS,
        timedelta(seconds=10),
        "Longest pause between tries.",
        _ALL,
    ),
    Field(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        MILLISECONDS,
        timedelta(milliseconds=100),
        "First pause between tries.",
        _ALL,
    ),
    Field("sasl.oauthbearer.clock.skew.seconds", INT, 30, "How far two clocks may differ.", _ALL),
    Field("sasl.oauthbearer.expected.audience", LIST, (), "Audiences a token must name.", _ALL),
    Field("sasl.oauthbearer.expected.issuer", STRING, None, "Issuer a token must name.", _ALL),
    Field(
        "sasl.oauthbearer.header.urlencode",
        BOOLEAN,
        False,
        "Encode id and secret for the URL.",
        _ALL,
    ),
)
