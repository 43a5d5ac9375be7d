"""Every path over a real socket, as scrapers and browsers ask."""

from __future__ import annotations

import gzip
import json
import signal
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import status as fakes
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gpumond.board import StatusBoard
from gpumond.clock import SystemClock
from gpumond.codec import decode
from gpumond.errors import ExitCode, HostError
from gpumond.exporter.http import HttpServer
from gpumond.model.reading import Value
from gpumond.model.status import HostStatus
from gpumond.model.topology import Snapshot

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
HTML = "NVIDIA <b onmouseover=\"x\">H200</b> & 'co'"


@pytest.fixture(scope="module")
def shared(serve_all):
    """A server whose status no test changes."""
    return serve_all()


def nobody_asks():
    raise AssertionError("the history was opened")


def value(answer, name):
    [found] = [s.value for family in parse_text(answer.text) for s in family.samples if s.name == name]
    return found


class TestPaths:
    @pytest.mark.parametrize(
        ("path", "code", "content_type"),
        [
            ("/", 200, "text/html; charset=utf-8"),
            ("/metrics", 200, "text/plain; version=0.0.4; charset=utf-8"),
            ("/-/healthy", 200, "text/plain; charset=utf-8"),
            ("/-/ready", 200, "text/plain; charset=utf-8"),
            ("/api/v1/status", 200, "application/json"),
            ("/api/v1/topology", 200, "application/json"),
            ("/static/style.css", 200, "text/css; charset=utf-8"),
            ("/favicon.svg", 200, "image/svg+xml"),
            ("/favicon.ico", 200, "image/svg+xml"),
            ("/metrics/", 404, "text/plain; charset=utf-8"),
            ("/static/../../http.py", 404, "text/plain; charset=utf-8"),
            ("/api/v1/secrets", 404, "application/json"),
            ("/%00", 404, "text/plain; charset=utf-8"),
        ],
    )
    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_code_type_and_headers(self, shared, method, path, code, content_type):
        answer = shared.ask(path, method)
        assert (answer.code, answer.headers["Content-Type"]) == (code, content_type)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
        assert "Server" not in answer.headers
        assert bool(answer.body) == (method == "GET")
        assert int(answer.headers["Content-Length"]) > 0

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
    def test_nothing_can_be_changed(self, shared, method):
        answer = shared.ask("/metrics", method)
        assert answer.code == 405
        assert answer.headers["X-Content-Type-Options"] == "nosniff"

    def test_no_redirect_to_an_address_that_the_client_chose(self, shared):
        answer = shared.ask("/metrics/", Host="evil.example")
        assert answer.code == 404
        assert "Location" not in answer.headers


class TestReadiness:
    def test_not_ready_then_ready(self, serve):
        served = serve(HostStatus(version="0.1.0", started_at=fakes.NOW))
        assert served.ask("/-/ready").code == 503
        assert served.ask("/-/healthy").code == 200
        served.change(is_ready=True)
        assert served.ask("/-/ready").code == 200

    def test_everything_else_answers_before(self, serve):
        served = serve(HostStatus(version="0.1.0", started_at=fakes.NOW))
        assert value(served.ask("/metrics"), "gpumond_gpus_expected") == 0
        assert "Starting" in served.ask("/").text
        assert json.loads(served.ask("/api/v1/status").body)["snapshot"] is None
        assert served.ask("/api/v1/topology").code == 503


class TestMetrics:
    def test_openmetrics(self, shared):
        answer = shared.ask(Accept=OPENMETRICS)
        assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        assert "gpumond_gpus" in {family.name for family in parse_openmetrics(answer.text)}

    @pytest.mark.parametrize("accept", ["", OPENMETRICS])
    def test_gzip_is_one_member_with_the_same_text(self, serve, accept):
        served = serve(fakes.eight_gpu_status())
        plain, packed = served.ask(Accept=accept), served.ask(Accept=accept, Accept_Encoding="gzip")
        assert (plain.headers["Content-Encoding"], packed.headers["Content-Encoding"]) == (None, "gzip")
        assert packed.headers["Vary"] == plain.headers["Vary"] == "Accept, Accept-Encoding"
        single = zlib.decompressobj(wbits=31)
        text = single.decompress(packed.body)
        assert single.eof
        assert not single.unused_data
        assert without_process(text) == without_process(plain.body)
        assert len(packed.body) < len(plain.body) / 5
        assert gzip.decompress(packed.body) == text

    def test_name(self, shared):
        answer = shared.ask("/metrics?name[]=gpumond_gpus&name[]=gpumond_time_seconds")
        assert [family.name for family in parse_text(answer.text)] == ["gpumond_gpus", "gpumond_time_seconds"]

    def test_time_is_of_the_scrape_although_nothing_changed(self, serve):
        served = serve()
        first = value(served.ask(), "gpumond_time_seconds")
        served.clock.sleep(1)
        assert value(served.ask(), "gpumond_time_seconds") - first == 1

    def test_a_change_is_in_the_next_scrape(self, serve):
        served = serve()
        for expected in (False, True, False):
            served.change(is_store_writable=expected)
            assert value(served.ask(), "gpumond_state_write_success") == expected
            served.change(unkillable_pids=(1,) * expected)
            assert value(served.ask(), "gpumond_unkillable_processes") == expected

    def test_no_scrape_lacks_a_series_while_the_board_changes(self, serve):
        served = serve()
        expected = names_and_labels(served.ask())
        is_over = threading.Event()

        def change():
            while not is_over.is_set():
                served.change(is_config_current=not served.board.status.is_config_current)

        writers = [threading.Thread(target=change) for _ in range(2)]
        for writer in writers:
            writer.start()
        try:
            with ThreadPoolExecutor(3) as pool:
                answers = list(pool.map(lambda _: served.ask(), range(40)))
        finally:
            is_over.set()
            for writer in writers:
                writer.join()
        assert all(names_and_labels(answer) == expected for answer in answers)

    def test_keep_alive(self, shared, keep_alive):
        connection = shared.connect()
        answers = [keep_alive(connection) for _ in range(20)]
        sock = connection.sock
        assert sock is not None  # http.client drops it when the server closes
        connection.close()
        assert {answer.code for answer in answers} == {200}


def names_and_labels(answer):
    return {(s.name, *sorted(s.labels.items())) for family in parse_text(answer.text) for s in family.samples}


def without_process(body):
    return [line for line in body.splitlines() if not line.startswith(b"process_")]


class TestJson:
    def test_status_comes_back_as_it_was(self, serve):
        status = fakes.eight_gpu_status()
        served = serve(status)
        assert decode(HostStatus, served.ask("/api/v1/status").body) == status
        assert decode(Snapshot, served.ask("/api/v1/topology").body) == status.snapshot


class TestPage:
    def test_hostile_names_are_text(self, serve):
        status = fakes.two_gpu_status()
        named = replace(status.inventory[0], name=HTML)
        page = serve(replace(status, inventory=(named,), simulated=HTML)).ask("/").text
        assert "<b " not in page
        assert "&lt;b onmouseover=&quot;x&quot;&gt;" in page

    @pytest.mark.parametrize("name", ["\udcff", "\x00", "x" * 10_000, "a\nb"])
    @pytest.mark.parametrize("path", ["/", "/metrics"])
    def test_names_that_no_text_holds(self, serve, path, name):
        status = fakes.two_gpu_status()
        gpu = replace(status.snapshot.gpus[0], name=Value(name))
        snapshot = replace(status.snapshot, gpus=(gpu,))
        sweeps = (replace(status.sweeps[0], name=name, skips={name: 1}),)
        answer = serve(replace(status, snapshot=snapshot, inventory=(), sweeps=sweeps)).ask(path)
        assert answer.code == 200
        assert len(answer.body) < 60_000
        answer.body.decode()

    def test_it_needs_nothing_from_elsewhere(self, serve):
        page = serve(fakes.eight_gpu_status()).ask("/").text
        assert "<script" not in page
        assert "style=" not in page
        assert "//" not in page.replace("<!DOCTYPE", "")


class TestLifeCycle:
    def test_a_taken_port_is_said_at_once_and_leaves_nothing_behind(self, serve):
        port = serve().port
        threads = set(threading.enumerate())
        second = HttpServer(
            host="127.0.0.1",
            port=port,
            board=StatusBoard(fakes.two_gpu_status()),
            clock=SystemClock(),
            open_history=nobody_asks,
        )
        with pytest.raises(HostError) as caught:
            second.start()
        assert f"127.0.0.1:{port}" in caught.value.message
        assert f"listens on port {port}" in caught.value.hint
        assert "web.listen_address" in caught.value.hint
        assert caught.value.exit_code is ExitCode.ENVIRONMENT
        assert set(threading.enumerate()) <= threads
        assert not second.is_alive
        second.stop()

    def test_stop_leaves_no_thread_and_frees_the_port(self, serve):
        threads = set(threading.enumerate())
        served = serve()
        idle = served.connect()
        idle.connect()
        port = served.port
        served.ask()
        assert served.server.is_alive
        served.server.stop()
        assert not served.server.is_alive
        assert set(threading.enumerate()) <= threads
        again = HttpServer(
            host="127.0.0.1", port=port, board=served.board, clock=served.clock, open_history=nobody_asks
        )
        again.start()
        again.stop()
        idle.close()

    def test_signal_handlers_stay_the_daemon_s(self, serve):
        before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        serve().ask()
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before

    def test_stop_before_start(self):
        server = HttpServer(
            host="127.0.0.1",
            port=0,
            board=StatusBoard(fakes.two_gpu_status()),
            clock=SystemClock(),
            open_history=nobody_asks,
        )
        server.stop()
        with pytest.raises(RuntimeError):
            _ = server.address
