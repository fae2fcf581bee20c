# Thousands of logical agents against the real aggregator: tests/scale/run says how. The test is a small one.
program(scale_agents SRC ${CMAKE_SOURCE_DIR}/tests/scale/agents.c USES base proto net PKG zlib)
program(scale_certs SRC ${CMAKE_SOURCE_DIR}/tests/scale/certs.c ${CMAKE_SOURCE_DIR}/tests/lib/certs.c
	USES base PKG libcrypto)
program(scale_joins SRC ${CMAKE_SOURCE_DIR}/tests/scale/joins.c USES base proto net)
add_test(NAME e2e/joins
	COMMAND ${CMAKE_COMMAND} -E env TUTTI_BIN=${CMAKE_BINARY_DIR}/bin
		LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lib/lsan.supp
		TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lib/tsan.supp
		${CMAKE_SOURCE_DIR}/tests/e2e/python.sh ${CMAKE_SOURCE_DIR}/tests/scale/joins --hosts 100 --seconds 60)
set_tests_properties(e2e/joins PROPERTIES LABELS e2e)
add_test(NAME e2e/scale
	COMMAND ${CMAKE_COMMAND} -E env TUTTI_BIN=${CMAKE_BINARY_DIR}/bin
		LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lib/lsan.supp
		TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lib/tsan.supp
		${CMAKE_SOURCE_DIR}/tests/e2e/python.sh ${CMAKE_SOURCE_DIR}/tests/scale/run --agents 200
		--processes 2 --rounds 1 --idle 0 --settle 0.5 --phases captures,snapshot,pages,ends,storm --check)
set_tests_properties(e2e/scale PROPERTIES LABELS e2e COST 10)
