/* sqlstate.h - the SQLSTATEs we send or look at (PostgreSQL, appendix A). */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef PROTO_SQLSTATE_H
#define PROTO_SQLSTATE_H

#define SQLSTATE_PROTOCOL_VIOLATION    "08P01"
#define SQLSTATE_CONFIG_FILE_ERROR     "F0000"
#define SQLSTATE_QUERY_CANCELED        "57014"
#define SQLSTATE_CANNOT_CONNECT_NOW    "57P03"
#define SQLSTATE_FEATURE_NOT_SUPPORTED "0A000"
#define SQLSTATE_SUCCESS               "00000"

#endif
