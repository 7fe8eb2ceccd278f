"""What examples/deployment gives to operators is what this version understands."""

import re
import shlex
import shutil
import subprocess
import tomllib

import pytest

from docstore.cli.serve_flags import parser
from docstore.config import parse
from docstore.model.limits import Limits
from docstore.node.open_files import OWN
from tests.source import ROOT

FOLDER = ROOT / "examples" / "deployment"
ALERTS = FOLDER / "alerts.yml"
UNIT = (FOLDER / "docstore.service").read_text("utf-8")
_METRIC = re.compile(r"\b(?:docstore|process)_[a-z_]+")


def test_each_metric_of_the_alerts_is_told_of_in_docs() -> None:
    expressions = re.findall(r"expr: ((?:.|\n)+?)\n +(?:for|labels):", ALERTS.read_text("utf-8"))
    named = {
        name.removesuffix("_bucket")
        for each in expressions
        for name in _METRIC.findall(re.sub(r"#.*", "", each))
    }
    told = set(_METRIC.findall((ROOT / "docs" / "metrics.md").read_text("utf-8")))
    assert len(named) > 10
    assert named <= told


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
def test_prometheus_takes_the_alerts() -> None:
    subprocess.run(["promtool", "check", "rules", ALERTS], check=True)


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
