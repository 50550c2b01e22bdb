"""Measures the cost of a run in addition to its pipeline. Each figure of asap is compared with another one of the same binary,
or with a goal.

Seconds are CPU seconds of the process unless noted. The bucket and the model are servers of this script. The bucket keeps
its objects in memory and counts requests.

    python3 benches/peers/lake.py [--asap target/release/asap] [overhead reads done commits memory calls]
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from common import ROOT, folder, is_with, target

PACKAGES = ["pyarrow==26.0.1"]
WORK = folder("lake") / "work"
# A run adds the input columns to the output of a pipeline, so this pipeline does not return them.
PIPELINE = "SELECT source, cot AS kept, status, error FROM corpus"
COLUMNS = "source, cot AS kept, status, error, id, question, cot, answer"
LATENCY = 0.02


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--asap", type=Path, default=target() / "release" / "asap")
    arguments.add_argument("points", nargs="*", help="figures to measure (default: all)")
    given = arguments.parse_args()
    if not is_with("lake", *PACKAGES):
        return
    points = [overhead, reads, done, commits, memory, calls]
    print("{:<66}{:>12}{:>10}".format("", "", "goal"))
    for point in points:
        if not given.points or point.__name__ in given.points:
            shutil.rmtree(WORK, ignore_errors=True)
            (WORK / "in").mkdir(parents=True)
            point(Asap(given.asap.resolve()))
    shutil.rmtree(WORK, ignore_errors=True)


def say(what, figure, goal=""):
    print(f"{what:<66}{figure:>12}{goal:>10}", flush=True)


class Asap:
    """The binary, in a separate folder."""

    def __init__(self, binary, environment={}):
        self.binary, self.environment = binary, environment

    def start(self, *arguments):
        return subprocess.Popen(
            [self.binary, *arguments], cwd=WORK, env={**os.environ, **self.environment},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )

    def measured(self, *arguments):
        """Returns CPU seconds, seconds and peak memory in bytes of a process."""
        begin = time.perf_counter()
        process = self.start(*arguments)
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if status != 0:
            sys.exit(f"{arguments} failed: {said.decode()}")
        seconds = time.perf_counter() - begin
        return {"cpu": usage.ru_utime + usage.ru_stime, "seconds": seconds, "memory": usage.ru_maxrss * 1024}

    def run(self, *more, pipeline=PIPELINE, source="in", output="out"):
        """Runs `asap run`. Deletes an output on disk first."""
        shutil.rmtree(WORK / output, ignore_errors=True)
        return self.measured(*run_arguments(pipeline, source, output), *more)


def run_arguments(pipeline, source, output):
    (WORK / "mine.sql").write_text(pipeline)
    return ["run", "mine.sql", "--from", source, "--to", output]


def write(path, rows, first=0, column=None, **options):
    """Writes chains of the sample, each after its row's number."""
    import pyarrow
    import pyarrow.parquet

    if not hasattr(write, "chains"):
        sample = pyarrow.parquet.read_table(ROOT / "data/sample/codeforces-cots.parquet")["generation"].to_pylist()
        write.chains = [text.split("</think>")[0].removeprefix("<think>").strip() for text in sample]
    writer = None
    for start in range(first, first + rows, 5_000):
        numbers = range(start, min(start + 5_000, first + rows))
        columns = {
            "id": [str(number) for number in numbers],
            "question": [f"question {number}" for number in numbers],
            "cot": [f"Row {number}. {write.chains[number % len(write.chains)]}" for number in numbers],
            "answer": [f"answer {number}" for number in numbers],
        }
        if column:
            columns[column] = list(numbers)
        table = pyarrow.table(columns)
        writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema, compression="zstd", **options)
        writer.write_table(table)
    writer.close()


def overhead(asap):
    """A run with a pipeline that computes nothing, against COPY of the same columns."""
    rows = 100_000
    write(WORK / "in/a.parquet", rows)
    copy = f"COPY (SELECT {COLUMNS} FROM corpus) TO 'copy.parquet'"
    ours, theirs = [], []
    for _ in range(3):
        theirs.append(asap.measured("sql", "-q", "--from", "in", "-c", copy)["cpu"])
        ours.append(asap.run()["cpu"])
    say(f"run of {rows:,} rows that computes nothing, s", f"{min(ours):.2f}")
    say("COPY of the same columns, s", f"{min(theirs):.2f}")
    say("run over COPY", f"{min(ours) / min(theirs):.2f}", "1.10")
    written, copied = (
        sum(path.stat().st_size for path in WORK.glob(files)) for files in ("out/asap-*/**/*.parquet", "copy.parquet")
    )
    say("bytes written, run over COPY", f"{written / copied:.2f}")


def reads(asap):
    """One row group in 200 slices: the number of times its bytes are read from a store."""
    import pyarrow
    import pyarrow.parquet

    from servers import Bucket

    rows = 1_000_000
    bucket = Bucket()
    asap.environment = bucket.environment()
    numbers = range(rows)
    table = pyarrow.table({
        "id": [str(number) for number in numbers],
        "question": [f"question {number * 7919 % rows}" for number in numbers],
        "cot": [f"step {number * 104729 % rows}\n\nthen {number * 15485863 % rows}" for number in numbers],
        "answer": [f"answer {number}" for number in numbers],
    })
    for name, index in [("without a page index", False), ("with a page index", True)]:
        path = WORK / "one.parquet"
        pyarrow.parquet.write_table(table, path, row_group_size=rows, compression="zstd", write_page_index=index)
        bucket.objects.clear()
        bucket._put("in/one.parquet", path.read_bytes())
        cpu = {}
        for slices in (1, 200):
            bucket.requests.clear()
            cpu[slices] = asap.run("--slice-rows", str(rows // slices), source="s3://lake/in")["cpu"]
            taken = [size for method, key, size in bucket.requests if method == "GET" and key == "in/one.parquet"]
            say(f"one row group of {rows:,} rows, {name}, in {slices} slices, s", f"{cpu[slices]:.1f}")
            say("    bytes read over its size", f"{sum(taken) / path.stat().st_size:.2f}", "2.00")
            say("    requests", str(len(taken)))
        say("    200 slices over 1", f"{cpu[200] / cpu[1]:.2f}")


def done(asap):
    """10,000 finished slices: 100 files of 100 rows, one row per slice, one commit per second."""
    from servers import Bucket

    bucket = Bucket()
    asap.environment = bucket.environment()
    for number in range(100):
        path = WORK / f"in/{number:03}.parquet"
        write(path, 100, first=number * 100)
        bucket._put(f"in/{number:03}.parquet", path.read_bytes())
    places = [("on disk", "", "3", 0), ("in a bucket at 20 ms per request", "s3://lake/", "10", LATENCY)]
    for name, at, goal, delay in places:
        arguments = [*run_arguments(PIPELINE, f"{at}in", f"{at}out"), "--slice-rows", "1", "--commit-every", "1s"]
        bucket.delay = 0
        filled = asap.measured(*arguments)
        say(f"10,000 slices of one row, filled {name}, wall-clock s", f"{filled['seconds']:.1f}")
        say("    CPU s", f"{filled['cpu']:.1f}")
        bucket.delay = delay
        # The second run records that everything is done, the third finds that record.
        for which in ("first", "second"):
            bucket.requests.clear()
            nothing = asap.measured(*arguments)
            say(f"nothing to do, {name}, {which} time, wall-clock s", f"{nothing['seconds']:.2f}", goal)
            say("    CPU s", f"{nothing['cpu']:.2f}")
            if delay:
                say("    requests", str(len(bucket.requests)))


def commits(asap):
    """One commit per slice: the cost of a commit when the table has few, and when it has many."""
    from servers import Bucket

    rows = 2_120
    windows = [(20, 120), (2_000, 2_100)]
    for place, at in [("on disk", ""), ("in a bucket", "s3://lake/")]:
        bucket = Bucket()
        asap.environment = bucket.environment()
        write(WORK / "in/a.parquet", rows)
        bucket._put("in/a.parquet", (WORK / "in/a.parquet").read_bytes())
        shutil.rmtree(WORK / "out", ignore_errors=True)
        arguments = run_arguments(PIPELINE, f"{at}in", f"{at}out")
        process = asap.start(*arguments, "--slice-rows", "1", "--commit-every", "0s")
        marks = watched(process, bucket if at else None)
        for what, number in [("CPU ms", 0), ("requests", 1)]:
            if what == "requests" and not at:
                continue
            each = [[(marks[one + 1][number] - marks[one][number]) for one in range(*window)] for window in windows]
            scale = 1000 if number == 0 else 1
            for how, of in [("median", statistics.median), ("mean of 100, with a checkpoint", statistics.fmean)]:
                few, many = (of(values) * scale for values in each)
                say(f"a commit {place}, {what}, {how}: after {windows[0][0]}", f"{few:.2f}")
                say(f"    after {windows[1][0]}", f"{many:.2f}")
                say("    ratio", f"{many / few:.2f}", "1.20")


def watched(process, bucket):
    """Returns, for each version of the table, the CPU seconds and requests of the process when it was written."""
    clock = (~process.pid << 3) | 2
    marks = {}

    def mark(version):
        try:
            marks.setdefault(version, (time.clock_gettime(clock), len(bucket.requests) if bucket else 0))
        except OSError:
            pass  # the process has ended

    log = WORK / "out/_delta_log"
    if bucket:
        is_log = lambda key: key.startswith("out/_delta_log/") and key.endswith(".json")
        bucket.on_put = lambda key: mark(int(Path(key).stem)) if is_log(key) else None
    next_version = 0
    while process.poll() is None:
        while not bucket and (log / f"{next_version:020}.json").exists():
            mark(next_version)
            next_version += 1
        time.sleep(0.0005)
    if process.returncode != 0:
        sys.exit(process.stderr.read().decode())
    return marks


def memory(asap):
    """Peak memory with ten times the rows, files or schemas. The others and the rows per slice stay the same."""
    base = {"rows": 40_000, "files": 40, "schemas": 4}
    peaks = {}
    for more in [None, *base]:
        shape = {what: count * (10 if what == more else 1) for what, count in base.items()}
        shutil.rmtree(WORK / "in")
        (WORK / "in").mkdir()
        rows = shape["rows"] // shape["files"]
        for number in range(shape["files"]):
            column = f"column_{number % shape['schemas']}"
            write(WORK / f"in/{number:04}.parquet", rows, first=number * rows, column=column)
        peaks[more] = asap.run("--slice-rows", "1000")["memory"]
        what = ", ".join(f"{count:,} {name}" for name, count in shape.items())
        say(f"peak memory, {what}, MB", f"{peaks[more] / 1e6:.0f}")
        if more:
            say(f"    ten times the {more} over the base", f"{peaks[more] / peaks[None]:.2f}", "1.10")


def calls(asap):
    """Requests in flight with slices smaller than the limit of requests in flight."""
    from servers import Model

    limit, rows = 64, 6_400
    write(WORK / "in/a.parquet", rows)
    pipeline = "SELECT source, id, ai_complete(question) AS said, status, error FROM corpus"
    for slice_rows in (10, 32, 100, 10_000):
        model = Model()
        model.delay = 0.1
        settings = {"provider": "openai", "model": "m", "base_url": f"{model.address}/v1"}
        settings["max_concurrent_requests"] = limit
        sets = [part for name, value in settings.items() for part in ("--set", f"asap.anchor.{name}={value}")]
        taken = asap.run("--slice-rows", str(slice_rows), *sets, pipeline=pipeline)
        begin, end = model.calls[0][0], model.calls[-1][1]
        middle = model.in_flight(begin + (end - begin) * 0.1, end - (end - begin) * 0.1)
        what = f"{len(model.calls):,} calls of 100 ms, limit {limit}, slices of {slice_rows}"
        say(f"{what}: in flight", f"{middle:.1f}")
        say("    of the limit", f"{middle / limit:.2f}", "0.90")
        say("    CPU s", f"{taken['cpu']:.1f}")


if __name__ == "__main__":
    main()
