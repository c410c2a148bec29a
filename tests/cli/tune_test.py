#!/usr/bin/env python3
"""tune_test.py FOLDER_OF_PROGRAMS PYTHON: what `kscout tune` and `kscout train` keep, continue and refuse over several runs.

PYTHON has Arrow and LightGBM. Everything happens in a temporary folder, which is also HOME.
"""
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAMS, PYTHON = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
# Small problems: a second measures many of them.
TUNE = ["tune", "--rules", "tiny", "--folds", "2", "--targets", "relative", "--max-gflop", "0.01", "--out", "m"]
ENOUGH = ["--budget", "60", "--max-problems"]  # ends by its problems, also on a slow machine
SOME_ROWS = 10000  # bytes of a journal with several finished problems
INTO_M = ["tune", "--budget", "50", "--out", "m"]


class Tuning(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="kscout_tune_")
        cls.kept = {}  # of have_tuned_model: options to (folder, what tune printed)
        cls.env = dict(os.environ, HOME=cls.folder, LC_ALL="C")
        for name in ("KSCOUT_MODEL_PATH", "XDG_DATA_HOME", "LD_LIBRARY_PATH", "KSCOUT_PYTHON"):
            cls.env.pop(name, None)

    @classmethod
    def tearDownClass(cls):
        for folder in (cls.folder, *(folder for folder, _ in cls.kept.values())):
            shutil.rmtree(folder, ignore_errors=True)

    def setUp(self):
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def has(self, *parts):
        return os.path.exists(self.path(*parts))

    def run_kscout(self, *words, code=0, program=None, **env):
        done = subprocess.run([program or os.path.join(PROGRAMS, "kscout"), *words], cwd=self.folder, env={**self.env, **env},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}{done.stderr}")
        return done

    def bytes_of(self, *parts):
        with open(self.path(*parts), "rb") as file:
            return file.read()

    def tune(self, *words, code=0):
        return self.run_kscout(*TUNE, *words, code=code)

    def have_tuned_model(self, *words):
        """The model m, tuned once with these options for all tests; what that tune printed."""
        words = words or (*ENOUGH, "80")
        if words not in self.kept:
            done = self.tune(*words)
            self.assertFalse(self.has("m.sweep"))
            self.kept[words] = (f"{self.folder}.model{len(self.kept)}", done)
            shutil.copytree(self.path("m"), self.kept[words][0])
        elif not self.has("m"):
            shutil.copytree(self.kept[words][0], self.path("m"))
        return self.kept[words][1]

    def described(self, data):
        return json.loads(self.run_kscout("dataset", "describe", data, "--format", "json").stdout)

    def start(self, *words):
        return subprocess.Popen([os.path.join(PROGRAMS, "kscout"), *words], cwd=self.folder, env=self.env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def interrupt_when(self, process, ready):
        """Ctrl-C as soon as ready() holds; what the process printed."""
        end = time.monotonic() + 60
        while not ready() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT, out + err)
        return err

    # ---- arguments

    def test_arguments_are_checked_before_the_measuring(self):
        for words, text in ((("--targets", "foo"), "unknown target 'foo'"), (("--folds", "99"), "--folds"),
                            (("--folds", "1"), "--folds"), (("--schema", "conv"), "--schema conv: it is of"),
                            (("--schema", "ck_gemm_55"), "ck_tile"),
                            (("--layout", "nhwgc"), "--layout nhwgc: no operation to tune has it (gemm: rcr, rrr, crr, ccr)"),
                            (("--layout", "foo"), "(one of: rcr, rrr, crr, ccr, nhwgc,"),
                            (("--op", "conv_fw"), "did you mean 'conv_fwd'? (one of: gemm, conv_fwd, conv_bwd_data, conv_bwd_weight, grouped_gemm, all)"),
                            (("--op", "conv_fwd", "--layout", "rcr"), "no operation to tune has it (conv_fwd: nhwgc, ndhwgc)"),
                            (("--op", "conv_fwd", "--layout", "ngchw"), "no operation to tune has it"),
                            (("--op", "gemm,conv_fwd", "--schema", "conv_cpu"), "--schema conv_cpu: it is of"),
                            (("--op", "conv_fwd", "--schema", "gemm"), "--schema gemm: it is of"),
                            (("--rules", "tinny"), "did you mean 'tiny'"), (("--held-out", "nan"), "--held-out"),
                            (("--max-gflop", "-1"), "--max-gflop")):
            done = self.run_kscout(*INTO_M, *words, code=2)
            self.assertIn(text, done.stderr)
            self.assertFalse(self.has("m.sweep"), words)
        self.assertIn("1 or more for each of 5 operations", self.tune("--op", "all", "--budget", "3", code=2).stderr)
        os.mkdir(self.path("m"))
        with open(self.path("m", "shopping.txt"), "w", encoding="utf-8") as file:
            file.write("milk\n")
        self.assertIn("holds other files", self.run_kscout(*INTO_M, code=2).stderr)

    # ---- files of others

    def write(self, text, *parts):
        os.makedirs(os.path.dirname(self.path(*parts)), exist_ok=True)
        with open(self.path(*parts), "w", encoding="utf-8") as file:
            file.write(text)

    def test_a_folder_with_other_files_is_refused_before_the_measuring(self):
        for entry in (("notes.txt",), ("2024", "photo.png"), ("model", "ship.txt"), ("lock",)):
            self.write("mine", "m.sweep", *entry)
            for restart in ((), ("--restart",)):
                done = self.tune("--budget", "50", *restart, code=2)
                named = "model" if entry[0] == "model" else "/".join(entry)
                self.assertIn(f"m.sweep is where kscout tune measures, but it holds {named}:", done.stderr)
            self.assertEqual(self.bytes_of("m.sweep", *entry), b"mine")
            self.assertEqual(self.has("m.sweep", "lock"), entry == ("lock",))
            shutil.rmtree(self.path("m.sweep"))

    def test_only_what_tune_wrote_is_removed(self):
        self.have_tuned_model()
        # Sweeps of this version and of earlier ones, which measured into the folder itself, cut and damaged ones among them.
        for parts in (("manifest.json",), ("journal.log",), ("worker.log",), ("1", "manifest.json"), ("1", "journal.log"),
                      ("2", "manifest.json.4711.part"), ("model", "model.ksf"), ("model.4711.part", "model.ksf")):
            self.write("damaged", "m.sweep", *parts)
        os.mkdir(self.path("m.sweep", "3"))
        self.assertIn("removed the measurements", self.tune("--budget", "1", "--restart", "--replace").stderr)
        self.assertFalse(self.has("m.sweep"))
        # What comes while tune works stays.
        process = self.start(*TUNE, "--budget", "2", "--replace")
        while not self.has("m.sweep", "1", "journal.log"):
            time.sleep(0.02)
        self.write("mine", "m.sweep", "notes.txt")
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, out + err)
        self.assertEqual(os.listdir(self.path("m.sweep")), ["notes.txt"])

    # ---- several runs

    def test_measurements_add_up_and_the_model_before_is_kept(self):
        self.have_tuned_model()
        first = self.described("m/measurements.parquet")["problems"]
        before = self.bytes_of("m", "model.ksf")
        done = self.tune("--budget", "2", "--replace", "--format", "json")
        self.assertIs(json.loads(done.stdout)["installed"], True)
        self.assertGreater(self.described("m/measurements.parquet")["problems"], first)
        self.assertEqual(self.bytes_of("m", "previous", "model.ksf"), before)
        manifest = json.loads(self.bytes_of("m", "train_manifest.json"))
        self.assertGreater(manifest["problems"], json.loads(self.bytes_of("m", "previous", "train_manifest.json"))["problems"])
        # No model of the folder was trained on what holds the next one to account.
        self.run_kscout("dataset", "split", "m/measurements.parquet", "--seed", "1751477348", "--held-out", "0.3",
                        "--out", "training.parquet", "--held-out-out", "held_out.parquet")
        for model in ("m", "m/previous"):
            evaluated = json.loads(self.run_kscout("evaluate", "--model", model, "--data", "held_out.parquet", "--format", "json").stdout)
            self.assertEqual(evaluated["trained_on"], 0)
        # Another seed and share draw other problems and change nothing of that.
        self.tune("--budget", "1", "--seed", "9", "--held-out", "0.4", "--replace")
        evaluated = json.loads(self.run_kscout("evaluate", "--model", "m", "--data", "held_out.parquet", "--format", "json").stdout)
        self.assertEqual(evaluated["trained_on"], 0)

    def test_a_worse_model_is_not_installed(self):
        small = ["--held-out", "0.6"]
        self.have_tuned_model(*ENOUGH, "80", *small)
        good = self.bytes_of("m", "model.ksf")
        # From now on what is trained on lies: the slowest configs look fastest. What is held out stays true.
        parts = ["--seed", "1751477348", "--held-out", "0.6", "--out"]
        self.run_kscout("dataset", "split", "m/measurements.parquet", *parts, "true.parquet", "--held-out-out", "held_out.parquet")
        self.run_kscout("dataset", "merge", "true.parquet", "--final", "--timed", "--out", "true.csv")
        with open(self.path("true.csv"), newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            row["time_us"], row["status"], row["pass"] = str(1e4 / float(row["time_us"])), "ok", "2"
        with open(self.path("lies.csv"), "w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, [c for c in rows[0] if c not in ("tflops", "gb_s", "device")], extrasaction="ignore")
            table.writeheader()
            for copy in range(8):
                table.writerows({**row, "k": int(row["k"]) + copy} for row in rows)
        self.run_kscout("dataset", "import", "lies.csv", "--device", "auto", "--rules", "tiny", "--out", "lies.parquet")
        self.run_kscout("dataset", "split", "lies.parquet", *parts, "training.parquet", "--held-out-out", "unused.parquet")
        self.run_kscout("dataset", "merge", "held_out.parquet", "training.parquet", "--rules", "tiny", "--out", "m/measurements.parquet")
        done = self.tune("--budget", "1", *small)
        self.assertRegex(done.stdout, r"(?m)^kept +m: it is better than the new one: [\d.]+ % against [\d.]+ % on \d+ problems$")
        self.assertRegex(done.stdout, r"(?m)^model before +[\d.]+")
        self.assertEqual(self.bytes_of("m", "model.ksf"), good)
        self.assertTrue(self.has("m.sweep", "model", "model.ksf"))
        done = json.loads(self.tune("--budget", "1", *small, "--format", "json").stdout)
        self.assertIs(done["installed"], False)
        self.assertEqual(done["model_before"]["model"], "m")
        self.assertGreater(done["model_before"]["efficiency_mean"], done["efficiency"]["mean"])
        # Whoever wants it gets it, and the good one stays beside it.
        self.tune("--budget", "1", *small, "--replace")
        self.assertNotEqual(self.bytes_of("m", "model.ksf"), good)
        self.assertEqual(self.bytes_of("m", "previous", "model.ksf"), good)

    def test_a_model_of_other_rules_or_layouts_is_not_replaced_unasked(self):
        self.have_tuned_model()
        done = self.run_kscout(*INTO_M, code=2)
        self.assertIn("rule set 'tiny', not 'default'", done.stderr)
        self.assertIn("a new model is better cannot be decided; give --replace", done.stderr)
        self.assertFalse(self.has("m.sweep"), "nothing was measured")
        os.unlink(self.path("m", "measurements.parquet"))
        done = self.tune("--budget", "50", "--layout", "rrr,crr,ccr", code=2)
        self.assertIn("knows layout rcr, which --layout leaves out", done.stderr)

    def test_new_layouts_are_named_with_what_was_compared(self):
        share = ["--held-out", "0.6"]
        first = self.have_tuned_model(*ENOUGH, "80", "--layout", "rcr,rrr", *share).stdout
        self.assertNotIn("compared ", first)
        self.assertNotIn("layouts ", first)
        words = [*ENOUGH, "80", "--layout", "crr,ccr", "--replace", *share]
        out = self.tune(*words).stdout
        self.assertRegex(out, r"(?m)^compared +with m on \d+ problems that neither was trained on \(layouts rcr, rrr\)$")
        self.assertRegex(out, r"(?m)^layouts +crr, ccr: m has no model of them; "
                              r"the new model reaches [\d.]+ % on \d+ held-out problems?$")
        done = json.loads(self.tune(*words, "--format", "json").stdout)
        self.assertEqual(set(done["compared"]["layouts"]), {"rcr", "rrr", "crr", "ccr"})
        self.assertGreaterEqual(done["compared"]["problems"], 10)

    def test_a_layout_that_is_only_held_out_has_no_model_yet(self):
        share = ["--held-out", "0.9"]
        self.tune(*ENOUGH, "80", "--layout", "rcr,rrr", *share)
        # This one problem is held out, so that no model can be trained on its layout.
        done = self.tune(*ENOUGH, "1", "--layout", "ccr", "--replace", *share, "--format", "json")
        self.assertEqual(json.loads(done.stdout)["new_layouts"], {"layouts": ["ccr"], "problems": 0, "efficiency_mean": None})

    def test_max_problems_ends_the_measuring(self):
        self.tune(*ENOUGH, "20")
        self.assertEqual(self.described("m/measurements.parquet")["problems"], 20)

    # ---- convolutions, and several operations

    def installed_ops(self, folder):
        return sorted(name.split("_fp32_")[0] for name in os.listdir(self.path(folder)))

    def test_several_operations_share_the_budget_and_get_a_model_each(self):
        ops = ["--op", "conv_fwd,gemm,conv_fwd"]
        done = self.tune("--budget", "4", *ops)
        self.assertEqual(re.findall(r"(?m)^tuned +(\S+)$", done.stdout), ["conv_fwd", "gemm"])
        for op in ("conv_fwd", "gemm"):
            self.assertRegex(done.stdout, rf"(?m)^installed +m/{op}_fp32_\S+ \(")
        self.assertEqual(done.stdout.count("analytic model"), 2, "convolutions have this baseline, too")
        self.assertEqual(self.installed_ops("m"), ["conv_fwd", "gemm"])
        self.assertRegex(done.stderr, "conv_fwd: .* to draw from, 2 s\n")
        # --out is then a folder of models, where a choice finds them.
        for problem in ("gemm:40x40x40", "conv_fwd:1x16x14x14:24x3x3:pad=1"):
            ran = json.loads(self.run_kscout("run", problem, "--seconds", "0.01", "--format", "json", KSCOUT_MODEL_PATH="m").stdout)
            self.assertEqual(ran[0]["chosen_by"], "model", problem)
        # The same again adds problems to each.
        before = {name: self.described(f"m/{name}/measurements.parquet")["problems"] for name in os.listdir(self.path("m"))}
        again = json.loads(self.tune("--budget", "2", *ops, "--replace", "--format", "json").stdout)
        self.assertEqual([one["op"] for one in again], ["conv_fwd", "gemm"])
        for name, problems in before.items():
            self.assertGreater(self.described(f"m/{name}/measurements.parquet")["problems"], problems, name)
        # A single model is no folder of models, and has one operation.
        model = "m/" + sorted(before)[0]
        into_model = [*TUNE[:-1], model, "--budget", "50"]
        self.assertIn("is a model; with several operations", self.run_kscout(*into_model, *ops, code=2).stderr)
        self.assertIn("is a model of conv_fwd, not of gemm", self.run_kscout(*into_model, "--replace", code=2).stderr)

    def test_convolutions_of_one_filter_are_on_one_side_of_the_split(self):
        self.tune("--budget", "4", "--op", "conv_bwd_data,conv_bwd_weight")
        self.assertEqual(self.installed_ops("m"), ["conv_bwd_data", "conv_bwd_weight"])
        for name in os.listdir(self.path("m")):
            model, kept = f"m/{name}", f"m/{name}/measurements.parquet"
            self.run_kscout("dataset", "split", kept, "--seed", "1751477348", "--held-out", "0.3", "--by", "weights",
                            "--out", "training.parquet", "--held-out-out", "held_out.parquet")
            evaluated = json.loads(self.run_kscout("evaluate", "--model", model, "--data", "held_out.parquet", "--format", "json").stdout)
            self.assertEqual(evaluated["trained_on"], 0)
            self.assertGreater(evaluated["problems"], 0)
            self.assertIn("analytic model", [one["name"] for one in evaluated["baselines"]])

    def rows_of(self, *sources):
        """(problem, config, pass): time of all rows."""
        self.run_kscout("dataset", "merge", *sources, "--keep", "last", "--out", "rows.csv")
        with open(self.path("rows.csv"), newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        measured = {"time_us", "spread", "samples", "status", "error"}
        key = [name for name in rows[0] if name not in measured and name not in ("tflops", "gb_s", "workspace_bytes", "noisy")]
        return {tuple(row[name] for name in key): row["time_us"] for row in rows}

    def test_kill_9_during_several_operations_loses_no_finished_problem(self):
        words = ["--op", "conv_fwd,conv_bwd_data", "--budget", "60"]
        process = self.start(*TUNE, *words)
        journal = lambda: [os.path.join(folder, "journal.log") for folder, _, files in os.walk(self.path("m")) if "journal.log" in files]
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end and not (journal() and os.path.getsize(journal()[0]) > SOME_ROWS):
            time.sleep(0.01)
        process.kill()
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGKILL)
        sweep = os.path.relpath(os.path.dirname(journal()[0]), self.folder)
        self.run_kscout("dataset", "import", sweep, "--out", "before.parquet")
        before = self.rows_of("before.parquet")
        self.assertGreater(len(before), 20)
        done = self.tune("--op", "conv_fwd,conv_bwd_data", "--budget", "4")
        self.assertRegex(done.stderr, r"continues from \d+ problems in m/conv_fwd_fp32_\S+\.sweep")
        self.assertEqual(self.installed_ops("m"), ["conv_bwd_data", "conv_fwd"])
        kept = [name for name in os.listdir(self.path("m")) if name.startswith("conv_fwd")][0]
        after = self.rows_of(f"m/{kept}/measurements.parquet")
        self.assertEqual({key: after.get(key) for key in before}, before)

    def test_an_operation_that_fails_does_not_stop_the_others(self):
        done = self.run_kscout(*TUNE[:-1], "few", "--op", "conv_fwd,gemm", *ENOUGH, "1", code=2)
        self.assertIn("kscout tune: conv_fwd: too little was measured", done.stderr)
        self.assertIn("kscout tune: gemm: ", done.stderr, "its sweep began")
        self.assertIn("not tuned: conv_fwd", done.stderr)

    def test_a_tune_without_op_names_the_operations_that_it_leaves_out(self):
        done = self.have_tuned_model()
        self.assertIn("--op names other operations (gemm, conv_fwd, conv_bwd_data, conv_bwd_weight, grouped_gemm, all)", done.stderr)
        self.assertNotIn("--op names", self.tune("--budget", "1", "--op", "gemm", "--replace").stderr)

    def test_an_interrupted_tune_goes_on_whatever_the_next_budget(self):
        process = self.start(*TUNE, "--budget", "60")
        journal = self.path("m.sweep", "1", "journal.log")
        err = self.interrupt_when(process, lambda: os.path.exists(journal) and os.path.getsize(journal) > SOME_ROWS)
        self.assertIn("is kept in m.sweep", err)
        done = self.tune("--budget", "1", "--seed", "5")
        self.assertRegex(done.stderr, r"continues from \d+ problems in m\.sweep")
        self.assertRegex(done.stdout, r"and before \(\d+ problems are new\)")
        self.assertFalse(self.has("m.sweep"))

    def test_what_cannot_go_on_names_restart(self):
        self.have_tuned_model()
        process = self.start(*TUNE, "--budget", "60")
        journal = self.path("m.sweep", "1", "journal.log")
        self.interrupt_when(process, lambda: os.path.exists(journal) and os.path.getsize(journal) > SOME_ROWS)
        done = self.run_kscout(*INTO_M, code=2)  # rule set default
        self.assertIn("is of rule set 'tiny', not 'default'; give --restart", done.stderr)
        with open(journal, "r+b") as file:
            file.seek(200)
            file.write(b"????????????????")
        done = self.tune("--budget", "50", code=4)
        self.assertIn("cannot be read", done.stderr)
        self.assertIn("--restart", done.stderr)
        self.assertIn("removed the measurements", self.tune("--budget", "1", "--restart", "--replace").stderr)
        self.assertFalse(self.has("m.sweep"))

    def test_two_at_once_do_not_share_a_folder(self):
        process = self.start(*TUNE, "--budget", "60")
        err = None
        try:
            while not self.has("m.sweep", "1", "journal.log"):
                time.sleep(0.02)
            err = self.tune("--budget", "1", code=4).stderr
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        self.assertIn("another kscout tune works on m", err)

    def test_a_lock_file_that_was_removed_keeps_others_out_all_the_same(self):
        # Another tune ends, and removes its lock file, between our opening and locking it.
        with open(self.path("shim.c"), "w", encoding="utf-8") as file:
            file.write("""
                #define _GNU_SOURCE
                #include <stdio.h>
                #include <sys/syscall.h>
                #include <unistd.h>
                int flock(int fd, int how) {
                  static int done;
                  char link[64], path[4096] = {0};
                  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
                  if (!done++ && readlink(link, path, sizeof path - 1) > 0) unlink(path);
                  return (int)syscall(SYS_flock, fd, how);
                }""")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", "shim.so", "shim.c"], cwd=self.folder, check=True)
        self.env["LD_PRELOAD"] = self.path("shim.so")
        try:
            process = self.start(*TUNE, "--budget", "60")
        finally:
            del self.env["LD_PRELOAD"]
        try:
            while process.poll() is None and not self.has("m.sweep", "1", "journal.log"):
                time.sleep(0.02)
            self.assertTrue(self.has("m.sweep", "lock"))
            err = self.tune("--budget", "1", code=4).stderr
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        self.assertIn("another kscout tune works on m", err)

    # ---- train

    def test_a_device_is_known_by_its_whole_name(self):
        name = "native_gemm_fp32_rcr__scalar_{}_n_s1_t1x1"
        with open(self.path("d.csv"), "w", encoding="utf-8") as file:
            file.write("m,n,k,config,time_us\n")
            for m in (16, 32, 64, 128):
                file.write(f"{m},64,128,{name.format('small_4x2_nopack_b0x0x0')},{m}\n"
                           f"{m},64,128,{name.format('tiled_4x4_packb_b0x256x0')},{2 * m}\n")
        self.run_kscout("dataset", "import", "d.csv", "--device", "auto", "--out", "here.parquet")
        edit = """
import json
import pyarrow as pa, pyarrow.parquet as pq
table = pq.read_table("here.parquet")
facts = dict(table.schema.metadata)
device = json.loads(facts[b"kscout.device"])
print(device["name"])
device["name"] += "x"
facts[b"kscout.device"] = json.dumps(device)
names = pa.array([device["name"]] * table.num_rows).cast(table.schema.field("device").type)
table = table.set_column(table.schema.get_field_index("device"), table.schema.field("device"), names)
pq.write_table(table.replace_schema_metadata(facts), "longer.parquet")
"""
        here = subprocess.run([PYTHON, "-c", edit], cwd=self.folder, check=True, capture_output=True, text=True).stdout.strip()
        for data, warned in (("here", False), ("longer", True)):
            self.run_kscout("train", "--data", f"{data}.parquet", "--out", data, "--folds", "2", "--rounds", "3", "--targets", "relative")
            err = self.run_kscout("predict", "gemm:16x64x128", "--model", data, "--top", "1").stderr
            self.assertEqual(f"foreign_device: the model was trained on '{here}x' and its choices are for that device; "
                             f"this machine has '{here}'" in err, warned, err)
            self.assertEqual("foreign_device" in err, warned, err)

    def test_an_interrupted_training_goes_on(self):
        with open(self.path("sizes.txt"), "w", encoding="utf-8") as file:
            file.writelines(f"gemm:{m}x{n}x{k}\n" for m in (8, 40, 100) for n in (16, 64, 200) for k in (32, 100, 300))
        self.run_kscout("sweep", "--problems", "sizes.txt", "--rules", "tiny", "--repeat", "3", "--out", "sweep")
        self.run_kscout("dataset", "import", "sweep", "--out", "d.parquet")
        train = ["train", "--data", "d.parquet", "--folds", "3", "--targets", "tflops,relative", "--threads", "1",
                 "--rounds", "1500", "--patience", "1500"]
        err = self.interrupt_when(self.start(*train, "--out", "a"), lambda: self.has("a.train", "tflops.cbor"))
        self.assertIn("what is finished is kept in a.train; the same command goes on", err)
        self.assertFalse(self.has("a"))
        self.run_kscout(*train, "--out", "a")
        self.assertFalse(self.has("a.train"))
        self.run_kscout(*train, "--out", "b")
        self.assertEqual(self.bytes_of("a", "model.ksf"), self.bytes_of("b", "model.ksf"))

    def test_an_interrupted_validation_leaves_nothing_behind(self):
        self.have_tuned_model()
        os.mkdir(self.path("temporary"))
        self.env["TMPDIR"] = self.path("temporary")
        try:
            process = self.start("validate", "--mode", "hardware", "--model", "m", "--problems", "random", "--layout", "rcr")
        finally:
            del self.env["TMPDIR"]
        self.interrupt_when(process, lambda: any(self.has("temporary", one, "journal.log") for one in os.listdir(self.path("temporary"))))
        self.assertEqual(os.listdir(self.path("temporary")), [])

    # ---- the libraries of kscout-lab

    def installed_elsewhere(self):
        """The programs as an installation whose build is gone: their library folders are not there."""
        os.mkdir(self.path("bin"))
        for name in ("kscout", "kscout-lab"):
            shutil.copy(os.path.join(PROGRAMS, name), self.path("bin", name))
        with open(self.path("bin", "kscout-lab"), "rb") as file:
            data = file.read()
        begin = data.index(b"/pyarrow")
        while data[begin - 1] != 0:
            begin -= 1
        end = data.index(b"\0", begin)
        self.assertIn(b"lightgbm/lib", data[begin:end])
        with open(self.path("bin", "kscout-lab"), "wb") as file:
            file.write(data[:begin] + b"/gone".ljust(end - begin, b"-") + data[end:])
        return self.path("bin", "kscout")

    def test_kscout_lab_finds_the_libraries_of_the_active_python(self):
        program = self.installed_elsewhere()
        done = self.run_kscout("dataset", "merge", "none.parquet", "--out", "x.parquet", code=4, program=program, KSCOUT_PYTHON=PYTHON)
        self.assertIn("none.parquet: no such dataset file", done.stderr)
        bin_of_python = os.path.dirname(PYTHON)
        done = self.run_kscout("dataset", "describe", "none.parquet", code=4, program=program,
                               PATH=bin_of_python + os.pathsep + os.environ["PATH"])
        self.assertIn("none.parquet: no such dataset file", done.stderr)

    def test_without_the_libraries_one_message_says_what_to_install(self):
        program = self.installed_elsewhere()
        done = self.run_kscout("dataset", "describe", "x.parquet", code=4, program=program, KSCOUT_PYTHON="no-such-python")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("verb 'dataset' needs libparquet.so", done.stderr)
        self.assertIn("no-such-python -m pip install 'pyarrow==", done.stderr)
        self.assertNotIn("error while loading shared libraries", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
