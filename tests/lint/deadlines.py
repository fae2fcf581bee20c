# SPDX-License-Identifier: Apache-2.0
"""Waits without a deadline in Python files of tests: deadlines.py FILE...; prints a line for each.

What waits has its seconds in the call, where a reader looks for them. For what takes none (a line of a pipe, the end of a thread, or of a
child) there is tests/e2e/lib/waits.py. Three forms need no deadline: a server's loop, `while True` without an end, which whoever started it kills; what
a daemon thread is given to do, which ends with the test; and a loop that sleeps, where it looks at a clock.
"""
import ast
import sys

PROGRAMS = {"run", "call", "check_call", "check_output"}  # of subprocess
# Calls that wait: how many arguments come before the deadline.
DEADLINE_IS_BEHIND = {"wait": 0, "join": 0, "result": 0, "get": 0, "acquire": 0, "communicate": 1, "urlopen": 2, "HTTPConnection": 2,
                      "HTTPSConnection": 2, "create_connection": 1}
FUNCTIONS = {"urlopen", "HTTPConnection", "HTTPSConnection", "create_connection"}  # the others are methods
PIPES = {"stdout", "stderr"}
PIPE_READS = {"read", "readline", "readlines", "__iter__"}
SOCKETS = {"socket", "socketpair", "create_server", "accept"}
SOCKET_WAITS = {"recv", "recvfrom", "recvmsg", "recv_into", "accept", "connect"}
NEVER = {("os", "waitpid"), ("os", "wait"), ("os", "wait3"), ("os", "wait4"), ("os", "read"), ("signal", "pause"), ("signal", "sigwait"),
         ("signal", "sigwaitinfo")}
CLOCKS = {"monotonic", "time", "monotonic_ns", "time_ns", "perf_counter"}
ALLOWED = "tests/e2e/lib/waits.py"
DIES_WITH_PARENT = "tests/e2e/lib/leftovers.py"


def name_of(node):
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def owner_of(node):
    return name_of(node.value) if isinstance(node, ast.Attribute) else ""


def calls(tree):
    return [n for n in ast.walk(tree) if isinstance(n, ast.Call)]


def has_deadline(call, before):
    return len(call.args) > before or any(k.arg in ("timeout", "blocking", "block", None) for k in call.keywords)


def is_endless(loop):
    """`while True` without a way out."""
    return isinstance(loop.test, ast.Constant) and loop.test.value and not any(
        isinstance(n, (ast.Break, ast.Return)) for n in ast.walk(loop))


def is_daemon(call):
    return any(k.arg == "daemon" and isinstance(k.value, ast.Constant) and k.value.value for k in call.keywords)


def thread_functions(tree):
    """The names of what daemon threads do."""
    return {name_of(k.value) for c in calls(tree) if name_of(c.func) == "Thread" and is_daemon(c) for k in c.keywords if k.arg == "target"}


def is_thread(cls):
    return any(name_of(b) == "Thread" for b in cls.bases)


def without_timeout(tree):
    """The texts of sockets that this file makes and never gives a timeout."""
    made, timed = set(), {ast.unparse(c.func.value) for c in calls(tree) if name_of(c.func) in ("settimeout", "setblocking") and owner_of(c.func)}
    for node in ast.walk(tree):
        pairs = [(t, node.value) for t in node.targets] if isinstance(node, ast.Assign) else \
            [(i.optional_vars, i.context_expr) for i in node.items if i.optional_vars] if isinstance(node, ast.With) else []
        for target, value in pairs:
            if isinstance(value, ast.Call) and name_of(value.func) in SOCKETS:
                made |= {ast.unparse(t) for t in (target.elts if isinstance(target, ast.Tuple) else [target])}
    return made - timed


class Finder(ast.NodeVisitor):
    def __init__(self, path, tree):
        self.path, self.free = path, 0  # inside of so many of the three forms
        self.threads, self.sockets = thread_functions(tree), without_timeout(tree)

    def say(self, node, text):
        print(f"{self.path}:{node.lineno}: {text}")

    def inside(self, node, is_free):
        self.free += is_free
        self.generic_visit(node)
        self.free -= is_free

    def visit_FunctionDef(self, node):
        self.inside(node, node.name in self.threads)

    def visit_ClassDef(self, node):
        if is_thread(node) and not any(is_daemon(c) for c in calls(node)):
            self.say(node, f"the program's end waits for this thread: {node.name} is no daemon")
        was, self.threads = self.threads, self.threads | ({"run"} if is_thread(node) else set())
        self.generic_visit(node)
        self.threads = was

    def visit_While(self, node):
        names = {name_of(c.func) for c in calls(node)}
        if not is_endless(node) and "sleep" in names and not names & CLOCKS and not self.free:
            self.say(node, "this loop sleeps, and has no end")
        self.inside(node, is_endless(node))

    def visit_With(self, node):
        for item in node.items:
            if isinstance(item.context_expr, ast.Call) and name_of(item.context_expr.func) == "Popen":
                self.say(node, "the end of `with Popen()` waits for the process without a deadline")
        self.generic_visit(node)

    def visit_For(self, node):
        if name_of(node.iter) in PIPES and isinstance(node.iter, ast.Attribute):
            self.say(node, f"{ast.unparse(node.iter)} is read without a deadline")
        self.generic_visit(node)

    def visit_Attribute(self, node):
        if node.attr in PIPE_READS and owner_of(node) in PIPES and owner_of(node.value) != "sys" and self.path != ALLOWED:
            self.say(node, f"{ast.unparse(node)} has no deadline: lib/waits.py has read_line(), communicate() a timeout")
        self.generic_visit(node)

    def visit_Name(self, node):
        if node.id == "PR_SET_PDEATHSIG" and self.path != DIES_WITH_PARENT:
            self.say(node, "PR_SET_PDEATHSIG is for die_with_parent() alone")

    def visit_Call(self, node):
        self.generic_visit(node)
        name, owner = name_of(node.func), owner_of(node.func)
        is_method = isinstance(node.func, ast.Attribute)
        if name == "Thread" and not is_daemon(node):
            self.say(node, "the program's end waits for this thread: daemon=True")
        elif name == "prctl" and node.args and ast.unparse(node.args[0]) == "1" and self.path != DIES_WITH_PARENT:
            self.say(node, "PR_SET_PDEATHSIG is for die_with_parent() alone")
        elif self.free or self.path == ALLOWED:
            return
        elif owner == "subprocess" and name in PROGRAMS and not any(k.arg in ("timeout", None) for k in node.keywords):
            self.say(node, f"subprocess.{name}() without timeout=")
        elif name in DEADLINE_IS_BEHIND and (is_method or name in FUNCTIONS) and not has_deadline(node, DEADLINE_IS_BEHIND[name]):
            self.say(node, f"{ast.unparse(node.func)}() without a timeout")
        elif (owner, name) in NEVER and not any("WNOHANG" in ast.unparse(a) for a in node.args):
            self.say(node, f"{owner}.{name}() has no deadline")
        elif (owner, name) == ("select", "select") and len(node.args) < 4:
            self.say(node, "select() without a timeout")
        elif name in SOCKET_WAITS and is_method and ast.unparse(node.func.value) in self.sockets:
            self.say(node, f"{ast.unparse(node.func)}(): settimeout() first")


for path in sys.argv[1:]:
    with open(path) as f:
        text = f.read()
    try:
        tree = ast.parse(text, path)
    except SyntaxError as e:
        print(f"{path}:{e.lineno}: {e.msg}")
    else:
        Finder(path, tree).visit(tree)
