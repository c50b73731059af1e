"""What the written pages show is true: examples run, commands exist, links lead somewhere."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from gpusight.cli import _parser
from gpusight.simulate.spec import parse_faults, parse_spec
from tests.support.markdown import ROOT, blocks, commands, prose

README = ROOT / "README.md"
GUIDE, QUICKSTART = ROOT / "docs" / "instrument.md", ROOT / "docs" / "quickstart.md"
NODE = ROOT / "docs" / "node.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


# --- Python examples ---

_RUNNER = """
import json, sys
import gpusight.instrument as instrument

servers, real_serve = [], instrument.serve

def serve(metrics, port=9090, host=None):
    servers.append(real_serve(metrics, 0, "127.0.0.1"))
    return servers[-1]

instrument.serve = serve
names = {"__name__": "example"}
for line, code in json.load(sys.stdin):
    exec(compile("\\n" * line + code, sys.argv[1], "exec"), names)
assert not [server.error for server in servers if server.error]
"""

_FROM_THE_ISSUE = """
from gpusight.instrument import GpuMetrics, serve
metrics = GpuMetrics()
metrics.set_device_available(True, "GPU-0:NVIDIA-RTX-4090")
metrics.record_crypto_gpu(batch=1000, latency=0.0028, failed=False)
with metrics.operation("merkle", size=len(leaves), device="GPU-0") as op: ...
metrics.set_queue_depth(n, device=None); metrics.set_memory_used(used, total=None, device=None)
metrics.export_prometheus()
"""


def run_python(codes: list[tuple[int, str]], name: str, directory: Path) -> str:
    """Run pieces of code one after the other in one process, their servers on free ports; answer what they print."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _RUNNER, name],
        input=json.dumps(codes),
        capture_output=True,
        text=True,
        check=False,
        cwd=directory,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", [README, GUIDE, QUICKSTART], ids=lambda page: page.name)
def test_python_examples_run_in_order(page: Path, tmp_path: Path) -> None:
    examples = [(block.line, block.text) for block in blocks(page, "python")]

    assert examples
    run_python(examples, page.name, tmp_path)


def test_the_readme_example_prints_its_page(tmp_path: Path) -> None:
    printed = run_python([(block.line, block.text) for block in blocks(README, "python")], "README.md", tmp_path)

    assert "\ngpu_crypto_last_latency_ms 2.8\n" in printed
    assert "\ngpu_merkle_last_tree_size 1024\n" in printed
    assert "\ngpu_queue_depth 3\n" in printed


def test_the_example_of_the_issue_runs_verbatim(tmp_path: Path) -> None:
    run_python([(0, "leaves, n, used = [b''] * 4, 3, 1024"), (0, _FROM_THE_ISSUE)], "issue", tmp_path)


def test_the_gunicorn_application_shows_its_page(tmp_path: Path) -> None:
    application = next(block for block in blocks(GUIDE, "python") if "def app(" in block.text)
    check = """
for path in ("/", "/", "/metrics"):
    body = b"".join(app({"PATH_INFO": path}, lambda status, headers: print(status)))
print(body.decode())
"""
    printed = run_python([(application.line, application.text), (0, check)], "app.py", tmp_path)

    assert printed.startswith("200 OK\n200 OK\n200 OK\n")
    assert '\ngpusight_ops_executions_total{module="render"} 2\n' in printed


# --- commands ---


def test_the_fleet_of_the_node_guide_can_be_simulated() -> None:
    [fleet] = [block for block in blocks(NODE, "yaml") if "workloads:" in block.text]
    [faults] = [block for block in blocks(NODE, "yaml") if block.text.startswith("- {kind: block")]

    assert len(parse_spec(yaml.safe_load(fleet.text), "docs/node.md").workloads) == 4
    assert len(parse_faults(yaml.safe_load(faults.text), "docs/node.md")) == 3


def test_make_help_lists_what_the_pages_name() -> None:
    listed = set(re.findall(r"make (\w+)", _output("make", "help")))
    named = {
        verb
        for page in (README, ROOT / "CONTRIBUTING.md")
        for verb in re.findall(r"`make (\w+)|\$ make (\w+)", page.read_text("utf-8"))
    }

    assert {first or second for first, second in named} <= listed


@each_page
def test_every_command_shown_exists(page: Path) -> None:
    for command, _ in commands(page):
        words = [word for word in shlex.split(command) if not re.match(r"GPUSIGHT_\w+=", word)]
        if ">" in words:
            words = words[: words.index(">")]
        program = Path(words[0]).name
        if program == "gpusight":
            _parser().parse_args(words[1:])
        elif program == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), command
        elif program == "pip":
            assert _installs_what_there_is(words), command
        elif program in {"python", "python3"}:
            assert _runs_what_there_is(words), command
        else:
            assert program in _NOT_OURS, f"{command}: say here how it is checked"


_NOT_OURS = {"curl", "openssl", "gunicorn", "systemctl", "kubectl", "promtool"}


def _installs_what_there_is(words: list[str]) -> bool:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return words[1:] == ["install", "."] or words[1:] in [["install", f".[{extra}]"] for extra in extras]


def _runs_what_there_is(words: list[str]) -> bool:
    if words[1] == "-c":
        return bool(compile(words[2], "example", "exec"))
    if words[1:3] == ["-m", "venv"]:
        return True
    if words[1] == "-m":
        module = ROOT / words[2].replace(".", "/")
        return module.exists() or module.with_suffix(".py").exists()
    return (ROOT / words[1]).exists()


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=30).stdout


# --- the pages themselves ---


@pytest.mark.parametrize("page", [README, ROOT / "docs" / "deployment.md"], ids=lambda page: page.name)
def test_both_languages_have_the_same_headings_code_and_links(page: Path) -> None:
    def structure(page: Path) -> list[int]:
        return [len(match[1]) for match in _HEADING.finditer(prose(page))]

    def code(page: Path) -> list[str]:
        return [block.text for block in blocks(page, "", "console", "sh", "python", "yaml", "ini")]

    def links(page: Path) -> list[str]:
        own = page.name.partition(".")[0]
        return [target for target in _LINK.findall(prose(page)) if not target.startswith(("#", own))]

    chinese = page.with_suffix(".zh-CN.md")
    assert structure(page) == structure(chinese)
    assert code(page) == code(chinese)
    assert links(page) == links(chinese)


@each_page
def test_relative_links_lead_to_files_and_headings(page: Path) -> None:
    for target in _LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert not anchor or anchor in _anchors(there), target


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them: lower case, without punctuation, spaces as dashes."""
    titles = (match[2].lower() for match in _HEADING.finditer(prose(page)))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def test_the_map_names_no_module_that_is_not_there() -> None:
    there = {path.name for path in (ROOT / "src" / "gpusight").rglob("*.py")}
    named = set(re.findall(r"\w+\.py\b", (ROOT / "ARCHITECTURE.md").read_text("utf-8")))

    assert named <= there
