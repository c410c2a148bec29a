import pickle

import pytest

import kscout
from kscout import Conv, Selector

PROBLEM = Conv(8, 256, 128, 28, 28, 3, 3, "bf16", pad=1)


def test_two_ways_to_write_a_convolution_are_one():
    assert str(PROBLEM) == "conv_fwd:8x256x28x28:128x3x3:bf16:nhwgc:pad=1"
    assert Conv(str(PROBLEM)) == PROBLEM == eval(repr(PROBLEM)) == pickle.loads(pickle.dumps(PROBLEM))
    assert {PROBLEM: 1}[Conv(str(PROBLEM))] == 1
    other = Conv(8, 256, 128, 28, 28, 3, 3, "bf16", op="conv_bwd_data", stride=2, pad_h=1, right_pad_w=1)
    assert (other.op, other.stride_w, other.left_pad_h, other.left_pad_w, other.right_pad_w) == ("conv_bwd_data", 2, 1, 0, 1)
    assert PROBLEM.replace(g=2).g == 2 and PROBLEM.flops == 2 * 8 * 128 * 28 * 28 * 256 * 9
    deep = Conv(1, 64, 64, 28, 28, 3, 3, layout="ndhwgc", d=8, z=3, pad=1)
    assert (deep.left_pad_d, deep.right_pad_d) == (1, 1)


def test_the_specific_field_wins_in_any_order():
    sizes = (1, 64, 64, 56, 56, 3, 3)
    assert Conv(*sizes, stride=2, stride_h=1) == Conv(*sizes, stride_h=1, stride=2) == Conv(*sizes, stride=(1, 2))
    mine = Conv(*sizes, right_pad_w=3, pad_w=2, pad=1)
    assert (mine.left_pad_h, mine.right_pad_h, mine.left_pad_w, mine.right_pad_w) == (1, 1, 2, 3)
    assert Conv(*sizes, pad=[0, 3]) == Conv(*sizes, pad="0x3") == Conv("conv_fwd:1x64x56x56:64x3x3:pad=0x3")
    changed = mine.replace(left_pad_h=0, pad=5, dtype="bf16", dtype_acc="fp32")
    assert (changed.left_pad_h, changed.right_pad_h, changed.left_pad_w, changed.dtype_wei) == (0, 5, 5, "bf16")


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Conv("conv_fwd:1x8x8x8:8x3x3:pad=1:pad=2"), "pad is given twice: pad=1 and pad=2; leave one out"),
        (lambda: Conv(1, 8, 8, 8, 8, 3, 3, pad=1, pad_h=2, pad_w=3), "pad=1 has no effect: pad_h=2, pad_w=3"),
        (lambda: Conv(1, 8, 8, 8, 8, 3, 3, pad=(1, 2, 3)), "has 3 numbers; give one, or 2: height x width"),
        (lambda: Conv(1, 8, 8, 8, 8, 3, 3, lda=3), "lda=3: convolutions have no such field, GEMMs have"),
        (lambda: kscout.Gemm("gemm:16x16x16:m=5"), "m is given twice: m=16 and m=5"),
        (lambda: kscout.Gemm("conv_fwd:1x8x8x8:8x3x3"), "is a convolution, and a GEMM is needed here"),
        (lambda: PROBLEM.replace(stride=1, stride_h=2, stride_w=2), "stride=1 has no effect"),
    ],
)
def test_a_field_is_given_once_and_has_an_effect(make, words):
    with pytest.raises(kscout.InvalidArgument, match=words):
        make()


def test_a_general_field_of_the_wrong_type_is_named():
    with pytest.raises(TypeError, match="pad=1.5"):
        Conv(1, 8, 8, 8, 8, 3, 3, pad=1.5)


@pytest.mark.parametrize(
    "make, words", [(lambda: PROBLEM.replace(g=3), "g=3"), (lambda: Conv(1, 2, 3, 4, 5, stride_q=2), "did you mean 'stride_"), (lambda: Conv("conv_fwd:1x2"), "NxCxHxW")]
)
def test_a_wrong_convolution_is_refused_with_its_reason(make, words):
    with pytest.raises(kscout.InvalidArgument, match=words):
        make()


def test_the_model_of_the_package_ranks_convolutions():
    ranked = kscout.rank_kernels(PROBLEM, 3, device="gfx950")
    assert [c.decided_by for c in ranked] == ["model"] * 3 and ranked[0].time_us > 0
    selector = Selector.find("bf16", op="conv_fwd", device="gfx950")
    assert selector.select(str(PROBLEM)).name == ranked[0].name == selector.select(PROBLEM).name
    assert selector.select(PROBLEM).source == "cache"
    assert kscout.Config(ranked[0].name)["tile_m"] > 0


def test_without_a_model_the_family_is_ranked_by_cost():
    family = kscout.kernels("fp16", op="conv_bwd_weight", device="gfx942", rules="tiny")
    problem = Conv(8, 256, 128, 28, 28, 3, 3, "fp16", op="conv_bwd_weight", pad=1)
    assert len(family.applicable(problem)) > 0
    choice = kscout.rank_kernels(problem, 1, device="gfx942")[0]
    assert choice.decided_by == "analytic"
