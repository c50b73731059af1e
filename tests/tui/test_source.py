"""Asking real servers: an analyzer's application, and pages over plain and encrypted connections."""

import asyncio
import http.server
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpusight.model.time import ManualClock, SystemClock
from gpusight.store.http import HttpConfig, Reply
from gpusight.tui import source as module
from gpusight.tui.snapshot import Snapshot, SourceError
from gpusight.tui.source import FleetSource, NodeSource
from gpusight.tui.words import Words
from tests.support.certificates import Authority, Pair
from tests.support.net import free_port
from tests.tui.pages import LOST, SHARED
from tests.web.clients import TEAM_A, an_app
from tests.web.fakes import FakeAnalyzer, a_round, make_round, result
from tests.web.serving import serving

Fetch = Callable[[], Awaitable[Snapshot]]


@contextmanager
def served(body: bytes, pair: Pair | None = None, *, pause: float = 0.0, **headers: str) -> Iterator[str]:
    """This answer to every request, maybe half of it and the rest after a pause."""
    gone = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[: len(body) // 2])
            gone.wait(pause)
            self.wfile.write(body[len(body) // 2 :])

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients may leave
    if pair:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.cert, pair.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"{'https' if pair else 'http'}://localhost:{server.server_port}"
    finally:
        gone.set()
        server.shutdown()
        thread.join()
        server.server_close()


def fetch_node(url: str, **config: Any) -> Snapshot:
    source = NodeSource(HttpConfig(url=url, **config), SystemClock(), Words())
    try:
        return source.fetch()
    finally:
        source.close()


def with_analyzer(
    analyzer: FakeAnalyzer, scenario: Callable[[Fetch], Awaitable[None]], *, read: str = "open", **config: Any
) -> None:
    """Fetches go to the real application over HTTP, all by one source."""

    async def main() -> None:
        async with asyncio.timeout(30), serving(an_app(analyzer, read=read)) as running:
            url = f"http://127.0.0.1:{running.port}"
            source = FleetSource(HttpConfig(url=url, **config), SystemClock(), Words())
            try:
                await scenario(lambda: asyncio.to_thread(source.fetch))
            finally:
                source.close()

    asyncio.run(main())


def test_rows_are_asked_for_once_per_round() -> None:
    analyzer = FakeAnalyzer()

    async def scenario(fetch: Fetch) -> None:
        first, second = await fetch(), await fetch()
        assert second.sections is first.sections
        analyzer.last = a_round(2)
        third = await fetch()
        assert third.sections is not first.sections
        assert third.title.startswith("round 2")

    with_analyzer(analyzer, scenario)


def test_a_fleet_has_its_results_verdicts_and_reasons() -> None:
    async def scenario(fetch: Fetch) -> None:
        found = await fetch()
        gpus, verdicts = found.sections
        row = next(row for row in gpus.rows if row.name == "team-a/pod-1/main")
        assert (row.status, row.note) == ("idle-held", "Score 5.2.")
        assert [row.status for row in verdicts.rows] == ["idle-held", *["productive"] * 3, "unknown"]
        assert found.old_after == 900  # three intervals of the analyzer's
        assert found.problems == ("DCGM_FI_DEV_POWER_USAGE could not be read.",)
        assert found.is_old(found.received)  # the round is from long ago

    with_analyzer(FakeAnalyzer(), scenario)


def test_a_gpu_that_several_share_is_a_branch() -> None:
    shared = [result(number, 50.0, gpu_id="GPU-shared", hostname="n1") for number in (1, 2)]

    async def scenario(fetch: Fetch) -> None:
        rows = (await fetch()).sections[0].rows
        assert [row.name for row in rows] == ["prod/n1 (1)", "GPU-shared (2)", "team-a/pod-1/main", "team-a/pod-2/main"]
        assert rows[2].parent == rows[3].parent == rows[1].key

    with_analyzer(FakeAnalyzer(last=make_round(shared)), scenario)


def test_large_fleets_are_read_page_by_page_and_what_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE_ROWS", 2)
    monkeypatch.setattr(module, "MOST_PAGES", 2)

    async def scenario(fetch: Fetch) -> None:
        found = await fetch()
        assert len(found.facts["results"]) == 4
        assert found.problems[:2] == ("the first 4 of 5 rows",) * 2

    with_analyzer(FakeAnalyzer(), scenario)


def test_a_round_that_ends_between_two_questions_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    analyzer = FakeAnalyzer()
    asked = FleetSource._ask

    def ask(self: FleetSource, path: str, *args: Any) -> Any:
        if path == "/api/v1/verdicts" and analyzer.last is not None and analyzer.last.number == 1:
            analyzer.last = a_round(2)
        return asked(self, path, *args)

    monkeypatch.setattr(FleetSource, "_ask", ask)

    async def scenario(fetch: Fetch) -> None:
        assert (await fetch()).title.startswith("round 2")

    with_analyzer(analyzer, scenario)


def test_before_the_first_round_the_analyzers_own_sentence_is_given() -> None:
    async def scenario(fetch: Fetch) -> None:
        with pytest.raises(SourceError, match=r"answered 503: [A-Z][^{]*$"):
            await fetch()

    with_analyzer(FakeAnalyzer(last=None), scenario)


def test_a_token_is_sent_and_without_one_the_way_out_is_told(tmp_path: Path) -> None:
    async def refused(fetch: Fetch) -> None:
        with pytest.raises(SourceError, match=r"answered 401: .* \(give a token by --token-file\)$"):
            await fetch()

    async def allowed(fetch: Fetch) -> None:
        names = {row.name.split("/")[0] for row in (await fetch()).sections[1].rows}
        assert names == {"team-a"}  # all that this token may see

    token = tmp_path / "token"
    token.write_text(f"{TEAM_A}\n")
    with_analyzer(FakeAnalyzer(), refused, read="token")
    with_analyzer(FakeAnalyzer(), allowed, read="token", bearer_token_file=token)


def test_a_page_over_tls_needs_the_right_authority(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    with served(SHARED.encode(), authority.issue("node")) as url:
        assert fetch_node(url, ca_file=authority.cert).title == "n1"
        with pytest.raises(SourceError, match=r"certificate"):
            fetch_node(url, ca_file=other.cert)


@pytest.mark.parametrize(
    ("body", "config", "reason"),
    [
        (b"node_load1 0.5\n", {}, "answers, but its page is not a node agent's"),
        (b"<html>hello</html>\n", {}, "answers, but its page is not a node agent's"),
        (SHARED.encode(), {"max_bytes": 100}, "its answer is larger"),
    ],
)
def test_what_is_no_page_of_a_node_is_refused(body: bytes, config: dict[str, Any], reason: str) -> None:
    with served(body) as url, pytest.raises(SourceError, match=reason):
        fetch_node(url, **config)


def test_a_server_that_stops_in_the_middle_has_a_deadline() -> None:
    with served(SHARED.encode(), pause=20) as url, pytest.raises(SourceError, match=r"within 0\.2 s$"):
        fetch_node(url, timeout=0.2)


def test_nobody_there() -> None:
    with pytest.raises(SourceError, match=r"^http://127\.0\.0\.1:\d+ refuses the connection$"):
        fetch_node(f"http://127.0.0.1:{free_port()}")


def test_something_else_than_an_analyzer_is_told_apart() -> None:
    with served(b'{"hello": "world"}') as url:
        source = FleetSource(HttpConfig(url=url), SystemClock(), Words())
        with pytest.raises(SourceError, match=r"answers, but not as an analyzer does"):
            source.fetch()
        source.close()


def test_the_age_goes_by_the_nodes_own_clock() -> None:
    """The page was made 3 s after the reading, whatever time it is here."""
    with served(LOST.encode()) as url:
        here = fetch_node(url)
    assert here.age is not None
    assert here.age > 1e6  # BaseHTTPRequestHandler dates by this machine
    there = NodeSource(HttpConfig(url="http://n"), SystemClock(), Words())
    dated = there.read(Reply(LOST.encode(), "Tue, 14 Nov 2023 22:13:23 GMT"))
    assert dated.age == 3.0
    assert [gpu.status for gpu in dated.facts["gpus"]] == ["busy", "old", "down", "down", "down"]


def test_age_grows_while_nothing_newer_comes() -> None:
    clock = ManualClock()
    known = replace(NodeSource(HttpConfig(url="http://n"), clock, Words()).read(Reply(SHARED.encode(), "")), age=2.0)
    assert not known.is_old(known.received + 40)
    assert known.is_old(known.received + 50)
    assert known.age_at(known.received + 50) == 52.0


def test_values_that_are_no_numbers_are_unknown() -> None:
    page = SHARED.replace('gpu="0"} 0.5', 'gpu="0"} NaN')
    source = NodeSource(HttpConfig(url="http://n"), ManualClock(), Words())
    (gpu,) = source.read(Reply(page.encode(), "")).facts["gpus"]
    assert (gpu.status, gpu.utilization_ratio) == ("unknown", None)
