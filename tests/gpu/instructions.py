"""Which instructions the kernels of some programs consist of; fails where they are not what the kernels were written for.

    instructions.py PROGRAM...

Every kernel of the rules must be in one of the programs. Needs cuobjdump. The sm_90a kernels must multiply by HGMMA, the
portable 16-bit ones and those for pages by HMMA, the fp32 ones by FFMA without rounding through tensor cores.
"""

import collections
import re
import subprocess
import sys

# Kernel, the instruction that it must have, those that it must not have.
RULES = (
    (re.compile(r"sm90\d*ForwardKernel"), "HGMMA", ("HMMA",)),
    (re.compile(r"sm80\d*ForwardKernel"), "HMMA", ("HGMMA",)),
    (re.compile(r"paged\d*DecodeKernel"), "HMMA", ("HGMMA",)),
    (re.compile(r"sm80\d*Fp32ForwardKernel"), "FFMA", ("HMMA", "HGMMA")),
)
INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)")


def count_instructions(program, counts):
    """Adds to `counts`, (architecture, kernel) -> Counter, what `program` has of each instruction."""
    dump = subprocess.Popen(["cuobjdump", "--dump-sass", program], stdout=subprocess.PIPE, text=True)
    architecture, kernel = "", None
    for line in dump.stdout:
        if line.startswith("arch ="):
            architecture = line.split("=")[1].strip()
        elif "Function :" in line:
            kernel = counts[architecture, line.split(":")[1].strip()] = collections.Counter()
        elif kernel is not None and (match := INSTRUCTION.match(line)):
            kernel[match[1]] += 1
    if dump.wait() != 0 or kernel is None:
        sys.exit(f"no kernels found in {program}")


def main():
    counts = {}
    for program in sys.argv[1:]:
        count_instructions(program, counts)
    failed = False
    print("| kernels | of | products | local loads and stores, at most |\n|---|---|---|---|")
    for pattern, needed, forbidden in RULES:
        for arch in sorted({arch for arch, name in counts if pattern.search(name)}):
            found = [c for (a, name), c in counts.items() if a == arch and pattern.search(name)]
            local = max(c["LDL"] + c["STL"] for c in found)
            least = min(c[needed] for c in found)
            print(f"| {len(found)} | {arch} {pattern.pattern} | {needed}, at least {least} | {local} |")
            failed |= least == 0 or any(c[name] for c in found for name in forbidden)
    for pattern, _, _ in RULES:
        if not any(pattern.search(name) for _, name in counts):
            print(f"no kernel matches {pattern.pattern}")
            failed = True
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
