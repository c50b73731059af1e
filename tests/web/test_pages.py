"""Pages for people: what they show, in which language, to whom, and that nothing in them runs."""

import html
import re
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest
from fastapi import FastAPI
from msgspec.structs import replace

from gpusight.analysis.records import AiAnalysis
from gpusight.model.history import JournalError
from gpusight.model.series import StoreError
from gpusight.web.accept import choose_language, prefers, quality
from gpusight.web.i18n import LANGUAGES, TEXTS, Words
from gpusight.web.pages.navigation import NAVIGATION
from tests.web.clients import ADMIN, READER, TEAM_A, an_app, get, run
from tests.web.fakes import FakeAnalyzer, make_round, result, verdict
from tests.web.showcase import Showcase, operations, replay

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
CSP = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:"
EVIL = "<script>alert(1)</script>{0}{{7*7}}\"onload='x'"
GPU, WORKLOAD = "/gpu/0000000000000001", "/workload/prod/team-a/Pod/pod-1"
PAGES = ["/", "/?view=table", GPU, WORKLOAD, "/tenants", "/operations", "/replay", "/settings", "/login", "/docs"]
REFUSED = [path for path in PAGES if path not in ("/login", "/docs")]


def page(path: str, app: FastAPI | None = None, **headers: str) -> httpx2.Response:
    return get(path, app, accept=BROWSER, **headers)


def text_of(path: str, analyzer: FakeAnalyzer | None = None, **headers: str) -> str:
    answer = page(path, an_app(analyzer, replay=replay), **headers)
    assert answer.status_code == 200, answer.text
    return re.sub(r'data-words="[^"]*"', "", answer.text)


# --- who gets a page, in which language ---


@pytest.mark.parametrize(
    ("accept", "is_html"),
    [
        ("", False),
        ("*/*", False),
        (BROWSER, True),
        ("application/json, text/html", False),
        ("application/json;q=0.5, text/html;q=0.6", True),
        ("text/html;q=0, */*", False),
        ("text/*", True),
        ("text/html;q=banana", False),
    ],
)
def test_the_page_is_for_who_prefers_html(accept: str, is_html: bool) -> None:
    answer = get("/", accept=accept)
    assert answer.headers["content-type"].startswith("text/html" if is_html else "application/json")
    assert prefers(accept, "text/html", "application/json") == is_html


def test_the_most_specific_range_decides() -> None:
    assert quality("text/*;q=0.3, text/csv;q=0.7, */*;q=0.1", "text/csv") == 0.7
    assert quality("text/*;q=0.3, */*;q=0.1", "text/csv") == 0.3
    assert quality("text/html", "text/csv") == 0.0


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("de, en;q=0.5, zh;q=0.4", "en"),
        ("zh;q=0, en", "en"),
        ("fr", "en"),
    ],
)
def test_the_browser_chooses_the_language(header: str, language: str) -> None:
    assert choose_language(header, LANGUAGES) == language
    assert f'<html lang="{language}"' in page("/", accept_language=header).text


def test_the_choice_of_a_language_and_a_theme_is_kept() -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        headers = {"accept": BROWSER, "accept-language": "en"}
        chosen = await client.get("/tenants?lang=zh&theme=dark", headers=headers)
        assert '<html lang="zh" data-theme="dark">' in chosen.text
        later = await client.get("/", headers=headers)
        assert '<html lang="zh" data-theme="dark">' in later.text
        assert "集群总览" in later.text
        nonsense = await client.get("/?lang=xx&theme=pink", headers=headers)
        assert '<html lang="zh" data-theme="dark">' in nonsense.text

    run(scenario)


def test_switching_the_language_keeps_the_rest_of_the_address() -> None:
    text = text_of("/?view=table&q=a%26b%22&page=1")
    assert 'href="/?view=table&amp;q=a%26b%22&amp;page=1&amp;lang=zh"' in text


# --- the texts ---


def test_both_languages_have_every_text() -> None:
    assert TEXTS["en"].keys() == TEXTS["zh"].keys()
    assert len(TEXTS["en"]) > 200
    assert all(text.strip() for language in LANGUAGES for text in TEXTS[language].values())


@pytest.mark.parametrize("name", TEXTS["en"])
def test_both_languages_fill_in_the_same_words(name: str) -> None:
    blanks = [set(re.findall(r"{(\w+)}", TEXTS[language][name])) for language in LANGUAGES]
    assert blanks[0] == blanks[1]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2 h"), (200_000, "2.3 d")],
)
def test_ages_read_well(seconds: float, text: str) -> None:
    assert Words("en").age(seconds) == text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("path", PAGES)
def test_every_page_comes_in_every_language(path: str, language: str) -> None:
    text = text_of(path, Showcase() if path not in (GPU, WORKLOAD) else None, accept_language=language)
    assert f'<html lang="{language}"' in text
    for tab in NAVIGATION:
        assert TEXTS[language][tab.word] in text


# --- nothing runs, nothing comes from elsewhere ---


@pytest.mark.parametrize("path", PAGES)
def test_no_page_has_a_script_of_its_own(path: str) -> None:
    answer = page(path, an_app(replay=replay))
    assert answer.headers["content-security-policy"] == CSP
    assert not re.search(r"<script(?![^>]* src=\"/static/)|javascript:|\son\w+=|@import", answer.text)
    addresses = re.findall(r'(?:href|src|action)="([^"]*)"', answer.text)
    assert addresses
    assert all(re.match(r"[/?#](?!/)", address) for address in addresses)


def hostile() -> FakeAnalyzer:
    row = result(
        1, 5.0, pod=EVIL, model_name=EVIL, hostname=EVIL, container=EVIL, cluster=EVIL, namespace=EVIL, note=EVIL
    )
    row = replace(row, gpu_id=EVIL, subject="s/" + EVIL, mig_instance=EVIL, slot=EVIL, ai_analysis=_opinion())
    found = make_round([row])
    concluded = replace(
        verdict(row),
        reason=EVIL,
        owner=EVIL,
        team=EVIL,
        nodes=(EVIL,),
        models=(EVIL,),
        subject=replace(verdict(row).subject, id="s/" + EVIL, name=EVIL, how=EVIL, kind=EVIL),
    )
    loans = tuple(
        replace(loan, owner=EVIL, namespace=EVIL, subject="s/" + EVIL, models=(EVIL,)) for loan in found.loans
    )
    found = replace(found, verdicts=(concluded,), loans=loans, problems=(EVIL,), store=EVIL)
    analyzer = Hostile(last=found)
    analyzer.samples = [
        replace(sample, labels={name: EVIL if name != "le" else value for name, value in sample.labels.items()})
        for sample in operations()
    ]
    analyzer.settings = [replace(each, value=EVIL, help=EVIL, origin=EVIL) for each in analyzer.settings]
    return analyzer


def _opinion() -> AiAnalysis:
    return AiAnalysis(
        gpu_id=EVIL,
        status="suspicious",
        confidence=0.5,
        reason=EVIL,
        recommendation=EVIL,
        raw_score=5.0,
        ai_adjusted_score=4.0,
    )


class Hostile(FakeAnalyzer):
    def tenants(self, **asked: Any) -> Any:
        return [replace(use, namespace=EVIL, owner=EVIL, team=EVIL, cluster=EVIL) for use in super().tenants(**asked)]

    def changes(self, **asked: Any) -> Any:
        return [change._replace(reason=EVIL, state=EVIL) for change in super().changes(**asked)]

    def episodes(self, **asked: Any) -> Any:
        return [each._replace(state=EVIL, subject="s/" + EVIL) for each in super().episodes(**asked)]

    def config_changes(self, limit: int) -> Any:
        return [each._replace(actor=EVIL, old=EVIL, new=EVIL) for each in super().config_changes(limit)]

    def roles(self) -> Any:
        return [replace(each, name=EVIL, last_exit=EVIL) for each in super().roles()]


@pytest.mark.parametrize(
    "path", [*(path for path in PAGES if path != WORKLOAD), "/workload/s/" + EVIL.replace("/", "%2F")]
)
def test_what_tenants_write_stays_text(path: str) -> None:
    path = path.replace("{", "%7B").replace('"', "%22").replace("<", "%3C").replace(">", "%3E")
    answer = page(path, an_app(hostile(), replay=replay))
    assert answer.status_code in (200, 404)
    assert "<script>alert" not in answer.text
    assert "49" not in re.findall(r"\{0\}([^\"&]{0,4})", html.unescape(answer.text))
    attributes = re.findall(r"<[a-z][^>]*>", answer.text)
    assert not any(re.search(r"\sonload=", attribute) for attribute in attributes)


def test_the_hostile_names_are_really_there() -> None:
    app = an_app(hostile(), replay=replay)
    for path in ("/?view=table", GPU, "/tenants", "/operations", "/settings"):
        assert html.escape(EVIL, quote=False).split('"')[0] in page(path, app).text, path


def test_hostile_names_stay_text_in_figures_too() -> None:
    figure = get("/page/figures/tenants", an_app(hostile())).json()["figures"][0]
    assert figure["data"][0]["y"][0].startswith("&lt;script&gt;")


# --- what they show ---


def test_the_fleet_page_counts_gpus_once() -> None:
    shared = result(1, 5.0), replace(result(2, 80.0), gpu_id=result(1).gpu_id), result(3, None), result(4, 2.0)
    text = text_of("/", FakeAnalyzer(last=make_round(shared)))
    numbers = re.findall(r'<div class="value">([^<]*)', text)
    assert [each.strip() for each in numbers[:4]] == ["3", "1", "1", "1"], "GPUs, in use, idle, unknown"
    assert "4 allocations" in text
    assert "2.0" in numbers[4], "idle GPU-hours of both tenants"
    assert "6.00" in numbers[5]


def test_a_journal_that_fails_costs_the_fleet_page_one_number() -> None:
    text = text_of("/", FakeAnalyzer(failure=JournalError("the disk is full")))
    assert '<div class="value">5</div>' in text
    assert "the journal is slow to answer" in text


def test_the_columns_of_the_map_tell_what_the_round_tells() -> None:
    app = an_app()
    found = get("/page/fleet.json", app).json()
    columns = found["columns"]
    at = columns["id"].index("0000000000000001")
    assert found["namespaces"][columns["namespace"][at]] == "team-a"
    assert found["states"][columns["state"][at]] == "idle-held"
    assert found["reasons"][columns["subject"][at]] == "Score 5.2."
    assert columns["score"][columns["id"].index("0000000000000005")] is None
    assert {len(column) for column in columns.values()} == {5}


def test_the_map_is_not_sent_twice() -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        first = await client.get("/page/fleet.json")
        again = await client.get("/page/fleet.json", headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")

    run(scenario)


def test_the_table_has_pages_order_and_filters() -> None:
    analyzer = FakeAnalyzer(last=make_round([result(number, number % 90 + 1.0) for number in range(230)]))
    first = text_of("/?view=table", analyzer)
    assert first.count("/gpu/") == 100
    assert "Page 1 of 3" in first
    last = text_of("/?view=table&page=3&sort=-pod", analyzer)
    assert last.count("/gpu/") == 30
    assert 'aria-sort="descending"' in last
    some = text_of("/?view=table&q=POD-22&state=&namespace=", analyzer)
    assert re.findall(r">(pod-\d+)<", some)[0].startswith("pod-22")
    assert "11 of 230" in some
    assert text_of("/?view=table&state=idle-held", analyzer).count("/gpu/") == 27
    assert "Nothing matches" in text_of("/?view=table&q=zzz", analyzer)


def test_before_the_first_round_the_pages_say_so() -> None:
    analyzer = FakeAnalyzer(last=None)
    for path in ("/", "/?view=table", "/tenants", "/operations", "/settings"):
        assert "The first round of analysis has not finished" in text_of(path, analyzer)
    assert page(GPU, an_app(analyzer)).status_code == 503


def test_a_fleet_without_gpus_says_what_to_do() -> None:
    assert "No GPU is in sight." in text_of("/", FakeAnalyzer(last=make_round([])))


def test_the_gpu_page_tells_the_verdict_the_owner_and_how_we_know() -> None:
    text = html.unescape(text_of(GPU))
    for wanted in (
        "Score 5.2.",
        "no series names its owner",
        "li@example.com",
        "vision",
        "Utilization and power",
        "Only utilization and power were known.",
        'href="/workload/prod/team-a/Pod/pod-1"',
        'data-figures="/page/figures/gpu/0000000000000001"',
        "idle, memory held",
        "still",
    ):
        assert wanted in text, wanted
    assert "Opinion of the language model" not in text


def test_the_opinion_of_a_language_model_is_shown_as_such() -> None:
    row = replace(result(1, 5.0), ai_analysis=replace(_opinion(), reason="It waits for requests."))
    text = text_of(GPU, FakeAnalyzer(last=make_round([row])))
    assert "Opinion of the language model" in text
    assert "It waits for requests." in text


def test_what_the_journal_does_not_tell_is_said() -> None:
    assert "The journal cannot be read: the disk is full" in text_of(
        GPU, FakeAnalyzer(failure=JournalError("the disk is full"))
    )


def test_the_workload_page_lists_its_gpus() -> None:
    text = text_of(WORKLOAD)
    assert 'href="/gpu/0000000000000001"' in text
    assert 'data-figures="/page/figures/workload/prod/team-a/Pod/pod-1"' in text


def test_plotly_is_loaded_on_pages_with_charts_only() -> None:
    with_charts = {path for path in PAGES if "plotly" in text_of(path)}
    assert with_charts == {GPU, WORKLOAD, "/tenants", "/replay"}


def test_the_tenants_page_adds_up() -> None:
    text = text_of("/tenants")
    assert ">6.0<" in text.replace(" ", ""), "held by both"
    assert "18.00 USD" in text
    assert "/api/v1/tenants?format=csv&amp;from=" in text
    assert "=HYPERLINK(1)" in text


def test_the_tenants_page_takes_a_span() -> None:
    analyzer = FakeAnalyzer()
    text_of("/tenants?from=2026-01-01T00:00&to=2026-01-02T00:00", analyzer)
    assert analyzer.asked[-1] == {"start": 1767225600.0, "end": 1767312000.0, "namespaces": None}
    assert page("/tenants?from=2026-01-02&to=2026-01-01").status_code == 422


def test_the_operations_page_tells_how_programs_do() -> None:
    text = text_of("/operations", FakeAnalyzer(samples=operations()))
    for wanted in ("zk-prover", "184,230", "41/s", "14 %", "610 ms", "out_of_memory", "NVIDIA RTX 4090", "8.5 GiB"):
        assert wanted in text, wanted


def test_the_operations_page_says_how_to_get_there() -> None:
    text = text_of("/operations")
    assert "from gpusight.instrument import GpuMetrics, serve" in text
    assert "--scrape.target" in text
    assert "connection refused" in text_of("/operations", FakeAnalyzer(failure=StoreError("connection refused")))


def test_banners_tell_what_one_must_know() -> None:
    assert "Simulated data" in text_of("/", FakeAnalyzer(is_simulated=True))
    assert "Simulated data" not in text_of("/", FakeAnalyzer(is_simulated=False))
    assert "DCGM_FI_DEV_POWER_USAGE could not be read." in text_of("/")
    old = Showcase()
    old.is_old = True
    assert "The data is old" in text_of("/", old)


def test_the_footer_tells_the_roles() -> None:
    text = text_of("/")
    assert re.search(r'data-state="restarting"[^>]*title="ended with code 1"', text)
    assert "2 restarts" in text
    assert [role["name"] for role in get("/api/v1/roles").json()] == ["analyze", "node"]


# --- errors, static files ---


def test_errors_for_browsers_are_pages() -> None:
    answer = page("/nothing", accept_language="zh")
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert "错误 404" in answer.text
    assert answer.headers["content-security-policy"] == CSP
    assert answer.headers["cache-control"] == "no-store"
    assert page("/api/v1/results?limit=hunter2").status_code == 422
    assert "hunter2" not in page("/api/v1/results?limit=hunter2").text


def test_a_defect_is_a_page_too_and_tells_nothing() -> None:
    answer = page("/tenants", an_app(FakeAnalyzer(failure=RuntimeError("secret"))))
    assert answer.status_code == 500
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["x-request-id"] in answer.text
    assert "secret" not in answer.text


@pytest.mark.parametrize("name", ["page.js", "gpusight.css", "plotly.min.js", "mark.svg"])
def test_static_files_are_kept_by_version(name: str) -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        plain = await client.get(f"/static/{name}")
        assert plain.headers["cache-control"] == "public, no-cache"
        tag = plain.headers["etag"]
        stamp = tag.removeprefix('W/"').removesuffix('"')
        named = await client.get(f"/static/{name}?v={stamp}", headers={"Accept-Encoding": "identity"})
        assert named.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert named.content == plain.content
        assert len(named.content) > 200
        assert (await client.get(f"/static/{name}", headers={"If-None-Match": tag})).status_code == 304

    run(scenario)


@pytest.mark.parametrize("name", ["nothing.js", "..%2Fi18n.toml", "%2e%2e/pages/shell.py", "__init__.py"])
def test_no_other_file_is_served(name: str) -> None:
    assert get(f"/static/{name}").status_code == 404


def test_every_link_of_every_page_leads_somewhere() -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        links: set[str] = set()
        for path in PAGES:
            text = (await client.get(path, headers={"accept": BROWSER})).text
            links |= {html.unescape(link) for link in re.findall(r'(?:href|src|data-figures)="(/[^"]*)"', text)}
        assert len(links) > 30
        for link in links:
            assert (await client.get(link)).status_code == 200, unquote(link)

    run(scenario, app=an_app(replay=replay))


# --- who sees what ---


@pytest.mark.parametrize("path", REFUSED)
def test_without_a_token_pages_ask_for_one(path: str) -> None:
    answer = page(path, an_app(read="token", replay=replay))
    assert answer.status_code == 401
    assert '<form method="post" action="/login">' in answer.text
    assert "li@example.com" not in answer.text
    assert "DCGM_FI_DEV_POWER_USAGE" not in answer.text


BOUND = f"Bearer {TEAM_A}"


@pytest.mark.parametrize("path", ["/?view=table", "/tenants", GPU, WORKLOAD])
def test_a_token_bound_to_a_namespace_sees_its_own_on_pages_too(path: str) -> None:
    text = text_of(path, authorization=BOUND)
    assert "team-a" in text
    assert "team-b" not in text


@pytest.mark.parametrize("path", ["/page/fleet.json", "/page/figures/tenants"])
def test_so_do_the_scripts_of_its_pages(path: str) -> None:
    text = get(path, authorization=BOUND).text
    assert "team-a" in text
    assert "team-b" not in text


@pytest.mark.parametrize(
    "path",
    [
        "/gpu/0000000000000002",
        "/workload/prod/team-b/Pod/pod-2",
        "/page/figures/gpu/0000000000000002",
        "/page/figures/workload/prod/team-b/Pod/pod-2",
    ],
)
def test_what_is_not_theirs_is_not_there(path: str) -> None:
    assert get(path, authorization=BOUND).status_code == 404
    assert get(path).status_code == 200


def test_a_bound_token_sees_programs_of_its_namespace_and_no_roles_and_no_audit() -> None:
    mine = [replace(sample, labels={**sample.labels, "namespace": "team-a", "job": "mine"}) for sample in operations()]
    analyzer = FakeAnalyzer(samples=[*operations(), *mine])
    text = text_of("/operations", analyzer, authorization=BOUND)
    assert "mine" in text
    assert "zk-prover" not in text
    assert 'data-state="restarting"' not in text
    assert get("/api/v1/roles", authorization=BOUND).json() == []
    assert "Changes at run time" not in text_of("/settings", authorization=BOUND)


# --- logging in, changing a setting ---


def test_a_form_lets_in_and_leads_back() -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        form = {"Origin": "http://test", "Accept": BROWSER}
        closed = await client.get("/tenants?from=1&to=2", headers={"accept": BROWSER})
        assert 'name="next" value="/tenants?from=1&amp;to=2"' in closed.text
        wrong = await client.post("/login", data={"token": "gst_wrong"}, headers=form)
        assert wrong.status_code == 401
        assert "This token is not known here." in wrong.text
        right = await client.post("/login", data={"token": READER, "next": "/tenants"}, headers=form)
        assert (right.status_code, right.headers["location"]) == (303, "/tenants")
        inside = await client.get("/?view=table", headers={"accept": BROWSER})
        assert "pod-1" in inside.text
        assert 'action="/logout"' in inside.text
        assert (await client.post("/logout", headers=form)).status_code == 303
        assert (await client.get("/", headers={"accept": BROWSER})).status_code == 401

    run(scenario, read="token")


@pytest.mark.parametrize(
    "next_", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:x", "/a b", ""]
)
def test_a_login_leads_nowhere_else(next_: str) -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        form = {"Origin": "http://test", "Accept": BROWSER}
        answer = await client.post("/login", data={"token": READER, "next": next_}, headers=form)
        assert answer.headers["location"] == "/"

    run(scenario)


def test_a_login_without_a_token_is_refused() -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        for body in (b"", b"{}", b'{"token": 5}', b"\xff", b"[" * 100_000):
            assert (await client.post("/login", content=body)).status_code == 422

    run(scenario)


def test_an_admin_changes_a_setting_by_the_form() -> None:
    analyzer = FakeAnalyzer()

    async def scenario(client: httpx2.AsyncClient) -> None:
        form = {"Origin": "http://test", "Accept": BROWSER}
        refused = await client.post("/settings", data={"name": "threshold", "value": "25"}, headers=form)
        assert refused.status_code == 401
        await client.post("/login", data={"token": ADMIN}, headers=form)
        assert 'name="value"' in (await client.get("/settings", headers={"accept": BROWSER})).text
        done = await client.post("/settings", data={"name": "threshold", "value": "25"}, headers=form)
        assert (done.status_code, done.headers["location"]) == (303, "/settings?saved=threshold")
        wrong = await client.post("/settings", data={"name": "threshold", "value": "many"}, headers=form)
        assert wrong.status_code == 422
        assert "this is not what it takes" in wrong.text
        fixed = await client.post("/settings", data={"name": "prom.url", "value": "x"}, headers=form)
        assert "cannot be changed at run time" in fixed.text
        elsewhere = {**form, "Origin": "https://evil.example"}
        assert (
            await client.post("/settings", data={"name": "step", "value": "1"}, headers=elsewhere)
        ).status_code == 403

    run(scenario, app=an_app(analyzer))
    assert analyzer.updates == [({"threshold": "25"}, "ops")]


def test_who_may_not_change_settings_gets_no_form() -> None:
    assert 'name="value"' not in text_of("/settings")
    assert "Log in with an admin token" in text_of("/settings")
    text = text_of("/settings", authorization=f"Bearer {READER}")
    assert 'name="value"' not in text
    assert "Your token may read but not change anything." in text
    assert "geheim" not in text


def test_the_docs_list_every_operation() -> None:
    app = an_app()
    text = html.unescape(page("/docs", app).text)
    for path, methods in app.openapi()["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in text


# --- replay ---


def test_a_back_test_answers_with_a_figure_and_a_table() -> None:
    async def scenario(client: httpx2.AsyncClient) -> None:
        lines = "".join(f"{1_769_800_000 + 60 * minute},a/b,{50 if minute < 100 else 0}\n" for minute in range(600))
        answer = await client.post(
            "/page/replay", json={"policies": ["default"], "csv": f"timestamp,subject,util\n{lines}"}
        )
        said = answer.json()
        assert answer.status_code == 200
        assert said["figures"][0]["data"]
        assert "<td" in said["html"]
        assert "default" in said["html"]
        wrong = await client.post("/page/replay", json={"policies": ["default"]})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "invalid_replay")

    run(scenario, app=an_app(replay=replay))
    assert "cannot run back-tests" in page("/replay", an_app()).text
