import pickle
import re

import pytest

import kscout
from kscout import Gemm


def test_two_ways_to_write_a_problem_are_one():
    problem = Gemm(16, 4096, 512, "bf16", "rrr", batch=2)
    assert problem == Gemm("gemm:16x4096x512:bf16:rrr:batch=2")
    assert str(problem) == "gemm:16x4096x512:bf16:rrr:batch=2"
    assert eval(repr(problem)) == problem
    assert {problem: 1}[Gemm(str(problem))] == 1
    assert pickle.loads(pickle.dumps(problem)) == problem


def test_fields_come_from_the_library():
    problem = Gemm(3, 4, 5, "int8", lda=8)
    assert problem.as_dict() == {name: getattr(problem, name) for name in problem.as_dict()}
    assert (problem.m, problem.lda, problem.dtype_a, problem.dtype_c, problem.layout) == (3, 8, "int8", "int32", "rcr")
    assert problem.flops == 2 * 3 * 4 * 5
    assert problem.replace(m=7, epilogue="relu") == Gemm(7, 4, 5, "int8", lda=8, epilogue="relu")
    with pytest.raises(AttributeError):
        problem.m = 4


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Gemm(-1, 2, 3), "m=-1"),
        (lambda: Gemm(1, 2, 3, "fp31"), "did you mean 'fp32'"),
        (lambda: Gemm(1, 2, 3, layout="rcrr"), "layout"),
        (lambda: Gemm(1, 2, 3, bach=2), "did you mean 'batch'"),
        (lambda: Gemm(1, 2, 30, lda=8), "lda=8"),
        (lambda: Gemm("gemm:1x2"), "MxNxK"),
        (lambda: Gemm(1, 2, 3).replace(batch=0), "batch=0"),
    ],
)
def test_a_wrong_problem_is_refused_with_its_reason(make, words):
    with pytest.raises(kscout.InvalidArgument, match=re.escape(words)) as caught:
        make()
    assert isinstance(caught.value, ValueError) and caught.value.code == "invalid_argument"


def test_a_message_is_short_and_printable():
    with pytest.raises(kscout.InvalidArgument) as caught:
        Gemm("gemm:8x8x8:\x1b[2J" + 3000 * "x")
    assert "\\u001b[2J" in str(caught.value) and len(str(caught.value)) < 600


def test_a_field_of_the_wrong_type_is_named():
    with pytest.raises(TypeError, match="batch='two'"):
        Gemm(1, 2, 3, batch="two")


def test_a_problem_of_any_operation_is_a_record():
    problem = kscout.Problem("gemm:16x4096x512:bf16:rrr:batch=2")
    gemm = Gemm(16, 4096, 512, "bf16", "rrr", batch=2)
    assert isinstance(gemm, kscout.Problem) and problem == gemm and {problem: 1}[gemm] == 1
    assert (problem.op, problem.k, problem.layout, problem.flops) == ("gemm", 512, "rrr", gemm.flops)
    assert problem.as_dict() == gemm.as_dict()
    assert pickle.loads(pickle.dumps(problem)) == problem == eval(repr(problem), {"Problem": kscout.Problem})
    assert type(problem.replace(k=3)) is Gemm and type(kscout.Problem("conv_fwd:1x8x8x8:8x3x3").replace(pad=1)) is kscout.Conv
    with pytest.raises(AttributeError, match="no field 'depth'"):
        problem.depth


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Gemm(1, 2), "missing k"),
        (lambda: Gemm(1, 2, 3, "fp32", "rcr", 4), "at most 5 positional arguments, got 6"),
        (lambda: Gemm(1, 2, 3, m=4), "two values for m"),
        (lambda: Gemm(1.5, 2, 3), "m=1.5"),
    ],
)
def test_wrong_arguments_are_a_type_error(make, words):
    with pytest.raises(TypeError, match=re.escape(words)):
        make()


def test_fields_of_other_operations_are_unknown():
    with pytest.raises(kscout.InvalidArgument, match="op"):
        Gemm(1, 2, 3, op="conv_fwd")
    with pytest.raises(kscout.InvalidArgument, match="op"):
        kscout.Conv(1, 8, 8, 8, 8, op="gemm")
