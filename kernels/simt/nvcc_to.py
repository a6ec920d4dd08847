#!/usr/bin/env python3
"""nvcc_to.py LOG COMMAND...: runs nvcc and keeps what ptxas says of each kernel in LOG."""

import subprocess
import sys

log, command = sys.argv[1], sys.argv[2:]
done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
about_kernels = []
for line in done.stderr.splitlines(keepends=True):
    if line.startswith("ptxas info") or line.startswith("    "):
        about_kernels.append(line)
    else:
        sys.stderr.write(line)
with open(log, "w") as f:
    f.writelines(about_kernels)
sys.exit(done.returncode)
