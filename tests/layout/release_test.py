"""release/gpu_log.py on logs of a few tests."""

import sys
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "release"))
import gpu_log  # noqa: E402

RAN = '<testcase name="ran" status="run"><system-out>[ OK ]</system-out></testcase>'


def skipped(output):
    return f'<testcase name="skipped" status="notrun"><skipped message=""/><system-out>{output}</system-out></testcase>'


def complaints(*cases):
    return gpu_log.complaints(ET.fromstring(f"<testsuite>{''.join(cases)}</testsuite>"))


class GpuLog(unittest.TestCase):
    def test_a_skipped_test_says_why(self):
        self.assertEqual(([], []), complaints(RAN))
        self.assertEqual(([], ["skipped: TWO GPUS NOT TESTED: here is 1"]),
                         complaints(RAN, skipped("tests/gpu/two.cpp:3: Skipped\nTWO GPUS NOT TESTED: here is 1\n\n[ SKIPPED ] x")))
        self.assertEqual(["skipped was skipped and does not say why"], complaints(RAN, skipped("[ SKIPPED ] x"))[0])

    def test_no_release_without_a_gpu_or_with_failures(self):
        self.assertEqual(["skipped: NO GPU TESTED: no driver"], complaints(skipped("a.cpp:3: Skipped\nNO GPU TESTED: no driver\n"))[0])
        self.assertEqual(["bad failed"], complaints('<testcase name="bad"><failure message=""/></testcase>')[0])
        self.assertEqual(["it has no tests"], complaints()[0])


if __name__ == "__main__":
    unittest.main()
