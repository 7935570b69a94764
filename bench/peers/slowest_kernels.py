"""Prints the kernels with the longest total times, from the output of `ncu --metrics gpu__time_duration.sum --csv`:

    slowest_kernels.py FILE COUNT

Prints for each kernel, separated by tabs, its total seconds, number of launches, ID of the last launch (for ncu's
--launch-skip) and name. Kernels that differ in their template arguments are listed separately."""

import collections
import csv
import sys

units = {"ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "msecond": 1e-3, "s": 1, "second": 1}


def slowest(lines, count):
    # The program's own output comes before the table.
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        sys.exit("slowest_kernels.py: the file has no table of ncu; give the output of ncu --csv")
    seconds, launches, last = collections.Counter(), collections.Counter(), {}
    for row in csv.DictReader(lines[begin:]):
        if row.get("Metric Name") != "gpu__time_duration.sum":
            continue
        name = row["Kernel Name"]
        seconds[name] += float(row["Metric Value"].replace(",", "")) * units[row["Metric Unit"]]
        launches[name] += 1
        last[name] = int(row["ID"])
    if not seconds:
        sys.exit("slowest_kernels.py: ncu's table has no times; run ncu with --metrics gpu__time_duration.sum")
    return [(took, launches[name], last[name], name) for name, took in seconds.most_common(count)]


if __name__ == "__main__":
    for row in slowest(open(sys.argv[1], errors="replace").read().splitlines(), int(sys.argv[2])):
        print("{:.9f}\t{}\t{}\t{}".format(*row))
