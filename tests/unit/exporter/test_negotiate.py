from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpumond.exporter.negotiate import Format, accepts_gzip, choose_format

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", Format.TEXT),
        ("*/*", Format.TEXT),
        (BROWSER, Format.TEXT),
        (PROMETHEUS_2, Format.OPENMETRICS),
        (PROMETHEUS_3, Format.OPENMETRICS),
        ("Application/OpenMetrics-Text", Format.OPENMETRICS),
        ("application/openmetrics-text;version=2.0.0, text/plain", Format.TEXT),
        ("text/plain;q=0.4, application/openmetrics-text;q=0.3", Format.TEXT),
        ("application/openmetrics-text; q=0", Format.TEXT),
        ("application/openmetrics-text; q=2", Format.TEXT),
        ("application/openmetrics-text; q=nan", Format.TEXT),
        ("application/openmetrics-text; q=much", Format.TEXT),
        ("image/png", Format.TEXT),
        (";;,,=;q", Format.TEXT),
    ],
)
def test_format(accept, expected):
    assert choose_format(accept) is expected


@pytest.mark.parametrize(
    ("accept_encoding", "expected"),
    [
        ("", False),
        ("gzip", True),
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip;q=0, *", False),
        ("*", True),
        ("br", False),
        ("xgzip", False),
        ("GZIP", True),
    ],
)
def test_gzip(accept_encoding, expected):
    assert accepts_gzip(accept_encoding) is expected


@given(st.text())
def test_no_header_is_an_error(text):
    choose_format(text)
    accepts_gzip(text)
