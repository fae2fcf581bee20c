# End-to-end tests: real processes on loopback, driven from Python (TUTTI_PYTHON, the venv of tests/setup.sh).
program(udp_relay SRC ${CMAKE_SOURCE_DIR}/tests/e2e/udp_relay.c ${CMAKE_SOURCE_DIR}/tests/lib/queue.c USES base proto net)
program(odd_agent SRC ${CMAKE_SOURCE_DIR}/agent/main.c ${CMAKE_SOURCE_DIR}/agent/tracers.c
	${CMAKE_SOURCE_DIR}/tests/e2e/odd_clock.c USES agent_core agent_profiler agent_tracers)
target_link_options(odd_agent PRIVATE -Wl,--wrap=clock_gettime,--wrap=timerfd_settime,--wrap=recvmmsg)
program(burst SRC ${CMAKE_SOURCE_DIR}/tests/e2e/burst.c USES base proto net)

e2e_test(capture "e2e" 300)
e2e_test(clock "e2e" 300)
e2e_test(odd_clock "e2e" 300)
e2e_test(causality "e2e" 120)
e2e_test(failure "e2e" 300)
e2e_test(queue "e2e" 200)
e2e_test(retry "e2e" 300)
e2e_test(kill "e2e" 300)
e2e_test(fleet "e2e" 300)
e2e_test(garbage "e2e" 300)
e2e_test(grpc "e2e" 200)
e2e_test(flags "e2e" 100)
e2e_test(upload "e2e" 200)
e2e_test(files "e2e" 200)
e2e_test(tls "e2e" 200)
e2e_test(page "e2e" 200)
e2e_test(jax "e2e;jax" 400)
e2e_test(xprof "e2e;jax" 600)
e2e_test(quickstart "release" 900)

# A JAX job is found by whoever looks for one: tests that start some take turns.
set_tests_properties(e2e/jax e2e/xprof PROPERTIES RESOURCE_LOCK jax)
