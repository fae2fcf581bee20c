# One suite per table, run for every back end.
function(store_test name)
	add_executable(conform_${name} conform/${name}_test.c conform/store_conform.c)
	target_link_libraries(conform_${name} PRIVATE tutti_flags test_lib storage base)
	add_test(NAME conform/${name} COMMAND conform_${name})
	set_tests_properties(conform/${name} PROPERTIES TIMEOUT 120 LABELS unit)
endfunction()

store_test(store_file)
store_test(store_mem)
store_test(store_fault)
