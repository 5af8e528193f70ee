import httpx

from tests.fakes import InMemoryHerder
from tests.golden.connect.story import HEARTBEAT

PASSWORD = "target.cluster.ssl.keystore.password"
JAAS = "source.cluster.sasl.jaas.config"
CONFIG = HEARTBEAT | {PASSWORD: "open sesame", JAAS: 'Plain username="u" password="p";'}


def test_secrets_are_masked_wherever_a_config_is_shown(client: httpx.Client) -> None:
    answers = [
        client.post("/connectors", json={"name": "hbc", "config": CONFIG}),
        client.put("/connectors/hbc/config", json=CONFIG),
        client.patch("/connectors/hbc/config", json={"tasks.max": "1"}),
        *(
            client.get(path)
            for path in (
                "/connectors?expand=info",
                "/connectors/hbc",
                "/connectors/hbc/config",
                "/connectors/hbc/tasks",
            )
        ),
        client.put(
            "/connector-plugins/MirrorHeartbeat/config/validate",
            json=CONFIG | {"ssl.key.password": "open sesame"},
        ),
    ]

    for answer in answers:
        assert answer.is_success, answer.text
        assert "open sesame" not in answer.text
        assert 'password="p"' not in answer.text
    assert client.get("/connectors/hbc/config").json()[PASSWORD] == "[hidden]"


def test_a_mask_that_comes_back_keeps_the_stored_value(
    client: httpx.Client, herder: InMemoryHerder
) -> None:
    client.post("/connectors", json={"name": "hbc", "config": CONFIG})
    shown = client.get("/connectors/hbc/config").json()

    assert client.put("/connectors/hbc/config", json=shown | {"tasks.max": "3"}).status_code == 200
    assert herder.kept["hbc"].config[PASSWORD] == "open sesame"
    assert herder.kept["hbc"].config["tasks.max"] == "3"

    assert client.patch("/connectors/hbc/config", json={PASSWORD: "[hidden]"}).status_code == 200
    assert herder.kept["hbc"].config[PASSWORD] == "open sesame"


def test_a_new_secret_replaces_the_stored_one(client: httpx.Client, herder: InMemoryHerder) -> None:
    client.post("/connectors", json={"name": "hbc", "config": CONFIG})
    client.put("/connectors/hbc/config", json=CONFIG | {PASSWORD: "swordfish"})

    assert herder.kept["hbc"].config[PASSWORD] == "swordfish"


def test_a_mask_without_a_stored_value_is_refused(client: httpx.Client) -> None:
    config = HEARTBEAT | {PASSWORD: "[hidden]"}

    for answer in (
        client.post("/connectors", json={"name": "hbc", "config": config}),
        client.put("/connectors/hbc/config", json=config),
    ):
        assert answer.status_code == 400
        assert PASSWORD in answer.json()["message"]
        assert "mask" in answer.json()["message"]


def test_a_wrong_secret_is_not_told_in_an_error(client: httpx.Client) -> None:
    config = HEARTBEAT | {"tasks.max": "many", PASSWORD: "open sesame"}
    answer = client.post("/connectors", json={"name": "hbc", "config": config})

    assert answer.status_code == 400
    assert "open sesame" not in answer.text
