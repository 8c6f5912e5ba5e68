"""A report's page in Chromium: its size, when it can be used, whether axe-core finds fault, and how it looks.

    python benchmarks/report_page.py report.html --axe axe.min.js --screenshots docs

Besides the page it needs a Chromium and axe.min.js, of the package axe-core on npm; it fetches nothing.
Of long lists, axe-core sees the first 300 rows.
"""

import argparse
import base64
import json
import os
import subprocess
import tempfile
from itertools import count
from pathlib import Path
from shutil import which

RUNS = 3
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
SHOTS = {("desktop", "light"): ("top", 0.6), ("phone", "dark"): ("box", 1)}  # what they show, and their scale
LOADED = """(() => {
  const [page] = performance.getEntriesByType("navigation");
  return [page.domInteractive, page.domComplete];
})()"""
# How long one more keystroke takes, until it is drawn.
TYPED = """new Promise((resolve) => {
  const field = document.getElementById("typed");
  field.value = field.value.repeat(20).slice(0, 2000);
  const start = performance.now();
  field.dispatchEvent(new Event("input"));
  requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - start)));
})"""
TOP_OF_BOX = "document.getElementById('try').getBoundingClientRect().top + scrollY"
TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
# Rows are alike, and axe-core takes a minute for all of them at 32,000 tokens.
CUT = """document.querySelectorAll(".tokens, .long tbody").forEach((list) =>
  [...list.children].slice(300).forEach((row) => row.remove()))"""
AXE = """axe.run().then((found) => found.violations.map((fault) =>
  `${fault.id} (${fault.impact}): ${fault.nodes.length} times, as ${fault.nodes[0].html.slice(0, 200)}`))"""


class Chromium:
    """A headless Chromium with one tab, spoken to through pipes; there is no network."""

    def __init__(self):
        path = next(filter(None, map(which, BROWSERS)))
        read_commands, self.commands = os.pipe()
        self.replies, write_replies = os.pipe()
        self.profile = tempfile.TemporaryDirectory()
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        options += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={self.profile.name}"]
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$0" "$@" 3<&{read_commands} 4>&{write_replies}', path, *options],
            pass_fds=(read_commands, write_replies),
            stderr=subprocess.DEVNULL,
        )
        os.close(read_commands)
        os.close(write_replies)
        self.numbers, self.rest, self.session = count(1), b"", {}
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.session = {"sessionId": session}
        self.send("Page.enable")
        self.send("Performance.enable", timeDomain="threadTicks")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        os.close(self.commands)
        os.close(self.replies)
        self.profile.cleanup()

    def send(self, method, **parameters):
        """What a method of the DevTools protocol returns."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters, **self.session}
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            reply = self.read()
            if reply.get("id") == number:
                if "error" in reply:
                    raise RuntimeError(f"{method}: {reply['error']}")
                return reply["result"]

    def read(self):
        while b"\0" not in self.rest:
            self.rest += os.read(self.replies, 1 << 16)
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def open(self, path, width=1280, height=900, scheme="light"):
        """Opens a page in a window of this size, and waits until it is complete."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", features=features)
        self.send("Page.navigate", url=Path(path).resolve().as_uri())
        self.run("new Promise((done) => document.readyState === 'complete' ? done() : onload = done)")
        self.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")

    def run(self, script):
        """The value of an expression, awaited."""
        done = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise RuntimeError(done["exceptionDetails"]["exception"].get("description"))
        return done["result"].get("value")

    def cpu_seconds(self):
        """What the tab's main thread has taken."""
        metrics = self.send("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")

    def screenshot(self, path, top, width, height, scale):
        """A PNG file of a stretch of the page."""
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": scale}
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        Path(path).write_bytes(base64.b64decode(shot["data"]))

    def print(self, path):
        """A PDF file of the page."""
        Path(path).write_bytes(base64.b64decode(self.send("Page.printToPDF")["data"]))


def main():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("page", type=Path)
    parser.add_argument("--axe", type=Path, help="axe.min.js of axe-core")
    parser.add_argument("--screenshots", type=Path, help="a folder for PNG files")
    parser.add_argument("--pdf", type=Path, help="the page as printed")
    arguments = parser.parse_args()
    print(f"{arguments.page.stat().st_size:,} bytes")
    for _ in range(RUNS):
        with Chromium() as browser:
            measure(browser, arguments.page)
    with Chromium() as browser:
        print(browser.send("Browser.getVersion")["product"])
        for name in SIZES:
            for scheme in ("light", "dark"):
                look_at(browser, arguments, name, scheme)
        if arguments.pdf:
            browser.print(arguments.pdf)


def measure(browser, page):
    browser.open(page)
    seconds = browser.cpu_seconds()
    interactive, complete = browser.run(LOADED)
    typed = browser.run(TYPED)
    print(f"{seconds:.2f} s of CPU time; {interactive:.0f} ms until it can be used; ", end="")
    print(f"{complete:.0f} ms: complete; {typed:.0f} ms for a change of 2,000 characters")


def look_at(browser, arguments, name, scheme):
    width, height = SIZES[name]
    browser.open(arguments.page, width, height, scheme)
    print(f"{name}, {scheme}: {'WIDER than the window' if browser.run(TOO_WIDE) else 'fits the window'}")
    if arguments.screenshots and (name, scheme) in SHOTS:
        part, scale = SHOTS[name, scheme]
        top = browser.run(TOP_OF_BOX) if part == "box" else 0
        browser.screenshot(arguments.screenshots / f"report-{part}.png", top, width, height, scale)
    if arguments.axe:
        browser.run(CUT)
        browser.run(arguments.axe.read_text(encoding="utf-8") + "; 0")
        faults = browser.run(AXE)
        print("\n".join(faults) or "axe-core finds nothing")


if __name__ == "__main__":
    main()
