set(import_sources ${CMAKE_SOURCE_DIR}/cli/import_entry.c ${CMAKE_SOURCE_DIR}/cli/import_index.c
	${CMAKE_SOURCE_DIR}/cli/import_space.c ${CMAKE_SOURCE_DIR}/cli/import_split.c)
unit_test(cli/import_test PURE USES json logs xspace proto base PKG jansson SRC ${import_sources})
fuzz_test(token_life USES json base PKG jansson SRC ${CMAKE_SOURCE_DIR}/cli/token_life.c)
fuzz_test(import USES json logs base PKG jansson SRC ${CMAKE_SOURCE_DIR}/cli/import_entry.c ${CMAKE_SOURCE_DIR}/cli/import_split.c)
unit_test(cli/instant_test PURE USES base SRC ${CMAKE_SOURCE_DIR}/cli/instant.c)
# The whole program against a table of answers.
unit_test(cli/verbs_test PURE USES json net proto base PKG jansson SRC ${CMAKE_SOURCE_DIR}/tests/unit/net/http_fixture.c ARGS $<TARGET_FILE:tutti>)
if(TARGET unit_cli)
	add_dependencies(unit_cli tutti)
endif()
