"""What the REST interface of a worker or of the dedicated driver takes."""

from enum import StrEnum

from heliograph.config.fields import INT, LIST, STRING, Field, Part, Settings, choice


class ClientAuth(StrEnum):
    """Whether a client of REST must show a certificate."""

    REQUIRED = "required"
    REQUESTED = "requested"
    NONE = "none"


class RestSettings(Settings, by=(Part.DRIVER, Part.WORKER)):
    """Where the REST interface listens, and who may use it."""

    listeners = Field("listeners", LIST, ("http://:8083",), "Where the REST interface listens.")
    rest_advertised_host_name: Field[str | None] = Field(
        "rest.advertised.host.name", STRING, None, "Host other workers reach this one by."
    )
    rest_advertised_port: Field[int | None] = Field(
        "rest.advertised.port", INT, None, "Port other workers reach this one by."
    )
    rest_advertised_listener: Field[str | None] = Field(
        "rest.advertised.listener", STRING, None, "Protocol other workers reach this one by."
    )
    rest_access_file: Field[str | None] = Field(
        "rest.access.file",
        STRING,
        None,
        "File of who may use REST, made by `heliograph access add`; heliograph's own key.",
    )
    access_control_allow_origin = Field(
        "access.control.allow.origin",
        STRING,
        "",
        "Sites, besides its own, whose pages may use REST; * allows any.",
    )
    access_control_allow_methods = Field(
        "access.control.allow.methods",
        STRING,
        "",
        "The methods that they may use; by default GET, POST and HEAD.",
    )
    response_http_headers_config = Field(
        "response.http.headers.config", STRING, "", "Headers added to every answer."
    )
    ssl_client_auth = Field(
        "ssl.client.auth",
        choice(ClientAuth),
        ClientAuth.NONE,
        "Ask REST clients for a certificate.",
    )
