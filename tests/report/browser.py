"""Drives a headless Chromium through its debugging pipe (the Chrome DevTools protocol), with Python's standard library.

    with Browser() as browser:
        page = browser.open("report.html", width=400, dark=True)
        page.evaluate("document.title")
        page.problems                    # what the console and failed requests reported
        page.screenshot("report.png")
"""

import base64
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def find_chromium():
    """The path of a browser; None where there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """A browser without a network."""

    def __enter__(self):
        self._profile = tempfile.TemporaryDirectory()
        commands, self._in = os.pipe()
        self._out, answers = os.pipe()
        # The browser reads commands from descriptor 3 and writes answers to 4. Copies beyond both survive the first dup2.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (commands, answers)]
        self._process = subprocess.Popen(
            [find_chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--remote-debugging-pipe", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND",
             f"--user-data-dir={self._profile.name}", "about:blank"],
            preexec_fn=lambda: [os.dup2(end, 3 + i) for i, end in enumerate(ends)], close_fds=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for end in (commands, answers, *ends):
            os.close(end)
        self._buffer, self.events, self._next = b"", [], 0
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._profile.name, ignore_errors=True)

    def call(self, method, session=None, **parameters):
        self._next += 1
        message = {"id": self._next, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._in, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._next:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _read(self):
        while b"\0" not in self._buffer:
            part = os.read(self._out, 1 << 20)
            if not part:
                raise RuntimeError("the browser ended")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, file, width, height=900, dark=False):
        return Page(self, file, width, height, dark)


class Page:
    """A file in a window of this size, drawn."""

    def __init__(self, browser, file, width, height, dark):
        self._browser = browser
        self._target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.set_dark(dark)
        self._call("Page.navigate", url=pathlib.Path(file).resolve().as_uri())
        self.wait("document.documentElement?.dataset.drawn !== undefined")

    def _call(self, method, **parameters):
        return self._browser.call(method, self._session, **parameters)

    def set_dark(self, dark):
        self._call("Emulation.setEmulatedMedia",
                   features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def wait(self, condition, seconds=20):
        end = time.monotonic() + seconds
        while not self.evaluate(condition):
            if time.monotonic() > end:
                raise RuntimeError(f"not within {seconds} s: {condition}; {self.problems}")
            time.sleep(0.05)

    def evaluate(self, script):
        result = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    @property
    def problems(self):
        """Errors and warnings of the console, uncaught exceptions, and requests of anything but the file."""
        found = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            parameters = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(parameters["exceptionDetails"].get("exception", {}).get("description", "exception"))
            elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                found.append(" ".join(str(a.get("value", a.get("description"))) for a in parameters["args"]))
            elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(parameters["entry"]["text"])
            elif event["method"] == "Network.requestWillBeSent":
                url = parameters["request"]["url"]
                if not url.startswith(("file:", "data:", "about:")):
                    found.append(f"requests {url}")
        return found

    def hover(self, selector, count=5):
        """For each plot, the texts of the tooltips over `count` of these elements, as a pointer on them shows them."""
        plots = self.evaluate("""[...document.querySelectorAll(".plot")].map((plot) => {
            const marks = [...plot.querySelectorAll(%s)], step = Math.max(1, Math.floor(marks.length / %d));
            return marks.filter((_, i) => i %% step === 0).map((mark) => {
              const box = mark.getBoundingClientRect();
              return [box.x + box.width / 2 + scrollX, box.y + box.height / 2 + scrollY];
            });
          })""" % (json.dumps(selector), count))
        return [[self._tooltip(x, y) for x, y in points] for points in plots]

    def _tooltip(self, x, y):
        # The browser finds what is below the pointer after it has drawn the scrolled page.
        top = self.evaluate(f"""scrollTo(0, {y} - innerHeight / 2),
            new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(scrollY))))""")
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y - top)
        return self.evaluate("document.querySelector('#vg-tooltip-element.visible')?.textContent ?? ''")

    def close(self):
        self._browser.call("Target.closeTarget", targetId=self._target)

    def screenshot(self, out, selector="html", scale=1):
        """Writes a picture of the first such element: of the whole page by default."""
        box = self.evaluate(f"""(() => {{
          const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();
          return {{ x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height }};
        }})()""")
        data = self._call("Page.captureScreenshot", captureBeyondViewport=True, format="png", clip=box | {"scale": scale})["data"]
        pathlib.Path(out).write_bytes(base64.b64decode(data))
