from heliograph.groups.consumer import client_settings
from heliograph.model import Endpoint, Sasl, Tls


def test_kafka_python_reaches_a_cluster_as_its_endpoint_says() -> None:
    plain = Endpoint("A", (("a", 1), ("b", 2)))
    assert client_settings(plain)["bootstrap_servers"] == ["a:1", "b:2"]
    assert client_settings(plain)["security_protocol"] == "PLAINTEXT"
    login = Sasl("SCRAM-SHA-512", (("username", "u"), ("password", "p")))
    secured = client_settings(Endpoint("A", (("a", 1),), tls=Tls(), sasl=login))
    assert secured["security_protocol"] == "SASL_SSL"
    assert (secured["sasl_plain_username"], secured["sasl_plain_password"]) == ("u", "p")
    assert secured["ssl_context"].check_hostname
