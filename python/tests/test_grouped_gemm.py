"""Grouped GEMMs from Python. NumPy's products in double precision are the reference."""

import pickle

import numpy as np
import pytest

import kscout


def products(rows, a, b, layout="rcr"):
    """Each group's product in double precision."""
    ends = np.cumsum(rows)
    parts = [
        a[end - count : end].astype(np.float64) @ (weights if layout == "rrr" else weights.T).astype(np.float64)
        for count, end, weights in zip(rows, ends, b)
    ]
    return np.concatenate(parts)


def operands(rows, n, k, layout="rcr"):
    random = np.random.default_rng(1)
    a = random.standard_normal((sum(rows), k), dtype=np.float32)
    shape = (len(rows), k, n) if layout == "rrr" else (len(rows), n, k)
    return a, random.standard_normal(shape, dtype=np.float32)


def test_fields_of_a_problem():
    problem = kscout.Problem("grouped_gemm:128+64+0+7x1408x2048:bf16")
    assert (problem.op, problem.m, problem.n, problem.k) == ("grouped_gemm", (128, 64, 0, 7), 1408, 2048)
    assert (problem.groups, problem.m_sum, problem.m_max, problem.m_filled) == (4, 199, 128, 3)
    assert problem.as_dict()["m"] == (128, 64, 0, 7) and "groups" not in problem.as_dict()
    assert problem.replace(**problem.as_dict()) == problem == pickle.loads(pickle.dumps(problem))
    other = problem.replace(m=[1, 2])
    assert other == kscout.Problem("grouped_gemm:1+2x1408x2048:bf16") != problem and other.m_sum == 3
    assert len({problem, other, kscout.Problem(str(problem))}) == 2


@pytest.mark.parametrize("layout", ["rcr", "rrr"])
@pytest.mark.parametrize("rows", [(5,), (12, 0, 7), (0, 0, 3), (1,) * 256, (100, 1, 0, 2)])
def test_run(rows, layout):
    a, b = operands(rows, 33, 40, layout)
    problem = kscout.Problem(f"grouped_gemm:{'+'.join(map(str, rows))}x33x40:fp32:{layout}")
    c = kscout.Registry().run(problem, a, b)
    assert c.shape == (sum(rows), 33)
    assert np.allclose(c, products(rows, a, b, layout), atol=1e-4)


def test_no_rows_at_all():
    a, b = operands((0, 0), 33, 40)
    assert kscout.Registry().run("grouped_gemm:0+0x33x40", a, b).shape == (0, 33)


def test_lists_that_disagree_with_the_arrays():
    registry = kscout.Registry()
    a, b = operands((12, 0, 7), 33, 40)
    with pytest.raises(kscout.InvalidArgument, match=r"array a has shape \(19, 40\).*takes \(20, 40\)"):
        registry.run("grouped_gemm:12+0+8x33x40", a, b)
    with pytest.raises(kscout.InvalidArgument, match=r"array b has shape \(3, 33, 40\).*takes \(2, 33, 40\)"):
        registry.run("grouped_gemm:12+7x33x40", a, b)
    with pytest.raises(kscout.InvalidArgument, match="array a has strides.*must be packed"):
        registry.run("grouped_gemm:12+0+7x33x40", np.asfortranarray(a), b)
    with pytest.raises(kscout.InvalidArgument, match="m of group 1 is -1"):
        kscout.Problem("grouped_gemm:12+-1x33x40")
    with pytest.raises(kscout.InvalidArgument, match="m has 1025 groups, at most 1024"):
        kscout.Problem("grouped_gemm:12+7x33x40").replace(m=[1] * 1025)
    with pytest.raises(kscout.InvalidArgument, match="unknown field 'groups'"):
        kscout.Problem("grouped_gemm:12+7x33x40").replace(groups=2)
