#!/usr/bin/env python3
"""Every verb says that its results were lost: standard output is /dev/full, the exit code has to be 4.

    lost_stdout_test.py FOLDER_OF_PROGRAMS

Each verb prints its help, and those that print results from a quick command do that as well. A reader that goes away ends the
program as it ends others: by SIGPIPE.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile

PROGRAMS = os.path.abspath(sys.argv[1])
KSCOUT = os.path.join(PROGRAMS, "kscout")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "tests/models/gemm_fp32_zen3-2c")
HELD_OUT = "few.parquet"  # some problems of the next
ALL_HELD_OUT = os.path.join(ROOT, "data/gemm_fp32_zen3-2c.held_out.parquet")
# Commands that end well; a verb that is missing here needs more than a moment or a device.
COMMANDS = {
    "kernels": ["--rules tiny", "--rules tiny --count", "--rules tiny --format json"],
    "problems": ["", "smoke", "smoke --format csv"],
    "sweep": ["--problems smoke --rules tiny --dry-run"],
    "dataset": [f"describe {HELD_OUT}", f"head {HELD_OUT}", f"export {HELD_OUT} --out -"],
    "features": ["", "gemm:16x16x16", "--format markdown"],
    "evaluate": [f"--model {MODEL} --data {HELD_OUT}", f"--model {MODEL} --data {HELD_OUT} --format json"],
    "report": [f"{HELD_OUT} --out -"],
    "check": [f"{MODEL} --keep 1"],
    "validate": [f"--model {MODEL} --data {HELD_OUT}", f"--model {MODEL} --data {HELD_OUT} --out -"],
    "compare": [f"{MODEL} {MODEL} --data {HELD_OUT}"],
    "predict": ["gemm:16x16x16", "gemm:16x16x16 --explain"],
    "search": [f"gemm:64x64x64 --model {MODEL} --rules default"],
    "classes": ["gemm:1x16x16 --backend cpu --rows 1,4 --every 4 --seconds 0.001 --classes classes.json"],
    "run": ["gemm:16x16x16 --rules tiny --seconds 0.01"],
    "export": [f"--model {MODEL} --format json", "--shapes shapes.txt --rules tiny --out -"],
    "db": ["export --db none.sqlite", "list --db none.sqlite --format json"],
    "hardware": ["", "--format json"],
    "prune": [f"--data {HELD_OUT} --out pruned.toml"],
    "generate": ["--op conv_fwd --dtype bf16 --rules tiny --device gfx942 --out kernels"],
    "import": ["log.csv --from ck-csv --op conv_fwd --dtype bf16 --device gfx950 --out -"],
    "train": [f"--data {HELD_OUT} --out model --targets relative --rounds 3 --folds 2"],
    "tune": ["--rules tiny --budget 1 --max-gflop 0.01 --folds 2 --targets relative --replace --out tuned"],
}
CONV_LOG = """kernel,problem_idx,N,C,K,G,Hi,Wi,Y,X,stride_h,stride_w,pad_h,pad_w,latency_ms,tflops,non_zero
grouped_conv_forward_bf16_2d_16x64x64_compv3,0,1,64,64,1,8,8,1,1,1,1,0,0,0.010,1,1
"""
SLOW = {"audit", "exec"}  # need a GPU; prints nothing itself
LAB = {"tune", "import", "dataset", "prune", "train", "evaluate", "report", "validate", "compare"}


def main():
    verbs = re.findall(r"^  ([a-z]\S*)", subprocess.run([KSCOUT, "--help"], capture_output=True, text=True, check=True)
                       .stdout.split("\nSubcommands:\n")[1], re.MULTILINE)
    unknown = set(verbs) ^ (set(COMMANDS) | SLOW | {"help", "completion"} & set(verbs))
    wrong = [f"no command for verb '{verb}'" for verb in unknown]
    lab = os.path.exists(KSCOUT + "-lab")
    runs = 0
    with tempfile.TemporaryDirectory() as folder, open("/dev/full", "w", encoding="utf-8") as full:
        with open(os.path.join(folder, "shapes.txt"), "w", encoding="utf-8") as shapes:
            shapes.write("gemm:16x64x32\n")
        with open(os.path.join(folder, "log.csv"), "w", encoding="utf-8") as log:
            log.write(CONV_LOG)
        env = dict(os.environ, HOME=folder, LC_ALL="C")
        if lab:
            subprocess.run([KSCOUT, "dataset", "split", ALL_HELD_OUT, "--held-out", "0.02", "--out", "most.parquet",
                            "--held-out-out", HELD_OUT], cwd=folder, env=env, capture_output=True, check=True)
        for verb in verbs:
            if verb in LAB and not lab:
                continue
            for words in ["--help", *COMMANDS.get(verb, [])]:
                command = [KSCOUT, verb, *words.split()]
                done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, cwd=folder, env=env, text=True,
                                      timeout=120, check=False)
                runs += 1
                if done.returncode != 4 or done.stderr.count("standard output") != 1:
                    wrong.append(f"{' '.join(command)} > /dev/full: exit code {done.returncode}\n{done.stderr}")
        # Enough output for several writes, and a reader that takes none of it.
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([KSCOUT, "kernels", "--format", "json"], stdout=writer, stderr=subprocess.PIPE, text=True,
                              env=env, check=False)
        os.close(writer)
        if done.returncode != -signal.SIGPIPE or done.stderr:
            wrong.append(f"a reader that is gone: exit code {done.returncode}, not SIGPIPE\n{done.stderr}")
    print("\n".join(wrong) or f"{runs} runs as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
