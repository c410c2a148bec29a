#!/usr/bin/env python3
"""Tables on a terminal are as wide as it is; elsewhere a row is one line.

    terminal_test.py FOLDER_OF_PROGRAMS
"""
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

KSCOUT = os.path.join(os.path.abspath(sys.argv[1]), "kscout")


def on_terminal(words, columns):
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    with subprocess.Popen([KSCOUT, *words], stdout=side, stderr=subprocess.DEVNULL) as process:
        os.close(side)
        text = b""
        while True:
            try:
                part = os.read(main, 1 << 16)
            except OSError:  # all of the program's ends are closed
                break
            text += part
        assert process.wait() == 0, words
    os.close(main)
    return text.decode().replace("\r\n", "\n").splitlines()


def main():
    facts = ["features", "--schema", "gemm"]  # sentences: wrapped within their column
    plain = subprocess.run([KSCOUT, *facts], capture_output=True, text=True, check=True).stdout.splitlines()
    assert max(map(len, plain)) > 200, "a file gets whole rows"
    narrow = on_terminal(facts, 140)
    assert max(map(len, narrow)) <= 140, max(narrow, key=len)
    assert len(narrow) > len(plain)
    assert narrow[0].split()[:2] == plain[0].split()[:2], narrow[0]

    ranked = ["predict", "gemm:64x64x64", "--rules", "tiny", "--top", "2", "--device", "epyc-7763"]
    blocks = on_terminal(ranked, 90)  # names cannot be wrapped: a block per row
    assert blocks[0].split() == ["problem", "gemm:64x64x64:fp32:rcr"], blocks
    assert sum(line.startswith("config") for line in blocks) == 2, blocks
    wide = on_terminal(ranked, 300)
    assert len(wide) == 3 and wide[0].startswith("problem "), wide
    print("as expected")


if __name__ == "__main__":
    main()
