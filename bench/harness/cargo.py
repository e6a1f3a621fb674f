"""Where cargo puts what it builds."""

import subprocess
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/target-dir.sh"


def target_dir(crate):
    """The folder that cargo names for this crate; the usual one where there is no cargo."""
    said = subprocess.run([SCRIPT, crate], capture_output=True, text=True, check=False)
    return Path(said.stdout.strip()) if said.returncode == 0 else Path(crate) / "target"
