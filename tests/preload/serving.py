"""A test of kscout exec on a GPU that is the CPU (tests/libraries/host_gpu.cpp), by a program that calls stand-ins for libraries."""
import os
import shutil
import subprocess
import tempfile
import unittest


class ServingTest(unittest.TestCase):
    def prepare(self, programs, module, models, **env):
        self.kscout = os.path.join(programs, "kscout")
        self.folder = tempfile.mkdtemp(prefix="kscout_serving_")
        self.addCleanup(shutil.rmtree, self.folder)
        self.log, self.report = (os.path.join(self.folder, name) for name in ("log.txt", "report.txt"))
        self.env = {name: value for name, value in os.environ.items() if not name.startswith(("KSCOUT_", "LD_PRELOAD"))}
        self.env.update(HOME=self.folder, XDG_DATA_HOME=self.folder, LC_ALL="C", KSCOUT_MODEL_PATH=models, KSCOUT_CUDA_MODULE=module,
                        HOST_GPU_LOG=self.log, **env)

    def exec_lines(self, program, words, options=(), stderr="", **env):
        """The lines that the program prints of its words, without the first one."""
        for file in (self.log, self.report):
            if os.path.exists(file):
                os.remove(file)
        done = subprocess.run([self.kscout, "exec", "--report", self.report, *options, "--", program, *words], cwd=self.folder,
                              env={**self.env, **env}, text=True, capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stderr, rf"\A{stderr}\Z")
        first, *lines = done.stdout.splitlines()
        self.workspace = first.split()[1]
        return lines

    def text(self, file):
        if not os.path.exists(file):
            return ""
        with open(file, encoding="utf-8") as content:
            return content.read()
