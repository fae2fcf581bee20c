"""A Python program that logs what it does: phases of known functions, one after the other, and threads that wait.

    python_job.py SECONDS LOG THREADS

LOG gets a line "BEGIN_NS END_NS FUNCTION" of the wall clock for each phase, and first one with the ids of the threads.
"""
import json
import sys
import threading
import time


def spin(seconds):
    end = time.perf_counter() + seconds
    n = 0
    while time.perf_counter() < end:
        n += 1


def sleep(seconds):
    time.sleep(seconds)


def inner():
    return json.dumps({str(i): i for i in range(300)})


def encode(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        inner()


def deeper(n, function, seconds):
    return function(seconds) if n == 0 else deeper(n - 1, function, seconds)


def generated(function, seconds):
    yield deeper(3, function, seconds)


def wait_for(event):
    event.wait()


def main(seconds, log, threads):
    event = threading.Event()
    waiting = [threading.Thread(target=wait_for, args=(event,), daemon=True) for _ in range(threads)]
    for thread in waiting:
        thread.start()
    with open(log, "w") as f:
        print(threading.get_native_id(), *(t.native_id for t in waiting), file=f, flush=True)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for function, length, depth in ((spin, .030, 5), (sleep, .020, 12), (encode, .050, 20)):
                begin = time.time_ns()
                deeper(depth, function, length)
                print(begin, time.time_ns(), function.__name__, file=f, flush=True)
            begin = time.time_ns()
            for _ in generated(spin, 0.005):
                pass
            print(begin, time.time_ns(), "generated", file=f, flush=True)


main(float(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
