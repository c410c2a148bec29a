"""Products of a BLAS in a process of their own; blas_test.py runs this under kscout exec, with NumPy.

    blas_products.py FUNCTION LIBRARY WORD [COUNT]

FUNCTION is looked up in the global scope, where kscout exec puts its own, and in LIBRARY, which has the original. Both get equal
operands. WORD: random, odd (calls that compute nothing), threads, fork, fork_idle, fork_opening (the core is
preload_slow_core), equal (COUNT: the threads of the library), or numpy: products of NumPy, which has to have loaded LIBRARY,
against float64.
"""
import ctypes
import os
import sys
import threading

import numpy as np

FUNCTION, LIBRARY, WORD = sys.argv[1:4]
COUNT = int(sys.argv[4]) if len(sys.argv) > 4 else 0
INTEGER = ctypes.c_int64 if FUNCTION.endswith("64_") else ctypes.c_int
ROWS, COLUMNS, PLAIN, TRANSPOSED = 101, 102, 111, 112
SIZES = (1, 2, 3, 7, 16, 31, 48, 64, 65, 96, 128, 130, 200, 257)

with open("/proc/self/maps", encoding="utf-8") as maps:
    is_numpys = os.path.realpath(LIBRARY) in maps.read()
library = ctypes.CDLL(LIBRARY)  # local scope
taken, original = getattr(ctypes.CDLL(None), FUNCTION), getattr(library, FUNCTION)


def call(function, order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    at = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)]
    if FUNCTION == "sgemm_":
        assert order == COLUMNS
        refer = [ctypes.byref(INTEGER(x)) for x in (m, n, k, lda, ldb, ldc)]
        letters = [b"N" if t == PLAIN else b"t" if t == TRANSPOSED else b"x" for t in (ta, tb)]
        factors = [ctypes.byref(ctypes.c_float(x)) for x in (alpha, beta)]
        hidden = (ctypes.c_size_t(1), ctypes.c_size_t(1))
        function(letters[0].upper(), letters[1].upper(), *refer[:3], factors[0], at[0], refer[3], at[1], refer[4], factors[1],
                 at[2], refer[5], *hidden)
    else:
        function(order, ta, tb, *map(INTEGER, (m, n, k)), ctypes.c_float(alpha), at[0], INTEGER(lda), at[1], INTEGER(ldb),
                 ctypes.c_float(beta), at[2], INTEGER(ldc))


def product(draw, size=None, transposed=None):
    """The arguments of a product, and a bound of what the order of summation may change in each element of C's memory."""
    m, n, k = (int(x) for x in (size or draw.choice(SIZES, 3)))
    order = COLUMNS if FUNCTION == "sgemm_" else int(draw.choice([ROWS, COLUMNS]))
    ta, tb = (int(x) for x in transposed or draw.choice([PLAIN, TRANSPOSED], 2))
    alpha, beta = (float(x) for x in (draw.choice([1, 1, -0.5, 3]), draw.choice([0, 0, 1, -2])))

    def matrix(rows, columns):
        lines, length = (rows, columns) if order == ROWS else (columns, rows)
        leading = length + int(draw.choice([0, 0, 1, 5, 16]))
        memory = draw.standard_normal((lines, leading), dtype=np.float32)
        inner = memory[:, :length] if order == ROWS else memory[:, :length].T
        return memory, leading, inner

    a, lda, inner_a = matrix(*((m, k) if ta == PLAIN else (k, m)))
    b, ldb, inner_b = matrix(*((k, n) if tb == PLAIN else (n, k)))
    c, ldc, inner_c = matrix(m, n)
    if beta == 0:
        inner_c[:] = np.nan  # must not be read
    magnitude = np.zeros_like(c, dtype=np.float64)
    inside = magnitude[:, :n] if order == ROWS else magnitude[:, :m].T
    left, right = (np.abs((x if t == PLAIN else x.T).astype(np.float64)) for x, t in ((inner_a, ta), (inner_b, tb)))
    inside[:] = abs(alpha) * np.einsum("ik,kj->ij", left, right) + (abs(beta) * np.abs(inner_c) if beta else 0)
    return (order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc), magnitude * (k + 4) * 2.0**-24


def check(arguments, bound):
    ours, theirs = (arguments[:12] + (arguments[12].copy(), arguments[13]) for _ in range(2))
    call(taken, *ours)
    call(original, *theirs)
    error = np.abs(ours[12].astype(np.float64) - theirs[12])
    assert (error <= bound).all(), (arguments[:7], arguments[8], arguments[10:12], arguments[13], error.max())


def random(first, count):
    draw = np.random.default_rng(first)
    for _ in range(count):
        check(*product(draw))


def odd():
    arguments, _ = product(np.random.default_rng(5), (96, 96, 96))
    infinite = np.full_like(arguments[7], np.inf)
    cases = [arguments[:6] + (0.0, infinite) + arguments[8:]]  # alpha 0: A and B are not read
    cases += [arguments[:3] + sizes + arguments[6:] for sizes in ((0, 96, 96), (96, 0, 96), (96, 96, 0))]
    for case in cases:
        ours, theirs = (case[:12] + (case[12].copy(), case[13]) for _ in range(2))
        call(taken, *ours)
        call(original, *theirs)
        assert np.array_equal(ours[12], theirs[12], equal_nan=True), case[:7]


def with_strides(draw, rows, columns):
    """A matrix of this shape that lies in its memory in one of many ways; the BLAS takes some of them without a copy."""
    way = draw.integers(8)
    if way == 7:
        return np.broadcast_to(draw.standard_normal((rows, 1), dtype=np.float32), (rows, columns))
    if way >= 4:
        return with_strides(draw, columns, rows).T
    step_rows, step_columns = ((1, 1), (2, 1), (1, 2), (-1, 1))[way]
    before, behind = draw.integers(0, 4, 2)
    memory = draw.standard_normal((rows * abs(step_rows), before + columns * step_columns + behind), dtype=np.float32)
    return memory[::step_rows, before:before + columns * step_columns:step_columns]


def of_numpy():
    assert is_numpys, f"NumPy computes without {LIBRARY}"
    draw = np.random.default_rng(3)
    for i in range(COUNT):
        m, n, k = (int(2 ** x) for x in draw.uniform(1, 9, 3))
        x, y = with_strides(draw, m, k), with_strides(draw, k, n)
        wide = x.astype(np.float64) @ y.astype(np.float64)
        bound = (np.abs(x).astype(np.float64) @ np.abs(y).astype(np.float64)) * (k + 4) * 2.0**-24
        if i % 3 == 0:
            out = with_strides(draw, m, n).copy(order="K")
            out[:] = np.nan
            np.matmul(x, y, out=out)
        else:
            out = x @ y if i % 3 == 1 else np.dot(x, y)
        assert (np.abs(out - wide) <= bound).all(), (i, x.shape, x.strides, y.shape, y.strides, out.strides)


def in_threads():
    failed = []

    def work(first):
        try:
            random(first, COUNT)
        except BaseException as error:  # pylint: disable=broad-except
            failed.append(error)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


def forks(idle):
    """Children are served; with a library that allows that, also when they are forked while a thread of the parent computes: a
    child of OpenBLAS may then wait for ever. All is drawn before: Python's own locks do not survive fork()."""
    draw = np.random.default_rng(1)
    products = [product(draw) for _ in range(COUNT)]

    def compute():
        for one in products:
            check(*one)

    going = threading.Thread(target=lambda: [compute() for _ in range(4)])
    going.start()
    if idle:
        going.join()
    children = []
    for _ in range(6):
        pid = os.fork()
        if pid == 0:
            compute()
            os._exit(0)  # pylint: disable=protected-access
        children.append(pid)
        if idle:
            compute()  # beside the child
    for pid in children:
        status = os.waitpid(pid, 0)[1]
        assert status == 0, status
    going.join()


def forks_while_the_core_opens():
    core = ctypes.CDLL(os.environ["KSCOUT_PRELOAD_CORE"])
    going = threading.Thread(target=lambda: check(*product(np.random.default_rng(1))))
    going.start()
    while core.slow_core_state() == 0:
        pass
    pid = os.fork()
    if pid == 0:
        os._exit(core.slow_core_state())  # pylint: disable=protected-access
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2
    going.join()


if WORD == "random":
    random(0, COUNT)
elif WORD == "odd":
    odd()
elif WORD == "threads":
    in_threads()
elif WORD == "fork":
    forks(False)
elif WORD == "fork_idle":
    forks(True)
elif WORD == "fork_opening":
    forks_while_the_core_opens()
elif WORD == "numpy":
    of_numpy()
else:
    if COUNT:
        library.stand_in_threads(COUNT)
    before = len(os.listdir("/proc/self/task"))
    equal, limit = product(np.random.default_rng(7), (160, 160, 160), (PLAIN, PLAIN))
    for _ in range(20):
        check(equal, limit)
    print("new threads", len(os.listdir("/proc/self/task")) - before)
if hasattr(library, "stand_in_calls"):
    print("original calls", library.stand_in_calls())
print("agree")
