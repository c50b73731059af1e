"""The page at /."""

from html.parser import HTMLParser

from gpusight.exposition.landing import landing_page


class Reader(HTMLParser):
    """Collects what a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: bytes) -> Reader:
    reader = Reader()
    reader.feed(page.decode())
    return reader


def test_it_tells_what_this_is_and_where_to_go() -> None:
    seen = read(
        landing_page(title="Node", version="1.2", role="node", links=[("/metrics", "Metrics")], notes=["No GPU found."])
    )
    assert "gpusight 1.2, role node, Python 3." in seen.text
    assert "No GPU found." in seen.text
    assert seen.links == ["/metrics"]


def test_nothing_on_it_is_taken_for_markup() -> None:
    evil = "<script>alert('1')</script>\"&"
    seen = read(landing_page(title=evil, version=evil, role=evil, links=[('/"><b>', evil)], notes=[evil]))
    assert "script" not in seen.tags
    assert "b" not in seen.tags
    assert seen.links == ['/"><b>']
    assert seen.text.count(evil) == 6


def test_text_that_utf8_cannot_carry_does_no_harm() -> None:
    assert b"\\udc80" in landing_page(title="x\udc80", version="1", role="r", links=())
