"""Checks that other libraries read asap's outputs: after every step, each must find the expected rows, once each.

    python tests/readers/read.py target/debug/asap

`tests/readers/run` installs the libraries and runs this.
"""

import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import datasets
import deltalake
import duckdb
import duckdb_ext
import polars
import pyarrow
import pyarrow.compute
import pyarrow.dataset
import pyarrow.parquet

ASAP = Path(sys.argv[1]).resolve()
PIPELINE = "SELECT source, id, cot, cot_steps(cot) AS steps, status, error FROM corpus WHERE id NOT LIKE '%7'"
PARTITIONS = ["subject", "level", "day"]
# Delta has no unsigned numbers and no dictionaries, and stores times only in microseconds.
WIDENED = {
    "dictionary<values=string, indices=int32, ordered=0>": pyarrow.string(),
    "timestamp[ms]": pyarrow.timestamp("us"),
    "uint8": pyarrow.int16(),
}


def rows(ids, mark, late=False, maps=False):
    """Rows of an input: those whose id ends in 0 or 5 have an empty chain, and are rejects."""
    ids = list(ids)
    times = [datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=id) for id in ids]
    columns = {
        "id": [str(id) for id in ids],
        "question": [f"question {id}" for id in ids],
        "cot": ["" if id % 5 == 0 else f"{mark} {id}\n\n\\( ü \\) 思 {id}" for id in ids],
        "answer": [f"answer {id}" for id in ids],
        "subject": [[None, "number theory", "x=1/ü %:"][id % 3] for id in ids],
        "level": pyarrow.array([None if id % 4 == 3 else id % 4 for id in ids], pyarrow.uint8()),
        "day": [datetime.date(2026, 1, 1 + id % 2) for id in ids],
        "seen": pyarrow.array(times, pyarrow.timestamp("us", "UTC")),
        "local": pyarrow.array(times, pyarrow.timestamp("ms")),
        "price": pyarrow.array([Decimal(id) / 4 for id in ids], pyarrow.decimal128(10, 2)),
        "score": pyarrow.array([id / 8 for id in ids], pyarrow.float32()),
        "right": [None if id % 4 == 3 else id % 2 == 0 for id in ids],
        "bytes": [bytes([id % 256, 255]) for id in ids],
        "kind": pyarrow.array([["x", "y"][id % 2] for id in ids]).dictionary_encode(),
        "tags": [[f"tag {id}", None] for id in ids],
        "messages": [[{"role": "user", "content": f"question {id}"}] for id in ids],
        "meta": [{"row": id, "more": [{"text": str(id)}]} for id in ids],
    }
    if maps:
        # datasets does not support maps. It reads those of exports, which are lists.
        kind = pyarrow.map_(pyarrow.string(), pyarrow.int64())
        columns["counts"] = pyarrow.array([[("row", id)] for id in ids], kind)
    if late:
        columns["late"] = [id * 10 for id in ids]
    return pyarrow.table(columns)


class Place:
    """An input and an output of `asap run`, and the expected content of the output."""

    def __init__(self, folder, *flags):
        self.folder, self.flags, self.input = folder, flags, {}
        (folder / "in").mkdir(parents=True)
        (folder / "mine.sql").write_text(PIPELINE)

    def asap(self, *arguments):
        done = subprocess.run([ASAP, *arguments], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, f"asap {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}"

    def put(self, name, table):
        self.input[name] = table
        pyarrow.parquet.write_table(table, self.folder / "in" / name)

    def run(self, *flags):
        self.asap("run", "mine.sql", "--from", "in", "--to", "out", *self.flags, *flags)

    def expected(self):
        """Returns the rows of the output, and the rejects with their status."""
        output, rejects = [], []
        for name, table in self.input.items():
            place = pyarrow.array([{"file": name, "row": row} for row in range(table.num_rows)])
            table = pyarrow.table([widened(column) for column in table.columns], table.column_names)
            table = table.add_column(0, "source", place)
            table = table.filter(pyarrow.compute.invert(pyarrow.compute.ends_with(table["id"], "7")))
            empty = pyarrow.compute.equal(table["cot"], "")
            rejected, kept = table.filter(empty), table.filter(pyarrow.compute.invert(empty))
            rejects.append(rejected.append_column("status", pyarrow.array(["empty_chain"] * rejected.num_rows)))
            steps = [cot.split("\n\n") for cot in kept["cot"].to_pylist()]
            output.append(
                kept.append_column("steps", pyarrow.array(steps, pyarrow.list_(pyarrow.string())))
                .append_column("source_id", kept["id"])
            )
        return [pyarrow.concat_tables(tables, promote_options="default") for tables in (output, rejects)]

    def check(self, step, *more):
        """Compares the rows of each reader with the input."""
        output, rejects = self.expected()
        for name, read in READERS.items():
            compare(f"{step}: {name}", read(str(self.folder / "out")), output)
            found = read(str(self.folder / "out/.asap/rejects"))
            assert found["error"].null_count == 0, f"{step}: {name}: rejects without a reason"
            compare(f"{step}: {name}, rejects", found.drop(["error"]), rejects)
        # Always the same folder: datasets must not return the cached rows of an older export.
        export = str(self.folder / "export")
        shutil.rmtree(export, ignore_errors=True)
        self.asap("export", "out", "--to", export)
        loads = [("parquet", {"data_dir": export}), (export, {})]
        loads.extend(("parquet", {"data_files": f"{self.folder}/{files}"}) for files in more)
        for path, arguments in loads:
            found = datasets.load_dataset(path, **arguments, split="train", cache_dir=str(self.folder / "cache"))
            compare(f"{step}: datasets, {path} {arguments}", found.with_format("arrow")[:], output)
        print(f"{self.folder.name}, {step}: {len(READERS)} readers and datasets find {output.num_rows} rows")


def widened(column):
    return column.cast(WIDENED.get(str(column.type), column.type))


def compare(what, found, expected):
    """Ends the script if columns, their types or the rows differ."""
    found, expected = (plain(table) for table in (found, expected))
    assert found.schema == expected.schema, f"{what}: found\n{found.schema}\nexpected\n{expected.schema}"
    found, expected = (sorted(table.to_pylist(), key=place) for table in (found, expected))
    places = [place(row) for row in found]
    assert len(places) == len(set(places)), f"{what}: duplicate source in {places}"
    assert places == [place(row) for row in expected], f"{what}: unexpected sources: {places}"
    for one, other in zip(found, expected):
        assert one == other, f"{what}: found\n{one}\nexpected\n{other}"


def place(row):
    return row["source"]["file"], row["source"]["row"]


def plain(table):
    """Sorts the columns by name, and maps each kind of text and list to one type."""
    names = sorted(table.column_names)
    return pyarrow.table([table[name].combine_chunks().cast(plain_type(table[name].type)) for name in names], names)


def plain_type(kind):
    types = pyarrow.types
    if types.is_struct(kind):
        return pyarrow.struct([(field.name, plain_type(field.type)) for field in kind])
    if types.is_map(kind):
        entry = [("key", plain_type(kind.key_type)), ("value", plain_type(kind.item_type))]
        return pyarrow.list_(pyarrow.struct(entry))
    if types.is_list(kind) or types.is_large_list(kind):
        return pyarrow.list_(plain_type(kind.value_type))
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pyarrow.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pyarrow.binary()
    if types.is_timestamp(kind) and kind.tz:
        return pyarrow.timestamp(kind.unit, re.sub("^Etc/", "", kind.tz))
    return kind


def by_pyarrow(folder):
    """Returns the files that the log names, as a data set of Parquet files in Hive-style folders."""
    table = deltalake.DeltaTable(folder)
    schema = pyarrow.schema(table.schema().to_arrow())
    divided = pyarrow.schema([schema.field(name) for name in table.metadata().partition_columns])
    hive = pyarrow.dataset.partitioning(divided, flavor="hive")
    return pyarrow.dataset.dataset(table.file_uris(), schema=schema, partitioning=hive).to_table()


def by_duckdb(folder):
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    (extension,) = Path(duckdb_ext.__path__[0]).glob("extensions/*/*/delta.duckdb_extension")
    connection.execute(f"LOAD '{extension}'; SET TimeZone = 'UTC'")
    return connection.execute("FROM delta_scan(?)", [folder]).fetch_arrow_table()


READERS = {
    "deltalake": lambda folder: deltalake.DeltaTable(folder).to_pyarrow_table(),
    "Polars, read_delta": lambda folder: polars.read_delta(folder).to_arrow(),
    "Polars, scan_delta": lambda folder: polars.scan_delta(folder).collect().to_arrow(),
    "pyarrow": by_pyarrow,
    "DuckDB": by_duckdb,
}


def readme(folder):
    """Runs the lines of the docs for readers, over an export made as described there."""
    project = Path(__file__).resolve().parents[2]
    for arguments in [["run", "truncate", "--from", project / "data/sample", "--limit", "20", "--to", "out/train", "--quiet"], ["export", "out/train", "--to", "pruned"]]:
        subprocess.run([ASAP, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    job = (project / "README.md").read_text()
    code = re.search(r'^python -c "(.*)"$', job, re.MULTILINE)[1]
    printed = subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True, text=True).stdout
    assert "num_rows: 20" in printed, printed
    guide = (project / "docs/training.md").read_text()
    line = lambda name: re.findall(r"`([^`]*)`", re.search(rf"^\| {name} \| (.*) \|$", guide, re.MULTILINE)[1])
    here = os.getcwd()
    os.chdir(folder)
    try:
        found = [len(eval(line("datasets")[0], {"load_dataset": datasets.load_dataset}))]
        found += [len(eval(expression, {"polars": polars})) for expression in line("Polars")]
        found += [len(duckdb.sql(line("DuckDB")[0]).fetchall())]
        trl = re.search(r"train_dataset=(.*)\)$", line("TRL")[0])[1]
        examples = eval(trl, {"load_dataset": datasets.load_dataset})
        found += [len(examples)]
        assert examples.column_names == ["prompt", "completion"] and examples[0]["prompt"][0]["role"] == "user"
    finally:
        os.chdir(here)
    assert found == [20] * 5, found
    print("the lines of the docs: 20 rows each")


def main():
    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as folder:
        readme(folder)
    with tempfile.TemporaryDirectory() as folder:
        for name, flags in [("plain", []), ("partitioned", ["--partition-by", ",".join(PARTITIONS)])]:
            place = Place(Path(folder) / name, *flags)
            # A log of more than 100 commits has a checkpoint, and readers start there.
            many = not flags
            place.put("a.parquet", rows(range(110 if many else 20), "step", maps=not many))
            place.run("--set", f"asap.run.slice_rows={1 if many else 5}", "--set", "asap.run.commit_seconds=0")
            assert (place.folder / "out/_delta_log/_last_checkpoint").exists() == many
            # Without partition folders, and while no shard is replaced, the shards contain exactly the rows.
            place.check("first run", *(["out/asap-*/**/*.parquet"] if many else []))
            place.put("b.parquet", rows(range(200, 220), "step", late=True, maps=not many))
            place.run("--set", "asap.run.slice_rows=7", "--on-schema-change", "add")
            place.check("a new file with a new column")
            place.put("a.parquet", rows(range(20), "walk", maps=not many))
            place.run("--on-change", "reprocess")
            place.check("a file replaced")
            place.asap("table", "optimize", "out")
            place.check("shards merged")
            place.asap("table", "vacuum", "out", "--retain", "0s", "--now")
            place.check("replaced shards removed", *(["out/*.parquet"] if many else []))


if __name__ == "__main__":
    main()
