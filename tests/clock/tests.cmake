# The programs of tests/clock/run, the acceptance tests of the clock.
program(clock_live SRC ${CMAKE_CURRENT_LIST_DIR}/live.c ${CMAKE_CURRENT_LIST_DIR}/judge.c
	${CMAKE_CURRENT_LIST_DIR}/service.c USES agent_clock aggregator_core base proto net PKG jansson zlib)
target_link_options(clock_live PRIVATE -Wl,--wrap=setsockopt)
program(clock_load SRC ${CMAKE_CURRENT_LIST_DIR}/load.c ${CMAKE_CURRENT_LIST_DIR}/service.c
	USES agent_clock aggregator_core base proto net PKG jansson zlib)
program(clock_sim SRC ${CMAKE_CURRENT_LIST_DIR}/sim.c ${clock_worlds} USES agent_clock aggregator_core base PKG jansson zlib)
# Of every run the numbers of --quick and a few hundred worlds; of the night all that need no other program (18: chrony).
function(clock_accept name labels)
	add_test(NAME e2e/${name}
		COMMAND ${CMAKE_COMMAND} -E env
			LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lib/lsan.supp
			TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lib/tsan.supp
			${CMAKE_SOURCE_DIR}/tests/clock/run --quick --bin ${CMAKE_BINARY_DIR}/bin ${ARGN})
	set_tests_properties(e2e/${name} PROPERTIES LABELS "${labels}" COST 20 PROCESSORS 2)
endfunction()
clock_accept(clock_accept "e2e")
clock_accept(clock_accept_long "e2e;nightly" --worlds 1600 --only 1,2,3,4,5,6,7,8,9,10,11,12,14,15,16,17,19)
