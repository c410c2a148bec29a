"""What benchmarks of the CPU in Python share: which kernels the libraries use that they compare with.

    import peers  # before NumPy and PyTorch
    print(peers.numpy_about())  # or torch_about()

Both functions end the program when the library computes with kernels below this CPU's instruction set.
"""
import ctypes
import glob
import os
import re
import subprocess
import sys

# Some machines set them for old versions of OpenBLAS, which reads them when it is loaded.
assert "numpy" not in sys.modules and "torch" not in sys.modules
for _name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_name, None)

# From the best on: the flag of a CPU, and the kernels for it as OpenBLAS and oneDNN name them.
INSTRUCTION_SETS = (("avx512f", r"SkylakeX|Cooperlake|SapphireRapids|AVX-512|AVX ?10"), ("avx2", r"Haswell|Zen|AVX2"))


def stop(why):
    sys.exit(f"{os.path.basename(sys.argv[0]).removesuffix('.py')}: {why}")


def require_as_good(library, kernels, remedy):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = re.search(r"^flags\s*:(.*)", file.read(), re.MULTILINE)[1].split()
    for flag, names in INSTRUCTION_SETS:
        if re.search(names, kernels):
            return
        if flag in flags:
            stop(f"{library} computes with kernels {kernels}, and this CPU has {flag}: {remedy}")


def numpy_openblas():
    """The OpenBLAS of NumPy's wheel."""
    import numpy
    return ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(numpy.__file__), os.pardir, "numpy.libs", "libscipy_openblas64_*"))[0])


def numpy_about():
    import numpy
    version, kernels = (getattr(numpy_openblas(), f"scipy_openblas_get_{what}64_") for what in ("config", "corename"))
    version.restype = kernels.restype = ctypes.c_char_p
    require_as_good("OpenBLAS", kernels().decode(), "install a NumPy whose OpenBLAS knows this CPU")
    return f"NumPy {numpy.__version__}, {version().decode()}, kernels {kernels().decode()}"


def torch_about():
    """Reads the log of oneDNN in a process of its own."""
    import torch
    convolution = "import torch; torch.nn.functional.conv2d(torch.ones(1, 64, 56, 56), torch.ones(64, 64, 3, 3))"
    log = subprocess.run([sys.executable, "-c", convolution], env={**os.environ, "ONEDNN_VERBOSE": "1"}, stdout=subprocess.PIPE,
                         text=True, check=True).stdout
    version, kernels = (re.search(rf"info,{what}(.*)", log) for what in ("oneDNN ", "cpu,isa:"))
    if not version or not kernels:
        stop("this PyTorch computes convolutions without oneDNN")
    require_as_good("oneDNN", kernels[1], "start with env -u ONEDNN_MAX_CPU_ISA -u DNNL_MAX_CPU_ISA")
    return f"PyTorch {torch.__version__}, oneDNN {version[1]}, kernels {kernels[1]}"
