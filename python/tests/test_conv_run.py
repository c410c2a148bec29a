"""Convolutions on arrays, by a kernel library that is built here. NumPy, in double precision, is the reference."""

import itertools
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import kscout
from kscout import Conv, Registry
from test_dispatch import OnlyDLPack

HERE = Path(__file__).parent
DIRECTIONS = ("conv_fwd", "conv_bwd_data", "conv_bwd_weight")


def checksum(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return f"fnv1a64:{value:016x}"


def config_of(op, layout):
    """A kernel for any filter."""
    family = kscout.kernels("fp32", layout, op=op, provider="ck_tile", device="gfx950", rules="tiny")
    return next(c for c in family.applicable(Conv(1, 64, 64, 9, 9, 3, 3, layout=layout, op=op, stride=2, dilation=2)))


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The index of the library."""
    folder = tmp_path_factory.mktemp("conv")
    file = folder / "loops.so"
    compiler = os.environ.get("CC", "cc")
    source, headers = HERE.parents[1] / "tests/libraries/toy_conv.c", HERE.parents[1] / "include"
    subprocess.run([compiler, "-std=gnu99", "-O1", "-shared", "-fPIC", f"-I{headers}", source, "-o", file], check=True)
    kernels = [
        {"config": config_of(op, layout).name, "kernel": f"toy_{op}"}
        for op, layout in itertools.product(DIRECTIONS, ("nhwgc", "ndhwgc"))
    ]
    index = folder / "loops.kscout-library.json"
    index.write_text(
        json.dumps(
            {
                "format": "kscout-kernel-library",
                "version": 1,
                "abi": 1,
                "name": "loops",
                "library": "loops.so",
                "checksum": checksum(file.read_bytes()),
                "backend": "cpu",
                "kernels": kernels,
            }
        )
    )
    return index


@pytest.fixture(scope="module")
def registry(library):
    return Registry(libraries=[library])


def shapes(p):
    """Of input, filter and output, spatial axes of 2-D problems included."""
    sizes = [(p.d, p.z), (p.h, p.y), (p.w, p.x)]
    axes = "dhw"[-2:] if p.layout == "nhwgc" else "dhw"
    out = [
        (size + getattr(p, f"left_pad_{a}") + getattr(p, f"right_pad_{a}") - (f - 1) * getattr(p, f"dilation_{a}") - 1)
        // getattr(p, f"stride_{a}")
        + 1
        for a, (size, f) in zip("dhw", sizes)
    ]
    keep = slice(3 - len(axes), 3)
    return (
        (p.n, *[size for size, _ in sizes[keep]], p.c),
        (p.k, *[f for _, f in sizes[keep]], p.c // p.g),
        (p.n, *out[keep], p.k),
    )


def tensors(p, seed=0):
    random = np.random.default_rng(seed)
    return [random.standard_normal(shape, dtype=np.float32) for shape in shapes(p)]


def reference(p, image, filters, result):
    """What the direction computes of the other two, in double precision; and the sum of magnitudes."""
    axes = "dhw" if image.ndim == 5 else "hw"
    pads = [(0, 0), *[(getattr(p, f"left_pad_{a}"), getattr(p, f"right_pad_{a}")) for a in axes], (0, 0)]
    inner = tuple(slice(left, left + size) for (left, _), size in zip(pads[1:-1], image.shape[1:-1]))
    outs = []
    for absolute in (False, True):
        x, w, y = (abs(t.astype(np.float64)) if absolute else t.astype(np.float64) for t in (image, filters, result))
        x = np.pad(x, pads).reshape(p.n, *[s + sum(q) for s, q in zip(image.shape[1:-1], pads[1:-1])], p.g, -1)
        w = w.reshape(p.g, -1, *filters.shape[1:])
        y = y.reshape(*result.shape[:-1], p.g, -1)
        made = {"conv_fwd": y, "conv_bwd_data": x, "conv_bwd_weight": w}[p.op]
        made[...] = 0
        for tap in itertools.product(*[range(f) for f in filters.shape[1:-1]]):
            at = tuple(
                slice(t * getattr(p, f"dilation_{a}"), t * getattr(p, f"dilation_{a}") + (o - 1) * getattr(p, f"stride_{a}") + 1, getattr(p, f"stride_{a}"))
                for a, t, o in zip(axes, tap, result.shape[1:-1])
            )
            seen, part = x[(slice(None), *at)], w[(slice(None), slice(None), *tap)]
            if p.op == "conv_fwd":
                y += np.einsum("...gc,gkc->...gk", seen, part)
            elif p.op == "conv_bwd_data":
                x[(slice(None), *at)] += np.einsum("...gk,gkc->...gc", y, part)
            else:
                flat = [t.reshape(-1, *t.shape[-2:]) for t in (y, seen)]
                w[(slice(None), slice(None), *tap)] = np.einsum("igk,igc->gkc", *flat)
        if p.op == "conv_bwd_data":
            made = made[(slice(None), *inner)]
        outs.append(made)
    return outs


def operands(p, image, filters, result):
    """a and b of run(), and the array that it computes."""
    return {
        "conv_fwd": (image, filters, result),
        "conv_bwd_data": (result, filters, image),
        "conv_bwd_weight": (result, image, filters),
    }[p.op]


def assert_convolution(c, p, all_tensors, rounding=0, bias=0):
    """Sums are in float32; `rounding` is that of the result's type."""
    exact, magnitude = reference(p, *all_tensors)
    exact, magnitude = exact.reshape(c.shape) + bias, magnitude.reshape(c.shape) + abs(bias)
    terms = p.flops / 2 / min(t.size for t in all_tensors)
    allowed = (terms + 4) * np.finfo(np.float32).eps * magnitude + rounding * (abs(exact) + 1e-4) + 1e-30
    assert np.all(abs(c - exact) <= allowed)


PROBLEMS = [
    dict(n=2, c=16, k=8, h=6, w=5, y=3, x=3, pad=1),
    dict(n=1, c=16, k=32, h=7, w=9, y=3, x=2, g=2, stride=2, dilation=2, pad_w=1),
    dict(n=2, c=8, k=8, h=5, w=5, y=1, x=1),
    dict(n=1, c=8, k=16, h=5, w=6, y=2, x=3, left_pad_h=1, right_pad_w=2, stride_w=2),
    dict(n=1, c=8, k=8, h=4, w=5, y=3, x=1, d=5, z=2, layout="ndhwgc", stride_d=2, pad_h=1),
]


@pytest.mark.parametrize("op", DIRECTIONS)
@pytest.mark.parametrize("sizes", PROBLEMS)
def test_every_direction_is_right(registry, op, sizes):
    p = Conv(**sizes, op=op)
    all_tensors = tensors(p)
    a, b, computed = operands(p, *all_tensors)
    c = registry.run(p, a, b)
    assert c.shape == computed.shape and c.dtype == np.float32
    assert_convolution(c, p, all_tensors)
    assert_convolution(registry.run(p, a, b, config=config_of(op, p.layout)), p, all_tensors)  # the library's


def test_the_result_goes_where_it_is_wanted_and_groups_may_be_a_dimension(registry):
    p = Conv(1, 16, 32, 6, 6, 3, 3, g=2, pad=1)
    image, filters, result = tensors(p)
    assert registry.run(str(p), image, filters, result) is result
    assert_convolution(result, p, (image, filters, result))
    apart = np.zeros((1, 6, 6, 2, 16), np.float32)
    foreign = OnlyDLPack(apart)
    assert registry.run(p, OnlyDLPack(image.reshape(1, 6, 6, 2, 8)), OnlyDLPack(filters.reshape(2, 16, 3, 3, 8)), foreign) is foreign
    assert np.array_equal(apart.reshape(result.shape), result)


def test_a_solution_tells_what_run_will_do(library, monkeypatch):
    monkeypatch.setenv("KSCOUT_DISABLE", "any_cpu")  # its rough times would decide between backends
    registry = Registry(libraries=[library])
    p = Conv(1, 16, 32, 6, 6, 3, 3, pad=1)
    solution = registry.get_solution(p)
    assert isinstance(solution, kscout.Solution) and solution.backend == "cpu" and solution.problem == p
    assert not solution.padded and solution.copy_bytes == 0
    config = kscout.Config(solution.choice.name)
    assert registry.supports(p, config) is None
    image, filters, _ = tensors(p)
    assert np.array_equal(registry.run(p, image, filters, config=config), registry.run(p, image, filters))
    assert "loops" in registry.backends and len(registry.kernels(p)[-1]) == 1


def test_a_solution_names_the_models_config_that_leaves_axes_open(library, monkeypatch):
    monkeypatch.setenv("KSCOUT_MODEL_PATH", str(HERE.parents[1] / "models"))
    short, tile = "grouped_conv_forward_bf16_2d_64x64x64_compv3", "compv3_cshuffle_intrawave_64x64x64_4x1x1_16x16x16"
    index = json.loads(library.read_text())
    index["device"] = "gfx950"
    index["kernels"] = [{"config": f"grouped_conv_fwd_bf16_nhwgc_2d_{tile}_vec{v}_{v}_{v}", "kernel": "toy_conv_fwd"} for v in (1, 8)]
    of_short = library.with_name("short.kscout-library.json")
    of_short.write_text(json.dumps(index))
    registry = Registry(libraries=[of_short])
    solution = registry.get_solution("conv_fwd:2x64x56x56:128x3x3:bf16:nhwgc:pad=1")
    assert solution.choice.source == "model" and solution.choice.name.endswith(f"{tile}_vec8_8_8")
    assert solution.model_config.name == short
    assert Registry().get_solution(Conv(1, 16, 32, 6, 6, 3, 3, pad=1)).model_config is None


def test_arrays_that_do_not_fit_are_refused_by_name(registry):
    p = Conv(2, 16, 32, 6, 5, 3, 3, pad=1)
    image, filters, result = tensors(p)
    strided = np.zeros((2, 6, 5, 32), np.float32)[..., ::2]
    refused = [
        (lambda: registry.run(p, image.astype(np.float64), filters), "array a, the input, holds fp64.*takes fp32: convert to float32"),
        (lambda: registry.run(p, image, filters[1:]), r"array b, the filter, has shape \(31, 3, 3, 16\).*takes \(32, 3, 3, 16\)"),
        (lambda: registry.run(p, np.moveaxis(image, 3, 1), filters), r"array a, .*in the order of memory"),
        (lambda: registry.run(p, strided, filters), "array a, the input, has strides.*copy it first"),
        (lambda: registry.run(p, image, filters, result[:1]), "array c, the output, has shape"),
        (lambda: registry.run(p.replace(op="conv_bwd_data"), image, filters), "array a, the output's gradient"),
        (lambda: registry.run(p, image, filters, alpha=2.0), "alpha"),
        (lambda: registry.run(p.replace(g=3), image, filters), "g=3"),
    ]
    for call, words in refused:
        with pytest.raises(kscout.InvalidArgument, match=words):
            call()
    result.setflags(write=False)
    with pytest.raises(TypeError, match="written"):
        registry.run(p, image, filters, result)
    with pytest.raises(TypeError):
        registry.run(p, image.tolist(), filters)


def test_a_layout_without_kernels_runs_on_copies(registry):
    p = Conv(1, 16, 32, 6, 6, 3, 3, pad=1, layout="ngchw")
    solution = registry.get_solution(p)
    assert solution.padded and solution.problem == p.replace(layout="nhwgc")
    assert solution.copy_bytes == 2 * 4 * (16 + 32) * 36 <= 2 * registry.workspace_bytes(p)


def test_refinement_and_searches_store_decisions(library, tmp_path):
    p = Conv(1, 16, 32, 6, 6, 3, 3, pad=1)
    searching = Registry(libraries=[library], fallback="exhaustive", db=tmp_path / "decisions.sqlite")
    found = searching.get_solution(p).choice
    assert found.source == "db" and found.time_us > 0
    kept = Registry(libraries=[library], db=tmp_path / "decisions.sqlite").get_solution(p).choice
    assert (kept.source, kept.name, kept.time_us) == ("db", found.name, found.time_us)


def channels_second(stored, contiguous):
    """PyTorch's order of dimensions: a view of the same memory (torch.channels_last), or a contiguous copy."""
    view = np.moveaxis(stored, -1, 1)
    return np.ascontiguousarray(view) if contiguous else view


def channels_are_last(array):
    return np.moveaxis(array, 1, -1).flags.c_contiguous


class OnlyDLPackWithShape(OnlyDLPack):
    """The sizes of input_size and weight_size are read from the array."""

    def __init__(self, array):
        super().__init__(array)
        self.shape = array.shape


METHODS = {1: "conv1d", 2: "conv2d", 3: "conv3d"}


def run_method(runs, p, axes, image, filters, result, **more):
    """The method for the problem's direction."""
    letters = "dhw"[-axes:]
    steps = {
        "stride": tuple(getattr(p, f"stride_{a}") for a in letters),
        "padding": tuple(getattr(p, f"left_pad_{a}") for a in letters),
        "dilation": tuple(getattr(p, f"dilation_{a}") for a in letters),
        "groups": p.g,
    }
    name = METHODS[axes]
    if p.op == "conv_fwd":
        return getattr(runs, name)(image, filters, **steps, **more)
    if p.op == "conv_bwd_data":
        return getattr(runs, name + "_input")(result, filters, image.shape, **steps, **more)
    return getattr(runs, name + "_weight")(image, result, filters.shape, **steps, **more)


METHOD_PROBLEMS = [
    (2, dict(n=2, c=16, k=8, h=6, w=5, y=3, x=3, pad=1)),
    (2, dict(n=1, c=16, k=32, h=7, w=9, y=3, x=2, g=2, stride=2, dilation=2, pad_w=1)),
    (2, dict(n=3, c=7, k=7, h=5, w=6, y=3, x=3, g=7, pad=1)),
    (1, dict(n=2, c=12, k=10, h=1, w=17, y=1, x=4, g=2, stride_w=2, pad_w=2)),
    (3, dict(n=1, c=8, k=8, h=4, w=5, y=3, x=1, d=5, z=2, layout="ndhwgc", stride_d=2, pad_h=1)),
]


@pytest.mark.parametrize("op", DIRECTIONS)
@pytest.mark.parametrize("contiguous", (False, True))
@pytest.mark.parametrize("axes, sizes", METHOD_PROBLEMS)
def test_methods_take_the_order_of_pytorch(registry, op, contiguous, axes, sizes):
    p = Conv(**sizes, op=op)
    stored = tensors(p)
    flat = [t.reshape(t.shape[0], *t.shape[2:]) if axes == 1 else t for t in stored]
    image, result = (channels_second(flat[i], contiguous) for i in (0, 2))
    filters = channels_second(flat[1], contiguous=False)
    c = run_method(registry, p, axes, image, filters, result)
    wanted = {"conv_fwd": result, "conv_bwd_data": image, "conv_bwd_weight": filters}[op]
    assert c.shape == wanted.shape and c.dtype == np.float32
    assert channels_are_last(c) if op == "conv_bwd_weight" or not contiguous else c.flags.c_contiguous
    assert_convolution(np.ascontiguousarray(np.moveaxis(c, 1, -1)), p, stored)

    out = np.zeros_like(wanted)  # in the same order of memory
    foreign = OnlyDLPack(out)
    assert run_method(registry, p, axes, *map(OnlyDLPackWithShape, (image, filters, result)), out=foreign) is foreign
    assert np.array_equal(out, c)


def test_padding_has_words(registry):
    p = Conv(1, 8, 8, 6, 7, 4, 3, left_pad_h=1, right_pad_h=2, pad_w=1)
    stored = tensors(p)
    x, w, y = (channels_second(t, False) for t in stored)
    same = registry.conv2d(x, w, padding="same")
    assert same.shape == x.shape
    assert_convolution(np.ascontiguousarray(np.moveaxis(same, 1, -1)), p, stored)
    assert np.array_equal(registry.conv2d(x, w, 1, "valid"), registry.conv2d(x, w))
    assert np.array_equal(registry.conv2d(x, w, (2, 1), [1, 1], 1), registry.conv2d(x, w, [2, 1], 1))
    for wrong, words in [
        (dict(padding="full"), "padding='full'; give 'same', 'valid'"),
        (dict(padding="same", stride=2), "needs a stride of 1"),
        (dict(stride=(1, 2, 3)), "stride: 3 numbers; give one, or one per axis"),
    ]:
        with pytest.raises(kscout.InvalidArgument, match=words):
            registry.conv2d(x, w, **wrong)


def test_padding_may_differ_before_and_after(registry):
    p = Conv(1, 8, 8, 6, 7, 4, 3, left_pad_h=1, right_pad_h=2, left_pad_w=0, right_pad_w=3)
    stored = tensors(p)
    x, w, y = (channels_second(t, False) for t in stored)
    uneven = registry.conv2d(x, w, padding=((1, 2), (0, 3)))
    assert uneven.shape == y.shape
    assert_convolution(np.ascontiguousarray(np.moveaxis(uneven, 1, -1)), p, stored)
    gradient = registry.conv2d_weight(x, y, w.shape, padding=[[1, 2], [0, 3]])
    assert_convolution(np.ascontiguousarray(np.moveaxis(gradient, 1, -1)), p.replace(op="conv_bwd_weight"), stored)
    assert registry.pack_conv2d(x, w, padding=((1, 2), (0, 3))).problem == p.replace(prepacked=True)
    for wrong in (((1, 2),), ((1, 2), (3,)), ((1, 2), (3, 4), (5, 6))):
        with pytest.raises(kscout.InvalidArgument, match=r"give one pair \(before, after\) per axis \(2\)"):
            registry.conv2d(x, w, padding=wrong)


@pytest.mark.parametrize("op", DIRECTIONS)
@pytest.mark.parametrize("axes, sizes", METHOD_PROBLEMS)
def test_filters_in_the_memory_order_of_pytorch_are_copied_on_request(registry, op, axes, sizes):
    p = Conv(**sizes, op=op)
    stored = tensors(p)
    flat = [t.reshape(t.shape[0], *t.shape[2:]) if axes == 1 else t for t in stored]
    image, result = (channels_second(flat[i], False) for i in (0, 2))
    filters = channels_second(flat[1], contiguous=True)
    c = run_method(registry, p, axes, image, filters, result, copy_filter=True)
    assert_convolution(np.ascontiguousarray(np.moveaxis(c, 1, -1)), p, stored)
    assert np.array_equal(c, run_method(registry, p, axes, image, channels_second(flat[1], False), result))
    if op == "conv_bwd_weight":
        assert c.flags.c_contiguous, "a new gradient has PyTorch's order, too"
        out = np.zeros_like(filters)
        assert run_method(registry, p, axes, image, filters, result, copy_filter=True, out=out) is out
        assert np.array_equal(out, c)
    else:
        foreign = OnlyDLPackWithShape(filters)
        assert np.array_equal(c, run_method(registry, p, axes, image, foreign, result, copy_filter=True))


def test_a_filter_in_the_memory_order_of_pytorch_is_packed_on_request():
    p = Conv(2, 16, 32, 6, 5, 3, 3, pad=1)
    stored = tensors(p)
    x, w, y = (channels_second(t, False) for t in stored)
    runs = Registry()
    contiguous = np.ascontiguousarray(w)
    packed = runs.pack_conv2d(x, contiguous, padding=1, copy_filter=True)
    contiguous[...] = np.nan
    assert_convolution(np.ascontiguousarray(np.moveaxis(packed(x), 1, -1)), p, stored)
    with pytest.raises(kscout.InvalidArgument, match="copy_filter=True"):
        runs.conv2d(x, np.ascontiguousarray(w), padding=1)


def test_methods_refuse_arrays_with_a_remedy(registry):
    p = Conv(2, 16, 32, 6, 5, 3, 3, pad=1)
    x, w, y = (channels_second(t, False) for t in tensors(p))
    refused = [
        (lambda: registry.conv2d(x[:, ::2], w[:, ::2], 1, 1), r"array x has shape \(2, 8, 6, 5\) and strides.*x.contiguous\(\)"),
        (lambda: registry.conv2d(x, np.ascontiguousarray(w), 1, 1), r"array w .*channels last.*movedim\(1, -1\).contiguous\(\)"),
        (lambda: registry.conv2d_weight(x, np.ascontiguousarray(y), w.shape, 1, 1), "array grad_output has channels first in memory, array x last"),
        (lambda: registry.conv2d(x, w, 1, 1, out=np.zeros(y.shape, np.float32)), "array out has channels first"),
        (lambda: registry.conv2d(x[0], w), r"array x has shape \(16, 6, 5\); conv2d takes 4 dimensions"),
        (lambda: registry.conv3d(x, w), "conv3d takes 5 dimensions"),
        (lambda: registry.conv2d(x, w, groups=2), r"\(32, 16, 3, 3\) and groups=2 do not fit an image"),
        (lambda: registry.conv2d(x, w, groups=0), "groups=0"),
        (lambda: registry.conv2d(x, w.astype(np.float64)), "array w holds fp64, array x fp32: convert to float32"),
        (lambda: registry.conv2d(x, w, 1, 1, out=channels_second(np.zeros((2, 6, 5, 32)), False)), "array out takes fp32 results"),
        (lambda: registry.conv2d(x, w, out=y), r"array out has shape \(2, 32, 6, 5\).*takes \(2, 32, 4, 3\)"),
        (lambda: registry.conv2d_input(y, w, (2, 16, 6), padding=1), r"input_size \(2, 16, 6\): conv2d_input takes 4"),
        (lambda: registry.conv2d_input(y, w, (2, 16, 9, 5), padding=1), "array grad_output has shape"),
        (lambda: registry.conv2d_weight(x, y, (32, 16), padding=1), "weight_size"),
        (lambda: registry.conv2d(x, w, stream=1), "stream=1"),
    ]
    for call, words in refused:
        with pytest.raises(kscout.InvalidArgument, match=words):
            call()
    y.setflags(write=False)
    with pytest.raises(TypeError, match="out must be an array that can be written to"):
        registry.conv2d(x, w, 1, 1, out=y)


@pytest.mark.parametrize("op", DIRECTIONS)
@pytest.mark.parametrize("last", (False, True))
def test_results_are_those_of_pytorch(registry, op, last):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: nothing to compare with")
    order = torch.channels_last if last else torch.contiguous_format
    steps = dict(stride=2, padding=1, dilation=2, groups=2)
    x = torch.randn(2, 12, 11, 10).contiguous(memory_format=order)
    w = torch.randn(8, 6, 3, 3).contiguous(memory_format=torch.channels_last)
    y = torch.nn.functional.conv2d(x, w, None, **steps)
    grad = torch.randn(y.shape).contiguous(memory_format=order)
    if op == "conv_fwd":
        pair = registry.conv2d(x, w, **steps), y
    elif op == "conv_bwd_data":
        pair = registry.conv2d_input(grad, w, x.shape, **steps), torch.nn.grad.conv2d_input(x.shape, w, grad, **steps)
    else:
        pair = registry.conv2d_weight(x, grad, w.shape, **steps), torch.nn.grad.conv2d_weight(x, w.shape, grad, **steps)
    torch.testing.assert_close(torch.from_numpy(pair[0]), pair[1], rtol=1e-4, atol=1e-4)


def test_without_kernels_for_a_type_somebody_says_so():
    p = Conv(1, 16, 32, 6, 6, 3, 3, "fp16", pad=1)
    image, filters, _ = (t.astype(np.float16) for t in tensors(p))
    with pytest.raises(kscout.Unsupported, match="fp16"):
        Registry().run(p, image, filters)
    double = [channels_second(t.astype(np.float64), False) for t in tensors(p)]
    with pytest.raises(kscout.Unsupported, match=r"not fp64 \(float64\): convert to float32"):
        Registry().conv2d(double[0], double[1], padding=1)


@pytest.mark.parametrize("op", DIRECTIONS)
@pytest.mark.parametrize("layout", ("nhwgc", "ngchw"))
def test_the_kernels_of_this_machine_need_no_library(op, layout):
    p = Conv(2, 15, 21, 9, 8, 3, 3, g=3, pad=1, stride=2, op=op)
    stored = tensors(p)
    image, result = (channels_second(stored[i], layout == "ngchw") for i in (0, 2))
    mine = Registry()
    c = run_method(mine, p, 2, image, channels_second(stored[1], False), result)
    assert_convolution(np.ascontiguousarray(np.moveaxis(c, 1, -1)), p, stored)
    solution = mine.get_solution(p.replace(layout=layout))
    assert solution.backend == "cpu" and solution.problem == p
    assert solution.padded == (layout == "ngchw")


def pack_method(runs, p, axes, image, filters, result):
    """The method that packs the filter for the problem's direction, and the array that later calls read."""
    letters = "dhw"[-axes:]
    steps = {name: tuple(getattr(p, f"{field}_{a}") for a in letters) for name, field in (("stride", "stride"), ("padding", "left_pad"), ("dilation", "dilation"))}
    name = "pack_" + METHODS[axes]
    if p.op == "conv_fwd":
        return getattr(runs, name)(image, filters, groups=p.g, **steps), image
    return getattr(runs, name + "_input")(result, filters, image.shape, groups=p.g, **steps), result


@pytest.mark.parametrize("op", DIRECTIONS[:2])
@pytest.mark.parametrize("contiguous", (False, True))
@pytest.mark.parametrize("axes, sizes", METHOD_PROBLEMS)
def test_a_filter_is_packed_once_for_many_calls(op, contiguous, axes, sizes):
    p = Conv(**sizes, op=op)
    stored = tensors(p)
    flat = [t.reshape(t.shape[0], *t.shape[2:]) if axes == 1 else t for t in stored]
    image, result = (channels_second(flat[i], contiguous) for i in (0, 2))
    filters = channels_second(flat[1].copy(), contiguous=False)
    packed, read = pack_method(Registry(), p, axes, image, filters, result)
    filters[...] = np.nan  # it keeps what it needs, its registry included
    layout = {False: p.layout, True: "ngcdhw" if axes == 3 else "ngchw"}[contiguous]
    assert packed.problem == p.replace(prepacked=True, layout=layout)
    assert packed.bytes > 0 and packed.setup_us > 0 and packed.solution.backend == "cpu"
    wanted = result if op == "conv_fwd" else image
    c = packed(read)
    assert c.shape == wanted.shape and (c.flags.c_contiguous if contiguous else channels_are_last(c))
    assert_convolution(np.ascontiguousarray(np.moveaxis(c, 1, -1)), p, stored)
    out = np.zeros_like(wanted)
    foreign = OnlyDLPack(out)
    assert packed(OnlyDLPack(read), out=foreign) is foreign and np.array_equal(out, c)


def test_packed_filters_refuse_other_arrays():
    p = Conv(2, 16, 32, 6, 5, 3, 3, pad=1)
    x, w, y = (channels_second(t, False) for t in tensors(p))
    runs = Registry()
    packed = runs.pack_conv2d(x, w, padding=1)
    refused = [
        (lambda: packed(x[:1]), r"array x has shape \(1, 16, 6, 5\).*takes \(2, 16, 6, 5\)"),
        (lambda: packed(np.ascontiguousarray(x)), "array x is not packed with channels last"),
        (lambda: packed(x.astype(np.float64)), "array x holds fp64.*takes fp32"),
        (lambda: packed(x, out=np.zeros(y.shape, np.float32)), "array out is not packed with channels last"),
        (lambda: packed(x, out=x), "array out has shape"),
        (lambda: packed(x, stream=1), "stream=1"),
        (lambda: runs.pack_conv2d(x, np.ascontiguousarray(w)), "array w .*channels last"),
        (lambda: runs.pack_conv2d_input(y, w, (2, 16, 9, 5), padding=1), "array grad_output has shape"),
        (lambda: runs.run(p.replace(prepacked=True), np.moveaxis(x, 1, -1), np.moveaxis(w, 1, -1)), "make one with pack_filter"),
    ]
    for call, words in refused:
        with pytest.raises(kscout.InvalidArgument, match=words):
            call()
    with pytest.raises(kscout.InvalidArgument, match="the filter is the result"):
        Conv(2, 16, 32, 6, 5, 3, 3, pad=1, op="conv_bwd_weight", prepacked=True)
    gradient = runs.pack_conv2d_input(y, w, x.shape, padding=1)
    with pytest.raises(kscout.InvalidArgument, match="array grad_output has shape"):
        gradient(x)
