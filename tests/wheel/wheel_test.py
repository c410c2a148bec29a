"""What `./dev wheel` made, as users get it: from the file into an empty environment, in an empty folder, without a compiler on PATH.

    wheel_test.py WHEELS SOURCE

WHEELS: the folder with the wheel. SOURCE: the checkout. KSCOUT_TEST_PYTHONS: other Pythons under which the package has to import,
separated by spaces. Takes NumPy, pyarrow and lightgbm from the package index.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

# Of the module's GPU code: for every GPU from 8.0 on, and what only Hopper has.
ARCHITECTURES = {"sm_80", "sm_90", "sm_90a", "sm_100", "sm_120"}
MOST_INSTALLED_MB = 120
ARRAYS = """
import kscout, numpy
a, b = numpy.ones((48, 100), "f4"), numpy.ones((100, 60), "f4")
assert (kscout.Registry().matmul(a, b) == 100).all()
"""
IMPORT = """
import kscout, kscout.cmake
assert kscout.rank_kernels("gemm:16x1024x512", top=3)[0].time_us > 0
assert (kscout.cmake.folder() / "kscoutConfig.cmake").exists()
"""
MODULE = """
import ctypes, kscout
assert ctypes.CDLL(kscout.__path__[0] + "/libkscout_cuda.so").kscout_cuda_module
"""
PRODUCTS = """
import numpy
a, b = (numpy.random.default_rng(seed).random((256, 256), "f4") for seed in (1, 2))
for _ in range(50): c = a @ b
assert abs(c - a.astype("f8") @ b.astype("f8")).max() < 1e-3
"""


class Environment:
    """An empty venv with a package, and an empty folder as home and working folder."""

    def __init__(self, python, folder):
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.bin = folder / "venv/bin"
        subprocess.run([python, "-m", "venv", folder / "venv"], check=True)

    def install(self, *what):
        pip = [self.bin / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
        subprocess.run([*pip, *what], check=True, stdin=subprocess.DEVNULL)

    def run(self, program, *words, path="", status=0):
        """What a program of the venv prints. PATH has nothing else, the environment no other variable."""
        environment = {"PATH": f"{self.bin}{path}", "HOME": str(self.home)}
        done = subprocess.run([self.bin / program, *words], cwd=self.home, env=environment, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != status:
            raise SystemExit(f"{program} {' '.join(map(str, words))}: status {done.returncode}, not {status}\n{done.stdout}")
        return done.stdout


def expect(text, *parts):
    for part in parts:
        if part not in text:
            raise SystemExit(f"'{part}' is missing in:\n{text}")


def architectures(module):
    """Of the code in the CUDA module, as cuobjdump lists it; None without a toolkit."""
    cuobjdump = shutil.which("cuobjdump", path=os.environ["PATH"] + ":/usr/local/cuda/bin")
    if not cuobjdump:
        return None
    listed = subprocess.run([cuobjdump, "--list-elf", module], check=True, text=True, stdout=subprocess.PIPE).stdout
    return {word for line in listed.splitlines() for word in line.split(".") if word.startswith("sm_")}


def check_file(wheel, folder):
    expect(wheel.name, "-cp310-abi3-manylinux_2_34_x86_64.whl")
    with zipfile.ZipFile(wheel) as file:
        installed = sum(entry.file_size for entry in file.infolist())
        file.extractall(folder)
    assert installed <= MOST_INSTALLED_MB * 1e6, f"{installed} bytes installed"
    module = folder / "kscout/libkscout_cuda.so"
    if not module.exists():
        print("NO CUDA MODULE TESTED: nvcc is not here", flush=True)
    elif (found := architectures(module)) is not None:
        assert found == ARCHITECTURES, f"the CUDA module has code for {found}"
    return module.exists()


def check_programs(user, has_cuda):
    expect(user.run("kscout", "hardware"), "cores")
    expect(user.run("kscout", "run", "gemm:16x1024x512"), "ok")
    expect(user.run("kscout", "predict", "gemm:4096x4096x4096:bf16", "--device", "h200"), "h200")
    expect(user.run("kscout", "tune", "--op", "gemm", "--budget", "20", "--out", "tuned"), "installed")
    user.run("kscout", "train", "--data", "tuned/measurements.parquet", "--out", "model", "--rounds", "20")
    expect(user.run("kscout", "evaluate", "--model", "tuned"), "efficiency")
    user.run("kscout", "report", "tuned", "--out", "page.html")
    expect((user.home / "page.html").read_text()[:1000], "<html")
    expect(user.run("kscout", "exec", "--report", "-", "--", "python", "-c", PRODUCTS), "50 served on the CPU")
    if has_cuda:
        expect(user.run("kscout", "run", "gemm:16x1024x512:bf16", "--backend", "cuda", status=3), "no NVIDIA driver")
        user.run("python", "-c", MODULE)
    user.run("python", "-c", ARRAYS)
    user.run("python", "-c", IMPORT)


def check_cmake(user, source, folder):
    """A program of C++ and C, with the system's compiler."""
    package = user.run("python", "-m", "kscout.cmake").strip()
    cmake = shutil.which("cmake")
    subprocess.run([cmake, "-S", source / "tests/consumer", "-B", folder, "-G", "Ninja", f"-Dkscout_DIR={package}"], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run([cmake, "--build", folder, "--target", "check"], check=True, stdout=subprocess.DEVNULL)


def check_other_pythons(wheel, folder):
    pythons = os.environ.get("KSCOUT_TEST_PYTHONS", "").split()
    if not pythons:
        print("NO OTHER PYTHON TESTED: KSCOUT_TEST_PYTHONS names none", flush=True)
    for number, python in enumerate(pythons):
        user = Environment(python, folder / str(number))
        user.install(wheel)  # with NumPy
        user.run("python", "-c", IMPORT + ARRAYS)
        print(f"imports in Python {user.run('python', '-c', 'import sys; print(sys.version.split()[0])').strip()}", flush=True)


def main(wheels, source):
    (wheel,) = wheels.glob("kscout-*.whl")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.monotonic()

        def step(what, function, *arguments):
            result = function(*arguments)
            print(f"{time.monotonic() - start:6.1f} s  {what}", flush=True)
            return result

        has_cuda = step("the file", check_file, wheel, folder / "unpacked")
        user = step("an empty environment", Environment, sys.executable, folder / "user")
        step("installed with NumPy, pyarrow and lightgbm", user.install, f"{wheel}[lab]")
        step("programs", check_programs, user, has_cuda)
        step("a program of C++ by CMake", check_cmake, user, source, folder / "consumer")
        step("other Pythons", check_other_pythons, wheel, folder / "others")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
