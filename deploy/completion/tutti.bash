# SPDX-License-Identifier: Apache-2.0
# Completion of tutti(1) in bash, and in zsh after `autoload bashcompinit && bashcompinit`. It asks the program: --help prints
# the tables of commands and flags, so that both are always those of the installed version.

_tutti() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]}
	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		COMPREPLY=($(compgen -W "$("$program" --help 2>/dev/null | awk '/^  [a-z]/ { print $1 }')" -- "$word"))
	elif [[ $word == -* ]]; then
		COMPREPLY=($(compgen -W "$("$program" "${COMP_WORDS[1]}" --help 2>/dev/null | grep -oE '^ +(-[a-zA-Z], )?--[a-z0-9-]+' | grep -oE -- '--[a-z0-9-]+')" -- "$word"))
	elif [[ $before =~ ^--(ca|cert|key|token-file|config|output|logs)$ ]]; then
		COMPREPLY=($(compgen -f -- "$word"))
	fi
}
complete -o bashdefault -F _tutti tutti
