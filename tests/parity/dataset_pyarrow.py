#!/usr/bin/env python3
"""Reads a dataset that kscout wrote with pyarrow (and pandas and DuckDB where they are installed).

    dataset_pyarrow.py KSCOUT

Exit code 77 (skipped) when pyarrow is not installed.
"""
import base64
import gzip
import json
import math
import os
import subprocess
import sys
import tempfile

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    print("SKIPPED: this Python has no pyarrow, so nobody else has read our Parquet; run ./dev setup", file=sys.stderr)
    sys.exit(77)

NAME = "native_gemm_fp32_{}__avx2_tiled_6x16_packab_b144x256x4096_n_s1_t1x{}"
ROWS = [
    # m, n, k, layout, threads, time_us, status, noisy, weight; in the order of files: by layout, kernel, problem
    (1000, 1000, 1000, "rcr", 1, 1999.5, "raced", "true", 1),
    (1000, 1000, 1000, "rcr", 2, 1000.0, "ok", "false", 1),
    (64, 32, 16, "rrr", 1, None, "crashed", "false", 2.5),
]


def write_csv(path):
    with open(path, "w", encoding="utf-8") as file:
        file.write("m,n,k,layout,config,time_us,status,noisy,weight\n")
        for m, n, k, layout, threads, time_us, status, noisy, weight in ROWS:
            time = "" if time_us is None else time_us
            file.write(f"{m},{n},{k},{layout},{NAME.format(layout, threads)},{time},{status},{noisy},{weight}\n")


def check(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")


def check_schema(schema):
    types = {"m": pa.int64(), "layout": pa.string(), "config": pa.string(), "config_mr": pa.int32(), "config_isa": pa.string(),
             "time_us": pa.float64(), "pass": pa.int32(), "noisy": pa.bool_(), "tflops": pa.float64(), "gb_s": pa.float64()}
    for name, wanted in types.items():
        check(schema.field(name).type == wanted, f"column {name} is {schema.field(name).type}, not {wanted}")
    units = json.loads(schema.metadata[b"kscout.units"])
    for name, unit in {"m": "elements", "time_us": "us", "tflops": "TFLOPS", "gb_s": "GB/s", "weight": "calls"}.items():
        check(units[name] == unit, f"unit of {name} is {units[name]}")
    check("layout" not in units, "an enum has a unit")
    check(schema.metadata[b"kscout.dataset_version"] == b"2", "version")
    check(schema.metadata[b"kscout.provider"] == b"native", "provider")
    device = json.loads(schema.metadata[b"kscout.device"])
    check(device["name"] == "epyc-7763" and device["cores"] > 0, f"device {device}")


def check_values(rows):
    check(len(rows) == len(ROWS), f"{len(rows)} rows")
    for row, (m, n, k, layout, threads, time_us, status, noisy, weight) in zip(rows, ROWS):
        wanted = {"op": "gemm", "provider": "native", "device": "epyc-7763", "m": m, "n": n, "k": k, "batch": 1, "layout": layout,
                  "dtype_a": "fp32", "epilogue": "none", "accumulate": False, "weight": weight,
                  "config": NAME.format(layout, threads), "config_isa": "avx2", "config_mr": 6, "config_threads_n": threads,
                  "status": status, "time_us": time_us, "noisy": noisy == "true", "pass": 1}
        for name, value in wanted.items():
            check(row[name] == value, f"{name} is {row[name]!r}, not {value!r}")
        if time_us is None:
            check(row["tflops"] is None and row["gb_s"] is None, "a crashed row has a speed")
        else:
            check(math.isclose(row["tflops"], 2 * m * n * k / time_us / 1e6, rel_tol=1e-12), "tflops")
            check(math.isclose(row["gb_s"], 4 * (m * k + k * n + m * n) / time_us / 1e3, rel_tol=1e-12), "gb_s")


def check_other_readers(path):
    try:
        import pandas
        frame = pandas.read_parquet(path)
        check(list(frame["m"]) == [row[0] for row in ROWS], "pandas reads other sizes")
        print("read by pandas", pandas.__version__)
    except ImportError:
        print("pandas is not installed: not tried")
    try:
        import duckdb
        best = duckdb.sql(f"select max(tflops), count(*) from '{path}'").fetchall()[0]
        check(math.isclose(best[0], 2.0) and best[1] == len(ROWS), f"DuckDB reads {best}")
        print("read by DuckDB", duckdb.__version__)
    except ImportError:
        print("DuckDB is not installed: not tried")


def check_rewritten(kscout, table, folder):
    """A file that another tool wrote is read when it is right and refused when it is not."""
    same = os.path.join(folder, "again.parquet")
    pq.write_table(table, same)
    subprocess.run([kscout, "dataset", "describe", same], check=True, capture_output=True)
    faults = {
        "of type": table.set_column(table.schema.get_field_index("m"), "m", table["m"].cast(pa.float64())),
        "is missing": table.drop_columns(["time_us"]),
        "unknown column 'speed'": table.append_column("speed", table["tflops"]),
        "twice": table.append_column("m", table["m"]),
        "metadata lack": table.replace_schema_metadata({}),
        "same problem, config and pass": pa.concat_tables([table, table.slice(0, 1)]),
    }
    for message, wrong in faults.items():
        path = os.path.join(folder, "wrong.parquet")
        pq.write_table(wrong, path)
        done = subprocess.run([kscout, "dataset", "describe", path], capture_output=True, text=True)
        check(done.returncode == 4, f"'{message}': exit code {done.returncode}: {done.stderr}")
        check(message in done.stderr and "wrong.parquet" in done.stderr, f"'{message}' not in: {done.stderr}")


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def check_page_checksums(kscout, path, folder):
    """Every column has checksums of its pages, which other programs verify; ours does without the file's own checksum, too."""
    with open(path, "rb") as file:
        data = file.read()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    without_own = data[: footer - 20] + data[footer:]
    group = pq.ParquetFile(path).metadata.row_group(0)
    damaged = os.path.join(folder, "damaged.parquet")
    for i in range(group.num_columns):
        column = group.column(i)
        begin = column.data_page_offset if column.dictionary_page_offset is None else column.dictionary_page_offset
        with open(damaged, "wb") as file:
            file.write(flipped(without_own, begin + column.total_compressed_size - 1))
        try:
            pq.read_table(damaged, columns=[column.path_in_schema], page_checksum_verification=True)
            check(False, f"pyarrow reads damaged column {column.path_in_schema}")
        except OSError as error:
            check("CRC" in str(error), str(error))
        done = subprocess.run([kscout, "dataset", "describe", damaged], capture_output=True, text=True)
        check(done.returncode == 4 and "CRC" in done.stderr, f"{column.path_in_schema}: {done.returncode}: {done.stderr}")


def check_bombs(kscout, table, folder):
    """A small file that decompresses to gigabytes is an error before the memory is taken."""
    long_text = pa.array(["x" * 300_000_000] * table.num_rows)
    bombs = {codec: (table.set_column(table.schema.get_field_index("config"), "config", long_text), codec)
             for codec in ("gzip", "zstd", "brotli")}
    packed = base64.b64encode(gzip.compress(bytes(300_000_000)))
    bombs["kscout.notes.gz"] = (table.replace_schema_metadata({**table.schema.metadata, b"kscout.notes.gz": packed}), "none")
    for name, (bomb, codec) in bombs.items():
        path = os.path.join(folder, "bomb.parquet")
        pq.write_table(bomb, path, compression=codec, use_dictionary=False, write_statistics=False)
        check(os.path.getsize(path) < 2_000_000, f"{name}: {os.path.getsize(path)} bytes")
        for command in (["dataset", "describe", path], ["train", "--data", path, "--out", os.path.join(folder, "model")]):
            done = subprocess.run([kscout, *command], capture_output=True, text=True)
            check(done.returncode == 4 and "when decompressed" in done.stderr, f"{name}: {done.returncode}: {done.stderr}")


def main():
    kscout = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        source, path = os.path.join(folder, "a.csv"), os.path.join(folder, "a.parquet")
        write_csv(source)
        subprocess.run([kscout, "dataset", "import", source, "--device", "epyc-7763", "--out", path], check=True, capture_output=True)
        table = pq.read_table(path)
        check_schema(table.schema)
        check_values(table.to_pylist())
        codec = pq.ParquetFile(path).metadata.row_group(0).column(0).compression
        check(codec == "ZSTD", f"compressed with {codec}")
        check_other_readers(path)
        check_rewritten(kscout, table, folder)
        check_page_checksums(kscout, path, folder)
        check_bombs(kscout, table, folder)
    print("read by pyarrow", pa.__version__)


if __name__ == "__main__":
    main()
