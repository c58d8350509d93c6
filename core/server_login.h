/*
 * server_login.h - what is said to PostgreSQL before the first query.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_SERVER_LOGIN_H
#define CORE_SERVER_LOGIN_H

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct server;

/* False without memory. */
bool server_login_new(struct server *server);

/* The conn is open: sends the startup message. */
void server_login_begin(struct server *server);

/* Bytes of the login; takes what belongs to it.  Ends in pool_offer() or in
 * server_login_failed(). */
void server_login_bytes(struct server *server, struct buf *buf, uint32_t from, uint32_t to);

/* The login has come to nothing: tells the home, then closes. */
void server_login_failed(struct server *server, const char *sqlstate, const char *text,
                         const char *reason);
/* Only tells the home, once; text "": neither success nor failure. */
void server_login_tell(struct server *server, const char *sqlstate, const char *text, bool quiet);

/* The connect query, if any, is done: the server is the pool's. */
void server_login_done(struct server *server);
void server_login_free(struct server *server);

#endif
