"""What is read, and how: options, all of testdata, requests that wait, copies in other processes."""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import os
import pickle
import subprocess
import zlib
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import latscope as lat

if TYPE_CHECKING:
    from collections.abc import Callable

    Data = Callable[[str], str]
    Program = Callable[..., str]

TESTDATA = Path(__file__).parents[2] / "testdata"
STORY = "perf_script/story_2s.txt.gz"
HOSTS = [f"fio_log/H_clat.1.log.127.0.0.{host}.zst" for host in (2, 3)]


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as the program prints them, without what an event has not."""
    return [{key: value for key, value in row.items() if value is not None} for row in table.to_pylist()]


OFFSETS = "127.0.0.2 0\n127.0.0.3 2500\n"
OPTIONS: list[tuple[list[str], dict[str, Any], list[str]]] = [
    (["two_columns/out.lat_us.gz"], {"unitstime": "us", "unitslat": "us"}, ["--unitstime", "us", "--unitslat", "us"]),
    (["two_columns/out.lat_us.gz"], {"unitslat": "kbytes"}, ["--unitslat", "kbytes"]),
    (["two_columns/out.lat_us.gz"], {"unitstime": "us", "unitslat": "bytes"}, ["--unitstime=us", "--unitslat=bytes"]),
    (
        ["LOG"],
        {"log_columns": "time,value,direction,size,offset,issue"},
        ["--log-columns", "time,value,direction,size,offset,issue"],
    ),
    (
        ["LOG"],
        {"log_columns": ["time", "value", "direction", "size", "offset"], "lenient": True},
        ["--log-columns", "time,value,direction,size,offset", "--lenient"],
    ),
    (["lat/fsync_block.lat"], {"latency": "request"}, ["--latency", "request"]),
    (["ioping/volA.out.zst"], {"correct_omission": "200us"}, ["--correct-omission", "200us"]),
    (["perf_data/syscalls_and_block.data.zst"], {"source": "block"}, ["-s", "block"]),
    (["perf_data/syscalls_and_block.data.zst"], {"source": "io"}, ["-s", "io"]),
    (
        ["perf_data/syscalls_and_block.data.zst"],
        {"source": "syscall", "filter": "lat > 10us or kind = open"},
        ["-s", "syscall", "lat > 10us or kind = open"],
    ),
    (["spark_eventlog/mini_3.5.9.json.zst"], {"source": "spark"}, ["-s", "spark"]),
    (HOSTS, {"offsets": "OFFSETS"}, ["--offsets", "OFFSETS"]),
    (["lat/fsync_io.lat", "perf_script/story_2s.txt.gz"], {"align_starts": True}, ["--align-starts"]),
    (["lat/fsync_io.lat"], {"tag_file": "TAGS", "tag": "query"}, ["--tag-file", "TAGS", "--tag", "query"]),
]


@pytest.mark.parametrize("case", OPTIONS, ids=[" ".join(map(str, options)) for _, options, _ in OPTIONS])
def test_options_are_those_of_the_program(
    data: Data, program: Program, tmp_path: Path, case: tuple[list[str], dict[str, Any], list[str]]
) -> None:
    files, options, words = case
    thread = lat.read(data("lat/fsync_io.lat")).events(["tid"])["tid"].to_pylist()[0]
    made = {
        "LOG": "5, 5409153, 0, 4096, 0, 4000\n6, 1447481, 1, 8192, 0, 5000\n",
        "OFFSETS": OFFSETS,
        "TAGS": f"{thread} 0 - query=first\n",
    }
    if options.get("lenient"):
        made["LOG"] = "5, 5409153, 0, 4096, 0\n6, x, 1, 8192, 0\n7, 1447481, 1, 8192, 0\n"
    for name, text in made.items():
        (tmp_path / name).write_text(text)

    def path(name: str) -> str:
        return str(tmp_path / name) if name in made else data(name)

    given = {key: path(value) if value in ("OFFSETS", "TAGS") else value for key, value in options.items()}
    words = [word for name in files for word in ("-r", path(name))] + [
        path(word) if word in made else word for word in words
    ]
    trace, plain = lat.read([path(name) for name in files], **given), lat.read([path(name) for name in files])

    def answers(one: lat.Trace) -> list[Any]:
        asked = ["time_ns", "latency_ns", "size", "offset", "kind", *(["tag"] if "tag" in options else [])]
        return [one.summary(), one.percentiles([50, 99.9]).to_pylist(), rows(one.events(asked))]

    columns = ",".join(["time_ns", "latency_ns", "size", "offset", "kind", *(["tag"] if "tag" in options else [])])
    found = answers(trace)
    assert found == [
        json.loads(program("summary", "--json", *words)),
        lines(program("percentiles", "--json", "--p", "50,99.9", *words)),
        lines(program("events", "--json", "--columns", columns, *words)),
    ]
    picture = tmp_path / "latency.svg"
    program("heatmap", "-o", str(picture), *words)
    assert trace.heatmap() == picture.read_text(encoding="utf-8")
    # Without some of the options it cannot be read.
    with contextlib.suppress(lat.Error):
        assert found != answers(plain), "the option changes nothing here"


def test_wrong_options_are_sentences(data: Data) -> None:
    for options, sentence in [
        ({"unitstime": "years"}, 'unitstime="years": it is no unit of time; use s, ms, us or ns'),
        ({"unitslat": "years"}, 'unitslat="years": it is no unit'),
        ({"log_columns": "a,b"}, "no version of fio writes such rows"),
        ({"latency": "late"}, "There is no latency late; use device or request"),
        ({"source": "tea"}, "tea is no source; use block, io, syscall or spark"),
        ({"unitstime": 5}, "unitstime=5: give a text"),
    ]:
        with pytest.raises(lat.UsageError) as raised:
            lat.read(data(STORY), **options)  # type: ignore[arg-type]
        assert sentence in str(raised.value)


def inputs() -> list[Path]:
    """Return all files of testdata, and the folders that are read as one."""
    files = sorted(path for path in TESTDATA.rglob("*") if path.is_file() and path.name != "README.md")
    folders = [TESTDATA / "compare", TESTDATA / "fio_log", TESTDATA / "spark_eventlog/eventlog_v2_local-1795226752528"]
    return [*files, *folders]


Check = tuple[list[str], "Callable[[], Any]", "Callable[[str], Any]"]


def checks(trace: lat.Trace) -> list[Check]:
    """Return commands, the calls that do the same, and how what a command prints is parsed."""
    return [
        (["summary", "--json"], trace.summary, json.loads),
        (["percentiles", "--json"], lambda: trace.percentiles().to_pylist(), lines),
        (["heatmap"], trace.heatmap, str),
    ]


def answer(words: list[str], ours: Callable[[], Any]) -> tuple[Any, str | None]:
    """Return ours, and what the program prints meanwhile; where it fails, ours raises its sentence."""
    command = [os.environ["LATSCOPE"], *words]
    found, failed = None, None
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        try:
            found = ours()
        except lat.Error as error:
            failed = error
        out, err = run.communicate()
    if failed is not None:
        sentence = str(failed).splitlines()[0].split(". ")[0].rstrip(".")
        assert run.returncode in (2, 3) and sentence in err.decode(errors="replace"), (words, failed, err)
    return found, out.decode() if run.returncode == 0 else None


def test_all_of_testdata_has_the_numbers_of_the_program() -> None:
    """Tables, intervals that nobody chose, and pictures."""
    if "LATSCOPE" not in os.environ:
        pytest.skip("LATSCOPE does not name the program")
    unlike, read = [], 0
    for path in inputs():
        for words, ours, parsed in checks(lat.read(path)):
            found, printed = answer([*words, "-r", str(path)], ours)
            read += found is not None
            if found != (None if printed is None else parsed(printed)):
                unlike.append((words, str(path), str(found)[:200], str(printed)[:200]))
    assert not unlike
    assert read > 380


HUNG = """\
  fio  7 [000] 10.000000: block:block_rq_issue: 7,1 R 4096 () 8 + 8 [fio]
  fio  7 [000] 14.000000: block:block_rq_issue: 7,0 W 4096 () 80 + 8 [fio]
  fio  7 [000] 15.000000: block:block_rq_complete: 7,0 W () 80 + 8 [0]
"""


def test_a_device_that_never_answers(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "hung.txt"
    path.write_text(HUNG)
    trace = lat.read(path)
    assert len(trace.events()) == 1
    (row,) = rows(trace.waiting())
    assert (row["age_ns"], row["device"], row["kind"], row["size"]) == (5_000_000_000, "loop1", "read", 4096)
    assert row["time_ns"] == trace.events()["time_ns"].to_pylist()[0] - 4_000_000_000
    assert trace.waiting(["device"]).column_names == ["time_ns", "age_ns", "device"]
    assert len(lat.read(path, filter="device = loop0").waiting()) == 0
    assert any("at least 5s" in note for note in trace.notes)

    seconds = trace.percentiles([50], "1s").to_pylist()
    assert seconds == lines(program("percentiles", "-r", str(path), "--json", "--p", "50", "-i", "1s"))
    assert [row["oldest_ns"] for row in seconds[:4]] == [10**9, 2 * 10**9, 3 * 10**9, 4 * 10**9]
    assert all(row["waiting"] == 1 and "p50" in row["at_least"] for row in seconds[:4])
    plain = trace.percentiles([50], "1s", completed_only=True).to_pylist()
    assert all(row["p50_ns"] is None or not row["at_least"] for row in plain)
    (total,) = [group for group in trace.summary(by="device")["groups"] if group["device"] == "loop1"]
    assert (total["count"], total["waiting"], total["oldest_ns"]) == (0, 1, 5 * 10**9)

    series = trace.series("500ms", by="device")
    assert series.waiting == 1 and "1 waiting" in repr(series)
    again = pickle.loads(pickle.dumps(series))
    for one, waiting in [(series.rebin("1s"), 1), (series + series, 2), (again, 1)]:
        assert one.waiting == waiting
        assert max(row["oldest_ns"] or 0 for row in one.percentiles([50]).to_pylist()) == 5 * 10**9
    lone = lat.read(path, filter="device = loop1")
    for picture in (lone.heatmap(), lone.series().heatmap(), lone.report(), lone.series("1s").rebin("5s").heatmap()):
        assert "waiting" in picture
    # As in the command: a page of nothing is a page, and what the filter leaves out does not wait in it.
    for device, waiting in [("loop1", 1), ("loop9", 0)]:
        page = lat.read(path, filter=f"device = {device}").report()
        encoded = page.partition('type="application/octet-stream;base64">')[2].partition("<")[0]
        head = zlib.decompress(base64.b64decode(encoded), wbits=-15)
        unfinished = json.loads(head[4 : 4 + int.from_bytes(head[:4], "little")])["unfinished"]
        assert unfinished["count"] == waiting


def test_plots_show_what_waits(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    path = tmp_path / "hung.txt"
    path.write_text(HUNG)
    from matplotlib import pyplot

    _, ax = pyplot.subplots()
    axes = lat.read(path).series("1s").plot(ax)
    (line,) = axes.get_lines()
    assert line.get_label() == "oldest waiting" and max(line.get_ydata()) == 5 * 10**9


SERIES: list[tuple[str, dict[str, Any]]] = [
    (STORY, {"interval": "100ms", "by": ["device", "kind"], "weight": "time"}),
    (STORY, {"quantity": "size", "precision": 16}),
    ("parquet/zstd.parquet", {"interval": "1s"}),
    ("fio_json/A.json.zst", {}),
    ("hlog/jhiccup_v2.hlog", {}),
    ("stall/stall_clat_hist.log.zst", {}),
    ("lat/v1.lat", {"completed_only": True}),
]


@pytest.mark.parametrize("case", SERIES, ids=[f"{file} {how}" for file, how in SERIES])
def test_series_are_the_same_in_other_processes(data: Data, case: tuple[str, dict[str, Any]]) -> None:
    file, how = case
    if not Path(data(file)).exists():
        pytest.skip(f"there is no {file}")
    series = lat.read(data(file)).series(**how)
    again = pickle.loads(pickle.dumps(series))
    for one in (again, copy.copy(series), copy.deepcopy(series)):
        assert (repr(one), one.notes, one.groups, one.unit) == (repr(series), series.notes, series.groups, series.unit)
        assert one.cells() == series.cells() and one.cells().schema.metadata == series.cells().schema.metadata
        assert one.percentiles([50, 99.9], all=True) == series.percentiles([50, 99.9], all=True)
        assert drawn(one) == drawn(series) and (one.times == series.times).all()
    # What is known of whole jobs only is for showing.
    if not file.startswith("fio_json"):
        assert (again + series).cells()["n"].to_pylist() == [2 * n for n in series.cells()["n"].to_pylist()]
    assert again._repr_html_().startswith("<pre>" if "whole jobs" in drawn(series) else "<img")


def drawn(series: lat.Series) -> str:
    """Return the heat map, or why there is none."""
    try:
        return series.heatmap()
    except lat.Error as error:
        return str(error)


def count(trace: lat.Trace) -> lat.Series:
    """Return the series of a trace, in another process."""
    return trace.series("100ms", by="kind")


def test_traces_are_read_by_other_processes(data: Data) -> None:
    trace = lat.read(data(STORY), filter="lat > 100us", columns=["latency_ns", "kind"])
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        (found,) = pool.map(count, [trace])
    assert found.cells() == count(trace).cells()
    again = pickle.loads(pickle.dumps(trace))
    assert again.events() == trace.events() and repr(again) == repr(trace)
    assert copy.deepcopy([trace])[0] is trace and copy.copy(trace) is trace
    for answer in (trace.summary(), trace.explain()):
        other = pickle.loads(pickle.dumps(answer))
        assert other == answer and str(other) == str(answer) and type(other) is type(answer)
    picture = trace.heatmap()
    assert pickle.loads(pickle.dumps(picture)) == picture
    with pytest.raises(lat.UsageError, match="no series of latscope"):
        lat.read(data(STORY)).series()._native.from_bytes(b"[1, 2]")


def test_stacks_and_flame_graphs(data: Data, program: Program, tmp_path: Path) -> None:
    file = data("perf_script/stacks_fp.txt.gz")
    trace = lat.read(file)
    found = trace.stacks(by="comm")
    assert found == json.loads(program("stacks", "-r", file, "--by", "comm", "--json"))
    assert str(trace.stacks(top=3, full=True)) == program("stacks", "-r", file, "--top", "3", "--full")
    picture = tmp_path / "stacks.svg"
    program("flamegraph", "-r", file, "-o", str(picture), "--by", "comm", "--color", "latency", "--icicle")
    assert trace.flamegraph(by="comm", color="latency", icicle=True) == picture.read_text(encoding="utf-8")
    program("flamegraph", "-r", file, "-o", str(picture), "--against", "lat < 1ms", "lat >= 1ms")
    slow = lat.read(file, filter="lat >= 1ms")
    assert slow.flamegraph(against="lat < 1ms") == picture.read_text(encoding="utf-8")
    for call, sentence in [
        (lambda: slow.flamegraph(against="lat > 100h"), "No event of latency_ns > 360000s has a stack"),
        (lambda: lat.read(data(STORY)).stacks(), r"has a stack\. Record them with -s stacks"),
        (lambda: trace.stacks(width="bytes"), "no width bytes; use time, events or samples"),
        (lambda: trace.flamegraph(color="red"), "no color red; use kind or latency"),
        (lambda: trace.flamegraph(min_share=80), "percent from 0 to 50"),
    ]:
        with pytest.raises(lat.Error, match=sentence):
            call()
