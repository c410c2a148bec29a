"""CK Tile's Python names: ranks kernels with its Predictor, and runs a convolution with its GroupedConvRegistry."""

from pathlib import Path

import numpy as np

import kscout
from kscout.ck_tile import GroupedConvFeatureEngine, GroupedConvProblem, GroupedConvRegistry, Predictor

sizes = {"N": 4, "C": 64, "K": 96, "G": 1, "Hi": 14, "Wi": 14, "Y": 3, "X": 3, "stride_h": 1, "stride_w": 1, "pad_h": 1, "pad_w": 1}
models = Path(kscout.__file__).parent / "models"  # or a folder of CK Tile's trainer
predictor = Predictor(models / "conv_fwd_bf16_gfx950", feature_engine=GroupedConvFeatureEngine())
kernels = [{"kernel_name": f"grouped_conv_forward_bf16_2d_{tile}_compv3_intrawave"} for tile in ("16x64x64", "64x64x64", "64x64x128")]
for name, tflops in predictor.rank_kernels({**sizes, "dtype": "bf16"}, kernels):
    print(f"{tflops:8.2f} TFLOPS  {name}")

problem = GroupedConvProblem(**sizes, dtype="bf16", direction="forward")
registry = GroupedConvRegistry(arch="gfx950")
x, w = np.ones(problem.input_shape(), np.float32), np.full(problem.weight_shape(), 0.5, np.float32)
result = registry.run(problem, x, w)  # on the CPU, because NumPy's arrays lie there
assert result.success and result.output[0, 5, 5, 0, 0] == 9 * 64 * 0.5
print(f"{registry.select(problem).name} is the model's choice for gfx950; here the run took {result.time_ms:.3f} ms")
