"""Running on arrays. NumPy's own product, in double precision, is the reference."""

import itertools
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

import kscout
from kscout import Dispatcher, Gemm, Registry, Selector, kernels, problem_of
from kscout._program import run as run_verb


class OnlyDLPack:
    """An array of a package that is not NumPy: nothing but the exchange protocol."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.fixture(scope="module")
def registry():
    return Registry()


def matrix(rows, columns, order="r", batch=None, seed=0):
    """Random float32 of this storage order; a batch is the first dimension."""
    shape = (rows, columns) if order == "r" else (columns, rows)
    values = np.random.default_rng(seed).standard_normal(shape if batch is None else (batch, *shape), dtype=np.float32)
    return values if order == "r" else np.swapaxes(values, -1, -2)


def assert_product(c, a, b, alpha=1.0, beta=0.0, before=0.0):
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    # Each element is a sum of k products: its error is at most about k ulps of the sum of their magnitudes.
    k = a.shape[-1]
    bound = (k + 4) * np.finfo(np.float32).eps * (abs(alpha) * (abs(a64) @ abs(b64)) + abs(beta * before) + 1e-30)
    assert np.all(abs(c - (alpha * (a64 @ b64) + beta * before)) <= bound)


@pytest.mark.parametrize("order_a, order_b", list(itertools.product("rc", "rc")))
@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (1, 40, 17), (33, 1, 8), (5, 7, 1), (48, 65, 30)])
def test_matmul_reads_the_layout_from_the_strides(registry, m, n, k, order_a, order_b):
    a, b = matrix(m, k, order_a), matrix(k, n, order_b, seed=1)
    assert_product(registry.matmul(a, b), a, b)
    layout = order_a + order_b + "r"
    assert_product(registry.run(Gemm(m, n, k, layout=layout), a, b), a, b)
    if min(m, n, k) > 1:
        assert problem_of(a, b) == Gemm(m, n, k, layout=layout)


def test_batches_and_leading_dimensions(registry):
    a, b = matrix(9, 12, batch=3), matrix(12, 10, "c", batch=3, seed=1)
    assert problem_of(a, b) == Gemm(9, 10, 12, layout="rcr", batch=3)
    assert_product(registry.matmul(a, b), a, b)
    wide = matrix(20, 64)
    part, c = wide[:, 8:40], np.zeros((20, 30), np.float32)
    b = matrix(32, 15, seed=2)
    assert problem_of(part, b, c[:, :15]) == Gemm(20, 15, 32, layout="rrr", lda=64, ldc=30)
    assert_product(registry.matmul(part, b, c[:, :15]), part, b)
    assert not c[:, 15:].any()  # what lies between the rows of C is not touched


def test_a_batch_times_one_matrix_is_one_product(registry):
    a, b = matrix(9, 12, batch=3), matrix(12, 10, "c", seed=1)
    assert problem_of(a, b) == Gemm(27, 10, 12, layout="rcr")
    c = registry.matmul(a, b)
    assert c.shape == (3, 9, 10)
    assert_product(c, a, b)
    out = np.full((3, 9, 10), 2, np.float32)
    assert registry.matmul(OnlyDLPack(a), b, out, alpha=0.5, beta=-1.0) is out
    assert_product(out, a, b, 0.5, -1.0, 2.0)
    wide = matrix(9, 40, batch=3)
    assert_product(registry.matmul(wide[..., 4:16], b), wide[..., 4:16], b)  # rows apart, equally far
    assert_product(registry.matmul(wide[:, :1, :12], b), wide[:, :1, :12], b)
    assert registry.matmul(np.zeros((0, 9, 12), np.float32), b).shape == (0, 9, 10)
    for call, words in [
        (lambda: registry.matmul(matrix(9, 12, "c", batch=3), b), "array a .*rows must be equally far apart: copy it first"),
        (lambda: registry.matmul(a[:, :5], b), "array a .*copy it first"),
        (lambda: registry.matmul(a, b[:5]), "array b has shape"),
        (lambda: registry.matmul(a, b, np.zeros((27, 10), np.float32)), "array c has 2 dimensions"),
        (lambda: registry.matmul(a, b, np.zeros((3, 10, 9), np.float32)), "array c has shape"),
        (lambda: registry.matmul(a[0], matrix(12, 10, batch=3)), r"numpy.repeat\(a\[None\], 3, axis=0\)"),
        (lambda: registry.matmul(a, b, beta=1.0), "beta"),
    ]:
        with pytest.raises(kscout.InvalidArgument, match=words):
            call()


def test_other_types_get_the_remedy(registry):
    a, b = matrix(8, 16), matrix(16, 24, seed=1)
    with pytest.raises(kscout.Unsupported, match=r"not fp64 \(float64\): convert to float32"):
        registry.matmul(a.astype(np.float64), b.astype(np.float64))
    with pytest.raises(kscout.Unsupported, match=r"not fp16 \(float16\): convert to float32"):
        registry.matmul(a.astype(np.float16), b.astype(np.float16))
    for dtype in ("int64", "uint8", "complex64", "bool"):
        with pytest.raises(kscout.InvalidArgument, match=f"array a holds {dtype}, .*: convert to float32"):
            registry.matmul(a.astype(dtype), b)


def test_nothing_is_copied_and_c_is_the_array_given(registry):
    a, b, c = matrix(8, 16), matrix(16, 24, seed=1), np.full((8, 24), 2, np.float32)
    assert registry.run("gemm:8x24x16:fp32:rrr", a, b, c) is c
    assert_product(c, a, b)
    before = c.copy()
    registry.matmul(a, b, c, alpha=0.5, beta=-2.0)
    assert_product(c, a, b, 0.5, -2.0, before)


def test_any_dlpack_array_is_an_operand(registry):
    a, b, c = matrix(6, 9), matrix(9, 11, seed=1), np.zeros((6, 11), np.float32)
    foreign = OnlyDLPack(c)
    assert registry.matmul(OnlyDLPack(a), OnlyDLPack(b), foreign) is foreign
    assert_product(c, a, b)


def test_a_read_only_operand_is_fine_and_a_read_only_result_is_not(registry):
    a, b, c = matrix(6, 9), matrix(9, 11, seed=1), np.zeros((6, 11), np.float32)
    for array in (a, b, c):
        array.setflags(write=False)
    assert_product(registry.matmul(a, b), a, b)
    with pytest.raises(TypeError, match="written"):
        registry.matmul(a, b, c)


def test_arrays_that_do_not_fit_are_refused_by_name(registry):
    a, b, problem = matrix(8, 16), matrix(16, 24), Gemm(8, 24, 16, layout="rrr")
    refused = [
        (lambda: registry.run(problem, a.astype(np.float64), b), "array a holds fp64.*takes fp32: convert to float32"),
        (lambda: registry.run(problem, a, b[:, :23]), r"array b has shape \(16, 23\).*takes \(16, 24\)"),
        (lambda: registry.run(problem.replace(layout="rcr"), a, b), "array b has strides.*column-major"),
        (lambda: registry.run(problem, a, b, np.zeros((24, 8), np.float32).T), "array c has strides"),
        (lambda: registry.run(problem, a, b, beta=1.0), "beta"),
        (lambda: registry.matmul(a, a), "array b has shape.*does not fit a's"),
        (lambda: registry.matmul(a[::2, ::2], b[::2]), "copy it first"),
        (lambda: registry.matmul(a[::-1], b), "copy it first"),
        (lambda: registry.matmul(a.astype(bool), b), "array a holds bool"),
        (lambda: registry.matmul(a[0], b), "array a has 1 dimensions"),
    ]
    for call, words in refused:
        with pytest.raises(kscout.InvalidArgument, match=words):
            call()
    with pytest.raises(TypeError):
        registry.matmul([[1.0]], b)


def test_a_result_that_shares_memory_with_an_operand_is_refused(registry):
    s, t = matrix(16, 16), matrix(16, 16, seed=1)
    before = s.copy()
    for call in (lambda: registry.matmul(s, s, s), lambda: registry.matmul(s, t, s), lambda: registry.matmul(t, s, s)):
        with pytest.raises(kscout.InvalidArgument, match="c and [ab] share memory"):
            call()
    assert (s == before).all()
    assert_product(registry.matmul(s, s), s, s)  # a and b may be the same
    both = np.ones((16, 32), np.float32)
    registry.matmul(both[:, :16], t, both[:, 16:])  # beside each other, not overlapping
    assert_product(both[:, 16:], np.ones((16, 16), np.float32), t)


def test_empty_operands_give_an_empty_result_or_zeros(registry):
    a, b = matrix(8, 16), matrix(16, 24, seed=1)
    for order in "rc":
        b_in = matrix(16, 24, order, seed=1)
        assert registry.matmul(a[:0], b_in).shape == (0, 24)
        assert registry.matmul(a, b_in[:, :0]).shape == (8, 0)
        zeros = registry.matmul(a[:, :0], b_in[:0])
        assert zeros.shape == (8, 24) and not zeros.any()
        c = np.full((8, 24), 3, np.float32)
        registry.matmul(a[:, :0], b_in[:0], c, beta=2.0)
        assert (c == 6).all()
    batch = matrix(8, 16, batch=3)
    assert registry.matmul(batch[:, :0], matrix(16, 24, batch=3, seed=2)).shape == (3, 0, 24)
    assert registry.run(Gemm(0, 24, 16, layout="rrr"), a[:0], b).shape == (0, 24)
    assert registry.matmul(a[:0], b, np.empty((0, 24), np.float32)).shape == (0, 24)


def test_kernels_of_more_threads_than_allowed_are_not_chosen(monkeypatch):
    problem = Gemm(1024, 1024, 1024)

    def threads(choice):
        config = choice.config
        return config["threads_m"] * config["threads_n"] * config["split_k"]

    if kscout.Device().cores < 2:
        pytest.skip("one core: no config starts threads")
    assert threads(Registry(threads=1).get_solution(problem).choice) == 1
    assert all(threads(choice) == 1 for choice in Selector.find("fp32", threads=1).rank(problem, 10000))
    assert threads(Dispatcher(Selector.analytic(), threads=1).get_solution(problem).choice) == 1
    assert max(threads(choice) for choice in Selector.analytic(threads=2).rank(problem, 10000)) == 2
    monkeypatch.setenv("KSCOUT_THREADS", "1")
    assert threads(Registry().get_solution(problem).choice) == 1
    with pytest.raises(kscout.InvalidArgument, match="threads=-1"):
        Registry(threads=-1).get_solution(problem)


def test_a_stream_is_for_gpus_and_a_bias_for_epilogues(registry):
    a, b = matrix(8, 16), matrix(16, 24, seed=1)
    with pytest.raises(kscout.InvalidArgument, match="stream=5"):
        registry.matmul(a, b, stream=5)
    with pytest.raises(kscout.InvalidArgument, match="a bias is given, but the epilogue is none"):
        registry.run(problem_of(a, b), a, b, bias=np.ones(24, np.float32))
    with pytest.raises(kscout.InvalidArgument, match=r"unknown operand 'scale_a' \(there are none\)"):
        registry.run(problem_of(a, b), a, b, scale_a=np.ones(1, np.float32))
    with pytest.raises(kscout.InvalidArgument, match="array bias is missing"):
        registry.run(problem_of(a, b).replace(epilogue="bias"), a, b)
    with pytest.raises(kscout.InvalidArgument, match=r"array bias has shape \(23,\).*takes \(24,\)"):
        registry.run(problem_of(a, b).replace(epilogue="bias"), a, b, bias=np.ones(23, np.float32))


def test_epilogues_are_applied_to_the_product(registry):
    a, b, bias = matrix(37, 64), matrix(64, 53, seed=1), matrix(1, 53, seed=2)[0]
    product = a.astype(np.float64) @ b.astype(np.float64)
    gelu = lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    for word, added, activation in [
        ("bias", bias, lambda x: x),
        ("relu", None, lambda x: np.maximum(x, 0)),
        ("gelu", None, gelu),
        ("bias_relu", bias, lambda x: np.maximum(x, 0)),
        ("bias_gelu", bias, gelu),
    ]:
        problem = problem_of(a, b).replace(epilogue=word)
        c = registry.run(problem, a, b) if added is None else registry.run(problem, a, b, bias=added)
        expected = activation(product if added is None else product + added)
        np.testing.assert_allclose(c, expected, atol=2e-5)
    with pytest.raises(kscout.InvalidArgument, match="a bias is given, but the epilogue is relu"):
        registry.run(problem_of(a, b).replace(epilogue="relu"), a, b, bias=bias)


def test_questions_and_arrays_name_their_memory(registry):
    assert registry.get_solution("gemm:40x48x32", space="host").backend == "cpu"
    with pytest.raises(kscout.InvalidArgument, match="memory hip:1, which no backend here reaches"):
        registry.get_solution("gemm:40x48x32", space="hip:1")
    with pytest.raises(kscout.InvalidArgument, match="did you mean 'cuda'"):
        registry.workspace_bytes("gemm:40x48x32", space="cudo:0")


def test_what_cannot_be_kept_is_told():
    searching = Dispatcher(Selector.analytic(rules="tiny"), rules="tiny", fallback="exhaustive", db="/proc/kscout/none")
    assert searching.warnings == []
    assert searching.get_solution(Gemm(24, 32, 40)).choice.decided_by == "db"
    assert len(searching.warnings) == 1 and "are lost" in searching.warnings[0]


def test_processes_fork_while_threads_are_inside(registry):
    stop = threading.Event()
    a, b = matrix(256, 256), matrix(256, 256, "c", seed=1)

    def work():
        out = np.empty((256, 256), np.float32)
        while not stop.is_set():
            registry.matmul(a, b, out)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                code = 1
                try:
                    assert_product(registry.matmul(a, b), a, b)
                    code = 0
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_named_config_runs_or_says_which_rule_refuses(registry):
    a, b = matrix(40, 32), matrix(32, 48, "c", seed=1)
    problem = problem_of(a, b)
    for config in kernels(layout=problem.layout, rules="tiny"):
        refusal = registry.supports(problem, config)
        if refusal is None:
            assert_product(registry.run(problem, a, b, config=config), a, b)
        else:
            with pytest.raises(kscout.Unsupported):
                registry.run(problem, a, b, config=config)


def test_a_solution_tells_what_run_will_do(registry):
    assert registry.backends[0] == "cpu"
    solution = registry.get_solution("gemm:40x48x32")
    assert solution.backend == "cpu" and solution.choice.name and not solution.padded
    assert solution.copies_us == 0
    assert solution.problem == Gemm(40, 48, 32) and solution.calls == 1
    assert registry.workspace_bytes("gemm:40x48x32") >= 0
    assert len(registry.kernels("gemm:40x48x32", rules="tiny")[0]) > 1
    with pytest.raises(kscout.Unsupported):
        registry.get_solution(Gemm(40, 48, 32, "bf16"))


def test_a_dispatcher_runs_what_its_selector_chooses(model):
    a, b = matrix(16, 32), matrix(32, 24, "c", seed=1)
    selector = Selector.analytic(rules="tiny")
    dispatcher = Dispatcher(selector)
    assert dispatcher.get_solution(problem_of(a, b)).choice.name == selector.select(problem_of(a, b)).name
    assert_product(dispatcher.matmul(a, b), a, b)
    with pytest.raises(kscout.InvalidArgument, match="did you mean 'analytic'"):
        Dispatcher(selector, fallback="analytc")


def test_what_a_search_found_answers_the_next_time(tmp_path):
    db, problem = tmp_path / "decisions.sqlite", Gemm(24, 32, 40)
    searching = Dispatcher(Selector.analytic(rules="tiny"), rules="tiny", fallback="exhaustive", db=db)
    found = searching.get_solution(problem).choice
    kept = Selector.analytic(rules="tiny", db=db).select(problem)
    assert kept.decided_by == "db" and (kept.name, kept.time_us) == (found.name, found.time_us)


def test_threads_share_a_registry(registry):
    wrong = []

    def work(seed):
        for m in range(1, 20):
            a, b = matrix(m, 24, seed=seed), matrix(24, 16, seed=seed + 1)
            try:
                assert_product(registry.matmul(a, b), a, b)
            except AssertionError as error:
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def others_run_during(call, beside=None):
    """Whether Python's other threads get a turn in call(); a loaded machine may give them one late."""
    turns, stop = [], threading.Event()

    def count():
        while not stop.is_set():
            turns.append(1)
            time.sleep(0)

    def repeat():
        while not stop.is_set():
            beside()

    interval = sys.getswitchinterval()
    threads = [threading.Thread(target=work) for work in (count, *([repeat] if beside else []))]
    for thread in threads:
        thread.start()
    try:
        sys.setswitchinterval(1000)  # from here on the others run only when this one lets go of Python's lock
        time.sleep(0.05)  # every thread has begun, and waits by the new interval
        before, end = len(turns), time.monotonic() + 60
        while len(turns) == before and time.monotonic() < end:
            call()
        return len(turns) > before
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        for thread in threads:
            thread.join()


def test_python_goes_on_while_a_kernel_runs(registry):
    a, b = matrix(1024, 1024), matrix(1024, 1024, "c")
    registry.matmul(a, b)  # selected and made ready
    assert others_run_during(lambda: registry.matmul(a, b, np.empty((1024, 1024), np.float32)))


def test_python_goes_on_while_warnings_wait_for_a_run(registry):
    a, b = matrix(1024, 1024), matrix(1024, 1024, "c")
    registry.matmul(a, b)  # selected and made ready
    out = np.empty((1024, 1024), np.float32)
    assert others_run_during(lambda: registry.warnings, beside=lambda: registry.matmul(a, b, out))


def test_b_packed_once_gives_the_same_product(registry):
    rng = np.random.default_rng(1)
    a = rng.standard_normal((5, 7), dtype=np.float32)
    w = rng.standard_normal((9, 7), dtype=np.float32)
    problem = problem_of(a, w.T)
    packed = registry.pack_b(problem, w.T)
    expected = a @ w.T
    w[:] = np.nan  # the object has its own
    np.testing.assert_allclose(packed(a), expected, rtol=1e-5, atol=1e-5)
    out = np.empty((5, 9), dtype=np.float32)
    assert packed(a, out, alpha=2.0) is out
    np.testing.assert_allclose(out, 2 * expected, rtol=1e-5, atol=1e-5)
    assert packed.problem == problem
    assert packed.bytes >= w.nbytes and packed.setup_us > 0
    assert packed.solution.choice.source
    with pytest.raises(kscout.InvalidArgument, match="array a has shape"):
        packed(a[:4])
    with pytest.raises(kscout.InvalidArgument, match="array b has shape"):
        registry.pack_b(problem, a.T)
    with pytest.raises(kscout.InvalidArgument, match="packs B of a GEMM"):
        registry.pack_b("conv_fwd:1x8x6x6:16x3x3:pad=1", w.T)


def test_a_row_has_equal_bits_whatever_m_is(tmp_path, monkeypatch):
    registry = kscout.Registry(batch_invariant=True)
    rng = np.random.default_rng(5)
    a, w = rng.standard_normal((24, 40), dtype=np.float32), rng.standard_normal((16, 40), dtype=np.float32)
    with pytest.raises(kscout.Unsupported, match="measure them with kscout classes gemm:1x16x40:fp32:rcr"):
        registry.matmul(a, w.T)
    monkeypatch.setenv("KSCOUT_CLASSES", str(tmp_path / "classes.json"))
    measured = run_verb("classes", "gemm:1x16x40", "--backend", "cpu", "--top", 4, "--rows", "1,4,24", "--every", 16, "--seconds", 0.001)
    assert measured[0]["before"] == "new"
    registry = kscout.Registry(batch_invariant=True)
    whole = registry.matmul(a, w.T)
    np.testing.assert_allclose(whole, a @ w.T, rtol=1e-4, atol=1e-5)
    for m in range(1, 24):
        assert np.array_equal(registry.matmul(a[:m], w.T), whole[:m]), m
    choice = kscout.Selector.analytic().select("gemm:5x16x40", batch_invariant=True)
    assert choice.source == "db"
    free = kscout.Registry()
    with pytest.raises(kscout.Unsupported, match="for M from 1 to 24"):
        free.run("gemm:25x16x40", np.zeros((25, 40), np.float32), np.asfortranarray(w.T), batch_invariant=True)
