"""Arrays in a GPU's memory: nothing is copied, whoever owns them. First with a stand-in whose GPU is this machine's CPU
(tests/libraries/host_gpu.cpp, stand_in_hip.c), then with PyTorch or CuPy on a real one."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kscout import Conv
from test_conv_run import DIRECTIONS, assert_convolution, channels_second, run_method, tensors

STAND_IN, STAND_IN_CUDNN = os.environ.get("KSCOUT_HOST_GPU", ""), os.environ.get("KSCOUT_STAND_IN_CUDNN", "")

ARRAYS = '''
import ctypes
import numpy as np
from kscout import Gemm, Registry, errors

capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype, capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

class OnGpu:
    """An array whose DLPack says that it is in a GPU's memory: CUDA's, or that of another kind."""
    def __init__(self, array, ordinal=0, kind=KIND):
        self.array, self.ordinal, self.kind, self.shape = array, ordinal, kind, array.shape
    def __dlpack__(self, **options):
        capsule = self.array.__dlpack__()
        device = (ctypes.c_int32 * 2).from_address(capsule_pointer(capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p))
        device[:] = [self.kind, self.ordinal]
        return capsule
    def __dlpack_device__(self):
        return (self.kind, self.ordinal)

def refused(text, call):
    try:
        call()
    except (errors.InvalidArgument, errors.Unsupported) as error:
        assert text in str(error), error
    else:
        raise AssertionError("accepted: " + text)

rng = np.random.default_rng(1)
'''

ON_CUDA = "KIND = 2\n" + ARRAYS + '''
a, b = rng.standard_normal((24, 40)).astype(np.float16), rng.standard_normal((16, 40)).astype(np.float16)
c = np.zeros((24, 16), np.float16)
registry = Registry(rules="tiny")
result = OnGpu(c)
assert registry.matmul(OnGpu(a), OnGpu(b.T), result) is result
expected = a.astype(np.float64) @ b.T.astype(np.float64)
assert np.abs(c - expected).max() < 0.05 * np.abs(expected).max(), "written where c is"
c[:] = 0
registry.run(Gemm(24, 16, 40, dtype="fp16"), OnGpu(a), OnGpu(b.T), result, stream=0)
assert np.abs(c - expected).max() < 0.05 * np.abs(expected).max()

grouped, rows = "grouped_gemm:5+0+19x16x40:fp16:rcr", [slice(0, 5), slice(5, 5), slice(5, 24)]
weights = rng.standard_normal((3, 16, 40)).astype(np.float16)
c[:] = 0
registry.run(grouped, OnGpu(a), OnGpu(weights), result)
for of_group, weight in zip(rows, weights):
    exact = a[of_group].astype(np.float64) @ weight.T.astype(np.float64)
    assert np.abs(c[of_group] - exact).max(initial=0) < 0.05 * np.abs(expected).max()
refused("takes (3, 16, 40)", lambda: registry.run(grouped, OnGpu(a), OnGpu(weights[:2]), result))

refused("give the array for the result as c", lambda: registry.matmul(OnGpu(a), OnGpu(b.T)))
refused("another memory than a", lambda: registry.matmul(OnGpu(a), b.T, OnGpu(c)))
refused("memory cuda:1, which no backend here reaches", lambda: registry.matmul(OnGpu(a, 1), OnGpu(b.T, 1), OnGpu(c, 1)))
'''

CONVOLUTIONS_ON_CUDA = "KIND = 2\n" + ARRAYS + '''
import sys
sys.path.insert(0, sys.argv[1])
from test_gpu_arrays import DIRECTIONS, check_convolutions

def to_gpu(array):
    return OnGpu(array.astype(np.float16))

def to_host(on_gpu):
    return on_gpu.array.astype(np.float32)

registry, cudnn = Registry(), len(sys.argv) > 2
# The first config of the stand-in's mode b computes wrong numbers, and the model of backward weight takes it.
ops = ("conv_fwd",) if cudnn else DIRECTIONS
check_convolutions(registry, "fp16", 2**-11, to_gpu, to_host, with_bias=cudnn, ops=ops)
x, w, y = (to_gpu(np.moveaxis(np.zeros(shape, np.float32), -1, 1)) for shape in ((1, 3, 3, 8), (4, 1, 1, 8), (1, 3, 3, 4)))
b = to_gpu(np.zeros(4, np.float32))
if not cudnn:
    refused("cuDNN cannot be used", lambda: registry.conv2d(x, w, bias=b, out=y))
refused("bias has shape (8,)", lambda: registry.conv2d(x, w, bias=to_gpu(np.zeros(8, np.float32)), out=y))
refused("bias holds fp32", lambda: registry.conv2d(x, w, bias=OnGpu(np.zeros(4, np.float32)), out=y))
refused("bias is in another memory", lambda: registry.conv2d(x, w, bias=b.array, out=y))
'''


@pytest.mark.parametrize("program, cudnn", ((ON_CUDA, None), (CONVOLUTIONS_ON_CUDA, None), (CONVOLUTIONS_ON_CUDA, STAND_IN_CUDNN)))
def test_arrays_of_a_gpu_are_computed_where_they_are(program, cudnn):
    if not STAND_IN or cudnn == "":
        pytest.skip("KSCOUT_HOST_GPU and KSCOUT_STAND_IN_CUDNN name no stand-ins for a GPU's module and cuDNN")
    environment = {**os.environ, "KSCOUT_CUDA_MODULE": STAND_IN, "KSCOUT_CUDNN": cudnn or "none"}
    words = [sys.executable, "-B", "-c", program, Path(__file__).parent, *([cudnn] if cudnn else [])]
    subprocess.run(words, env=environment, check=True, timeout=60)


def check_convolutions(registry, dtype, rounding, to_gpu, to_host, stream=0, wait=lambda: None, with_bias=True, ops=DIRECTIONS):
    """Runs convolutions on arrays that `to_gpu` makes of float32, which may change their order of memory."""
    for sizes in (dict(c=16, k=24, pad=1), dict(c=16, k=24, g=2, stride=2, pad_w=1), dict(c=8, k=8, g=8, pad=1)):
        for op in ops:
            p = Conv(n=2, h=9, w=11, y=3, x=3, dtype=dtype, op=op, **sizes)
            image, filters, result = (to_gpu(channels_second(t, contiguous=False)) for t in tensors(p))
            written = {"conv_fwd": result, "conv_bwd_data": image, "conv_bwd_weight": filters}[op]
            stored = [np.moveaxis(to_host(t), 1, -1) for t in (image, filters, result)]
            wait()
            assert run_method(registry, p, 2, image, filters, result, out=written, stream=stream) is written
            wait()
            assert_convolution(np.ascontiguousarray(np.moveaxis(to_host(written), 1, -1)), p, stored, rounding)
            if op != "conv_fwd" or not with_bias:
                continue
            bias = to_gpu(np.linspace(-1, 1, p.k, dtype=np.float32))
            assert run_method(registry, p, 2, image, filters, result, out=result, stream=stream, bias=bias) is result
            wait()
            c = np.ascontiguousarray(np.moveaxis(to_host(result), 1, -1))
            assert_convolution(c, p, stored, rounding, to_host(bias))


ON_HIP = "KIND = 10\n" + ARRAYS + '''
import sys

registry = Registry(libraries=[sys.argv[1]], rules="tiny")
assert registry.backends == ["cpu", "toy"]
a, b = rng.standard_normal((16, 48)).astype(np.float32), rng.standard_normal((32, 48)).astype(np.float32)
c, expected = np.zeros((16, 32), np.float32), a.astype(np.float64) @ b.T.astype(np.float64)
problem = Gemm(16, 32, 48)
assert registry.get_solution(problem).backend == "cpu" and registry.get_solution(problem, space="hip:0").backend == "toy"
# ROCm's arrays go to the library for hip, NumPy's and pinned ones to the CPU: one registry serves both.
for memory in (OnGpu, lambda array: array, lambda array: OnGpu(array, kind=11), lambda array: OnGpu(array, kind=3)):
    c[:] = 0
    registry.matmul(memory(a), memory(b.T), memory(c))
    assert np.abs(c - expected).max() < 1e-4
refused("memory hip:1, which no backend here reaches", lambda: registry.matmul(OnGpu(a, 1), OnGpu(b.T, 1), OnGpu(c, 1)))
refused("memory cuda:0, which no backend", lambda: registry.matmul(*(OnGpu(x, kind=2) for x in (a, b.T, c))))
refused("array c is in memory host, in another memory than a (hip:0)", lambda: registry.matmul(OnGpu(a), OnGpu(b.T), c))
refused("DLPack device type 8", lambda: registry.matmul(*(OnGpu(x, kind=8) for x in (a, b.T, c))))
'''


def test_arrays_of_rocm_reach_libraries_of_backend_hip(tmp_path):
    stand_in, index = os.environ.get("KSCOUT_STAND_IN_HIP", ""), tmp_path / "toy.kscout-library.json"
    if not stand_in:
        pytest.skip("KSCOUT_STAND_IN_HIP names no stand-in for the HIP runtime")
    subprocess.run([os.environ["KSCOUT_TOY_INDEX"], index, "hip"], check=True)
    environment = {**os.environ, "KSCOUT_HIP_LIBRARY": stand_in}
    subprocess.run([sys.executable, "-c", ON_HIP, index], env=environment, check=True, timeout=60)


def gpu_arrays():
    """PyTorch, where it can make arrays on a GPU; elsewhere the test is skipped."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        pytest.skip("NO GPU TESTED: libcuda.so.1 is not here")
    try:
        import torch

        if torch.cuda.is_available():
            return torch
    except ImportError:
        pass
    pytest.skip("NO GPU TESTED: PyTorch with a GPU is not here")


def test_tensors_of_pytorch():
    torch = gpu_arrays()
    import kscout

    registry = kscout.Registry()
    torch.manual_seed(1)
    for dtype in (torch.float16, torch.bfloat16):
        a = torch.randn(64, 1024, device="cuda", dtype=dtype)
        weights = torch.randn(512, 1024, device="cuda", dtype=dtype)
        c = torch.empty(64, 512, device="cuda", dtype=dtype)
        before = torch.cuda.memory_allocated()
        place = c.data_ptr()
        assert registry.matmul(a, weights.T, c) is c
        torch.cuda.synchronize()
        assert c.data_ptr() == place and torch.cuda.memory_allocated() == before
        expected = a.double() @ weights.double().T
        assert (c.double() - expected).abs().max() <= 0.02 * expected.abs().max()

    stream = torch.cuda.Stream()
    c.zero_()
    torch.cuda.synchronize()
    registry.matmul(a, weights.T, c, stream=stream.cuda_stream)
    stream.synchronize()
    assert (c.double() - expected).abs().max() <= 0.02 * expected.abs().max()


def test_convolutions_of_pytorch():
    torch = gpu_arrays()
    import kscout

    def to_host(tensor):
        return tensor.float().cpu().numpy()

    for dtype, name, rounding in ((torch.float16, "fp16", 2**-11), (torch.bfloat16, "bf16", 2**-8)):
        def to_gpu(array):
            return torch.from_numpy(array).to("cuda", dtype)

        check_convolutions(kscout.Registry(), name, rounding, to_gpu, to_host, wait=torch.cuda.synchronize)
        stream = torch.cuda.Stream()
        check_convolutions(kscout.Registry(), name, rounding, to_gpu, to_host, stream.cuda_stream, torch.cuda.synchronize)


def gpu_of_cupy():
    cupy = pytest.importorskip("cupy", reason="NO GPU TESTED: CuPy is not here")
    if cupy.cuda.runtime.getDeviceCount() == 0:
        pytest.skip("NO GPU TESTED: CuPy finds none")
    return cupy


def test_convolutions_of_cupy():
    cupy = gpu_of_cupy()
    import kscout

    def to_gpu(array):
        if array.ndim == 1:
            return cupy.asarray(array, dtype=cupy.float16)
        return cupy.moveaxis(cupy.asarray(np.moveaxis(array, 1, -1), dtype=cupy.float16), -1, 1)

    check_convolutions(kscout.Registry(), "fp16", 2**-11, to_gpu, lambda a: cupy.asnumpy(a).astype(np.float32),
                       wait=cupy.cuda.runtime.deviceSynchronize)


def test_arrays_of_cupy():
    cupy = gpu_of_cupy()
    import kscout

    a = cupy.random.standard_normal((48, 256), dtype=cupy.float32).astype(cupy.float16)
    b = cupy.random.standard_normal((256, 64), dtype=cupy.float32).astype(cupy.float16)
    c = cupy.empty((48, 64), cupy.float16)
    kscout.Registry().matmul(a, b, c)
    cupy.cuda.runtime.deviceSynchronize()
    expected = a.astype(cupy.float64) @ b.astype(cupy.float64)
    assert float(abs(c - expected).max()) <= 0.02 * float(abs(expected).max())
