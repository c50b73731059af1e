"""Against a real Prometheus with real rules, and against servers that are none."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusight.doctor.findings import Result
from gpusight.doctor.generations import GENERATIONS, by_generation, generation, representatives
from gpusight.doctor.subject import Subject
from gpusight.store.normalize import SOURCES
from gpusight.store.prometheus import PrometheusConfig
from tests.doctor.subjects import outcome, results_of, subject
from tests.support.net import free_port
from tests.support.pages import served_page
from tests.support.process import running, wait_for_http
from tests.support.prometheus import Prometheus, needs_prometheus

DCGM = """\
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",pod="train-0",namespace="team",container="main"} 40
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-2"} 0
DCGM_FI_DEV_MEM_COPY_UTIL{gpu="0",UUID="GPU-1",pod="train-0",namespace="team",container="main"} 10
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1",pod="train-0",namespace="team",container="main"} 1000
"""
NEW_DCGM = 'DCGM_FI_DEV_GPU_UTIL_RATIO{UUID="GPU-1"} 40\nDCGM_FI_DEV_BOARD_POWER_WATTS{UUID="GPU-1"} 70\n'
HAMI = 'HostCoreUtilization{deviceuuid="GPU-1"} 3\n'
NVSHARE = 'nvshare_nvml_up 0\nnvshare_client_info{host_pid="1"} 1\nnvshare_client_info{host_pid="4711"} 1\n'
OWN = "gpusight_nvml_up 1\ngpusight_simulated 1\ngpusight:digest_1:600s_30s_old 1\n"
RULES = {
    "groups": [
        {
            "name": "mixed",
            "interval": "200ms",
            "rules": [
                {"alert": "Fine", "expr": "DCGM_FI_DEV_GPU_UTIL > 1000"},
                {"record": "twice", "expr": "DCGM_FI_DEV_GPU_UTIL * on () group_left () DCGM_FI_DEV_GPU_UTIL"},
            ],
        }
    ]
}


@contextmanager
def prometheus(directory: Path, jobs: list[dict[str, Any]], rules: object = None) -> Iterator[Prometheus]:
    """With rules, as tests.support.prometheus has none."""
    (directory / "rules.yml").write_text(yaml.safe_dump(rules or {"groups": []}))
    config = {
        "global": {"scrape_interval": "250ms", "scrape_timeout": "250ms", "evaluation_interval": "250ms"},
        "rule_files": [str(directory / "rules.yml")],
        "scrape_configs": jobs,
    }
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address={url.removeprefix('http://')}",
    ]
    with running(command, directory / "prometheus.log") as process:
        wait_for_http(f"{url}/-/ready", process)
        yield Prometheus(url)


def job(name: str, address: str, *, honor: bool = True, **labels: str) -> dict[str, Any]:
    return {
        "job_name": name,
        "honor_labels": honor,
        "static_configs": [{"targets": [address], "labels": labels}],
    }


def asking(directory: Path, url: str, *, condition: str = '{pod!=""}', **more: Any) -> Subject:
    config = PrometheusConfig(url, timeout=10.0, condition=condition, scales=more.pop("scales", {}))
    return subject(directory, prometheus=lambda: config, prometheus_is_given=True, **more)


def outcomes(found: Mapping[str, Result]) -> dict[str, tuple[str, str]]:
    return {name: outcome(each) for name, each in found.items()}


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Two exporters whose labels are not honoured, one that does not answer, a rule that is broken."""
    directory = tmp_path_factory.mktemp("rich")
    pod = {"pod": "exporter-x", "namespace": "monitoring"}
    with served_page(DCGM + NEW_DCGM) as dcgm, served_page(HAMI + NVSHARE + OWN) as other:
        jobs = [
            job("dcgm", dcgm.address, honor=False, **pod),
            job("other", other.address),
            job("gpu-away", f"127.0.0.1:{free_port()}"),
        ]
        with prometheus(directory, jobs, RULES) as found:
            found.wait_until(
                lambda each: (
                    len(each.query("DCGM_FI_DEV_GPU_UTIL")) == 2
                    and len(each.query("nvshare_client_info")) == 2
                    and len(each.query("up")) == 3
                    and any(
                        rule["health"] == "err"
                        for group in each._get("/api/v1/rules")["groups"]
                        for rule in group["rules"]
                    )
                )
            )
            yield found


@needs_prometheus
def test_what_a_server_holds(tmp_path: Path, rich: Prometheus) -> None:
    here = asking(
        tmp_path,
        rich.url,
        weights={"utilization": 0.5, "memory_copy": 0.2, "memory_used": 0.2, "power": 0.1},
        recorded_names=lambda: frozenset({"gpusight:digest_1:600s_30s_new"}),
    )
    found = results_of(here, "prom", "clock.skew.prometheus")
    assert outcomes(found) == {
        "prom.reachable": ("ok", "prom.reachable"),
        "prom.families": ("ok", "prom.families-ok"),
        "prom.quantities": ("ok", "prom.quantities-ok"),
        "prom.scale": ("warn", "prom.scale-unclear"),
        "prom.fresh": ("ok", "prom.fresh-ok"),
        "prom.labels": ("ok", "prom.labels-ok"),
        "prom.honor-labels": ("warn", "prom.labels-renamed"),
        "prom.condition": ("ok", "prom.condition-ok"),
        "prom.targets": ("warn", "prom.targets-down"),
        "prom.rules": ("warn", "prom.rules-broken"),
        "prom.alertmanager": ("warn", "prom.alertmanager-none"),
        "prom.recording": ("warn", "prom.recording-others"),
        "prom.symptom.node-nvml": ("ok", "symptom.none"),
        "prom.symptom.node-devices": ("skip", "prom.no-family"),
        "prom.symptom.node-sources": ("skip", "prom.no-family"),
        "prom.symptom.node-regions": ("skip", "prom.no-family"),
        "prom.symptom.other-exporter": ("skip", "prom.no-family"),
        "prom.symptom.simulated": ("warn", "symptom.simulated"),
        "prom.symptom.nvshare-nvml": ("warn", "symptom.nvshare-nvml"),
        "prom.symptom.nvshare-host-pid": ("warn", "symptom.nvshare-host-pid"),
        "prom.symptom.ops-failures": ("skip", "prom.no-family"),
        "prom.symptom.ops-no-gpu": ("skip", "prom.no-family"),
        "clock.skew.prometheus": ("ok", "clock.ok"),
    }
    values = {name: each.finding.values for name, each in found.items()}
    assert values["prom.families"]["generations"] == "DCGM: 3, DCGM 4.6+: 2, HAMi: 1"
    assert values["prom.scale"]["example"] == "DCGM_FI_DEV_GPU_UTIL_RATIO"
    assert values["prom.honor-labels"]["count"] == "1"
    assert values["prom.symptom.nvshare-host-pid"]["count"] == "1"
    assert "gpu-away" in values["prom.targets"]["targets"]
    assert (values["prom.targets"]["down"], values["prom.targets"]["count"]) == (1, 3)


@needs_prometheus
def test_a_declared_scale_is_clear(tmp_path: Path, rich: Prometheus) -> None:
    here = asking(tmp_path, rich.url, scales={"DCGM_FI_DEV_GPU_UTIL_RATIO": 0.01})
    assert outcome(results_of(here, "prom.scale")["prom.scale"]) == ("ok", "prom.scale-ok")


@needs_prometheus
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('{namespace="nobody"}', ("fail", "prom.condition-empty")),
        ("pod!=", ("fail", "prom.condition-wrong")),
        ("", ("ok", "prom.condition-ok")),
    ],
)
def test_conditions(tmp_path: Path, rich: Prometheus, condition: str, expected: tuple[str, str]) -> None:
    here = asking(tmp_path, rich.url, condition=condition)
    assert outcome(results_of(here, "prom.condition")["prom.condition"]) == expected


@needs_prometheus
def test_recordings_for_these_settings(tmp_path: Path, rich: Prometheus) -> None:
    here = asking(tmp_path, rich.url, recorded_names=lambda: frozenset({"gpusight:digest_1:600s_30s_old"}))
    assert outcome(results_of(here, "prom.recording")["prom.recording"]) == ("ok", "prom.recording-ok")


@needs_prometheus
def test_a_score_of_what_nothing_measures(tmp_path: Path, rich: Prometheus) -> None:
    here = asking(tmp_path, rich.url, weights={"utilization": 0.5, "energy": 0.5, "temperature": 0.0})
    finding = results_of(here, "prom.quantities")["prom.quantities"].finding
    assert (finding.status, finding.values["quantities"]) == ("warn", "energy")


@needs_prometheus
def test_an_exporter_that_is_blamed_for_every_gpu(tmp_path: Path) -> None:
    """Its labels are lost: what is left names the exporter's own pod."""
    page = 'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1"} 40\nDCGM_FI_DEV_GPU_UTIL{UUID="GPU-2"} 0\n'
    with served_page(page) as dcgm:
        jobs = [job("dcgm", dcgm.address, honor=False, pod="exporter-x", namespace="monitoring")]
        with prometheus(tmp_path, jobs) as server:
            server.wait_until(lambda each: len(each.query("DCGM_FI_DEV_GPU_UTIL")) == 2)
            found = outcomes(results_of(asking(tmp_path, server.url), "prom"))
            assert found["prom.honor-labels"] == ("warn", "prom.labels-exporters")
            assert found["prom.targets"] == ("ok", "prom.targets-ok")
            assert found["prom.rules"] == ("ok", "prom.rules-ok")
            assert found["prom.alertmanager"] == ("skip", "prom.no-alerts")
            assert found["prom.recording"] == ("skip", "prom.recording-none")


@needs_prometheus
def test_labels(tmp_path: Path) -> None:
    """One server whose only page changes."""
    pages = (
        ("something_else 4\n", "something_else", ("skip", "prom.no-families"), ("skip", "prom.no-families")),
        (
            'DCGM_FI_DEV_GPU_UTIL{gpu="1"} 4\n',
            'DCGM_FI_DEV_GPU_UTIL{UUID=""}',
            ("fail", "prom.labels-no-gpu"),
            HONOURED,
        ),
        (
            'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1"} 4\n',
            'DCGM_FI_DEV_GPU_UTIL{UUID!=""} unless on () DCGM_FI_DEV_GPU_UTIL{UUID=""}',
            ("warn", "prom.labels-nobody"),
            HONOURED,
        ),
        (DCGM, 'DCGM_FI_DEV_GPU_UTIL{pod!=""}', ("ok", "prom.labels-ok"), HONOURED),
    )
    with served_page() as dcgm, prometheus(tmp_path, [job("dcgm", dcgm.address)]) as server:
        for page, shown, labels, honoured in pages:
            dcgm.text = page
            server.wait_until(lambda each, shown=shown: bool(each.query(shown)))  # type: ignore[misc]
            found = outcomes(results_of(asking(tmp_path, server.url), "prom"))
            assert (found["prom.labels"], found["prom.honor-labels"]) == (labels, honoured)
            is_empty = labels[0] == "skip"
            assert found["prom.families"] == (
                ("fail", "prom.families-none") if is_empty else ("ok", "prom.families-ok")
            )


HONOURED = ("ok", "prom.labels-honoured")


# Servers that are none.


@contextmanager
def answering(body: bytes = b"{}", status: int = 200, date: float | None = None) -> Iterator[str]:
    """The same answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response_only(status)
            if date is not None:
                self.send_header("Date", formatdate(date, usegmt=True))
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


ONE = b'{"status":"success","data":{"resultType":"vector","result":[]}}'


@pytest.mark.parametrize(
    ("body", "status"), [(b"<html>sign in</html>", 200), (b"", 401), (b"no", 503), (b'{"status":"error"}', 200)]
)
def test_something_else_listens(tmp_path: Path, body: bytes, status: int) -> None:
    with answering(body, status) as url:
        found = outcomes(results_of(asking(tmp_path, url), "prom", "clock.skew.prometheus"))
    assert found.pop("prom.reachable") == ("fail", "prom.unreachable")
    assert set(found.values()) == {("skip", "prom.unreached")}


def test_nobody_listens_where_nobody_was_told_to(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    by_default = subject(tmp_path, prometheus=lambda: PrometheusConfig(url))
    assert outcome(results_of(by_default, "prom.reachable")["prom.reachable"]) == ("warn", "prom.unreachable")
    asked = subject(tmp_path, prometheus=lambda: PrometheusConfig(url), asked=frozenset({"analyze"}))
    assert outcome(results_of(asked, "prom.reachable")["prom.reachable"]) == ("fail", "prom.unreachable")


def test_settings_that_make_no_client(tmp_path: Path) -> None:
    def broken() -> PrometheusConfig:
        raise ValueError("a TLS key is of no use without its certificate")

    here = subject(tmp_path, prometheus=broken)
    finding = results_of(here, "prom.reachable")["prom.reachable"].finding
    assert (finding.outcome, finding.values["detail"]) == (
        "prom.unreachable",
        "a TLS key is of no use without its certificate",
    )


def test_a_clock_that_is_wrong(tmp_path: Path) -> None:
    with answering(ONE, date=1_000_000_000.0) as url:
        found = results_of(asking(tmp_path, url), "clock.skew.prometheus")["clock.skew.prometheus"]
    assert outcome(found) == ("fail", "clock.wrong")
    assert found.finding.values["seconds"].startswith("-")


def test_a_server_without_a_date(tmp_path: Path) -> None:
    with answering(ONE) as url:
        found = results_of(asking(tmp_path, url), "clock.skew.prometheus")["clock.skew.prometheus"]
    assert outcome(found) == ("skip", "clock.no-date")


def test_an_engine_without_an_api_of_rules(tmp_path: Path) -> None:
    with answering(ONE) as url:
        found = outcomes(results_of(asking(tmp_path, url), "prom.rules", "prom.alertmanager", "prom.families"))
    assert found["prom.families"][0] == "fail"
    assert found["prom.rules"] == ("ok", "prom.rules-ok")


def test_the_embedded_store_needs_no_prometheus(tmp_path: Path) -> None:
    found = outcomes(results_of(subject(tmp_path, store="embedded"), "prom", "scrape"))
    assert found.pop("scrape.targets") == ("fail", "scrape.nothing")
    assert set(found.values()) == {("skip", "prom.not-used")}


def test_pages_to_scrape(tmp_path: Path) -> None:
    with served_page("up 1\n") as page:
        good, away = f"http://{page.address}/metrics", f"http://127.0.0.1:{free_port()}/metrics"
        fine = subject(tmp_path, store="embedded", scrape_targets=(good,))
        half = subject(tmp_path, store="embedded", scrape_targets=(good, away))
        assert outcome(results_of(fine, "scrape")["scrape.targets"]) == ("ok", "scrape.ok")
        found = results_of(half, "scrape")["scrape.targets"]
    assert outcome(found) == ("fail", "scrape.down")
    assert (found.finding.values["down"], found.finding.values["count"]) == (1, 2)


def test_every_family_is_of_one_generation() -> None:
    named = {source.family: generation(source.family) for source in SOURCES}
    assert "?" not in named.values()
    assert set(named.values()) == {each.name for each in GENERATIONS}
    assert named["DCGM_FI_PROF_PCIE_TX_BYTES"] == "DCGM"
    assert named["DCGM_FI_DEV_FB_USED"] == "DCGM"
    assert named["DCGM_FI_DEV_FB_USED_BYTES"] == "DCGM 4.6+"
    assert named["DCGM_FI_PROF_SM_UTIL_RATIO"] == "DCGM 4.6+"
    assert {named[source.family] for source in SOURCES if "renamed" in source.proof or "4.7" in source.proof} == {
        "DCGM 4.6+"
    }


def test_one_family_stands_for_its_exporter() -> None:
    present = {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "HostCoreUtilization", "unknown"}
    assert representatives(present) == ["DCGM_FI_DEV_GPU_UTIL", "HostCoreUtilization"]
    assert by_generation(present)["DCGM"] == ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"]
