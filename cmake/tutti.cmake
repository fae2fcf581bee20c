# What the build is written in: flags on one interface target, a layer, a program, a test.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

add_library(tutti_flags INTERFACE)
target_compile_features(tutti_flags INTERFACE c_std_11)
target_compile_definitions(tutti_flags INTERFACE _GNU_SOURCE TUTTI_VERSION="${PROJECT_VERSION}")
target_include_directories(tutti_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_compile_options(tutti_flags INTERFACE
	-include ${CMAKE_SOURCE_DIR}/base/banned.h
	-Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings
	-Wformat=2 -Wpointer-arith -fno-strict-aliasing -fstack-protector-strong
	$<$<BOOL:${TUTTI_WERROR}>:-Werror>)
target_link_libraries(tutti_flags INTERFACE Threads::Threads m)
if(TUTTI_SANITIZE)
	target_compile_options(tutti_flags INTERFACE
		-fsanitize=${TUTTI_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
	target_link_options(tutti_flags INTERFACE -fsanitize=${TUTTI_SANITIZE})
endif()
if(NOT TUTTI_SANITIZE MATCHES address)
	# gcc 12 at -O1, and under its own instrumentation of threads, does not see far enough: the dev preset holds this warning.
	target_compile_options(tutti_flags INTERFACE -Wno-maybe-uninitialized)
endif()
if(TUTTI_FUZZ)
	target_compile_options(tutti_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# assert() is for our own bugs and stays on in every build.
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELWITHDEBINFO "${CMAKE_C_FLAGS_RELWITHDEBINFO}")

# tutti_use(target PKG names...): link libraries found by pkg-config; nng brings a CMake package.
function(tutti_use target scope)
	foreach(pkg ${ARGN})
		if(pkg STREQUAL nng)
			find_package(nng CONFIG REQUIRED)
			target_link_libraries(${target} ${scope} nng::nng)
		else()
			if(NOT TARGET PkgConfig::${pkg})
				pkg_check_modules(${pkg} REQUIRED IMPORTED_TARGET GLOBAL ${pkg})
			endif()
			target_link_libraries(${target} ${scope} PkgConfig::${pkg})
		endif()
	endforeach()
endfunction()

# layer(name SRC files... [USES layers...] [PKG libraries...]): one folder, one static library.
function(layer name)
	cmake_parse_arguments(L "" "" "SRC;USES;PKG" ${ARGN})
	add_library(${name} STATIC ${L_SRC})
	target_link_libraries(${name} PUBLIC tutti_flags ${L_USES})
	tutti_use(${name} PRIVATE ${L_PKG})
endfunction()

# program(name SRC files... USES layers...)
function(program name)
	cmake_parse_arguments(P "" "" "SRC;USES;PKG" ${ARGN})
	add_executable(${name} ${P_SRC})
	target_link_libraries(${name} PRIVATE tutti_flags ${P_USES})
	tutti_use(${name} PRIVATE ${P_PKG})
	set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()

# embed(out.c symbol file): the file's bytes as `const uint8_t symbol[]` and `const size_t symbol_len`.
function(embed out symbol file)
	add_custom_command(OUTPUT ${out}
		COMMAND ${CMAKE_COMMAND} -DIN=${file} -DOUT=${out} -DSYMBOL=${symbol}
			-P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
		DEPENDS ${file} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake)
endfunction()
