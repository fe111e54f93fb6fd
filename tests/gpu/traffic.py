"""The traffic model's bytes beside what the hardware counted, as the article's table: full attention, N = 4096, D 128, fp16.

    traffic.py ATTENTION_PROFILE [--json FILE]

Needs ncu. Each call is profiled twice: with the caches emptied before each kernel, as the model has it (what a kernel
leaves behind is read from memory again), and with the caches left alone, as in service.
"""

import argparse
import csv
import json
import subprocess

COUNTERS = {"dram_read": "dram__bytes_read.sum", "dram_write": "dram__bytes_write.sum", "l2": "lts__t_bytes.sum"}


def profile(program, family, n, heads, caches):
    """The model's line of one call and the counters, summed over its kernels."""
    command = ["ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none", "--cache-control",
               "all" if caches == "emptied" else "none", "--metrics", ",".join(COUNTERS.values()), program, family,
               str(n), str(heads)]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.splitlines()
    row = json.loads(next(line for line in output if line.startswith("{")))
    kernels = list(csv.DictReader(line for line in output if line.startswith('"')))[1:]  # the first row holds units
    assert kernels, output
    for name, counter in COUNTERS.items():
        row[name] = sum(float(kernel[counter].replace(",", "")) for kernel in kernels)
    return {**row, "caches": caches, "kernels": len(kernels)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    rows = []
    print("MB (10^6 bytes).\n")
    print("| heads | kernels | caches | model: read | written | DRAM: read | written | L2, both ways |")
    print("|---|---|---|---|---|---|---|---|")
    for heads in (1, 16):
        for family in ("standard", "sm90a"):
            for caches in ("emptied", "left alone"):
                r = profile(arguments.program, family, 4096, heads, caches)
                rows.append(r)
                print(f"| {heads} | {family} | {caches} | {r['model_read'] / 1e6:.1f} | {r['model_write'] / 1e6:.1f} | "
                      f"{r['dram_read'] / 1e6:.1f} | {r['dram_write'] / 1e6:.1f} | {r['l2'] / 1e6:.1f} |", flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
