# Run as a script: turns the file IN into C source OUT.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "#include <stddef.h>\n#include <stdint.h>\nextern const uint8_t ${SYMBOL}[];\nextern const size_t ${SYMBOL}_len;\nconst uint8_t ${SYMBOL}[] = {\n${bytes}0};\nconst size_t ${SYMBOL}_len = sizeof(${SYMBOL}) - 1;\n")
