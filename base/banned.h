/* SPDX-License-Identifier: Apache-2.0 */
/* Included in every file by a compiler flag. A call of one of these functions does not compile. */
#ifndef BASE_BANNED_H
#define BASE_BANNED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#pragma GCC poison strcpy strcat sprintf vsprintf strtok gets atoi atol gmtime localtime

#endif
