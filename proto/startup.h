/*
 * startup.h - first packets of a connection (protocol chapter, "Start-up").
 *
 * A first packet has no type byte: four bytes of length, four of code.
 * startup_cut() says how much of it is missing, startup_read() what it is.
 * Everything points into the packet, which must stay while it is used.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef PROTO_STARTUP_H
#define PROTO_STARTUP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/bytes.h"

enum {
	PROTOCOL_3_0 = 0x30000,
	PROTOCOL_3_2 = 0x30002,
	CODE_CANCEL = 80877102,
	CODE_SSL = 80877103,
	CODE_GSSENC = 80877104,
};

enum startup_kind {
	STARTUP_MORE,   /* not whole yet */
	STARTUP_BAD,    /* not a first packet: bad length or code */
	STARTUP_TLS,    /* first byte 0x16: a TLS ClientHello */
	STARTUP_SSL,    /* SSLRequest */
	STARTUP_GSSENC, /* GSSENCRequest */
	STARTUP_CANCEL, /* CancelRequest; .key */
	STARTUP_V2,     /* protocol 2.0 */
	STARTUP_V3,     /* StartupMessage of any 3.x; .protocol, .parameters */
	STARTUP_LAYOUT, /* 3.x, but the parameters end wrongly */
};

struct startup {
	enum startup_kind kind;
	uint32_t size;          /* of the packet in bytes, when whole or known */
	uint32_t protocol;      /* as sent: major << 16 | minor */
	struct span key;        /* of a cancel request: 4..256 + 4 bytes of pid; whole key bytes */
	struct span parameters; /* name\0value\0 ... without the final \0 */
};

/* Looks at the bytes that have come so far.  A first packet may not be larger
 * than STARTUP_SIZE_MAX; SSLRequest and GSSENCRequest are exactly 8 bytes. */
struct startup startup_read(struct span in);

/* Steps through the parameters: *at starts as 0.  False at the end. */
bool startup_parameter(const struct startup *startup, uint32_t *at, const char **name,
                       const char **value);

/* One setting of a startup `options` value.  Splits at unescaped white space,
 * \x stands for x; takes -c name=value, -cname=value, --name=value. */
enum option_status { OPTION_SET, OPTION_END, OPTION_BAD };

struct option {
	char name[128];
	const char *value; /* into the caller's scratch */
};

/* `scratch` takes the unescaped text and must be as large as `text` with its
 * end mark; *at starts as 0. */
enum option_status startup_option(const char *text, uint32_t *at, char *scratch,
                                  struct option *option);

#endif
