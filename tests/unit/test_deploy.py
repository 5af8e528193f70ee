import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

import jsonschema_rs
import kubernetes_validate  # type: ignore[import-untyped]  # it says nothing of its types
import pytest
import yaml

from heliograph.config.connectors import load_connector, load_worker
from heliograph.config.listeners import read_listener
from heliograph.config.mirror import load_mirror
from heliograph.config.properties import read_properties
from heliograph.config.providers import resolve
from heliograph.config.settings_rest import RestSettings
from heliograph.observe.reports import REPORTS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = DEPLOY / "Dockerfile"
UNIT = DEPLOY / "systemd" / "heliograph@.service"
COMPOSE = sorted(DEPLOY.glob("compose/*/compose.yaml"))
KUSTOMIZATIONS = sorted(DEPLOY.glob("kubernetes/*/kustomization.yaml"))
MANIFESTS = sorted(set(DEPLOY.glob("kubernetes/**/*.yaml")) - set(KUSTOMIZATIONS))
SECRETS = "/run/secrets/heliograph"
OURS = "heliograph"
OLD_KUBERNETES = "1.25"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
EXPOSURE = 20  # tenths, of 100: systemd's own measure of what a unit may still do

Json = dict[str, Any]


def name_of(path: Path) -> str:
    return str(path.relative_to(DEPLOY))


def load(path: Path) -> list[Json]:
    return list(yaml.safe_load_all(path.read_text()))


def load_compose(seed: str) -> Json:
    (content,) = load(DEPLOY / "compose" / seed / "compose.yaml")
    return content


def run(*command: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        timeout=60,
        check=False,
    )


def test_the_topologies_of_both_seeds_are_there() -> None:
    assert [path.parent.name for path in COMPOSE] == ["001", "004"]
    assert set(load_compose("001")["services"]) == {
        *("kafka-01", "kafka-02", "kafdrop-01", "kafdrop-02", OURS)
    }
    assert set(load_compose("004")["services"]) == {
        *("kafka-source-0", "kafka-source-1", "kafka-target-0", "kafka-target-1"),
        *("kafka-connect-0", "kafka-connect-1", "kafka-ui", "prometheus", "grafana"),
        *("kafka-exporter-source", "kafka-exporter-target"),
    }


@pytest.mark.parametrize(
    "path", sorted([*DEPLOY.rglob("*.yaml"), *DEPLOY.rglob("*.yml")]), ids=name_of
)
def test_every_yaml_file_parses(path: Path) -> None:
    assert all(isinstance(content, dict) for content in load(path))


@pytest.mark.parametrize("path", COMPOSE, ids=name_of)
def test_a_compose_file_is_what_the_compose_specification_allows(path: Path) -> None:
    vendored = files("check_jsonschema.builtin_schemas") / "vendor" / "compose-spec.json"
    jsonschema_rs.validator_for(json.loads(vendored.read_text())).validate(load(path)[0])


@pytest.mark.parametrize("path", COMPOSE, ids=name_of)
def test_docker_compose_takes_a_compose_file(path: Path) -> None:
    tool = next(filter(is_compose_2, (("docker", "compose"), ("docker-compose",))), None)
    if tool is None:
        pytest.skip("docker compose 2 or newer is not on this machine")
    for env in ({}, {"HELIOGRAPH_ACCESS_FILE": "access", "GRAFANA_PASSWORD": "not-a-secret"}):
        done = run(*tool, "-f", str(path), "config", "--format=json", env=env)
        assert (done.returncode, done.stderr) == (0, "")
        for service in json.loads(done.stdout)["services"].values():
            if "build" in service:
                access = "/run/secrets/access" if env else ""
                assert service["environment"]["HELIOGRAPH_ACCESS"] == access


def is_compose_2(tool: tuple[str, ...]) -> bool:
    if shutil.which(tool[0]) is None:
        return False
    told = run(*tool, "version", "--short")
    return told.returncode == 0 and not told.stdout.strip().lstrip("v").startswith("1.")


def services() -> Iterator[Any]:
    for path in COMPOSE:
        for name, service in load(path)[0]["services"].items():
            yield pytest.param(path.parent, service, id=f"{path.parent.name}-{name}")


@pytest.mark.parametrize(("folder", "service"), list(services()))
def test_a_service_is_pinned_restarted_watched_and_seen_by_this_machine_alone(
    folder: Path, service: Json
) -> None:
    name, _, tag = service["image"].rpartition(":")
    assert re.search(r"\d", tag), "a tag with a version"
    assert not re.search(r"[.:]", name.split("/")[0]), "an image of the engine's own registry"
    assert service["restart"] == "unless-stopped"
    assert name == OURS or service["healthcheck"]["test"][0] == "CMD", "ours has one in its image"
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in service.get("ports", []))
    for volume in service.get("volumes", []):
        source, _, rest = volume.partition(":")
        if source.startswith("."):
            assert (folder / source).exists()
            assert rest.endswith(":ro")


@pytest.mark.parametrize("path", COMPOSE, ids=name_of)
def test_no_two_services_publish_one_port(path: Path) -> None:
    published = [
        port.rpartition(":")[0]
        for service in load(path)[0]["services"].values()
        for port in service.get("ports", [])
    ]
    assert len(set(published)) == len(published)


def brokers(seed: str) -> dict[str, Json]:
    return {
        name: service["environment"]
        for name, service in load_compose(seed)["services"].items()
        if service["image"].startswith("apache/kafka:")
    }


def listeners(text: str) -> dict[str, str]:
    return dict(part.split("://") for part in text.split(","))


@pytest.mark.parametrize("seed", ["001", "004"])
def test_a_broker_is_reached_where_it_says(seed: str) -> None:
    for name, env in brokers(seed).items():
        bound, told = (
            listeners(env[f"KAFKA_{key}"]) for key in ("LISTENERS", "ADVERTISED_LISTENERS")
        )
        protocols = dict(
            pair.split(":") for pair in env["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(",")
        )
        controller = env["KAFKA_CONTROLLER_LISTENER_NAMES"]
        assert set(protocols) == set(bound) == {*told, controller}
        assert told[env["KAFKA_INTER_BROKER_LISTENER_NAME"]].startswith(f"{name}:")
        assert all(told[key].endswith(bound[key]) for key in told)
        voters = env["KAFKA_CONTROLLER_QUORUM_VOTERS"].split(",")
        assert f"{env['KAFKA_NODE_ID']}@{name}{bound[controller]}" in voters


@pytest.mark.parametrize("seed", ["001", "004"])
def test_clusters_have_names_of_their_own(seed: str) -> None:
    voters = {
        env["CLUSTER_ID"]: env["KAFKA_CONTROLLER_QUORUM_VOTERS"] for env in brokers(seed).values()
    }
    assert len(voters) == len(set(voters.values())) == 2
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{22}", cluster) for cluster in voters)


@pytest.mark.parametrize("seed", ["001", "004"])
def test_whoever_names_a_broker_names_one_that_listens(seed: str) -> None:
    known = {
        address
        for env in brokers(seed).values()
        for address in listeners(env["KAFKA_ADVERTISED_LISTENERS"]).values()
    }
    named = {
        address
        for path in (DEPLOY / "compose" / seed).rglob("*")
        if path.is_file() and path.name != "compose.yaml"
        for address in re.findall(r"kafka-(?!connect)[\w-]+:\d+", path.read_text())
    }
    named |= {
        address
        for service in load_compose(seed)["services"].values()
        for text in (
            *service.get("command", []),
            service.get("environment", {}).get("KAFKA_BROKERCONNECT", ""),
        )
        for address in re.findall(r"kafka-[\w-]+:\d+", text)
    }
    assert named
    assert named <= known


def test_prometheus_asks_services_that_there_are() -> None:
    (config,) = load(DEPLOY / "prometheus" / "prometheus.yml")
    known = set(load_compose("004")["services"])
    targets = [
        target
        for job in config["scrape_configs"]
        for group in job.get("static_configs", [])
        for target in group["targets"]
    ]
    assert {"kafka-connect-0:8083", "kafka-connect-1:8083"} <= set(targets)
    assert {target.split(":")[0] for target in targets} <= known | {"localhost"}


def test_the_mirror_of_seed_001_takes_the_seeds_own_file() -> None:
    file = DEPLOY / "compose" / "001" / "mm2.properties"
    seed = (ROOT / "apps" / "demos" / "config" / "mm2.properties").read_text()
    assert file.read_text().startswith(seed)
    config = load_mirror(file, {"HELIOGRAPH_ACCESS": ""})
    assert [str(flow.flow) for flow in config.flows] == [
        "cluster-a->cluster-b",
        "cluster-b->cluster-a",
    ]
    assert config.warnings == ()


@pytest.mark.parametrize("name", ["kafka-connect-0", "kafka-connect-1"])
def test_the_workers_of_seed_004_take_its_files(name: str) -> None:
    folder = DEPLOY / "compose" / "004"
    worker = load_worker(
        folder / "connect-distributed.properties",
        {**load_compose("004")["services"][name]["environment"], "HELIOGRAPH_ACCESS": ""},
    )
    assert read_listener(worker.props).url == f"http://{name}:8083"
    assert not [w for w in worker.warnings if "gone since Kafka 3.0" not in w]
    connectors = [load_connector(path, worker) for path in sorted((folder / "mm2").glob("*.json"))]
    assert [connector.name for connector in connectors] == [
        f"mm2-{kind}-source-0" for kind in ("cpc", "hbc", "msc")
    ]
    assert all(connector.warnings == () for connector in connectors)


def ours() -> Iterator[Any]:
    for path in COMPOSE:
        for name, service in load(path)[0]["services"].items():
            if "build" in service:
                yield pytest.param(path.parent, service, id=f"{path.parent.name}-{name}")


@pytest.mark.parametrize(("folder", "service"), list(ours()))
def test_whoever_listens_to_all_in_a_container_asks_for_logins_where_there_are_some(
    folder: Path, service: Json
) -> None:
    (file,) = folder.glob("*.properties")
    assert "0.0.0.0:8083" in file.read_text() + str(service["command"])
    assert service["ports"][0].startswith("127.0.0.1:")
    assert (
        "# WARNING: inside its container it listens to all" in (folder / "compose.yaml").read_text()
    )
    assert service["secrets"] == ["access"]
    assert load(folder / "compose.yaml")[0]["secrets"]["access"] == {
        "file": "${HELIOGRAPH_ACCESS_FILE:-/dev/null}"
    }
    asked = service["environment"]["HELIOGRAPH_ACCESS"]
    assert asked == "${HELIOGRAPH_ACCESS_FILE:+/run/secrets/access}"
    written = read_properties(file)
    for given in ("", "/run/secrets/access"):
        env = {"HELIOGRAPH_ACCESS": given, "HELIOGRAPH_ADVERTISED_HOST": "worker"}
        assert RestSettings.rest_access_file.read(resolve(written, env).entries) == given


def test_reports_outlive_a_container_and_are_where_commands_keep_them() -> None:
    folder = str(PurePosixPath(dict(instructions())["WORKDIR"]) / REPORTS)
    assert f"-o 10001 -g 10001 -m 750 {folder} " in DOCKERFILE.read_text()
    for path in COMPOSE:
        content = load(path)[0]
        assert "reports" in content["volumes"]
        for service in content["services"].values():
            assert ("build" in service) == (f"reports:{folder}" in service.get("volumes", []))
    for workload in WORKLOADS:
        pod = workload["spec"]["template"]["spec"]
        assert {"name": "reports", "mountPath": folder} in pod["containers"][0]["volumeMounts"]
    text = UNIT.read_text()
    assert "WorkingDirectory=%S/heliograph/%i" in text
    assert "StateDirectory=heliograph/%i" in text


def with_secrets(path: Path, folder: Path) -> Path:
    """Return a copy of a file whose secrets are in a folder that there is."""
    for name in ("primary-password", "dr-password"):
        (folder / name).write_text("not-a-secret")
    copy = folder / path.name
    copy.write_text(path.read_text().replace(SECRETS, str(folder)))
    return copy


def test_the_mirror_in_kubernetes_takes_its_file(tmp_path: Path) -> None:
    file = with_secrets(DEPLOY / "kubernetes" / "dedicated" / "mm2.properties", tmp_path)
    config = load_mirror(file, {})
    assert config.warnings == ()
    assert not read_listener(resolve(config.written, {}).entries).is_local


def test_the_workers_in_kubernetes_take_their_file(tmp_path: Path) -> None:
    file = with_secrets(
        DEPLOY / "kubernetes" / "workers" / "connect-distributed.properties", tmp_path
    )
    worker = load_worker(file, {"POD_NAME": "heliograph-worker-1"})
    assert worker.warnings == ()
    headless = next(
        service
        for service in load(DEPLOY / "kubernetes" / "workers" / "service.yaml")
        if service["spec"].get("clusterIP") == "None"
    )["metadata"]["name"]
    assert (
        read_listener(worker.props).url == f"http://heliograph-worker-1.{headless}.mirrors.svc:8083"
    )


def test_every_file_of_settings_is_one_that_a_test_loads() -> None:
    assert {name_of(path) for path in DEPLOY.rglob("*.properties")} == {
        "compose/001/mm2.properties",
        "compose/004/connect-distributed.properties",
        "kubernetes/dedicated/mm2.properties",
        "kubernetes/workers/connect-distributed.properties",
    }


@pytest.mark.parametrize("path", MANIFESTS, ids=name_of)
def test_a_manifest_is_what_old_and_new_kubernetes_allow(path: Path) -> None:
    for resource in load(path):
        for version in (OLD_KUBERNETES, kubernetes_validate.latest_version()):
            kubernetes_validate.validate(resource, version, strict=True)


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=name_of)
def test_a_kustomization_names_all_that_is_beside_it(path: Path) -> None:
    (content,) = load(path)
    beside = {other.name for other in path.parent.glob("*.yaml")} - {path.name}
    assert set(content["resources"]) == beside
    for generator in content["configMapGenerator"]:
        assert all((path.parent / name).exists() for name in generator["files"])
    assert content["images"] == [{"name": OURS, "newTag": VERSION}]


@pytest.mark.parametrize("path", KUSTOMIZATIONS, ids=name_of)
def test_what_kustomize_makes_is_valid_too(path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on this machine")
    done = run("kubectl", "kustomize", str(path.parent))
    assert (done.returncode, done.stderr) == (0, "")
    made = list(yaml.safe_load_all(done.stdout))
    for resource in made:
        kubernetes_validate.validate(resource, kubernetes_validate.latest_version(), strict=True)
    assert {resource["metadata"]["namespace"] for resource in made} == {"mirrors"}


WORKLOADS = [
    resource
    for path in MANIFESTS
    for resource in load(path)
    if "template" in resource.get("spec", {})
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload["kind"])
def test_a_pod_has_no_rights_it_does_not_need(workload: Json) -> None:
    pod = workload["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["terminationGracePeriodSeconds"] > 15
    assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload["kind"])
def test_a_pod_starts_with_the_file_of_its_config_map(workload: Json) -> None:
    pod = workload["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    maps = [volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume]
    (generator,) = [
        generator
        for path in KUSTOMIZATIONS
        for generator in load(path)[0]["configMapGenerator"]
        if generator["name"] in maps
    ]
    assert container["args"][1] == f"/etc/heliograph/{generator['files'][0]}"
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {
        *("/etc/heliograph", SECRETS, "/tmp", "/var/lib/heliograph/drill-reports")
    }


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload["kind"])
def test_policies_services_and_budgets_find_their_pods(workload: Json) -> None:
    labels = workload["spec"]["template"]["metadata"]["labels"]
    assert workload["spec"]["selector"]["matchLabels"] == labels
    found = {
        resource["kind"]
        for path in MANIFESTS
        for resource in load(path)
        for selector in (resource.get("spec", {}).get(key) for key in ("selector", "podSelector"))
        if selector is not None and selector.get("matchLabels", selector) == labels
    }
    assert found >= {workload["kind"], "Service", "NetworkPolicy"}
    assert ("PodDisruptionBudget" in found) == (workload["spec"]["replicas"] > 1)


def test_no_secret_is_in_the_repository() -> None:
    for path in MANIFESTS:
        for resource in load(path):
            if resource["kind"] == "Secret":
                assert path.name == "secret.example.yaml"
                assert not any({**resource.get("data", {}), **resource["stringData"]}.values())


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.M).replace("\\\n", " ")
    return [
        (word, rest)
        for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)
    ]


def test_the_image_runs_heliograph_without_root_and_says_how_it_is() -> None:
    found = instructions()
    last = dict(found[max(i for i, (word, _) in enumerate(found) if word == "FROM") :])
    assert last["USER"] == "10001:10001"
    assert json.loads(last["ENTRYPOINT"])[-1] == OURS
    assert "HELIOGRAPH_HEALTH_URL" in last["HEALTHCHECK"]
    assert last["ENV"].endswith("/health")
    assert last["STOPSIGNAL"] == "SIGTERM"
    stages = {rest.rpartition(" AS ")[2] for word, rest in found if word == "FROM"}
    bases = [rest.split()[0] for word, rest in found if word == "FROM"]
    assert [base for base in bases if base not in stages] == ["python:${PYTHON}"]
    assert re.fullmatch(r"PYTHON=3\.11\.\d+-slim-bookworm", dict(found)["ARG"])


def test_the_image_is_made_of_hashed_packages_as_a_checkout_is() -> None:
    made = " ".join(rest for word, rest in instructions() if word == "RUN")
    assert "need_environment .venv requirements.txt" in made
    assert "pip install" not in made
    assert "--require-hashes" in (ROOT / "scripts" / "environment.sh").read_text()


def test_what_the_image_copies_is_there_and_is_sent_to_the_engine() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    sent = {PurePosixPath(line[1:]) for line in lines if line.startswith("!")}
    copied = {
        PurePosixPath(source)
        for word, rest in instructions()
        if word == "COPY" and "--from" not in rest
        for source in rest.split()[:-1]
    }
    assert copied == sent
    assert "*" in lines
    assert all((ROOT / path).exists() for path in copied)


def test_images_carry_the_version_of_the_code() -> None:
    used = {
        service["image"]
        for path in COMPOSE
        for service in load(path)[0]["services"].values()
        if "build" in service
    }
    assert used == {f"{OURS}:{VERSION}"}
    assert f"-t {OURS}:{VERSION} " in DOCKERFILE.read_text()


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    if shutil.which("hadolint") is None:
        pytest.skip("hadolint is not on this machine")
    done = run("hadolint", "--no-color", str(DOCKERFILE))
    assert (done.returncode, done.stdout) == (0, "")


@pytest.fixture
def unit_here(tmp_path: Path) -> Path:
    """Return the unit with the heliograph of this checkout, since systemd looks whether it is there."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/heliograph/heliograph", str(ROOT / OURS)))
    return copy


@pytest.mark.parametrize(
    "check", [("verify",), ("security", "--no-pager", "--offline=yes", f"--threshold={EXPOSURE}")]
)
def test_systemd_takes_the_unit_and_finds_it_locked_up(
    check: tuple[str, ...], unit_here: Path
) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not on this machine")
    done = run("systemd-analyze", *check, str(unit_here))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert UNIT.name.partition("@")[0] not in done.stderr


def test_the_unit_drains_restarts_and_gives_up() -> None:
    said = dict(
        line.partition("=")[::2]
        for line in UNIT.read_text().splitlines()
        if re.match(r"\w+=", line)
    )
    assert said["KillMode"] == "mixed", "Spark's JVM must outlive the drain"
    assert int(said["TimeoutStopSec"]) > 15
    assert (said["Restart"], said["RestartPreventExitStatus"]) == ("on-failure", "2")
    assert int(said["StartLimitBurst"]) * int(said["RestartSec"]) < int(
        said["StartLimitIntervalSec"]
    )
    assert said["EnvironmentFile"] == "-/etc/heliograph/%i.env"
    assert "MemoryDenyWriteExecute" not in said
