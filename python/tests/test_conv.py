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
