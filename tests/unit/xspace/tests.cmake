# samples.c: random XSpaces, and protobuf-c as the second opinion on every one of them.
unit_test(xspace/tvx_test PURE USES xspace)
foreach(name wire_test build_test read_test rebase_test merge_test summary_test kineto_test entries_test causality_test collectives_test)
	unit_test(xspace/${name} PURE USES xspace proto SRC ${CMAKE_CURRENT_LIST_DIR}/samples.c)
endforeach()
fuzz_test(xspace USES xspace)
fuzz_test(kineto USES xspace)
fuzz_test(entries USES xspace)
fuzz_test(exits USES xspace)
fuzz_test(tvx USES xspace)
fuzz_test(causality USES xspace)
add_test(NAME unit/xspace/kineto_oracle COMMAND ${CMAKE_SOURCE_DIR}/tests/e2e/python.sh ${CMAKE_CURRENT_LIST_DIR}/kineto_oracle.py
	$<TARGET_FILE:kineto_convert>)
set_tests_properties(unit/xspace/kineto_oracle PROPERTIES LABELS unit)
