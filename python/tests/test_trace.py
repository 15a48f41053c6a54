"""Traces: what Python gets is what the program prints."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
import time
import weakref
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import latscope as lat
from latscope.measure import Measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Data = Callable[[str], str]
    Program = Callable[..., str]

STORY = "perf_script/story_2s.txt.gz"
FILES = [
    STORY,
    "lat/io.lat",
    "parquet/zstd.parquet",
    "compare/volA.txt",
    "fio_log/A_clat.1.log.zst",
    "spark_eventlog/mini_3.5.9.json.zst",
    "perf_script/stacks_fp.txt.gz",
]
FILTER = "lat > 100us"


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("filter", [None, FILTER])
def test_events_are_those_of_the_program(data: Data, program: Program, file: str, filter: str | None) -> None:
    events = lat.read(data(file), filter=filter).events()
    columns = ",".join(events.column_names)
    words = [filter] if filter else []
    printed = lines(program("events", "-r", data(file), "--json", "--columns", columns, *words))
    found = events.to_pylist()
    # The program leaves out what an event has not.
    assert [{key: value for key, value in row.items() if value is not None} for row in found] == [
        {key: value for key, value in row.items() if value is not None} for row in printed
    ]


def test_columns_and_other_programs(data: Data) -> None:
    trace = lat.read(data(STORY), columns=["time_ns", "latency_ns", "device"])
    events = trace.events()
    assert events.column_names == ["time_ns", "latency_ns", "device"]
    assert events.schema.field("latency_ns").metadata == {b"unit": b"ns"}
    assert pa.types.is_dictionary(events.schema.field("device").type)
    slowest = max(events["latency_ns"].to_pylist())
    assert pl.DataFrame(trace)["latency_ns"].max() == slowest
    assert duckdb.sql("SELECT max(latency_ns), count(*) FROM events").fetchall() == [(slowest, len(events))]
    assert sum(len(batch) for batch in trace.batches()) == len(events)
    several = lat.read([data(STORY), data("compare/volA.txt")]).events()
    folder = Path(data("compare"))
    assert lat.read(str(folder / "vol[AB].txt")).files() == [str(folder / f"vol{name}.txt") for name in "AB"]
    assert lat.read([folder / "vol?.txt", data(STORY)]).files()[2:] == [data(STORY)]
    assert set(several["trace"].to_pylist()) == {data(STORY), data("compare/volA.txt")}


@pytest.mark.parametrize("options", [{}, {"interval": "100ms"}, {"interval": "500ms", "by": "device", "all": True}])
def test_percentiles(data: Data, program: Program, options: dict[str, Any]) -> None:
    words = [
        word
        for option, flag in (("interval", "-i"), ("by", "--by"))
        if option in options
        for word in (flag, options[option])
    ]
    words += ["--all"] if "all" in options else []
    for count_by in ("overlap", "completion"):
        found = lat.read(data(STORY), filter=FILTER).percentiles([50, 99.9], count_by=count_by, **options)
        command = ["percentiles", "-r", data(STORY), "--json", "--p", "50,99.9", "--count-by", count_by, *words, FILTER]
        assert found.to_pylist() == lines(program(*command))


@pytest.mark.parametrize("file", [*FILES, "fio_json/A.json.zst", "hlog/jhiccup_v2.hlog"])
def test_summary(data: Data, program: Program, file: str) -> None:
    if not Path(data(file)).exists():
        pytest.skip(f"there is no {file}")
    found = lat.read(data(file)).summary()
    assert found == json.loads(program("summary", "-r", data(file), "--json"))
    assert str(found) == program("summary", "-r", data(file))
    by_kind = lat.read(data(file)).summary(by=[])
    assert by_kind == json.loads(program("summary", "-r", data(file), "--json", "--by", "none"))
    assert "total" in str(found)


def test_explain_and_compare(data: Data, program: Program) -> None:
    trace = lat.read(data(STORY))
    assert trace.explain() == json.loads(program("explain", "-r", data(STORY), "--json"))
    found = trace.explain("lat > 5ms")
    assert found == json.loads(program("explain", "-r", data(STORY), "--json", "lat > 5ms"))
    assert "device = loop3" in found.text
    first, second = (data(f"compare/vol{name}.txt") for name in "AB")
    answer = lat.compare({"volA.txt": lat.read(first), "volB.txt": lat.read(second)})
    answer.pop("traces")
    assert answer == json.loads(program("compare", first, second, "--json"))
    with pytest.raises(lat.UsageError, match="same requests"):
        lat.read(first).compare(lat.read(first))


def test_pictures(data: Data, program: Program, tmp_path: Path) -> None:
    trace = lat.read(data(STORY))
    picture = tmp_path / "latency.svg"
    program("heatmap", "-r", data(STORY), "--by", "device", "-o", str(picture))
    assert trace.heatmap(by="device") == picture.read_text(encoding="utf-8")
    page = trace.report()
    assert page.startswith("<!") and "</html>" in page
    shown = trace.series("100ms")._repr_html_()
    assert "srcdoc=" in shown and "data:image/svg+xml;base64," in shown
    assert "srcdoc=" not in (trace.series("100ms") + trace.series("100ms"))._repr_html_()


def test_a_page_has_the_title_of_the_program(data: Data, program: Program, tmp_path: Path) -> None:
    def title(page: str) -> str:
        found = re.search("<title>(.*?)</title>", page)
        assert found is not None
        return found[1]

    run, printed = tmp_path / "run", tmp_path / "page.html"
    run.mkdir()
    (run / "job_clat.1.log").symlink_to(data("fio_log/u_clat.1.log"))
    for paths in ([data(STORY)], [str(run)], [data(STORY), data("compare/volA.txt")]):
        program("report", *(word for path in paths for word in ("-r", path)), "-o", str(printed))
        trace = lat.read(paths)
        assert title(trace.report()) == title(printed.read_text(encoding="utf-8"))
        assert title(trace.report("Disk")) == "Disk"
    assert "job_clat.1.log" in title(lat.read(run).report())


def test_times_of_centuries_fit_into_tables(program: Program, tmp_path: Path) -> None:
    path, most = tmp_path / "most.csv", 2**63 - 1
    path.write_text(f"time_ns,latency_ns\n{most},{most}\n0,1\n", encoding="utf-8")
    printed = [row for row in lines(program("percentiles", "-r", str(path), "--json")) if row["count"]]
    trace = lat.read(path)
    for table in (trace.percentiles(), trace.series().percentiles()):
        rows = [row for row in table.to_pylist() if row["count"]]
        assert [row["time_ns"] for row in rows] == [row["time_ns"] for row in printed]
        assert [row["max_ns"] for row in rows] == [1, most]
        assert [row["p50_ns"] for row in rows] == [1, most]
        assert rows[-1]["mean_ns"] == float(most)
    one_hour = trace.series("1h").percentiles([50])
    assert one_hour["p50_ns"].drop_null().to_pylist() == [1, most]


def test_what_was_lost_is_said(data: Data) -> None:
    trace = lat.read(data(STORY))
    assert trace.notes == []
    trace.events()
    assert any("missing: 6 unpaired completions" in note for note in trace.notes)
    assert any("missing: 6 unpaired completions" in note for note in trace.series().notes)


def test_errors_are_sentences(data: Data, tmp_path: Path) -> None:
    with pytest.raises(lat.Error, match=r"^nothing: No such file\.$|No such file"):
        lat.read("nothing").events()
    with pytest.raises(lat.UsageError, match=r"Expected a value.*\n.*\n +\^"):
        lat.read(data(STORY), filter="lat >")
    with pytest.raises(lat.UsageError, match='needs a unit: "7ms"'):
        lat.read(data(STORY)).series("7")
    with pytest.raises(lat.UsageError, match="no column colour"):
        lat.read(data(STORY)).events(["colour"])
    with pytest.raises(lat.UsageError, match="known formats"):
        lat.read(data(STORY), format="tea leaves")
    with pytest.raises(lat.UsageError, match="no percentiles"):
        lat.read(data(STORY)).percentiles("half")  # type: ignore[arg-type]
    for once in (50, [50, 50], [50, 50.0]):
        assert lat.read(data(STORY)).percentiles(once).column_names.count("p50_ns") == 1
    with pytest.raises(lat.UsageError, match="at least one"):
        lat.read([])
    with pytest.raises(lat.Error, match="No file has such a name"):
        lat.read(data("compare/nothing*"))
    # A NUL in a message ends a text in C, and must not end the interpreter.
    with pytest.raises(lat.Error, match="NUL"):
        lat.read("a\0b").events()
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(Path(data("parquet/zstd.parquet")).read_bytes()[:4000])
    with pytest.raises(lat.Error, match="truncated or damaged"):
        lat.read(broken).events()
    stored = tmp_path / "stored.parquet"
    series = lat.read(data(STORY)).series("100ms")
    assert issubclass(lat.UsageError, lat.Error)
    with pytest.raises(lat.UsageError, match="whole multiple"):
        series.rebin("130ms")
    assert not stored.exists()
    for added in (5, "1s", None):
        with pytest.raises(lat.UsageError, match=f"another series only, not to {added!r}"):
            _ = series + added  # type: ignore[operator]
    with pytest.raises(lat.UsageError, match="another series only, not to 5"):
        _ = 5 + series  # type: ignore[operator]
    with pytest.raises(lat.UsageError, match=r"written as SVG; give a name that ends in \.svg"):
        series.heatmap().save(tmp_path / "latency.png")
    with pytest.raises(lat.UsageError, match=r"written as HTML; give a name that ends in \.html"):
        lat.read(data(STORY)).report().save(tmp_path / "report")
    with pytest.raises(lat.Error, match="Cannot be written: No such file"):
        series.heatmap().save(tmp_path / "nowhere" / "latency.svg")


@pytest.mark.parametrize("view", ["summary", "events"])
def test_ctrl_c_ends_a_reading(view: str) -> None:
    """A pipe without an end is left at once, and other threads run meanwhile: the lock of the interpreter is free."""
    script = (
        "import latscope as lat, os, signal, threading\n"
        "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
        "try:\n    lat.read('/dev/stdin', format='csv').summary()\n"
        "except KeyboardInterrupt:\n    print('interrupted')\n"
    ).replace("summary()", f"{view}()")
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write("time_ns,latency_ns\n1,2\n")
        child.stdin.flush()
        # The pipe stays open: nothing has to arrive for the interrupt to be seen.
        assert "interrupted" in child.stdout.read()


def test_series_are_views_that_add_up(data: Data) -> None:
    trace = lat.read(data("parquet/zstd.parquet"))
    events, series = trace.events(), trace.series("100ms", by="kind")
    latency = events["latency_ns"].to_numpy()
    interval = (events["time_ns"].to_numpy() + latency) // 100_000_000
    kinds = np.array(events["kind"].to_pylist())
    buckets = lat.buckets.bucket(latency)
    low, _ = lat.buckets.bounds(buckets)
    for (kind,) in series.groups:
        counts, edges = series.matrix((kind,)), series.edges((kind,))
        for row, start in enumerate(series.start_ns):
            values = low[(interval == start // 100_000_000) & (kinds == kind)]
            assert counts[row].tolist() == np.histogram(values, bins=edges.astype(np.float64))[0].tolist()
    matrix = series.matrix()
    assert matrix.shape == (len(series), len(series.edges()) - 1)
    assert matrix.sum() == len(events) and not matrix.flags.owndata and not matrix.flags.writeable
    cells = series.cells()
    assert sum(cells["n"].to_pylist()) == len(events)
    assert set(cells.column_names) == {"time_ns", "kind", "k", "n"}

    halves = [lat.read(data("parquet/zstd.parquet"), filter=text) for text in ("lat < 2ms", "lat >= 2ms")]
    both = lat.merge(half.series("100ms", by="kind") for half in halves)
    assert (sum(half.series("100ms", by="kind") for half in halves).matrix() == both.matrix()).all()
    with pytest.raises(lat.UsageError, match="at least one"):
        lat.merge([])
    assert both.percentiles().to_pylist() == series.percentiles().to_pylist()
    assert (both.matrix() == matrix).all()
    wide = series.rebin("1s")
    assert wide.matrix().sum() == len(events) and wide.width_ns == 1_000_000_000
    assert wide.matrix().tolist() == trace.series("1s", by="kind").matrix().tolist()
    with pytest.raises(lat.UsageError, match="cannot be merged"):
        _ = series + trace.series("100ms")
    with pytest.raises(lat.UsageError, match="no group nobody"):
        series.matrix("nobody")
    time = trace.series("100ms", weight="time")
    assert time.matrix(weight=True).sum() == latency.sum()
    with pytest.raises(lat.UsageError, match="weight of this series is count"):
        series.matrix(weight=True)
    assert "events" in repr(series)


def test_series_of_different_clocks_are_refused(data: Data) -> None:
    first, second = (lat.read(data(file)).series("100ms") for file in ("compare/volA.txt", "lat/io.lat"))
    with pytest.raises(lat.UsageError, match="clocks"):
        _ = first + second
    # Of one kind they add up.
    other = lat.read(data("compare/volB.txt")).series("100ms")
    assert (first + other)._native.events == first._native.events + other._native.events


def test_what_hangs_is_merged(data: Data) -> None:
    one = lat.read(data(STORY)).series("50ms")
    waits = one.percentiles()["waiting"].to_pylist()
    assert sum(waits) > 0
    assert (one + one).percentiles()["waiting"].to_pylist() == [2 * number for number in waits]


def test_files_of_one_recording_are_read_together(data: Data) -> None:
    one = lat.read(data(STORY)).series("50ms")

    def part(recording: str, later_ns: int) -> lat.Series:
        kept = json.loads(one._native.to_bytes())
        for context in kept[2]:
            context["properties"]["recording"] = recording
            context["span_ns"] = [moment + later_ns for moment in context["span_ns"]]
        return lat.Series(type(one._native).from_bytes(json.dumps(kept).encode()))

    def twice(series: lat.Series) -> list[str]:
        return [note for note in series.notes if "count again in a later file of the same recording" in note]

    first, second, other = part("1", 0), part("1", 10**9), part("2", 10**9)
    assert len(twice(first + second)) == 1 and "latscope.read([...])" in twice(second + first)[0]
    assert not twice(first) and not twice(second) and not twice(first + other) and not twice(first + first)


def test_groups_that_no_event_has_are_noted(data: Data) -> None:
    sentence = "no event has cgroup, a field of the groups."
    for ask in (
        lambda trace: trace.series("1s", by=["device", "cgroup"]).notes,
        lambda trace: (trace.percentiles([50], "1s", by="cgroup"), trace.notes)[1],
        lambda trace: (trace.summary(by="cgroup"), trace.notes)[1],
    ):
        assert sentence in ask(lat.read(data(STORY)))
    assert sentence not in lat.read(data(STORY)).series("1s", by="device").notes


def test_tables_have_the_same_types_whatever_they_hold(data: Data) -> None:
    def kinds(table: pa.Table) -> list[tuple[str, pa.DataType]]:
        names = [name.replace("_bytes", "_ns") for name in table.column_names]
        return list(zip(names, table.schema.types, strict=True))

    trace, nothing = lat.read(data(STORY)), lat.read(data(STORY), filter="lat > 1h")
    for options in ({}, {"by": "device"}, {"count_by": "completion"}):
        tables = [each.percentiles([50, 99.9], "100ms", **options) for each in (trace, nothing)]  # type: ignore[arg-type]
        tables.append(trace.percentiles([50, 99.9], "100ms", quantity="size", **options))  # type: ignore[arg-type]
        assert [kinds(table) for table in tables] == [kinds(tables[0])] * 3
        assert len(pa.concat_tables(tables[:2])) == len(tables[0])
    series = trace.series("100ms")
    assert kinds(series.percentiles([50])) == kinds(trace.percentiles([50], "100ms"))
    assert (series.unit, trace.series("100ms", quantity="size").unit) == ("ns", "bytes")


def test_numbers_and_lengths_of_time(data: Data) -> None:
    trace = lat.read(data(STORY))
    expected = trace.percentiles([50, 99.9], "100ms").to_pylist()
    intervals = [timedelta(milliseconds=100), np.timedelta64(100, "ms"), np.timedelta64(100_000, "us")]
    for interval in intervals:
        assert trace.percentiles([np.int64(50), np.float64(99.9)], interval).to_pylist() == expected
    single = trace.percentiles(np.int64(50), "100ms").to_pylist()  # type: ignore[arg-type]
    assert single == trace.percentiles(50, "100ms").to_pylist()


def test_batches_keep_their_trace(data: Data) -> None:
    trace = lat.read(data(STORY))
    gone = weakref.ref(trace)
    batches, events = trace.batches(), pa.RecordBatchReader.from_stream(trace)
    del trace
    gc.collect()
    assert gone() is not None
    assert sum(map(len, batches)) == sum(map(len, events))
    del batches, events
    gc.collect()
    assert gone() is None


def test_heat_maps_are_of_any_quantity(data: Data, program: Program) -> None:
    trace = lat.read(data(STORY))
    found = trace.heatmap(quantity="size", weight="time", precision=16)
    assert found == trace.series(quantity="size", weight="time", precision=16).heatmap()
    assert "size" in found and found != trace.heatmap()


def test_plots_have_labels(data: Data) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    axes = lat.read(data(STORY)).series("100ms", quantity="size").plot()
    assert axes.get_ylabel() == "size (bytes)" and "events" in axes.get_title() and "time" in axes.get_xlabel()
    empty = lat.read(data(STORY), filter="lat > 1h").series("1s")
    assert "0 events" in empty.plot().get_title()


def test_series_of_many_groups_and_intervals(data: Data) -> None:
    trace = lat.read(data(STORY))
    cells = trace.series("100ms", by=["device", "kind"]).cells()
    for name in ("device", "kind"):
        texts = cells[name].chunk(0).dictionary.to_pylist()
        assert len(set(texts)) == len(texts)
    fine = trace.series("1ns")
    assert len(fine) > 1_000_000_000 and "intervals" in repr(fine)
    doubled = trace.series("100ms")
    for _ in range(20):
        doubled = doubled + doubled
    assert doubled.notes == trace.series("100ms").notes
    assert trace.series("100ms", precision=16).power == 4
    with pytest.raises(lat.UsageError, match="1, 2, 4"):
        trace.series(precision=5)
    empty = lat.read(data(STORY), filter="lat > 1h").series()
    assert empty._repr_html_().startswith("<img")


WRONG: list[tuple[Callable[[lat.Trace], object], str]] = [
    (lambda trace: lat.read(5), "5 is no path"),  # type: ignore[arg-type]
    (lambda trace: lat.read([1, 2]), "is no path"),  # type: ignore[list-item]
    (lambda trace: lat.read(""), "The path is empty"),
    (lambda trace: lat.read(["x", ""]), "The path is empty"),
    (lambda trace: lat.read("x", offsets=""), "The path is empty"),
    (lambda trace: lat.read("x", filter=5), 'filter=5: give a text such as "lat > 1ms"'),  # type: ignore[arg-type]
    (lambda trace: lat.read("x", lenient="yes"), "lenient='yes': give True or False"),  # type: ignore[arg-type]
    (lambda trace: lat.read("x", columns=[5]), "no names of fields"),  # type: ignore[list-item]
    (lambda trace: trace.series(timedelta(seconds=-1)), "length of time from 0"),
    (lambda trace: trace.series("1s", by=5), "no names of fields"),  # type: ignore[arg-type]
    (lambda trace: trace.series("1s", quantity=5), "quantity=5: give a text"),  # type: ignore[arg-type]
    (lambda trace: trace.series("1s", precision=-4), "precision=-4: give a whole number from 1 to 64"),
    (lambda trace: trace.series("1s").matrix(5), "no group 5"),  # type: ignore[arg-type]
    (lambda trace: trace.explain("lat > 5ms", seed=-1), "seed=-1: give a whole number"),
    (lambda trace: trace.spark(top=-1), "top=-1"),
    (lambda trace: trace.compare("x"), "is no trace"),  # type: ignore[arg-type]
    (lambda trace: lat.compare([trace, trace]), "takes traces by name"),  # type: ignore[arg-type]
    (lambda trace: lat.compare({"a": "x", "b": "y"}), "takes traces by name"),  # type: ignore[dict-item]
    (lambda trace: trace.heatmap(width=-5), "width=-5: give a whole number from 200 to 4000"),
    (lambda trace: trace.heatmap(title=5), "title=5: give a text"),  # type: ignore[arg-type]
    (lambda trace: trace.percentiles("50"), "no percentiles"),  # type: ignore[arg-type]
    (lambda trace: trace.percentiles(["50"]), "no percentiles"),  # type: ignore[list-item]
    (lambda trace: trace.percentiles([True]), "no percentiles"),
    (lambda trace: trace.percentiles([np.True_]), "no percentiles"),  # type: ignore[list-item]
    (lambda trace: trace.percentiles([10**400]), "no percentiles"),
    (lambda trace: trace.percentiles([float("nan")]), "no percentiles"),
    (lambda trace: trace.percentiles([-1]), "no percentiles"),
    (lambda trace: lat.merge(trace.series("1s")), "give a list"),  # type: ignore[arg-type]
    (lambda trace: lat.merge(5), "give a list"),  # type: ignore[arg-type]
    (lambda trace: trace.heatmap("1s", nonsense=1), "no option nonsense; there are title, width"),  # type: ignore[call-arg]
    (lambda trace: trace.compare(trace, nonsense=1), "no option nonsense; there are percentiles"),  # type: ignore[call-arg]
    (lambda trace: lat.read("x", correct_omission="0s"), "correct_omission='0s': give a length of time above zero"),
    (lambda trace: trace.series(0), "0 is not a length of time"),  # type: ignore[arg-type]
    (lambda trace: trace.series("0s"), "interval='0s': give"),
    (lambda trace: trace.series(timedelta(0)), "above zero"),
    (lambda trace: trace.series(np.timedelta64(-5, "s")), "length of time from 0"),
    (lambda trace: trace.series(np.timedelta64("NaT")), "length of time"),
    (lambda trace: trace.series(np.timedelta64(10**12, "W")), "length of time from 0"),
    (lambda trace: trace.series(np.timedelta64(1, "Y")), "is not a length of time"),
    (lambda trace: trace.series(np.timedelta64(5)), "is not a length of time"),
    (lambda trace: trace.series("1s").rebin("0s"), "above zero"),
    (lambda trace: trace.series("1s").rebin(None), "An interval is needed"),  # type: ignore[arg-type]
    (lambda trace: trace.series("\udc80"), "is not a length of time"),
    (lambda trace: trace.series(by="\udc80"), "no names of fields"),
    (lambda trace: trace.heatmap(title="\udc80"), "give a text"),
    (lambda trace: lat.read("\ud800"), "is no path"),
    (lambda trace: lat.capture(path="a\0b"), "give a text"),
    (lambda trace: trace.explain("lat > 5ms", seed=2**64), "give a whole number"),
    (lambda trace: trace.heatmap(width=2**70), "give a whole number"),
    (lambda trace: lat.capture(path=5), "path=5: give a text"),  # type: ignore[arg-type]
    (lambda trace: lat.capture(5), "source=5: give a text"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("wrong", WRONG, ids=[sentence for _, sentence in WRONG])
def test_wrong_types_are_sentences(data: Data, wrong: tuple[Callable[[lat.Trace], object], str]) -> None:
    call, sentence = wrong
    with pytest.raises(lat.UsageError, match=re.escape(sentence)):
        call(lat.read(data(STORY)))


@pytest.mark.parametrize("name", ["end", "end_ns"])
def test_the_completion_is_a_column(data: Data, program: Program, name: str) -> None:
    for file in FILES:
        found = lat.read(data(file), columns=["device", name]).events()
        printed = lines(program("events", "-r", data(file), "--json", "--columns", "end"))
        assert found.column_names == ["time_ns", "latency_ns", "device", "end_ns"]
        assert found.schema.field("end_ns").metadata == {b"unit": b"ns"}
        assert found["end_ns"].to_pylist() == [row.get("end_ns") for row in printed]


def test_percentiles_of_a_series_are_those_of_its_trace(data: Data) -> None:
    trace = lat.read(data(STORY))
    of_trace = trace.percentiles([50, 99], "100ms", count_by="completion").to_pylist()
    assert trace.series("100ms").percentiles([50, 99]).to_pylist() == of_trace


def test_options_and_failures_of_batches(data: Data) -> None:
    with pytest.raises(lat.UsageError, match="no option fliter"):
        lat.read(data(STORY), fliter="lat > 1ms")  # type: ignore[call-arg]
    trace = lat.read(data("parquet/zstd.parquet"))
    broken = trace.batches()
    assert sum(len(batch) for batch in broken) == 1000
    with pytest.raises(lat.Error, match="nothing"):
        lat.read("nothing").batches(["time_ns"]).read_all()


def test_an_interrupted_recording_leaves_nothing(tmp_path: Path) -> None:
    """As root it records until the signal; otherwise it fails at once. Neither leaves a folder or the words of a fault."""
    script = "import latscope as lat, os, signal, threading\nthreading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
    script += "try:\n    lat.record('block', '30s')\nexcept (KeyboardInterrupt, lat.Error) as error:\n    print(type(error).__name__)\n"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in ended.stderr.split("threading")[0], ended.stderr
    assert not list(tmp_path.glob("latscope-*"))
    with pytest.raises(lat.UsageError, match="length of time"):
        lat.record("block", None)  # type: ignore[arg-type]


def test_a_block_without_tasks_has_the_counters_of_others(data: Data) -> None:
    measured = Measure(None, data("compare/volA.txt"))  # type: ignore[arg-type]
    found = measured.begin().end().to_dict()
    application = lat.read(data("spark_eventlog/mini_3.5.9.json.zst")).spark()
    assert list(found) == [*application["counters"], "blockTime"]
    assert {name: value for name, value in found.items() if value} in ({}, {"blockTime": found["blockTime"]})
    assert "No task of Spark started" in measured.report()


def test_cores_of_a_block_are_those_meanwhile(data: Data) -> None:
    path = data("spark_eventlog/tpcds_lab.json.zst")
    whole = lat.read(path).spark()
    begin, end = 1_795_223_690_000_000_000, 1_795_223_700_000_000_000
    trace = lat.read(path, filter=f"time >= {begin} and time < {end}")
    tasks = trace.events(["time_ns", "latency_ns"]).to_pylist()
    text, _, _ = trace._native.spark("stage", 20, (begin, end))
    block = json.loads(text)
    last = max(task["time_ns"] + task["latency_ns"] for task in tasks)
    assert block["counters"]["numTasks"] == len(tasks) < whole["counters"]["numTasks"]
    # Two executors with a core each; a task that goes on after the block has no core that the block knows.
    steps = block["active_tasks"]["steps"]
    assert {cores for time, _, cores in steps if begin <= time < end} == {2}
    assert max(cores for time, _, cores in steps if time >= end) == 0 if last > end else True
    assert trace.spark()["active_tasks"]["cores"] is None


TASK = {"index": 0, "attempt": 0, "executorId": "1", "host": "h", "status": "SUCCESS", "duration": 5}


def moment(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms // 1000, timezone.utc):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}GMT"


class Driver(BaseHTTPRequestHandler):
    """A driver whose one stage, of three tasks, started when it was first asked; it has forgotten two of them."""

    def do_GET(self) -> None:
        """Answer."""
        at = moment(time.time_ns() // 1_000_000)
        span = {"submissionTime": at, "completionTime": at}
        stage = {"stageId": 0, "attemptId": 0, "status": "COMPLETE", "numTasks": 3, "numCompleteTasks": 3, **span}
        job = {"jobId": 0, "status": "SUCCEEDED", "stageIds": [0], "numCompletedStages": 1, **span}
        app = {"id": "app-1", "name": "x", "attempts": [{"completed": False, "startTimeEpoch": 1000}]}
        path = self.path.split("?")[0].removeprefix("/api/v1/applications").removeprefix("/app-1")
        answers: dict[str, Any] = {
            "": app if "app-1" in self.path else [app],
            "/jobs": [job],
            "/stages": [],
            "/stages/0": [stage],
            "/stages/0/0/taskList": [{"taskId": 0, "launchTime": at, **TASK}],
        }
        self.send_response(200 if path in answers else 404)
        self.end_headers()
        self.wfile.write(json.dumps(answers.get(path)).encode())

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def driver() -> Iterator[str]:
    """Return the address of a driver that has forgotten tasks."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Driver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_what_a_driver_has_forgotten_of_a_block_is_said(driver: str) -> None:
    measured = Measure(None, driver)  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="2 tasks forgotten by the driver") as warned, measured:
        pass
    assert [str(one.message) for one in warned] == measured.missing
    assert warned[0].filename == __file__
    found = measured.to_dict()
    assert (found["numTasks"], found["missing"]) == (1, measured.missing)
    assert measured.report().startswith(measured.missing[0])


def log_of_stage(at: int) -> list[str]:
    """Return the lines of a stage of three tasks, which took 9 ms."""
    of = {"Stage ID": 0, "Stage Attempt ID": 0}
    stage = {**of, "Stage Name": "s", "Number of Tasks": 3, "Submission Time": at}
    times = {"Launch Time": at, "Getting Result Time": 0, "Finish Time": at + 5}
    where = {"Executor ID": "1", "Host": "h", "Locality": "ANY", "Speculative": False, "Failed": False, "Killed": False}
    events: list[dict[str, Any]] = [
        {"Event": "SparkListenerLogStart", "Spark Version": "4.0.5"},
        {"Event": "SparkListenerApplicationStart", "App Name": "x", "App ID": "app-1", "Timestamp": 1000},
        {"Event": "SparkListenerJobStart", "Job ID": 0, "Submission Time": at, "Stage IDs": [0], "Properties": {}},
        {"Event": "SparkListenerStageSubmitted", "Stage Info": stage},
    ]
    for task in range(3):
        info = {"Task ID": task, "Index": task, "Attempt": 0, **times, **where}
        event = {"Event": "SparkListenerTaskEnd", **of, "Task End Reason": {"Reason": "Success"}, "Task Info": info}
        events.append(event)
    events.append({"Event": "SparkListenerStageCompleted", "Stage Info": {**stage, "Completion Time": at + 9}})
    return [json.dumps(event, separators=(",", ":")) + "\n" for event in events]


def test_the_event_log_is_read_where_the_driver_has_forgotten_tasks(driver: str, tmp_path: Path) -> None:
    settings = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file:{tmp_path}"}
    context = SimpleNamespace(uiWebUrl=driver, applicationId="app-1", getConf=lambda: settings)
    measured = Measure(SimpleNamespace(sparkContext=context)).begin()  # type: ignore[arg-type]
    lines = log_of_stage(time.time_ns() // 1_000_000)
    log = tmp_path / "app-1.inprogress"
    log.write_text("".join(lines), encoding="utf-8")
    found = measured.end().to_dict()
    assert found["numTasks"] == 3 and "missing" not in found
    # From the start of its stage to its end, as sparkMeasure has it, which is not the time of the block.
    assert found["elapsedTime"] == measured.application["counters"]["elapsedTime"] == 9
    assert found["blockTime"] >= 0
    # A log that has not got so far is no better.
    log.write_text("".join(lines[:3]), encoding="utf-8")
    with pytest.warns(UserWarning, match="forgotten by the driver"):
        assert measured.end().to_dict()["numTasks"] == 1


def test_the_data_source_refuses_an_application(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its module needs no more of Spark for this than names."""
    sql = ModuleType("pyspark.sql")
    for name in ("DataFrame", "SparkSession", "Window", "functions"):
        setattr(sql, name, None)
    monkeypatch.setitem(sys.modules, "pyspark", ModuleType("pyspark"))
    monkeypatch.setitem(sys.modules, "pyspark.sql", sql)
    monkeypatch.delitem(sys.modules, "pyspark.sql.datasource", raising=False)
    spec = importlib.util.spec_from_file_location("of_spark", Path(lat.__file__).with_name("spark.py"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    source = module.LatscopeSource()
    source.options = {"path": "http://127.0.0.1:4040"}
    with pytest.raises(lat.UsageError, match=re.escape("http://127.0.0.1:4040 is no file")):
        source.schema()
    source.options = {"path": "file:///tmp/a.lat"}
    assert source.path() == "/tmp/a.lat"
