"""Kernels of one's own in Python: kscout.Family. Sweeps here are of few small problems, and no test asserts a time."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import kscout
from kscout import _callables
from kscout._program import run as run_verb

PROBLEMS = [f"gemm:{m}x{n}x8:fp32:rrr" for m in (4, 9) for n in (5, 16)]
QUICK = {"repeat": 1, "contenders": 0}


def operands(problem):
    random = np.random.default_rng(problem.m)
    return random.random((problem.m, problem.k), dtype=np.float32), random.random((problem.k, problem.n), dtype=np.float32)


def product(arguments):
    return arguments[0] @ arguments[1]


def multiply(config, arguments):
    a, b = arguments
    parts = [a[i : i + config.block] @ b for i in range(0, len(a), config.block)]
    return np.concatenate(parts) if config["along"] == "rows" else (b.T @ a.T).T


AXES = {"block": [1, 2, 4], "along": ["rows", "columns"]}


def family(name="blocks", axes=AXES, **other):
    return kscout.Family(name, axes, **{"run": multiply, "prepare": operands, "reference": product, **other})


def total(summary):
    return {status: count for status, count in summary["status"].items() if count}


# ---- The declaration.


def test_configs_obey_rules_of_configs_and_problems():
    rules = {"few": "c.block <= 2", "columns": ("c.along == 'rows' or p.m > 4", "columns need rows")}
    one = family("ruled", rules=rules, default={"block": 2, "along": "rows"})
    assert one.configs(PROBLEMS[0]) == [{"block": 1, "along": "rows"}, {"block": 2, "along": "rows"}]
    assert len(one.configs(kscout.Gemm(9, 5, 8, layout="rrr"))) == 4


def test_a_list_of_configs_like_those_of_triton():
    class Config:
        def __init__(self, kwargs, num_warps, num_stages):
            self.kwargs, self.num_warps, self.num_stages = kwargs, num_warps, num_stages

    listed = [Config({"BLOCK_M": 16}, 4, 3), Config({"BLOCK_M": 64}, 8, 2)]
    one = kscout.Family("listed", configs=listed, run=multiply, reference=product)
    expected = [{"BLOCK_M": 16, "num_warps": 4, "num_stages": 3}, {"BLOCK_M": 64, "num_warps": 8, "num_stages": 2}]
    assert one.configs(PROBLEMS[0]) == expected
    assert one.configs(PROBLEMS[0])[0].BLOCK_M == 16
    assert "tile_m = \"c.block_m\"" in one._declaration


def test_the_programs_read_the_written_declaration(tmp_path, monkeypatch):
    one = family("written", axes={**AXES, "flag": [True, False]})
    file = one.write(tmp_path)
    assert file == os.fspath(tmp_path / "written.kscout-family.toml")
    monkeypatch.setenv("KSCOUT_FAMILIES", file)
    assert len(run_verb("kernels", "--provider", "written", "--rules", "default")) == 12


BAD = {
    "family 'Big'": {"name": "Big"},
    "op='gem'": {"op": "gem"},
    "device='gpu'": {"device": "gpu"},
    "run=3 is not callable": {"run": 3},
    "prepare=1 is not callable": {"prepare": 1},
    "tolerance=2": {"tolerance": 2},
    "compile_jobs=0": {"compile_jobs": 0},
    "there is no compile": {"compile_jobs": 2},
    "give axes": {"axes": None},
    "axes=3": {"axes": 3},
    "0 axes": {"axes": {}},
    "axis 'a' has no values": {"axes": {"a": []}},
    "'xy' is no list": {"axes": {"a": "xy"}},
    "axis '1a'": {"axes": {"1a": [1]}},
    "-1 is out of range": {"axes": {"a": [-1]}},
    "all words": {"axes": {"a": [1, "x"]}},
    "word 'X'": {"axes": {"a": ["X", "y"]}},
    "given twice": {"axes": {"A": [1], "a": [2]}},
    "axis 'd' is in no trait": {"axes": {"a": [1, 2], "b": [1, 2], "c": [1, 2], "d": [1, 2]}},
    "traits speed": {"traits": {"speed": "c.block"}},
    "rules='x'": {"rules": "x"},
    "rule 'rule1'": {"rules": [3]},
    "rule 'rule1': 'c.blok <= 2' reads c.blok, which is no axis; did you mean c.block?": {"rules": ["c.blok <= 2"]},
    "rule 'few': 'c.blok <= p.m' reads c.blok": {"rules": {"few": ("c.blok <= p.m", "c.blok is misspelt")}},
    "trait 'order': 'c.alog' reads c.alog": {"traits": {"order": "c.alog"}},
    "formula 'twice': '2 * c.Block' reads c.Block": {"formulas": {"twice": "2 * c.Block"}},
    "lacks along": {"default": {"block": 1}},
    "has no value 3": {"default": {"block": 3, "along": "rows"}},
    "are no axes": {"configs": [{"block": 1, "along": "rows", "more": 1}]},
    "give a dict with one value per axis": {"configs": [3]},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_declarations_are_refused(message):
    given = {"name": "bad", **BAD[message]}
    with pytest.raises(kscout.InvalidArgument) as error:
        family(**given)
    assert message in str(error.value)


def test_a_bad_formula_is_named():
    one = family("formula", rules=["c.block <= p.mm"])
    with pytest.raises(kscout.Error, match="p.mm"):
        one.configs(PROBLEMS[0])


def test_a_name_stands_for_one_family_in_a_process():
    family("twice").configs(PROBLEMS[0])
    family("twice").configs(PROBLEMS[0])
    with pytest.raises(kscout.InvalidArgument, match="another family 'twice'"):
        family("twice", rules=["c.block < 4"]).configs(PROBLEMS[0])


# ---- Measuring.


def test_failures_are_recorded_and_the_sweep_goes_on(tmp_path):
    def run(config, arguments):
        if config.block == 2:
            raise ValueError("no blocks of 2")
        if config.block == 4 and config.along == "rows":
            os.kill(os.getpid(), signal.SIGKILL)
        return multiply(config, arguments) + (1 if config.block == 4 else 0)

    one = family("failing", run=run)
    summary = one.sweep(PROBLEMS, tmp_path / "sweep", **QUICK)
    assert total(summary) == {"ok": 8, "wrong": 4, "crashed": 12}
    assert summary["reasons"]["crashed: run raised ValueError: no blocks of 2"] == 8
    assert summary["reasons"]["crashed: the callable ended its process"] == 4
    assert summary["reasons"]["wrong: an element differs from the reference"] == 4
    again = one.sweep(PROBLEMS, tmp_path / "sweep", **QUICK)
    assert again["session"]["rows"] == 0 and total(again) == total(summary)


def test_a_config_that_does_nothing_is_wrong(tmp_path):
    out = {}

    def run(config, arguments):
        result = out.setdefault(len(arguments[0]), np.empty((len(arguments[0]), arguments[1].shape[1]), np.float32))
        if config.along == "rows":
            np.matmul(*arguments, out=result)
        return result

    assert total(family("lazy", run=run).sweep(PROBLEMS[:1], tmp_path / "sweep", **QUICK)) == {"ok": 3, "wrong": 3}


def test_problems_that_cannot_be_prepared_are_unsupported(tmp_path):
    def prepare(problem):
        if problem.m == 9:
            raise MemoryError("9 rows")
        return operands(problem)

    summary = family("unprepared", prepare=prepare).sweep(PROBLEMS, tmp_path / "sweep", **QUICK)
    assert total(summary) == {"ok": 12, "unsupported": 12}
    assert summary["reasons"] == {"unsupported: prepare raised MemoryError: 9 rows": 12}


def test_a_config_may_be_unsupported_and_one_may_hang(tmp_path):
    def run(config, arguments):
        if config.block == 1:
            raise kscout.Unsupported("blocks of 1")
        while config.block == 2:
            pass
        return multiply(config, arguments)

    one = family("hanging", axes={"block": [1, 2, 4]}, run=lambda c, a: run(kscout._callables.Settings(c, along="rows"), a))
    assert total(one.sweep(PROBLEMS[:1], tmp_path / "sweep", timeout=0.5, compile_budget=0, **QUICK)) == {
        "ok": 1,
        "timeout": 1,
        "unsupported": 1,
    }


def test_an_interrupted_sweep_continues(tmp_path):
    code = f"""
        import os, sys
        sys.path.insert(0, {os.fspath(Path(__file__).parent)!r})
        import test_family as t
        seen = set()
        def run(config, arguments):
            seen.add((str(config), arguments[0].shape, arguments[1].shape))
            if len(seen) == 9: os._exit(9)     # the whole process ends: isolate=False
            return t.multiply(config, arguments)
        summary = t.family("interrupted", run=run if sys.argv[1] == "crash" else t.multiply).sweep(
            t.PROBLEMS, {os.fspath(tmp_path / "sweep")!r}, isolate=False, **t.QUICK)
        import json; print(json.dumps(summary))
    """
    command = [sys.executable, "-B", "-W", "error", "-c", textwrap.dedent(code)]
    assert subprocess.run([*command, "crash"]).returncode == 9
    done = subprocess.run([*command, "go"], capture_output=True, text=True, check=True)
    summary = json.loads(done.stdout)
    assert total(summary) == {"ok": 24}
    assert 0 < summary["session"]["rows"] < 24


def test_compiling_is_not_timed_and_may_run_side_by_side(tmp_path):
    made = tmp_path / "made"
    made.mkdir()

    def compile(problem, config):
        if config.block == 4:
            raise RuntimeError("ptxas says no")
        (made / f"{config.block}-{config.along}").write_text(str(problem.m))

    def run(config, arguments):
        assert (made / f"{config.block}-{config.along}").exists()
        return multiply(config, arguments)

    for jobs in (1, 3):
        one = family("compiled", run=run, compile=compile, compile_jobs=jobs)
        summary = one.sweep(PROBLEMS[:2], tmp_path / f"sweep{jobs}", **QUICK)
        assert total(summary) == {"ok": 8, "crashed": 4}
        assert summary["reasons"] == {"crashed: compile raised RuntimeError: ptxas says no": 4}
    frame = kscout.Dataset(*one._datasets(None)).to_arrow().to_pylist()
    assert all(row["setup_us"] > 0 for row in frame if row["status"] == "ok")


@pytest.mark.parametrize(
    ("problems", "options", "kind", "message"),
    [
        ([], {}, kscout.InvalidArgument, "at least one problem"),
        (["gemm:4x"], {}, kscout.Error, "gemm:4x"),
        ("nothing.csv", {}, kscout.NotFound, "no such file"),
        (PROBLEMS, {"rounds": 0}, kscout.InvalidArgument, "rounds"),
        (PROBLEMS, {"speed": 1}, kscout.InvalidArgument, "--speed"),
        (["conv_fwd:1x8x8x8:8x3x3:fp32:nhwgc"], {}, kscout.Error, "conv_fwd"),
    ],
)
def test_bad_sweeps_are_refused(tmp_path, problems, options, kind, message):
    with pytest.raises(kind, match=message):
        family("refused").sweep(problems, tmp_path / "sweep", **options)


def test_another_family_in_the_same_folder_is_refused(tmp_path):
    family("first").sweep(PROBLEMS[:1], tmp_path / "sweep", **QUICK)
    with pytest.raises(kscout.InvalidArgument, match="provider"):
        family("second").sweep(PROBLEMS[:1], tmp_path / "sweep", **QUICK)


def test_the_backend_is_for_a_family_only(tmp_path):
    with pytest.raises(kscout.Unsupported, match="kscout.Family.sweep"):
        run_verb("sweep", "--backend", "callables:cpu", "--provider", "native", "--problems", "smoke", "--out", tmp_path / "x")


# ---- Comparing.


@pytest.mark.parametrize(
    ("result", "expected", "right", "where"),
    [
        (np.ones(3), np.ones(3), True, ""),
        (np.array([1, 1.005]), np.ones(2), True, ""),
        (np.array([1, 1.02]), np.ones(2), False, "element 1 of result 0 is 1.02"),
        (np.array([1, np.nan]), np.ones(2), False, "nan"),
        (np.ones(3), np.ones(4), False, "shape (3,)"),
        (None, np.ones(4), False, "return the result"),
        ((np.ones(2), np.zeros(2)), (np.ones(2), np.ones(2)), False, "result 1"),
        (np.ones(2), (np.ones(2), np.ones(2)), False, "1 results"),
        (np.zeros(2), np.zeros(2), True, ""),
        (np.ones((0, 2)), np.ones((0, 2)), True, ""),
    ],
)
def test_results_are_compared(result, expected, right, where):
    error, text = _callables.compare(result, expected, 0.01)
    assert (error <= 1) == right
    assert where in text and (text == "") == right


# ---- Models.


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("family")
    one = family("trained")
    many = [f"gemm:{m}x{n}x{k}:fp32:rrr" for m in (4, 9, 33) for n in (5, 16) for k in (8, 24)]
    one.sweep(many, folder / "sweep", **QUICK)
    rows = one.train(folder / "model", folds=2, rounds=10, targets=["rank"])
    assert rows[0]["target"] == "rank"
    return one, folder


def test_selects_ranks_and_evaluates(trained):
    one, folder = trained
    best = one.select(PROBLEMS[0])
    assert best.source == "model" and best.config in one.configs(PROBLEMS[0])
    assert best.config.block == best.config["block"] and best.time_us > 0
    ranked = one.rank(kscout.Problem(PROBLEMS[0]), 4)
    assert ranked[0] == best and len(ranked) == 4 and len({choice.name for choice in ranked}) == 4
    assert 0 < one.evaluate(folder / "sweep", in_sample=True)["efficiency"]["mean"] <= 100
    with pytest.raises(AttributeError, match="no axis 'tile'"):
        best.config.tile


def test_a_family_of_convolutions(tmp_path):
    one = kscout.Family("strided", {"tile_n": [4, 8]}, op="conv_fwd", run=lambda config, p: np.full((p.n, p.k), config.tile_n > 0, float),
                        reference=lambda p: np.ones((p.n, p.k)), rules=["c.tile_n <= p.k"])  # fmt: skip
    problems = [f"conv_fwd:{n}x8x{h}x9:{k}x3x3:fp32:nhwgc" for n in (1, 2) for h in (8, 9) for k in (4, 8)]
    assert one.configs(problems[0]) == [{"tile_n": 4}]
    assert total(one.sweep(problems, tmp_path / "sweep", **QUICK)) == {"ok": 12}
    one.train(tmp_path / "model", folds=2, rounds=5, targets="rank")
    assert one.select(problems[0]).config == {"tile_n": 4}


def test_another_process_loads_the_model(trained):
    one, folder = trained
    other = family("trained")
    with pytest.raises(kscout.NotFound, match="has no model"):
        other.select(PROBLEMS[0])
    with pytest.raises(kscout.NotFound, match="no such model folder"):
        other.load(folder / "none")
    other.load(folder / "model")
    assert other.select(PROBLEMS[1]) == one.select(PROBLEMS[1])


def test_nothing_measured_cannot_be_trained(tmp_path):
    with pytest.raises(kscout.NotFound, match="call unmeasured.sweep first"):
        family("unmeasured").train(tmp_path / "model")


def test_works_where_the_compiled_part_is_for_another_python(trained, tmp_path):
    one, folder = trained
    code = f"""
        import sys
        sys.modules["kscout._core"] = None       # its import fails
        import kscout
        def operands(problem):
            import numpy as np
            return np.ones((problem.m, problem.k)), np.ones((problem.k, problem.n))
        one = kscout.Family("trained", {{"block": [1, 2, 4], "along": ["rows", "columns"]}},
            prepare=operands, run=lambda c, ab: ab[0] @ ab[1], reference=lambda ab: ab[0] @ ab[1])
        summary = one.sweep({PROBLEMS!r}, {os.fspath(tmp_path / "sweep")!r}, repeat=1, contenders=0)
        assert summary["status"]["ok"] == 24, summary
        one.load({os.fspath(folder / "model")!r})
        print(one.select({PROBLEMS[0]!r}).name)
    """
    done = subprocess.run([sys.executable, "-B", "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == one.select(PROBLEMS[0]).name


# ---- In place of triton.autotune.


class Kernel:
    """Stands for a JIT function of Triton: records its launches."""

    arg_names = ["a", "b", "c", "M", "N", "K", "block", "along"]

    def __init__(self):
        self.launches = []

    def __getitem__(self, grid):
        def launch(*arguments, **keywords):
            named = {**dict(zip(self.arg_names, arguments)), **keywords}
            self.launches.append((grid(keywords), keywords))
            named["c"][:] = multiply(_callables.Settings(block=named["block"], along=named["along"]), (named["a"], named["b"]))

        return launch

    def cache_key(self):
        return "of the kernel"


def launch(tuned, m, n):
    a, b = operands(kscout.Gemm(m, n, 8))
    c = np.zeros((m, n), np.float32)
    tuned[lambda meta: (-(-m // meta["block"]),)](a, b, c, m, n, 8)
    assert np.allclose(c, a @ b)


@pytest.mark.parametrize(("timed", "first"), [(1, 1), (2, 13)])
def test_the_autotuner_asks_the_model_once_per_shape(trained, timed, first):
    one, _ = trained
    kernel = Kernel()
    asked = []

    def problem(M, N, K, **_others):
        asked.append(M)
        return f"gemm:{M}x{N}x{K}:fp32:rrr"

    tuned = kscout.triton_autotuner(kernel, one, problem=problem, key=["M", "N", "K"], timed=timed)
    launch(tuned, 9, 5)
    assert len(kernel.launches) == first  # with two: each once to compile, five samples of each, and the call
    tried = {json.dumps(keywords) for _, keywords in kernel.launches}
    assert tried == {json.dumps(choice.config) for choice in one.rank("gemm:9x5x8:fp32:rrr", timed)}
    chosen = tuned.selected[9, 5, 8]
    assert kernel.launches[-1] == ((-(-9 // chosen.block),), chosen)
    launch(tuned, 9, 5)
    assert len(kernel.launches) == first + 1 and asked == [9]
    launch(tuned, 4, 5)
    assert asked == [9, 4] and set(tuned.selected) == {(9, 5, 8), (4, 5, 8)}
    assert tuned.cache_key() == "of the kernel"


def test_the_autotuner_decorates(trained):
    kernel = Kernel()
    decorate = kscout.triton_autotuner(family=trained[0], problem=lambda M, N, K, **_: f"gemm:{M}x{N}x{K}:fp32:rrr", timed=1)
    launch(decorate(kernel), 9, 16)
    assert len(kernel.launches) == 1


def test_the_autotuner_refuses(trained):
    one, _ = trained

    def problem(M, N, K, **_others):
        return f"gemm:{M}x{N}x{K}:fp32:rrr"

    with pytest.raises(kscout.InvalidArgument, match="no argument X"):
        kscout.triton_autotuner(Kernel(), one, problem=problem, key=["X"])
    with pytest.raises(kscout.InvalidArgument, match="timed=3"):
        kscout.triton_autotuner(Kernel(), one, problem=problem, timed=3)
    with pytest.raises(kscout.InvalidArgument, match="problem=None"):
        kscout.triton_autotuner(Kernel(), one)
    with pytest.raises(kscout.InvalidArgument, match="give a kscout.Family"):
        kscout.triton_autotuner(Kernel(), problem=problem)
    with pytest.raises(kscout.InvalidArgument, match="block: the family's axes"):
        kscout.triton_autotuner(Kernel(), one, problem=problem)[(1,)](None, None, None, 9, 5, 8, block=1)
    with pytest.raises(kscout.NotFound, match="has no model"):
        kscout.triton_autotuner(Kernel(), family("untrained"), problem=problem)[(1,)](None, None, None, 9, 5, 8)
