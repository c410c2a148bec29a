"""Runs batched dot products, an operation that only the tests have, from Python.

The argument is the folder of the extension that is linked with the operation; it replaces that of the package.
"""

import importlib.util
import pickle
import sys
from pathlib import Path


class Extension:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "kscout._core":
            return None
        return importlib.util.spec_from_file_location(name, next(Path(sys.argv[1]).glob("_core.*.so")))


sys.meta_path.insert(0, Extension)

import numpy as np  # noqa: E402

import kscout  # noqa: E402


def refusal(call):
    try:
        call()
    except kscout.InvalidArgument as error:
        return str(error)
    raise AssertionError("nothing was refused")


problem = kscout.Problem("bdot:5x7")
assert type(problem) is kscout.Problem and (problem.op, problem.batch, problem.n, problem.flops) == ("bdot", 5, 7, 70)
assert problem.as_dict() == {"batch": 5, "n": 7, "weight": 1.0}
assert eval(repr(problem), {"Problem": kscout.Problem}) == problem == pickle.loads(pickle.dumps(problem))
assert problem.replace(n=8) == kscout.Problem("bdot:5x8") != problem
assert len({problem, kscout.Problem(str(problem))}) == 1
assert "n=-1" in refusal(lambda: problem.replace(n=-1)) and not hasattr(problem, "m")

registry = kscout.Registry()
random = np.random.default_rng(1)
a, b = random.random((5, 7), np.float32), random.random((5, 7), np.float32)
c = registry.run(problem, a, b)
assert c.shape == (5,) and np.allclose(c, (a * b).sum(1), rtol=1e-5)
out = np.zeros(5, np.float32)
assert registry.run("bdot:5x7", a, b, out) is out and np.array_equal(out, c)
solution = registry.get_solution(problem)
assert solution.problem == problem and solution.choice.name.startswith("native_bdot")
assert "array b has shape (5, 6); bdot:5x7 takes (5, 7)" in refusal(lambda: registry.run(problem, a, b[:, :6]))
assert "packed in the order of its dimensions" in refusal(lambda: registry.run(problem, a, np.asfortranarray(b)))
assert "array b is missing" in refusal(lambda: registry.run(problem, a))
assert "unknown operand 'mask'" in refusal(lambda: registry.run(problem, a, b, mask=a))
assert "alpha=2" in refusal(lambda: registry.run(problem, a, b, alpha=2))
print("an operation of the tests runs from Python")
