"""All attacks one after another, each for its part of the time: python -m attack [SECONDS] [SEED]."""

import os
import subprocess
import sys
import time

PARTS = ("folders", "texts", "threads", "kills", "workers")


def main(seconds: str = "60", seed: str = "") -> int:
    failed = []
    timed = ["--seconds", str(float(seconds) / len(PARTS)), "--seed", seed or str(int(time.time()))]
    options_of = dict.fromkeys(PARTS, timed)
    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        print("allocations are left out: the address sanitizer has a malloc of its own")
    else:  # from the first on: no seed
        options_of["allocations"] = ["--at-most", f"{max(20, int(float(seconds)))}"]
    for part, options in options_of.items():
        print(f"== {part}", flush=True)
        if subprocess.run([sys.executable, "-m", f"attack.{part}", *options]).returncode:
            failed.append(part)
    print("failed: " + ", ".join(failed) if failed else "no findings")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
