# The tree's own rules, one test for each, and a test that no rule is blind.
foreach(check layers fronts circles libraries calls headers format tables licence words terms paths columns deadlines)
	add_test(NAME lint/${check} COMMAND ${CMAKE_CURRENT_LIST_DIR}/run.sh ${check})
	set_tests_properties(lint/${check} PROPERTIES LABELS lint
		ENVIRONMENT LINT_BUILD=${CMAKE_BINARY_DIR})
endforeach()
# The rows of tests/mutants/table still change the files that they name.
add_test(NAME lint/mutants COMMAND ${CMAKE_SOURCE_DIR}/tests/mutants/run --check)
set_tests_properties(lint/mutants PROPERTIES LABELS lint)
add_test(NAME lint/selftest COMMAND ${CMAKE_CURRENT_LIST_DIR}/selftest.sh)
set_tests_properties(lint/selftest PROPERTIES LABELS lint)
# Each file has tests of its own, by which tests/quick.sh judges a change of it.
add_test(NAME lint/rooms COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/lib/rooms.py ${CMAKE_BINARY_DIR} --check)
set_tests_properties(lint/rooms PROPERTIES LABELS lint)
# What tests/run.sh makes of a test's end.
add_test(NAME lint/report COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/lib/report_test.py)
set_tests_properties(lint/report PROPERTIES LABELS lint)
