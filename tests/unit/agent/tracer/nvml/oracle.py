# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's Python binding and agent/tracer/nvml/devices.c read the same numbers from the same library:
oracle.py DEVICES_TEST FOLDER_OF_THE_STUB"""
import math
import os
import subprocess
import sys

try:
    import pynvml as nvml
except ImportError:
    print("skip: no nvidia-ml-py; tests/setup.sh installs it")
    sys.exit(77)

M = 1e6
ORACLE = {
    "busy %": lambda d: nvml.nvmlDeviceGetUtilizationRates(d).gpu,
    "memory busy %": lambda d: nvml.nvmlDeviceGetUtilizationRates(d).memory,
    "memory used MB": lambda d: nvml.nvmlDeviceGetMemoryInfo(d, version=nvml.nvmlMemory_v2).used / M,
    "memory MB": lambda d: nvml.nvmlDeviceGetMemoryInfo(d).total / M,
    "power W": lambda d: nvml.nvmlDeviceGetPowerUsage(d) / 1e3,
    "energy J": lambda d: nvml.nvmlDeviceGetTotalEnergyConsumption(d) / 1e3,
    "temperature C": lambda d: nvml.nvmlDeviceGetTemperature(d, nvml.NVML_TEMPERATURE_GPU),
    "SM clock MHz": lambda d: nvml.nvmlDeviceGetClockInfo(d, nvml.NVML_CLOCK_SM),
    "memory clock MHz": lambda d: nvml.nvmlDeviceGetClockInfo(d, nvml.NVML_CLOCK_MEM),
    "throttle reasons": lambda d: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(d),
    "ECC errors": lambda d: nvml.nvmlDeviceGetTotalEccErrors(d, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC),
}


def expected(read, device):
    try:
        return read(device)
    except nvml.NVMLError as e:
        assert e.value == nvml.NVML_ERROR_NOT_SUPPORTED, e
        return math.nan


def main(program, folder):
    library = os.path.join(folder, "libnvidia-ml.so.1")
    if os.environ.get("LD_LIBRARY_PATH") != folder:  # the binding loads it by its soname
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "LD_LIBRARY_PATH": folder})
    text = subprocess.run([program, "agent/tracer/nvml/devices_test", "--print", library], stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
    ours = dict(line.split("\t") for line in text.splitlines())
    nvml.nvmlInit()
    assert len(ours) == nvml.nvmlDeviceGetCount() * len(ORACLE), ours
    for i in range(nvml.nvmlDeviceGetCount()):
        device = nvml.nvmlDeviceGetHandleByIndex(i)
        for name, read in ORACLE.items():
            want, got = expected(read, device), float(ours[f"gpu {i} {name}"])
            assert got == want or math.isnan(got) and math.isnan(want), (i, name, got, want)
    print(f"{len(ours)} numbers are the same")


main(*sys.argv[1:])
