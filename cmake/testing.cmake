# What tests are declared with. Tests in C are linked by room: one program has all of them, and its first argument names the one
# that it runs (tests/lib/test_main.c). Each remains a test and a process of its own.

set(test_suppressions "LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lib/lsan.supp"
	"TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lib/tsan.supp")

# test_entry(program name source entry prototype): `source` defines the function `entry` as "int entry prototype"; in the program it has
# a name of its own, and is the test `name`.
function(test_entry program name source entry prototype)
	string(MAKE_C_IDENTIFIER run_${name} symbol)
	set(header ${CMAKE_BINARY_DIR}/tests/entries/${name}.h)
	file(CONFIGURE OUTPUT ${header} CONTENT "#include <stddef.h>\n#include <stdint.h>\nint ${symbol}${prototype};\n" @ONLY)
	set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS ${entry}=${symbol})
	set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -include ${header})
	get_property(programs GLOBAL PROPERTY TEST_PROGRAMS)
	if(NOT program IN_LIST programs)
		set_property(GLOBAL APPEND PROPERTY TEST_PROGRAMS ${program})
		add_executable(${program})
		target_link_libraries(${program} PRIVATE tutti_flags test_lib)
	endif()
	target_sources(${program} PRIVATE ${source})
	set_property(GLOBAL APPEND PROPERTY TEST_ENTRIES_${program} "${name}|${symbol}|${prototype}")
endfunction()

# test_needs(program SRC files USES layers PKG libraries): what a test adds to its program.
function(test_needs program)
	cmake_parse_arguments(N "" "" "SRC;USES;PKG" ${ARGN})
	target_link_libraries(${program} PRIVATE ${N_USES})
	tutti_use(${program} PRIVATE ${N_PKG})
	get_target_property(have ${program} SOURCES)
	foreach(source ${N_SRC})
		if(NOT source IN_LIST have)
			target_sources(${program} PRIVATE ${source})
		endif()
	endforeach()
endfunction()

# test_programs(): to be called once, after the last test: each program gets its table of tests.
function(test_programs)
	get_property(programs GLOBAL PROPERTY TEST_PROGRAMS)
	foreach(program ${programs})
		get_property(entries GLOBAL PROPERTY TEST_ENTRIES_${program})
		set(rows "")
		set(prototypes "")
		foreach(entry ${entries})
			string(REPLACE "|" ";" entry "${entry}")
			list(GET entry 0 name)
			list(GET entry 1 symbol)
			list(GET entry 2 prototype)
			string(APPEND prototypes "int ${symbol}${prototype};\n")
			if(prototype STREQUAL "(void)")
				string(APPEND rows "\t{ \"${name}\", .run = ${symbol} },\n")
			elseif(prototype STREQUAL "(int argc, char **argv)")
				string(APPEND rows "\t{ \"${name}\", .run_with = ${symbol} },\n")
			else()
				string(APPEND rows "\t{ \"${name}\", .take = ${symbol} },\n")
			endif()
		endforeach()
		set(table ${CMAKE_BINARY_DIR}/tests/${program}_table.c)
		file(CONFIGURE OUTPUT ${table} CONTENT "#include \"tests/lib/test_main.h\"\n\n${prototypes}
const struct test_entry test_entries[] = {\n${rows}\t{ 0 },\n};\n" @ONLY)
		target_sources(${program} PRIVATE ${table} $<TARGET_OBJECTS:test_main>)
	endforeach()
endfunction()

# unit_test(folder/name [VIRTUAL|PURE] USES layers... [SRC extra files] [ARGS arguments] [ALONE] [WRAP symbols]): tests/unit/${path}.c, test
# "unit/${path}", in the program of its room: agent, agent_tracer, aggregator, or its first folder. VIRTUAL: in virtual time
# (tests/lib/virtual_time.h). PURE: no threads, so ThreadSanitizer has nothing to find. ALONE: a program of its own, because the test
# defines functions of the product; so has one with WRAP, to which the linker gives these functions.
function(unit_test path)
	cmake_parse_arguments(T "VIRTUAL;PURE;ALONE" "" "SRC;USES;PKG;ARGS;WRAP" ${ARGN})
	if(T_PURE AND TUTTI_SANITIZE STREQUAL thread)
		return()
	endif()
	if(T_ALONE OR T_WRAP)
		string(MAKE_C_IDENTIFIER unit_${path} program)
	elseif(path MATCHES "^agent/tracer/")
		set(program unit_agent_tracer)
	else()
		string(REGEX REPLACE "^([^/]*)/.*" "unit_\\1" program ${path})
	endif()
	if(T_VIRTUAL)
		string(APPEND program _virtual)
	endif()
	set(source ${CMAKE_SOURCE_DIR}/tests/unit/${path}.c)
	file(STRINGS ${source} entry REGEX "^int main\\(")
	set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
	string(REGEX REPLACE "^int main" "" prototype "${entry}")
	test_entry(${program} ${path} ${source} main "${prototype}")
	test_needs(${program} SRC ${T_SRC} USES $<$<BOOL:${T_VIRTUAL}>:virtual_time> ${T_USES} PKG ${T_PKG})
	foreach(symbol ${T_WRAP})
		target_link_options(${program} PRIVATE -Wl,--wrap=${symbol})
	endforeach()
	add_test(NAME unit/${path} COMMAND ${program} ${path} ${T_ARGS})
	set_tests_properties(unit/${path} PROPERTIES LABELS unit ENVIRONMENT "${test_suppressions}")
endfunction()

# fuzz_test(name USES layers...): tests/fuzz/${name}_fuzz.c over its corpus; a libFuzzer program in the fuzz preset, a replay of the
# corpus as an ordinary test everywhere else.
function(fuzz_test name)
	if(TUTTI_SANITIZE STREQUAL thread)	# no threads in there
		return()
	endif()
	cmake_parse_arguments(F "" "" "SRC;USES;PKG" ${ARGN})
	set(source ${CMAKE_SOURCE_DIR}/tests/fuzz/${name}_fuzz.c)
	set(corpus ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name})
	if(TUTTI_FUZZ)
		add_executable(fuzz_${name} ${source} ${F_SRC})
		target_link_libraries(fuzz_${name} PRIVATE tutti_flags ${F_USES})
		tutti_use(fuzz_${name} PRIVATE ${F_PKG})
		target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
		add_test(NAME fuzz/${name} COMMAND fuzz_${name} ${corpus} -runs=0)
	else()
		test_entry(fuzz_corpora fuzz/${name} ${source} LLVMFuzzerTestOneInput "(const uint8_t *data, size_t size)")
		test_needs(fuzz_corpora SRC ${F_SRC} USES ${F_USES} PKG ${F_PKG})
		add_test(NAME fuzz/${name} COMMAND fuzz_corpora fuzz/${name} ${corpus})
	endif()
	set_tests_properties(fuzz/${name} PROPERTIES LABELS fuzz)
endfunction()

# e2e_test(name labels [script arguments...]): tests/e2e/<name>_test.py, or <script>_test.py with these arguments, against
# this build's binaries. Sanitized daemons are given more time before a test gives up waiting.
function(e2e_test name labels)
	set(script ${name})
	if(ARGN)
		list(POP_FRONT ARGN script)
	endif()
	set(slow 2)
	if(TUTTI_SANITIZE STREQUAL thread)
		set(slow 4)
	endif()
	add_test(NAME e2e/${name}
		COMMAND ${CMAKE_COMMAND} -E env TUTTI_BIN=${CMAKE_BINARY_DIR}/bin
			TUTTI_TEST_SLOW=${slow}
			LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lib/lsan.supp
			TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lib/tsan.supp
			${CMAKE_SOURCE_DIR}/tests/e2e/python.sh ${CMAKE_SOURCE_DIR}/tests/e2e/${script}_test.py ${ARGN})
	set_tests_properties(e2e/${name} PROPERTIES LABELS "${labels}" COST 10 SKIP_RETURN_CODE 77)
	if(jax IN_LIST labels)
		set_tests_properties(e2e/${name} PROPERTIES COST 20)
	endif()
endfunction()
