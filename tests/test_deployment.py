"""Files of examples/deployment are valid for this version."""

import json
import re
import shlex
import shutil
import socket
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from docstore import __version__
from docstore.cli.serve_flags import parser
from docstore.client import LocalCluster
from docstore.config import Config, from_environment, parse
from docstore.model.limits import Limits
from docstore.node.open_files import OWN
from tests.edges.pinned import GOLDEN
from tests.source import ROOT

FOLDER = ROOT / "examples" / "deployment"
ALERTS = FOLDER / "alerts.yml"
DOCKERFILE = (FOLDER / "Dockerfile").read_text("utf-8").replace("\\\n", "")
UNIT = (FOLDER / "docstore.service").read_text("utf-8")
LABELS = {"instance", "job"}
"""Labels that Prometheus adds."""
IMAGE = f"docstore:{__version__}"
KUBERNETES = "1.37"
_METRIC = re.compile(r"\b(?:docstore|process)_[a-z_]+")


def rules() -> list[str]:
    groups = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def panels() -> list[str]:
    """Return the expressions of the dashboard, its variables replaced as Grafana would."""
    text = (FOLDER / "dashboard.json").read_text("utf-8").replace("$__rate_interval", "1m")
    queries = [each for panel in json.loads(text)["panels"] for each in panel.get("targets", [])]
    return [each["expr"].replace("$instance", ".*").replace("$job", "docstore") for each in queries]


def labels_in(expression: str) -> set[str]:
    grouped = re.findall(r"\bby \(([^)]*)\)", expression)
    selected = re.findall(r"(\w+)(?:=~|!=|=)\"", expression)
    return {label.strip() for each in grouped for label in each.split(",")} | set(selected)


@pytest.mark.parametrize(("expressions", "least"), [(rules, 10), (panels, 30)])
def test_each_metric_and_label_is_one_of_a_node(expressions: Any, least: int) -> None:
    found = " ".join(re.sub(r"#.*", "", each) for each in expressions())
    named = set(_METRIC.findall(found))
    shown, _, told = (GOLDEN / "metrics.txt").read_text("utf-8").partition("# named in docs")
    assert len(named) > least
    assert named <= set(_METRIC.findall(shown)) | set(_METRIC.findall(told))
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    labels = set(re.findall(r"`([a-z]+)`", page)) | set(re.findall(r"\b(le)[},]", shown))
    assert labels_in(found) <= labels | LABELS


def test_a_wrong_metric_or_label_would_be_found() -> None:
    assert labels_in('sum by (a, b) (x{c="1",d=~"2"})') == {"a", "b", "c", "d"}
    assert _METRIC.findall('rate(docstore_no_such{job="docstore"}[1m])') == ["docstore_no_such"]


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_prometheus_takes_the_alerts_and_the_dashboard(tmp_path: Path) -> None:
    records = [{"record": f"panel:{number}", "expr": e} for number, e in enumerate(panels())]
    dashboard = tmp_path / "dashboard.yml"
    dashboard.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": records}]}))
    subprocess.run(["promtool", "check", "rules", ALERTS, dashboard], check=True)


def variables_of_the_image() -> dict[str, str]:
    (line,) = re.findall(r"^ENV (.+)$", DOCKERFILE, re.MULTILINE)
    return dict(word.split("=", 1) for word in shlex.split(line))


def node_of(variables: Mapping[str, str]) -> Config:
    """Return the configuration of a node that the image starts with these variables."""
    return parse(from_environment(variables_of_the_image() | dict(variables)))


def test_the_image_is_made_of_existing_files() -> None:
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    for pattern in (word for line in copied for word in line.split()):
        assert list(ROOT.glob(pattern)), f"{pattern} is missing"
    assert "docstore" in {word for line in copied for word in line.split()}


def test_the_image_has_no_root_and_keeps_its_data() -> None:
    (user,) = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    (volume,) = re.findall(r"^VOLUME (\S+)$", DOCKERFILE, re.MULTILINE)
    node = node_of({"DOCSTORE_INSECURE": "true", "DOCSTORE_ADVERTISE": "127.0.0.1:8001"})
    assert int(user) > 0
    assert str(node.data) == volume


@pytest.mark.thorough
def test_the_image_is_healthy_while_its_node_is_ready() -> None:
    (text,) = re.findall(r"^HEALTHCHECK .* CMD (\[.+\])$", DOCKERFILE, re.MULTILINE)

    def check(port: int) -> int:
        command = json.loads(text.replace(":8001", f":{port}"))
        return subprocess.run(command, stderr=subprocess.DEVNULL, check=False, env={}).returncode

    with LocalCluster(1) as cluster, socket.create_server(("127.0.0.1", 0)) as silent:
        assert check(int(cluster.urls[0].rpartition(":")[2])) == 0
        assert check(silent.getsockname()[1]) != 0


def services() -> Mapping[str, Any]:
    return yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))["services"]


def test_compose_starts_a_group_of_three() -> None:
    nodes = {name: each for name, each in services().items() if each["image"] == IMAGE}
    configs = [node_of(each["environment"]) for each in nodes.values()]
    assert [config.node_id for config in configs] == list(nodes)
    for config in configs:
        assert {each.id: each.address.host for each in config.bootstrap} == {n: n for n in nodes}
    watched = yaml.safe_load((FOLDER / "compose" / "prometheus.yml").read_text("utf-8"))
    (job,) = watched["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"{name}:8001" for name in nodes]}]


def test_compose_mounts_existing_files_and_has_local_ports() -> None:
    ports = [port for each in services().values() for port in each["ports"]]
    assert len(set(ports)) == len(ports)
    assert all(port.startswith("127.0.0.1:") for port in ports)
    mounts = [mount for each in services().values() for mount in each["volumes"]]
    files = [mount.partition(":")[0] for mount in mounts if mount.startswith(".")]
    assert len(files) >= 5
    assert all((FOLDER / file).is_file() for file in files)


def manifests() -> Iterator[Mapping[str, Any]]:
    yield from yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text("utf-8"))


def test_kubernetes_takes_the_manifests() -> None:
    for each in manifests():
        kubernetes_validate.validate(each, KUBERNETES, strict=True)
    wrong = dict(next(manifests()), speck={})
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES, strict=True)


def test_the_manifests_start_a_group_of_three() -> None:
    kinds = {each["kind"]: each for each in manifests()}
    state = kinds["StatefulSet"]["spec"]
    labels = state["template"]["metadata"]["labels"]
    headless = {e["metadata"]["name"]: e for e in manifests() if e["spec"].get("clusterIP")}
    assert list(headless) == [state["serviceName"]]
    assert all(e["spec"]["selector"] == labels for e in manifests() if e["kind"] == "Service")
    assert kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    pods = [f"docstore-{number}" for number in range(state["replicas"])]
    (container,) = state["template"]["spec"]["containers"]
    assert container["image"] == IMAGE
    for pod in pods:
        given = {e["name"]: e.get("value", pod) for e in container["env"]}
        node = node_of({k: v.replace("$(DOCSTORE_NODE_ID)", pod) for k, v in given.items()})
        assert [each.id for each in node.bootstrap] == pods
        assert node.url == f"https://{pod}.{state['serviceName']}:8001"
        assert node.tls.peers
    ports = {each["containerPort"] for each in container["ports"]}
    assert ports == {8001, 8002, 8003}


def test_the_settings_are_those_of_a_node_of_three_over_tls() -> None:
    config = parse(tomllib.loads((FOLDER / "node.toml").read_text("utf-8")))
    assert [each.id for each in config.bootstrap] == ["n1", "n2", "n3"]
    assert config.url == "https://db1.example:8001"
    assert config.tls.peers


def test_the_unit_starts_a_node_and_has_its_open_files() -> None:
    (command,) = re.findall(r"^ExecStart=(.+)$", UNIT, re.MULTILINE)
    _, serve, flag, _ = shlex.split(command)
    assert (serve, flag) == ("serve", "--config")
    assert parser().parse_args([flag, "node.toml"]).config == "node.toml"
    assert f"LimitNOFILE={Limits().connections_max + OWN}\n" in UNIT
