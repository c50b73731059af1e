"""Which format and coding a client is answered in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusight.exposition.negotiate import accepts_gzip, choose_dialect
from gpusight.exposition.text import OPENMETRICS, TEXT

PROMETHEUS_2_42 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
PROMETHEUS_3_PROTOBUF_FIRST = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7," + PROMETHEUS_3
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


@pytest.mark.parametrize(
    "accept",
    [
        PROMETHEUS_2_42,
        PROMETHEUS_3,
        PROMETHEUS_3_PROTOBUF_FIRST,
        "application/openmetrics-text",
        "application/openmetrics-text; version=0.0.1",
        'Application/OpenMetrics-Text; Version="1.0.0"; charset=utf-8',
        "text/plain, application/openmetrics-text",
        "text/plain;q=0.5, application/openmetrics-text;q=0.5",
        "*/*, application/openmetrics-text",
        "application/openmetrics-text;q=0.1",
        "application/openmetrics-text;version=2.0.0, application/openmetrics-text;version=1.0.0;q=0.9",
        "application/openmetrics-text;version=2.0.0, application/openmetrics-text;q=0.2",
        "application/openmetrics-text;q=0.2, text/plain;version=1.0.0",
    ],
)
def test_openmetrics_where_the_client_likes_it_no_less(accept: str) -> None:
    assert choose_dialect(accept) is OPENMETRICS


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        BROWSER,
        "text/plain",
        "application/*",
        "application/json",
        "application/openmetrics-text;version=2.0.0",
        "application/openmetrics-text;version=2.0.0, text/plain;q=0.1",
        "application/openmetrics-text;q=0.5, text/plain;q=0.6",
        "application/openmetrics-text;q=0.5, text/*;q=0.6",
        "application/openmetrics-text;q=0.5, */*;q=0.6",
        "application/openmetrics-text;q=0",
        "application/openmetrics-text;q=0.000, text/plain;q=0",
        "application/openmetrics-text;q=high",
        "application/openmetrics-text;q=1.1",
        "application/openmetrics-text;q=-1",
        "application/openmetrics-text;q=",
        "application/openmetrics-textual",
        ",,;;==,q=1;;;\x00\xff",
    ],
)
def test_plain_text_otherwise(accept: str) -> None:
    assert choose_dialect(accept) is TEXT


@pytest.mark.parametrize(
    "header", ["gzip", "GZIP", "x-gzip", "gzip, deflate, br", "*", "br;q=1, gzip;q=0.1", "identity;q=0.5, gzip"]
)
def test_gzip_where_it_is_welcome(header: str) -> None:
    assert accepts_gzip(header)


@pytest.mark.parametrize(
    "header",
    ["", "identity", "gzip;q=0", "gzip; q=0.0", "*;q=0", "*, gzip;q=0", "br", "gzip;q=0.2, identity;q=0.8", "gzip;q=x"],
)
def test_no_gzip_otherwise(header: str) -> None:
    assert not accepts_gzip(header)


@given(st.text())
def test_no_header_upsets_the_choice(header: str) -> None:
    assert choose_dialect(header) in (TEXT, OPENMETRICS)
    assert accepts_gzip(header) in (True, False)
