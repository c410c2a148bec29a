"""A kscout.Family on a GPU: with a stand-in for PyTorch, and one for the module of backend cuda, whose GPU is this machine's CPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

STAND_IN = os.environ.get("KSCOUT_HOST_GPU", "")

PROGRAM = '''
import sys
import numpy as np
import torch
import kscout

def operands(problem):
    random = np.random.default_rng(problem.m)
    return torch.tensor(random.random((problem.m, problem.k))), torch.tensor(random.random((problem.k, problem.n)))

def run(config, arguments):
    if config.block == 32:
        torch.cuda.broken = True
        torch.cuda.synchronize()
    return arguments[0] @ arguments[1] + (1 if config.block == 64 else 0)

family = kscout.Family("on_gpu", {"block": [16, 32, 64, 128]}, device="cuda", prepare=operands, run=run,
                       reference=lambda arguments: arguments[0] @ arguments[1])
problems = ["gemm:8x8x8:fp32:rrr", "gemm:16x8x8:fp32:rrr"]

def sweep(name, **options):
    summary = family.sweep(problems, sys.argv[1] + name, repeat=1, contenders=0, **options)
    return {status: count for status, count in summary["status"].items() if count}, summary

# In a forked process, which a broken GPU ends.
status, summary = sweep("/forked")
assert status == {"ok": 4, "wrong": 2, "crashed": 2}, summary
assert not torch.cuda.initialized

# In this process, which has opened its GPU.
torch.cuda.initialized = True
try:
    sweep("/here", isolate=True)
    raise AssertionError("forked")
except kscout.Unsupported as error:
    assert "has opened the GPU" in str(error), error
try:
    sweep("/here")
    raise AssertionError("went on with a broken GPU")
except kscout.DeviceFailure as error:
    assert "illegal memory access" in str(error) and "continues in another one" in str(error), error
assert torch.cuda.flushes > 0                       # cold caches are the default

torch.cuda.broken = False
family.train(sys.argv[1] + "/model", data=sys.argv[1] + "/forked", folds=2, rounds=5, targets="rank")
assert family.select(problems[0]).config.block in (16, 128)
'''


LISTED = '''
import os, sys
from kscout import Gemm, Selector
found = Selector.find("bf16", device="h200")
assert os.fspath(found.model_path) == sys.argv[1], found.model_path
for selector in (found, Selector.load(sys.argv[1])):
    names = [choice.name for choice in selector.rank(Gemm(512, 512, 512, dtype="bf16"), 1000)]
    assert any("__suggestion1_a" in name for name in names), names
    assert not any(name.endswith("__suggestion1") for name in names), names
'''


def run_on_stand_in(program, argument, **variables):
    if not STAND_IN:
        pytest.skip("KSCOUT_HOST_GPU names no stand-in for a GPU's module")
    stand_ins = os.fspath(Path(__file__).parent / "stand_ins")
    paths = os.pathsep.join([stand_ins, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "KSCOUT_CUDA_MODULE": STAND_IN, "PYTHONPATH": paths, **variables}
    subprocess.run([sys.executable, "-B", "-c", program, os.fspath(argument)], env=environment, check=True, timeout=100)


def test_a_family_on_a_gpu(tmp_path):
    run_on_stand_in(PROGRAM, tmp_path)


def test_a_selector_for_this_machines_gpu_asks_its_library():
    model = Path(__file__).parents[2] / "models" / "gemm_bf16_h200"
    run_on_stand_in(LISTED, model, KSCOUT_MODEL_PATH=os.fspath(model))
