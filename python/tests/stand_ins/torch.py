"""Stands for the parts of PyTorch that a Family on a GPU uses: tensors in this machine's memory, events of its clock."""

import time

import numpy as np

float32, float64, int8 = np.float32, np.float64, np.int8


class Tensor(np.ndarray):
    device = "cuda"

    def is_floating_point(self):
        return self.dtype.kind == "f"

    def is_complex(self):
        return False

    def fill_(self, value):
        self[...] = value

    def zero_(self):
        cuda.flushes += 1

    def detach(self):
        return self

    def to(self, dtype):
        return self.astype(dtype)

    def abs(self):
        return np.abs(self)

    def nan_to_num(self, **values):
        return np.nan_to_num(np.asarray(self), **values).view(Tensor)


def tensor(array):
    return np.array(array).view(Tensor)


def as_tensor(value, device):
    assert device == "cuda"
    return value


def empty(count, dtype, device):
    assert count >= 256 << 20 and dtype is int8 and device == "cuda"
    cuda.initialized = True
    return tensor(np.empty(1, dtype))


class cuda:  # noqa: N801: a module of PyTorch
    initialized = broken = False
    flushes = 0

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.at = time.perf_counter()

        def synchronize(self):
            cuda.synchronize()

        def elapsed_time(self, end):
            return (end.at - self.at) * 1e3

    @staticmethod
    def is_initialized():
        return cuda.initialized

    @staticmethod
    def current_device():
        return 0

    @staticmethod
    def get_device_properties(device):
        assert device == 0
        return type("Properties", (), {"L2_cache_size": 50 << 20})

    @staticmethod
    def synchronize():
        if cuda.broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
