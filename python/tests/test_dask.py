"""Sweeps on clusters of local processes, with workers that are killed, slow or of another device.

Times follow from problem and config alone (fixed_worker.py), so that every way to measure a plan has to give the same rows.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import distributed
import pyarrow.parquet
import pytest

import kscout.dask
from kscout import _dask_sweep, _dask_train, _program

DATA = Path(__file__).parents[2] / "data"
WORKER = Path(__file__).parent / "fixed_worker.py"


@pytest.fixture(autouse=True, scope="module")
def environment():
    """A cluster sets OMP_NUM_THREADS for its workers in this process too; the other tests have kernels of several threads."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    problems = tmp_path_factory.mktemp("plan") / "problems.txt"
    problems.write_text("".join(f"gemm:{m}x{n}x32\n" for m in range(1, 9) for n in range(16, 20)))
    return ["--problems", str(problems), "--rules", "tiny", "--worker", str(WORKER)]


def rows_of(folder):
    """The rows of a sweep's folder, sorted; reading refuses a (problem, config, pass) that is there twice."""
    _program.call("dataset", "import", folder, "--out", folder / "rows.parquet")
    columns = ["m", "n", "k", "config", "pass", "status", "time_us", "spread", "repeats"]
    return sorted(tuple(row.values()) for row in pyarrow.parquet.read_table(folder / "rows.parquet", columns=columns).to_pylist())


@pytest.fixture(scope="module")
def undisturbed(words, tmp_path_factory):
    folder = tmp_path_factory.mktemp("local") / "sweep"
    _program.call("sweep", *words, "--out", folder)
    return rows_of(folder)


def set_sleep(seconds):
    """Sets what a row takes on a worker."""
    os.environ["KSCOUT_FIXED_SLEEP"] = seconds


@pytest.fixture
def client():
    with (
        distributed.LocalCluster(n_workers=4, threads_per_worker=1, resources={"kscout": 1}, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.run(set_sleep, "0.002")
        yield client


def test_lost_workers_and_a_slow_one_leave_the_rows_of_a_local_sweep(client, words, undisturbed, tmp_path):
    pids = client.run(os.getpid)
    slow = next(iter(pids))
    client.run(set_sleep, "0.02", workers=[slow])
    assert client.run(os.getenv, "KSCOUT_FIXED_SLEEP")[slow] == "0.02"
    killed = {}

    def arrived(shard):
        """Kills the worker of the first shard that has 10 rows, then that of the first with 30 whose worker is another."""
        if shard.worker == slow or shard.worker in killed or shard.worker not in pids or len(killed) == 2:
            return
        if shard.rows >= (10, 30)[len(killed)]:
            killed[shard.worker] = shard.number
            os.kill(pids[shard.worker], signal.SIGKILL)

    folder = tmp_path / "sweep"
    result = kscout.dask.sweep(client, folder, words, shards=6, interval_s=0.05, arrived=arrived)
    assert len(killed) == 2
    assert result["rows"] == len(undisturbed)
    assert rows_of(folder) == undisturbed
    assert sum(host["rows"] for host in result["hosts"]) == result["rows"]
    again = kscout.dask.sweep(client, folder, words, interval_s=0.05)
    assert (again["shards"], again["rows"]) == (6, len(undisturbed)), "nothing is measured twice"


def test_a_coordinator_that_ended_is_continued_by_another(client, words, undisturbed, tmp_path):
    class Ended(Exception):
        pass

    def arrived(shard):
        if shard.rows >= 20:
            raise Ended

    folder = tmp_path / "sweep"
    with pytest.raises(Ended):
        kscout.dask.sweep(client, folder, words, shards=3, interval_s=0.05, arrived=arrived)
    assert 20 <= sum(len(path.read_bytes().splitlines()) for path in folder.glob("journal*"))
    kscout.dask.sweep(client, folder, words, interval_s=0.05)
    assert rows_of(folder) == undisturbed
    with pytest.raises(kscout.InvalidArgument, match="other arguments"):
        kscout.dask.sweep(client, folder, [*words, "--seed", "2"])


def test_what_a_shard_refuses_ends_the_sweep(client, words, tmp_path):
    with pytest.raises(kscout.InvalidArgument, match="--repaet"):
        kscout.dask.sweep(client, tmp_path / "sweep", [*words, "--repaet", "3"])
    with pytest.raises(kscout.InvalidArgument, match="resource 'gpu'"):
        kscout.dask.sweep(client, tmp_path / "sweep", words, resource="gpu")


def test_workers_of_several_devices_are_refused():
    _dask_sweep.check_devices({"a": "zen3-2c", "b": "zen3-2c"})
    with pytest.raises(kscout.InvalidArgument, match="zen3-2c on a; zen4-2c on b"):
        _dask_sweep.check_devices({"a": "zen3-2c", "b": "zen4-2c"})


def test_hosts_are_compared_by_clock_and_noise():
    lines = b"123456K1 abc\n123456Pa0.1:0-3\n" + b"".join(b"123456a%do5.5,%d,3\n" % (i, 20 + i) for i in range(3))
    quiet = _dask_sweep.summary_of("a", lines + b"123456Ca2000\n")
    assert quiet == {"host": "a", "rows": 3, "noisy": 0.0, "spread": 0.021, "clock_mhz": 2000.0}
    loud = _dask_sweep.summary_of("b", b"123456a0O5.5,90,3\n123456a1w\n123456Ca1800\n")
    assert loud == {"host": "b", "rows": 2, "noisy": 0.5, "spread": 0.09, "clock_mhz": 1800.0}
    found = _dask_sweep.differences([quiet, dict(quiet, host="c"), loud])
    assert found == ["b: clock 1800, of all hosts 2000", "b: median spread 0.09, of all hosts 0.021"]
    assert _dask_sweep.differences([quiet, dict(quiet, host="c")]) == []


def test_the_command_writes_one_dataset(client, words, undisturbed, tmp_path, capsys):
    arguments = ["sweep", "--scheduler", client.scheduler.address, "--out", str(tmp_path / "sweep"), "--dataset", str(tmp_path / "data.parquet")]
    assert kscout.dask.main([*arguments, "--", *words]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == len(undisturbed)
    assert pyarrow.parquet.read_metadata(tmp_path / "data.parquet").num_rows == len(undisturbed)
    assert kscout.dask.main([*arguments, "--", *words, "--seed", "2"]) == 2
    assert "other arguments" in capsys.readouterr().err


def test_trees_of_a_cluster_choose_like_those_of_one_machine(client, tmp_path):
    whole, held_out = (DATA / f"gemm_fp32_zen4-avx2-2c.{part}.parquet" for part in ("train", "held_out"))
    parts = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    _program.call("dataset", "split", whole, "--out", parts[0], "--held-out-out", parts[1], "--held-out", "0.5")
    _dask_train.train(client, parts, [whole], tmp_path / "cluster", ["relative", "rank"], 60)
    trees = json.loads((tmp_path / "cluster" / "train_manifest.json").read_text())
    assert (trees["prev_n_estimators"], trees["total_n_estimators"]) == (59, 60)
    kscout.train(whole, tmp_path / "local", targets="relative,rank", rounds=60, min_rounds=60)
    means = [kscout.evaluate(tmp_path / name, held_out)["efficiency"]["mean"] for name in ("cluster", "local")]
    assert means[0] > means[1] - 1, means
    with pytest.raises(kscout.InvalidArgument, match="--rounds 1"):
        _dask_train.train(client, parts, [whole], tmp_path / "m", ["relative"], 1)


def test_a_partition_holds_the_problems_of_its_file(tmp_path):
    data = DATA / "gemm_fp32_zen4-avx2-2c.held_out.parquet"
    rows, labels, sizes = _dask_train.partition_of(data, "gemm", ["m", "n", "k"], ["label_rank"])
    problems = {tuple(row) for row in rows}
    assert len(rows) == len(labels["label_rank"]) == sizes.sum()
    assert len(sizes) >= len(problems) > 1
    begin = 0
    for size in sizes:
        assert len({tuple(row) for row in rows[begin : begin + size]}) == 1
        assert labels["label_rank"][begin : begin + size].max() > 0
        begin += size


def test_importing_kscout_loads_no_dask():
    code = "import sys, kscout; assert not {'dask', 'distributed'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
