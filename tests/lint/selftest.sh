#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Breaks each rule once in a small tree and wants the check to say where: no check may be blind.
set -uo pipefail
lint=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failed=0
passed=0

spdx='/* SPDX-License-Identifier: Apache-2.0 */'

# A tree that keeps every rule, with what looks like a breach and is none.
mkdir -p "$tree"/{base,net,agent,cli,storage,tests/unit}
cp "$lint/../../base/banned.h" "$tree/base/"
cp "$lint/../../.clang-format" "$tree/"
cat >"$tree/base/now.c" <<-'END'
	/* SPDX-License-Identifier: Apache-2.0 */
	#include "base/now.h"

	void now(void)
	{
		time(NULL);
	}
END
printf '%s\n#include <time.h>\n\nvoid now(void);\n' "$spdx" >"$tree/base/now.h"
printf '%s\nint main(void)\n{\n\texit(1);\n}\n' "$spdx" >"$tree/cli/main.c"
printf '%s\n#include "net/inside.h"\n' "$spdx" >"$tree/tests/unit/net_test.c"
printf '%s\n' "$spdx" >"$tree/net/inside.h"
cat >"$tree/agent/good.h" <<-'END'
	/* SPDX-License-Identifier: Apache-2.0 */
	#include "base/now.h" /* not "net/inside.h" */

	struct good_ops {
		/* One
		 * comment; two lines. */
		int (*open)(int first,
			    int second);
		int size; /* behind */
	};
END
cat >"$tree/agent/good.c" <<-'END'
	/* SPDX-License-Identifier: Apache-2.0 */
	#include "agent/good.h"

	/* sleep(1), exit(1),
	 * socket(2) and pthread_create() in a comment */
	const char *text = "exit(1) \" abort()";
	int c = '"'; // time(NULL)
	void f(struct good_ops *o)
	{
		o->exit(1);
		my_sleep(1); /* under /proc/1/root/etc */
	}
END
mkdir -p "$tree"/tests/e2e
cat >"$tree/tests/e2e/good.py" <<-'END'
	"""subprocess.run(["true"]) in a text."""
	import subprocess, threading, time

	subprocess.run(["true"], timeout=1)
	with socket.create_connection(("localhost", 1), 5) as near:
	    near.recv(1)
	text = ", ".join(near.get("a"))


	def relay(source):
	    while data := source.recv(1):
	        event.wait()


	threading.Thread(target=relay, args=(near,), daemon=True).start()
	server = socket.create_server(("localhost", 0))
	server.settimeout(1)
	server.accept()
	while time.monotonic() < end:
	    time.sleep(1)
	while True:
	    request = os.read(fd, 1)
END
mkdir -p "$tree"/agent/{symbols,proc}
printf '%s\n#include "agent/proc/map.h"\n' "$spdx" >"$tree/agent/symbols/symbols.h"
printf '%s\n' "$spdx" >"$tree/agent/proc/map.h"
for link in a:b b:c c:d; do	# a chain of modules
	printf '%s\n#include "storage/%s.h"\n' "$spdx" "${link#*:}" >"$tree/storage/${link%:*}.h"
done
printf '%s\n' "$spdx" >"$tree/storage/d.h"
clang-format-14 -i "$tree"/*/*.[ch] 2>/dev/null
git -C "$tree" init -q

say() {
	if [ "$1" = ok ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
	printf '%-5s %s\n' "$1" "$2"
}

lint_tree() { LINT_ROOT=$tree LINT_BUILD=$tree/build "$lint/run.sh" "$@" 2>&1; }

# breach CHECK FILE TEXT [WANT]: with TEXT in FILE the check fails, and says WANT.
breach() {
	local check=$1 file=$2 text=$3 want=${4:-$2} out
	mkdir -p "$tree/$(dirname "$file")"
	printf '%b' "$text" >"$tree/$file"
	if out=$(lint_tree "$check"); then
		say FAIL "$check does not see $file: $text"
	elif ! grep -qF -- "$want" <<<"$out"; then
		say FAIL "$check does not say \"$want\": $out"
	else
		say ok "$check: $want"
	fi
	rm "$tree/$file"
}

checks=(layers fronts circles libraries calls headers format tables licence words terms paths columns deadlines)
for check in "${checks[@]}"; do
	if out=$(lint_tree "$check"); then say ok "$check: the good tree passes"; else say FAIL "$out"; fi
done

breach layers base/x.c '#include "net/rpc.h"\n' "base/x.c:1: base/ may not include net/"
breach layers agent/x.h '\n#include "cli/x.h"\n' "agent/x.h:2: agent/ may not include cli/"
breach layers storage/x.c '/* */ #include "proto/limits.h"\n' "storage/ may not include proto/"
breach layers agent/x.c '#include "good.h"\n' "agent/x.c:1"
breach layers agent/x.c '#include "agent/../cli/x.h"\n' "agent/x.c:1"
breach layers agent/clock/x.c '#include "agent/link/control.h"\n' "agent/clock/ may not include agent/link/"
breach layers agent/tracer/cpu/x.c '#include "agent/tracer/marks/x.h"\n' "agent/tracer/cpu/ may not include agent/tracer/marks/"
breach layers agent/link/x.c '#include "agent/agent.h"\n' "agent/link/ may not include agent/"
breach layers new/x.c '#include "base/now.h"\n' "no line for folder new/"
breach fronts agent/x.c '#include "net/inside.h"\n' "net/inside.h is not one of the headers net/ shows"
breach fronts agent/link/x.c '#include "agent/capture/file.h"\n' "agent/capture/file.h is not one of the headers agent/capture/ shows"
breach circles agent/proc/map.c '#include "agent/symbols/symbols.h"\n' "circle of 2 rooms: agent/proc agent/symbols"
breach circles storage/d.c '#include "storage/a.h"\n' "circle of 4 modules: storage/a storage/b storage/c storage/d"
breach terms agent/x.c "/* a knock */\n" "agent/x.c:1: \"knock\" is retired"
breach terms docs/x.md "\nlocal_door_x\n" "docs/x.md:2"
breach columns docs/x.md "\\n$(printf %141s | tr " " x)\\n" "docs/x.md:2: 141 characters"
breach paths docs/x.md "see agent/nothing.c\n" "docs/x.md:1: there is no agent/nothing.c"
breach libraries agent/x.c '#include <grpc/grpc.h>\n' "agent/x.c:1"
breach libraries net/local_x.c '#include <grpc/grpc.h>\n' "net/local_x.c:1"
breach libraries net/rpc_x.c '#include <nng/nng.h>\n' "net/rpc_x.c:1"
breach libraries cli/x.c '#include <microhttpd.h>\n' "cli/x.c:1"
breach libraries agent/x.h '# include <curl/curl.h>\n' "agent/x.h:1"
breach libraries net/x.c '#include <jansson.h>\n' "net/x.c:1"
for call in fork clock_gettime time gettimeofday sleep usleep nanosleep exit abort socket; do
	breach calls agent/x.c "/* a */ int f(void) { return $call (1); }\n" "agent/x.c:1:"
done
breach calls base/x.c 'int fd = socket(1, 2, 3);\n' "base/x.c:1:"
breach calls net/x.c '/*\n*/ exit(1);\n' "net/x.c:2:"
breach calls storage/x.c '\npthread_mutex_t lock;\n' "storage/x.c:2: pthread_mutex_t"
breach calls agent/x.c 'prctl(PR_SET_PDEATHSIG, 9);\n' "PR_SET_PDEATHSIG belongs into base/child.c"
breach headers agent/x.h "$spdx\n\nuint32_t f(void);\n" "agent/x.h:3"
breach headers agent/x.h "$spdx\nstatic inline char *f(char *a) { return strcpy(a, a); }\n" "agent/x.h:2"
breach format agent/x.c "$spdx\nint  a;\n"
breach tables agent/x.h "struct x_ops {\n\t/* one */\n\tint a;\n\tint b;\n};\n" "agent/x.h:4"
breach tables agent/x.h "struct x_ops {\n\tint a;\n};\n" "agent/x.h:2"
breach licence agent/x.c "\n$spdx\n"
breach words docs/x.md "a\nTO""DO: more\n" "docs/x.md:2"
breach words deploy/x.sh "# FIX""ME\n" "deploy/x.sh:1"
breach words agent/x.c "/* XX""X */\n" "agent/x.c:1"
breach words deploy/x.yaml "path: /ho""me/me/src\n" "deploy/x.yaml:1"
breach words x.cmake "set(a /ro""ot/lib)\n" "x.cmake:1"
# What waits, a line each, and what must be said of it.
while IFS='|' read -r code want; do
	breach deadlines tests/e2e/x.py "\"\"\"A test.\"\"\"\nimport os, select, signal, socket, subprocess\nfrom threading import Thread\n$code\n" "tests/e2e/x.py:4: $want"
done <<-'END'
	subprocess.run(["true"], check=True)|subprocess.run() without timeout=
	subprocess.check_output(["true"])|subprocess.check_output() without timeout=
	p.wait()|p.wait() without a timeout
	p.communicate(b"input")|p.communicate() without a timeout
	thread.join()|thread.join() without a timeout
	queue.get()|queue.get() without a timeout
	future.result()|future.result() without a timeout
	lock.acquire()|lock.acquire() without a timeout
	urllib.request.urlopen(url, data)|urllib.request.urlopen() without a timeout
	http.client.HTTPConnection("localhost", 1)|http.client.HTTPConnection() without a timeout
	socket.create_connection(("localhost", 1))|socket.create_connection() without a timeout
	line = p.stdout.readline()|p.stdout.readline has no deadline
	lines = list(iter(p.stderr.readline, ""))|p.stderr.readline has no deadline
	for line in p.stdout: print(line)|p.stdout is read without a deadline
	with subprocess.Popen(["true"]) as p: pass|the end of `with Popen()` waits
	os.waitpid(pid, 0)|os.waitpid() has no deadline
	os.read(fd, 1)|os.read() has no deadline
	signal.pause()|signal.pause() has no deadline
	select.select([fd], [], [])|select() without a timeout
	s = socket.socket(); s.recv(1)|s.recv(): settimeout() first
	a, b = s.accept(); a.recv(1)|a.recv(): settimeout() first
	Thread(target=f).start()|the program's end waits for this thread
	class T(Thread): pass|the program's end waits for this thread
	while not done(): time.sleep(1)|this loop sleeps, and has no end
	libc.prctl(1, 9)|PR_SET_PDEATHSIG is for die_with_parent() alone
END
breach deadlines tests/x.c '\nint n = poll(p, 1, -1);\n' "tests/x.c:2: poll() without a timeout"
breach deadlines tests/x.c '\nint n = epoll_wait(fd, e, 1, -1);\n' "tests/x.c:2: epoll_wait() without a timeout"
breach deadlines tests/unit/x.c 'int pid = fork();\n' "tests/unit/x.c:1: fork("
breach deadlines tests/unit/x.c '\nint a = prctl(PR_SET_PDEATHSIG, 9);\n' "tests/unit/x.c:2: PR_SET_PDEATHSIG"
breach deadlines tests/x.sh 'cu''rl -s localhost\n' "tests/x.sh:1: curl without -m"
if lint_tree nothing >/dev/null; then say FAIL "an unknown check passes"; else say ok "an unknown check is refused"; fi
rm -rf "$tree/.git"
if lint_tree words >/dev/null; then say FAIL "no repository passes"; else say ok "no repository is refused"; fi

echo "lint selftest: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
