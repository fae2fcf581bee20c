# Programs for tests/bench/{xspace,kineto,viewer}, and the big file that must pass in little memory.
foreach(name xspace_gen viewer_gen xspace_rebase kineto_convert tvx_bench)
	add_executable(${name} ${CMAKE_CURRENT_LIST_DIR}/${name}.c)
	target_link_libraries(${name} PRIVATE xspace)
endforeach()

if(NOT TUTTI_SANITIZE STREQUAL "thread")	# its own memory is far beyond the limit
	add_test(NAME e2e/xspace_big COMMAND ${CMAKE_SOURCE_DIR}/tests/e2e/xspace_big_test.sh
		$<TARGET_FILE_DIR:xspace_gen> 300000000)
	add_test(NAME e2e/xspace_huge COMMAND ${CMAKE_SOURCE_DIR}/tests/e2e/xspace_big_test.sh
		$<TARGET_FILE_DIR:xspace_gen>)
	set_tests_properties(e2e/xspace_big e2e/xspace_huge PROPERTIES LABELS e2e COST 20 SKIP_RETURN_CODE 77)
	set_property(TEST e2e/xspace_huge APPEND PROPERTY LABELS nightly)
endif()
