"""Compiles a LightGBM text model with tl2cgen into a shared library: tl2cgen_compile.py MODEL.txt LIBRARY.so"""

import pathlib
import subprocess
import sys
import tempfile

import tl2cgen
import treelite

model = treelite.frontend.load_lightgbm_model(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    tl2cgen.generate_c_code(model, dirpath=folder, params={"parallel_comp": 16})
    sources = [str(path) for path in pathlib.Path(folder).glob("*.c")]
    objects = [source[:-2] + ".o" for source in sources]
    subprocess.run(["xargs", "-P2", "-I{}", "gcc", "-O3", "-march=native", "-fPIC", "-c", "{}.c", "-o", "{}.o"],
                   input="\n".join(source[:-2] for source in sources), text=True, check=True)
    subprocess.run(["gcc", "-shared", "-o", sys.argv[2], *objects, "-lm"], check=True)
