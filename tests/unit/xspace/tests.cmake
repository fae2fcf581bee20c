# samples.c: random XSpaces, and protobuf-c as the second opinion on every one of them.
foreach(name wire_test build_test read_test rebase_test merge_test summary_test causality_test collectives_test)
	unit_test(xspace/${name} PURE USES xspace proto SRC ${CMAKE_CURRENT_LIST_DIR}/samples.c)
endforeach()
fuzz_test(xspace USES xspace)
