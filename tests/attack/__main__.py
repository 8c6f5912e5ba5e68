"""All attacks one after another, each for its part of the time: python -m attack [SECONDS] [SEED]."""

import subprocess
import sys
import time

PARTS = ("folders", "texts", "threads")


def main(seconds: str = "60", seed: str = "") -> int:
    failed = []
    for part in PARTS:
        options = ["--seconds", str(float(seconds) / len(PARTS)), "--seed", seed or str(int(time.time()))]
        print(f"== {part}", flush=True)
        if subprocess.run([sys.executable, "-m", f"attack.{part}", *options]).returncode:
            failed.append(part)
    print("failed: " + ", ".join(failed) if failed else "no findings")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
