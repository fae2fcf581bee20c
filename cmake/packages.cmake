# What `cmake --install` lays out, in three components, and their Debian packages: `cpack -G DEB` in a build folder.
#   agent       tutti-agent, its unit, /etc/tutti/agent.conf
#   aggregator  tutti-aggregator, its unit, /etc/tutti/aggregator.conf
#   cli         tutti, what it gives to other programs, completion, the header of annotations
# The programs lie together in lib/tutti, because `tutti inspect` starts those beside itself; bin/ has links to them.

# install_text(component file-of-deploy folder): the file with @BIN@ and @ETC@ filled in. Settings are in /etc with the prefix /usr.
function(install_text component file folder)
	get_filename_component(name ${file} NAME)
	install(CODE "
		set(BIN \"\${CMAKE_INSTALL_PREFIX}/bin\")
		set(ETC \"\${CMAKE_INSTALL_PREFIX}/etc\")
		if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
			set(ETC /etc)
		endif()
		message(STATUS \"Installing: \$ENV{DESTDIR}${folder}/${name}\")
		configure_file(\"${CMAKE_SOURCE_DIR}/deploy/${file}\" \"\$ENV{DESTDIR}${folder}/${name}\" @ONLY)" COMPONENT ${component})
endfunction()

# install_program(component target manual-section): the program, its link, and manual pages made of what its --help prints.
function(install_program component target section)
	install(TARGETS ${target} RUNTIME DESTINATION lib/tutti COMPONENT ${component})
	install(CODE "
		file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/bin\")
		file(CREATE_LINK ../lib/tutti/${target} \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/bin/${target}\" SYMBOLIC)
		execute_process(COMMAND \"${CMAKE_SOURCE_DIR}/deploy/man.sh\" $<TARGET_FILE:${target}> ${section} ${PROJECT_VERSION}
			\"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/man/man${section}\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${component})
endfunction()

# install_doc(component package): its licence and changes, where Debian looks for them.
function(install_doc component package)
	set(folder "\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/doc/${package}")
	install(FILES deploy/debian/copyright CHANGELOG.md DESTINATION share/doc/${package} COMPONENT ${component})
	install(CODE "
		message(STATUS \"Installing: ${folder}/changelog.gz\")
		execute_process(COMMAND gzip -9nc \"${CMAKE_SOURCE_DIR}/deploy/debian/changelog\" OUTPUT_FILE \"${folder}/changelog.gz\"
			COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${component})
endfunction()

install_program(agent tutti-agent 8)
install_program(aggregator tutti-aggregator 8)
install_program(cli tutti 1)
install_doc(agent tutti-agent)
install_doc(aggregator tutti-aggregator)
install_doc(cli tutti)
install(PROGRAMS deploy/slurm/prolog.sh DESTINATION share/tutti/slurm COMPONENT agent)
foreach(name agent aggregator)
	install_text(${name} systemd/tutti-${name}.service "\${CMAKE_INSTALL_PREFIX}/lib/systemd/system")
	install_text(${name} conf/${name}.conf "\${ETC}/tutti")
endforeach()
install(TARGETS tutti_nvtx LIBRARY DESTINATION lib/tutti COMPONENT cli)
install(FILES inject/python/sitecustomize.py DESTINATION lib/tutti/tutti-hook COMPONENT cli)
install(FILES include/tutti/tutti.h DESTINATION include/tutti COMPONENT cli)
install(FILES deploy/completion/tutti.bash DESTINATION share/bash-completion/completions RENAME tutti COMPONENT cli)

set(CPACK_PACKAGE_NAME tutti)
set(CPACK_PACKAGE_CONTACT "The Tutti authors <tutti@localhost>")
set(CPACK_PACKAGE_VENDOR Tutti)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)	# the settings are in /etc, outside of the prefix
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL agent aggregator cli)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
foreach(name agent aggregator)
	string(TOUPPER ${name} upper)
	set(CPACK_DEBIAN_${upper}_PACKAGE_NAME tutti-${name})
	set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION admin)
	set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS passwd)
	set(CPACK_DEBIAN_${upper}_PACKAGE_SUGGESTS tutti)
	# dpkg finds these by their names, so that each package has a folder.
	set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/deploy/debian/${name}/postinst
		${CMAKE_SOURCE_DIR}/deploy/debian/${name}/prerm ${CMAKE_SOURCE_DIR}/deploy/debian/${name}/conffiles)
	set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_STRICT_PERMISSION ON)
endforeach()
set(CPACK_DEBIAN_CLI_PACKAGE_NAME tutti)
set(CPACK_DEBIAN_CLI_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_CLI_PACKAGE_RECOMMENDS "tutti-agent, tutti-aggregator")	# `tutti inspect` starts both
set(CPACK_COMPONENT_AGENT_DESCRIPTION "agent of the Tutti profiler, one on every host\n Records what the programs of this host do and answers the aggregator's captures.")
set(CPACK_COMPONENT_AGGREGATOR_DESCRIPTION "aggregator of the Tutti profiler, one of a fleet\n Captures all hosts at the same instant, stores the sessions and serves them.")
set(CPACK_COMPONENT_CLI_DESCRIPTION "command line of the Tutti profiler\n Captures, lists and fetches sessions, and inspects single commands.")
include(CPack)
