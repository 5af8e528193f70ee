"""How a client reaches a cluster: the keys that MM2 lets through from every level of the file."""

from datetime import timedelta
from enum import StrEnum

from heliograph.config.fields import (
    BOOLEAN,
    CLASS,
    CONNECTORS,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LONG,
    MEDIUM,
    MILLISECONDS,
    PASSWORD,
    SHORT,
    STRING,
    Field,
    Kind,
    NotAllowed,
    Part,
    Settings,
    choice,
)

_OAUTH = "org.apache.kafka.common.security.oauthbearer."


def _hostname_check(text: str) -> str:
    if text.strip().lower() in ("", "https"):
        return text.strip().lower()
    raise NotAllowed("https, or empty to accept a certificate for any host")


class SecurityProtocol(StrEnum):
    """How a client talks to brokers."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class BootstrapSettings(Settings, by=(Part.CLIENT,)):
    """Where a cluster is."""

    servers = Field(
        "bootstrap.servers",
        LIST,
        (),
        "Brokers to ask first, as host:port, separated by commas.",
        required=True,
    )


class ClientSettings(Settings, by=(*CONNECTORS, Part.CLIENT)):
    """How a client reaches a cluster."""

    security_protocol = Field(
        "security.protocol",
        choice(SecurityProtocol),
        SecurityProtocol.PLAINTEXT,
        "How to talk to the brokers.",
        importance=MEDIUM,
    )
    ssl_protocol = Field(
        "ssl.protocol", STRING, "TLSv1.3", "Java TLS context; not used.", importance=MEDIUM
    )
    ssl_provider: Field[str | None] = Field(
        "ssl.provider", STRING, None, "Java security provider; not used.", importance=MEDIUM
    )
    ssl_cipher_suites = Field(
        "ssl.cipher.suites", LIST, (), "Cipher suites to offer; empty means the defaults."
    )
    ssl_enabled_protocols = Field(
        "ssl.enabled.protocols",
        LIST,
        ("TLSv1.2", "TLSv1.3"),
        "TLS versions to offer.",
        importance=MEDIUM,
    )
    ssl_keystore_type = Field(
        "ssl.keystore.type",
        STRING,
        "JKS",
        "Format of the key store: JKS, PKCS12 or PEM.",
        importance=MEDIUM,
    )
    ssl_keystore_location: Field[str | None] = Field(
        "ssl.keystore.location", STRING, None, "File with the client's key.", importance=HIGH
    )
    ssl_keystore_password: Field[str | None] = Field(
        "ssl.keystore.password", PASSWORD, None, "Opens the key store.", importance=HIGH
    )
    ssl_key_password: Field[str | None] = Field(
        "ssl.key.password", PASSWORD, None, "Opens the private key.", importance=HIGH
    )
    ssl_keystore_key: Field[str | None] = Field(
        "ssl.keystore.key", PASSWORD, None, "The private key itself, as PEM.", importance=HIGH
    )
    ssl_keystore_certificate_chain: Field[str | None] = Field(
        "ssl.keystore.certificate.chain",
        PASSWORD,
        None,
        "The client's certificates, as PEM.",
        importance=HIGH,
    )
    ssl_truststore_certificates: Field[str | None] = Field(
        "ssl.truststore.certificates",
        PASSWORD,
        None,
        "The certificates to trust, as PEM.",
        importance=HIGH,
    )
    ssl_truststore_type = Field(
        "ssl.truststore.type",
        STRING,
        "JKS",
        "Format of the trust store: JKS, PKCS12 or PEM.",
        importance=MEDIUM,
    )
    ssl_truststore_location: Field[str | None] = Field(
        "ssl.truststore.location",
        STRING,
        None,
        "File with the certificates to trust.",
        importance=HIGH,
    )
    ssl_truststore_password: Field[str | None] = Field(
        "ssl.truststore.password", PASSWORD, None, "Opens the trust store.", importance=HIGH
    )
    ssl_keymanager_algorithm = Field(
        "ssl.keymanager.algorithm", STRING, "SunX509", "Java key manager; not used."
    )
    ssl_trustmanager_algorithm = Field(
        "ssl.trustmanager.algorithm", STRING, "PKIX", "Java trust manager; not used."
    )
    ssl_endpoint_identification_algorithm: Field[str] = Field(
        "ssl.endpoint.identification.algorithm",
        Kind("STRING", _hostname_check),
        "https",
        "Check that a certificate names its host; empty turns it off.",
    )
    ssl_secure_random_implementation: Field[str | None] = Field(
        "ssl.secure.random.implementation", STRING, None, "Java random generator; not used."
    )
    ssl_engine_factory_class: Field[str | None] = Field(
        "ssl.engine.factory.class", CLASS, None, "Java TLS engine; not used."
    )
    sasl_kerberos_service_name: Field[str | None] = Field(
        "sasl.kerberos.service.name",
        STRING,
        None,
        "Kerberos principal of the brokers.",
        importance=MEDIUM,
    )
    sasl_kerberos_kinit_cmd = Field(
        "sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", "Where kinit is."
    )
    sasl_kerberos_ticket_renew_window_factor = Field(
        "sasl.kerberos.ticket.renew.window.factor",
        DOUBLE,
        0.8,
        "Part of a ticket's life after which to renew.",
    )
    sasl_kerberos_ticket_renew_jitter = Field(
        "sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, "Random part of that time."
    )
    sasl_kerberos_min_time_before_relogin = Field(
        "sasl.kerberos.min.time.before.relogin",
        LONG,
        60000,
        "Milliseconds between two logins at least.",
    )
    sasl_login_refresh_window_factor = Field(
        "sasl.login.refresh.window.factor",
        DOUBLE,
        0.8,
        "Part of a token's life after which to refresh.",
    )
    sasl_login_refresh_window_jitter = Field(
        "sasl.login.refresh.window.jitter", DOUBLE, 0.05, "Random part of that time."
    )
    sasl_login_refresh_min_period_seconds = Field(
        "sasl.login.refresh.min.period.seconds",
        SHORT,
        60,
        "Wait at least so long before a refresh.",
    )
    sasl_login_refresh_buffer_seconds = Field(
        "sasl.login.refresh.buffer.seconds", SHORT, 300, "Refresh at least so long before the end."
    )
    sasl_mechanism = Field("sasl.mechanism", STRING, "GSSAPI", "How to log in.", importance=MEDIUM)
    sasl_jaas_config: Field[str | None] = Field(
        "sasl.jaas.config", PASSWORD, None, "The login, as one JAAS line.", importance=MEDIUM
    )
    sasl_client_callback_handler_class: Field[str | None] = Field(
        "sasl.client.callback.handler.class",
        CLASS,
        None,
        "Java callback of the login; not used.",
        importance=MEDIUM,
    )
    sasl_login_callback_handler_class: Field[str | None] = Field(
        "sasl.login.callback.handler.class",
        CLASS,
        None,
        "Java callback that fetches a token; not used.",
        importance=MEDIUM,
    )
    sasl_login_class: Field[str | None] = Field(
        "sasl.login.class", CLASS, None, "Java login; not used.", importance=MEDIUM
    )
    sasl_login_connect_timeout_ms: Field[int | None] = Field(
        "sasl.login.connect.timeout.ms", INT, None, "Time to reach the identity provider."
    )
    sasl_login_read_timeout_ms: Field[int | None] = Field(
        "sasl.login.read.timeout.ms", INT, None, "Time for its answer."
    )
    sasl_login_retry_backoff_max = Field(
        "sasl.login.retry.backoff.max.ms",
        MILLISECONDS,
        timedelta(seconds=10),
        "Longest pause between logins.",
    )
    sasl_login_retry_backoff = Field(
        "sasl.login.retry.backoff.ms",
        MILLISECONDS,
        timedelta(milliseconds=100),
        "First pause between logins.",
    )
    sasl_oauthbearer_jwt_retriever_class = Field(
        "sasl.oauthbearer.jwt.retriever.class",
        CLASS,
        _OAUTH + "DefaultJwtRetriever",
        "Java class that gets tokens; not used.",
        importance=MEDIUM,
    )
    sasl_oauthbearer_jwt_validator_class = Field(
        "sasl.oauthbearer.jwt.validator.class",
        CLASS,
        _OAUTH + "DefaultJwtValidator",
        "Java class that checks tokens; not used.",
        importance=MEDIUM,
    )
    sasl_oauthbearer_scope: Field[str | None] = Field(
        "sasl.oauthbearer.scope", STRING, None, "Scope to ask a token for.", importance=MEDIUM
    )
    sasl_oauthbearer_client_credentials_client_id: Field[str | None] = Field(
        "sasl.oauthbearer.client.credentials.client.id",
        STRING,
        None,
        "Client id for the token endpoint.",
        importance=MEDIUM,
    )
    sasl_oauthbearer_client_credentials_client_secret: Field[str | None] = Field(
        "sasl.oauthbearer.client.credentials.client.secret",
        PASSWORD,
        None,
        "Client secret for the token endpoint.",
        importance=MEDIUM,
    )
    sasl_oauthbearer_assertion_algorithm = Field(
        "sasl.oauthbearer.assertion.algorithm",
        STRING,
        "RS256",
        "How an assertion is signed.",
        importance=MEDIUM,
    )
    sasl_oauthbearer_assertion_claim_aud: Field[str | None] = Field(
        "sasl.oauthbearer.assertion.claim.aud",
        STRING,
        None,
        "Audience of the assertion.",
        importance=MEDIUM,
    )
    sasl_oauthbearer_assertion_claim_exp_seconds = Field(
        "sasl.oauthbearer.assertion.claim.exp.seconds", INT, 300, "Life of the assertion."
    )
    sasl_oauthbearer_assertion_claim_iss: Field[str | None] = Field(
        "sasl.oauthbearer.assertion.claim.iss",
        STRING,
        None,
        "Issuer of the assertion.",
        importance=MEDIUM,
    )
    sasl_oauthbearer_assertion_claim_jti_include = Field(
        "sasl.oauthbearer.assertion.claim.jti.include",
        BOOLEAN,
        False,
        "Give each assertion an id.",
        importance=MEDIUM,
    )
    sasl_oauthbearer_assertion_claim_nbf_seconds = Field(
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        INT,
        60,
        "How far back an assertion is valid.",
    )
    sasl_oauthbearer_assertion_claim_sub: Field[str | None] = Field(
        "sasl.oauthbearer.assertion.claim.sub",
        STRING,
        None,
        "Subject of the assertion.",
        importance=MEDIUM,
    )
    sasl_oauthbearer_assertion_file: Field[str | None] = Field(
        "sasl.oauthbearer.assertion.file",
        STRING,
        None,
        "File with a ready assertion.",
        importance=MEDIUM,
    )
    sasl_oauthbearer_assertion_private_key_file: Field[str | None] = Field(
        "sasl.oauthbearer.assertion.private.key.file",
        STRING,
        None,
        "File with the key that signs it.",
        importance=MEDIUM,
    )
    sasl_oauthbearer_assertion_private_key_passphrase: Field[str | None] = Field(
        "sasl.oauthbearer.assertion.private.key.passphrase",
        PASSWORD,
        None,
        "Opens that key.",
        importance=MEDIUM,
    )
    sasl_oauthbearer_assertion_template_file: Field[str | None] = Field(
        "sasl.oauthbearer.assertion.template.file",
        STRING,
        None,
        "File with more claims.",
        importance=MEDIUM,
    )
    sasl_oauthbearer_scope_claim_name = Field(
        "sasl.oauthbearer.scope.claim.name", STRING, "scope", "Claim that holds the scope."
    )
    sasl_oauthbearer_sub_claim_name = Field(
        "sasl.oauthbearer.sub.claim.name", STRING, "sub", "Claim that holds the subject."
    )
    sasl_oauthbearer_token_endpoint_url: Field[str | None] = Field(
        "sasl.oauthbearer.token.endpoint.url",
        STRING,
        None,
        "Where tokens come from.",
        importance=MEDIUM,
    )
    sasl_oauthbearer_jwks_endpoint_url: Field[str | None] = Field(
        "sasl.oauthbearer.jwks.endpoint.url",
        STRING,
        None,
        "Where the keys that sign tokens are.",
        importance=MEDIUM,
    )
    sasl_oauthbearer_jwks_endpoint_refresh = Field(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        MILLISECONDS,
        timedelta(hours=1),
        "How often to fetch them.",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max = Field(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        MILLISECONDS,
        timedelta(seconds=10),
        "Longest pause between tries.",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff = Field(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        MILLISECONDS,
        timedelta(milliseconds=100),
        "First pause between tries.",
    )
    sasl_oauthbearer_clock_skew_seconds = Field(
        "sasl.oauthbearer.clock.skew.seconds", INT, 30, "How far two clocks may differ."
    )
    sasl_oauthbearer_expected_audience = Field(
        "sasl.oauthbearer.expected.audience",
        LIST,
        (),
        "Audiences a token must name.",
        importance=HIGH,
    )
    sasl_oauthbearer_expected_issuer: Field[str | None] = Field(
        "sasl.oauthbearer.expected.issuer",
        STRING,
        None,
        "Issuer a token must name.",
        importance=HIGH,
    )
    sasl_oauthbearer_header_urlencode = Field(
        "sasl.oauthbearer.header.urlencode", BOOLEAN, False, "Encode id and secret for the URL."
    )
