set(clock_worlds ${CMAKE_SOURCE_DIR}/tests/lib/clock_world.c ${CMAKE_SOURCE_DIR}/tests/lib/clock_worlds.c
	${CMAKE_SOURCE_DIR}/tests/lib/queue.c)
unit_test(agent/clock_estimator_test USES agent_core SRC ${clock_worlds})

# An agent without a network and tracers that do as they are told.
set(core_fixture ${CMAKE_SOURCE_DIR}/tests/unit/agent/core_fixture.c)
unit_test(agent/capture_test USES agent_core SRC ${core_fixture})
unit_test(agent/capture_clock_test USES agent_core SRC ${core_fixture})
unit_test(agent/clock_test USES agent_core)
unit_test(agent/exchange_test USES agent_core)
unit_test(agent/clock_ledger_test USES agent_core)
unit_test(agent/control_test USES agent_core PKG jansson zlib
	SRC ${core_fixture} ${CMAKE_SOURCE_DIR}/tests/unit/agent/fake_aggregator.c)
unit_test(agent/assemble_test USES agent_core)
unit_test(agent/conf_test USES agent_core)
unit_test(agent/doorkeeper_test USES agent_core PKG jansson SRC ${core_fixture})
fuzz_test(control USES proto)
