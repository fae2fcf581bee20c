# The programs of tests/clock/run, the acceptance tests of the clock.
program(clock_live SRC ${CMAKE_CURRENT_LIST_DIR}/live.c ${CMAKE_CURRENT_LIST_DIR}/judge.c
	${CMAKE_CURRENT_LIST_DIR}/service.c USES agent_clock aggregator_core base proto net PKG jansson zlib)
target_link_options(clock_live PRIVATE -Wl,--wrap=setsockopt)
program(clock_load SRC ${CMAKE_CURRENT_LIST_DIR}/load.c ${CMAKE_CURRENT_LIST_DIR}/service.c
	USES agent_clock aggregator_core base proto net PKG jansson zlib)
program(clock_sim SRC ${CMAKE_CURRENT_LIST_DIR}/sim.c ${clock_worlds} USES agent_clock aggregator_core base PKG jansson zlib)
add_test(NAME e2e/clock_accept
	COMMAND ${CMAKE_COMMAND} -E env
		LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lib/lsan.supp
		TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lib/tsan.supp
		${CMAKE_CURRENT_LIST_DIR}/run --quick --bin ${CMAKE_BINARY_DIR}/bin)
set_tests_properties(e2e/clock_accept PROPERTIES LABELS e2e COST 20)
