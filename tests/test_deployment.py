"""Units, manifests and scrape configurations of docs/deployment.md are valid, and PromQL of all pages can be parsed."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusight.cli import _parser
from gpusight.exposition.webconfig import WebConfigFile
from gpusight.knobs import SETTINGS
from gpusight.runtime.analyze_files import read_prices, read_tenants
from tests.support.certificates import Authority
from tests.support.markdown import ROOT, blocks

DEPLOYMENT = ROOT / "docs" / "deployment.md"
GPUSIGHT = str(Path(sys.executable).with_name("gpusight"))
UNITS = {
    re.search(r"gpusight (\w+)", block.text)[1]: block.text  # type: ignore[index]
    for block in blocks(DEPLOYMENT, "ini")
}
DOCUMENTS = [each for block in blocks(DEPLOYMENT, "yaml") for each in yaml.safe_load_all(block.text)]
KNOWN = {name for setting in SETTINGS for name in setting.env_names}

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


def objects(kind: str) -> list[dict[str, Any]]:
    return [each for each in DOCUMENTS if each.get("kind") == kind]


def pods() -> Iterator[dict[str, Any]]:
    yield from (each["spec"] for each in objects("Pod"))
    yield from (each["spec"]["template"]["spec"] for kind in ("DaemonSet", "Deployment") for each in objects(kind))


def containers() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(pod, one) for pod in pods() for one in pod["containers"] if one["image"].startswith("gpusight")]


# --- systemd ---


@pytest.mark.parametrize("role", UNITS)
def test_a_unit_starts_a_role_with_settings_that_there_are(role: str) -> None:
    unit = UNITS[role]
    [command] = re.findall(r"^ExecStart=/opt/gpusight/bin/gpusight (.+)$", unit, re.MULTILINE)
    _parser().parse_args(shlex.split(command))

    assert command.split()[0] in {"node", "analyze", "ops"}
    assert set(re.findall(r"^Environment=(\w+)=", unit, re.MULTILINE)) <= KNOWN


def test_there_is_a_unit_for_each_role_that_runs_on_a_machine() -> None:
    assert UNITS.keys() == {"node", "analyze", "ops"}


def test_the_environment_file_has_settings_that_make_sense() -> None:
    [text] = [block.text for block in blocks(DEPLOYMENT, "sh")]
    environ = dict(line.split("=", 1) for line in text.splitlines())
    done = subprocess.run(
        [GPUSIGHT, "settings", "--role", "analyze"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("environment GPUSIGHT_") == len(environ)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("role", UNITS)
def test_systemd_finds_no_fault_with_a_unit(role: str, tmp_path: Path) -> None:
    path = tmp_path / f"gpusight-{role}.service"
    path.write_text(UNITS[role].replace("/opt/gpusight/bin/gpusight", GPUSIGHT))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True, check=False, timeout=30
    )

    about_it = [line for line in done.stderr.splitlines() if path.name in line]
    assert (done.returncode, about_it) == (0, [])


# --- Kubernetes ---


def test_the_manifests_have_what_the_page_speaks_of() -> None:
    kinds = [each.get("kind") for each in DOCUMENTS]

    assert {kind for kind in kinds if kind} == {
        *("Namespace", "DaemonSet", "PodMonitor", "ConfigMap", "Deployment", "Service", "Pod")
    }
    assert all(each["apiVersion"] and each["metadata"]["name"] for each in DOCUMENTS if "kind" in each)


def test_containers_run_commands_and_settings_that_there_are() -> None:
    found = containers()
    for _, container in found:
        _parser().parse_args(container["args"])
        names = {each["name"] for each in container.get("env", [])}
        assert {name for name in names if not name.startswith("NVIDIA_")} <= KNOWN

    assert {container["args"][0] for _, container in found} == {"node", "analyze", "ops"}


def test_mounts_probes_and_settings_refer_to_what_is_there() -> None:
    for pod, container in containers():
        mounted = {each["name"]: each["mountPath"] for each in container.get("volumeMounts", [])}
        ports = {each["name"] for each in container["ports"]}
        probes = [container[probe]["httpGet"] for probe in ("livenessProbe", "readinessProbe") if probe in container]
        files = [each["value"] for each in container.get("env", []) if each["name"].endswith("_FILE")]

        assert mounted.keys() == {volume["name"] for volume in pod["volumes"]}
        assert {probe["port"] for probe in probes} <= ports
        assert all(any(path.startswith(f"{place}/") for place in mounted.values()) for path in files)


def test_selectors_find_their_pods() -> None:
    labels = [
        each["spec"]["template"]["metadata"]["labels"] for kind in ("DaemonSet", "Deployment") for each in objects(kind)
    ]
    selectors = [each["spec"]["selector"] for each in objects("Service")]
    selectors += [
        each["spec"]["selector"]["matchLabels"]
        for kind in ("DaemonSet", "Deployment", "PodMonitor")
        for each in objects(kind)
    ]

    assert all(selector in labels for selector in selectors)


def test_nothing_gets_more_rights_than_it_needs() -> None:
    for pod, container in containers():
        context = container.get("securityContext", {})
        assert not context.get("privileged")
        assert not pod.get("hostNetwork")
        if container["args"][0] != "ops":
            assert (context["capabilities"], context["readOnlyRootFilesystem"]) == ({"drop": ["ALL"]}, True)
        if container["args"][0] != "node":
            assert pod["securityContext"]["runAsNonRoot"]
            assert not pod.get("hostPID")


def test_the_files_of_the_config_map_can_be_used(tmp_path: Path) -> None:
    [data] = [each["data"] for each in objects("ConfigMap")]
    pair = Authority(tmp_path).issue("server")
    mounted = {"/etc/gpusight/tls/tls.crt": str(pair.cert), "/etc/gpusight/tls/tls.key": str(pair.key)}
    for name, text in data.items():
        for path, here in mounted.items():
            text = text.replace(path, here)  # noqa: PLW2901
        (tmp_path / name).write_text(text)

    assert WebConfigFile(tmp_path / "web.yml").current().tls
    assert read_tenants(tmp_path / "tenants.yaml")
    assert read_prices(tmp_path / "prices.yaml")


# --- Prometheus ---


@needs_promtool
def test_promtool_takes_the_scrape_configuration_with_our_rules(tmp_path: Path) -> None:
    [config] = [deepcopy(each) for each in DOCUMENTS if "scrape_configs" in each]
    discovered = next(job for job in config["scrape_configs"] if "kubernetes_sd_configs" in job)
    discovered["dns_sd_configs"] = [{"names": ["pods"], "type": "A", "port": 9394}]
    assert [each["role"] for each in discovered.pop("kubernetes_sd_configs")] == ["pod"]  # Debian's promtool has it not
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    (tmp_path / "gpusight-ca.pem").touch()
    rules = subprocess.run([GPUSIGHT, "rules", "render"], capture_output=True, check=True, timeout=30).stdout
    (tmp_path / "gpusight-rules.yaml").write_bytes(rules)

    assert all(job["honor_labels"] for job in config["scrape_configs"])
    promtool("check", "config", tmp_path / "prometheus.yml")


@needs_promtool
def test_every_query_that_a_page_shows_can_be_parsed(tmp_path: Path) -> None:
    queries = [
        line
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for block in blocks(page, "promql")
        for line in block.text.splitlines()
        if line and not line.startswith("#")
    ]
    rules = [{"record": f"shown:query:{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "shown", "rules": rules}]}))

    assert queries
    promtool("check", "rules", tmp_path / "rules.yaml")


def promtool(*words: object) -> None:
    done = subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stdout + done.stderr
