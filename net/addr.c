/*
 * addr.c - see addr.h.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/addr.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

/* "fe80::1%eth0": a link-local address means something only on a link. */
static bool v6_literal(struct sockaddr_in6 *v6, const char *text)
{
	char host[INET6_ADDRSTRLEN];
	const char *zone = strchr(text, '%');
	size_t size = zone == NULL ? strlen(text) : (size_t)(zone - text);
	if (size >= sizeof host)
		return false;
	memcpy(host, text, size);
	host[size] = '\0';
	if (inet_pton(AF_INET6, host, &v6->sin6_addr) != 1)
		return false;
	if (zone == NULL)
		return true;
	v6->sin6_scope_id = if_nametoindex(zone + 1);
	return v6->sin6_scope_id != 0;
}

bool addr_literal(struct addr *addr, const char *text, uint16_t port)
{
	*addr = (struct addr){0};
	if (inet_pton(AF_INET, text, &addr->v4.sin_addr) == 1) {
		addr->v4.sin_family = AF_INET;
		addr->v4.sin_port = htons(port);
		addr->size = sizeof addr->v4;
		return true;
	}
	*addr = (struct addr){0};
	if (!v6_literal(&addr->v6, text))
		return false;
	addr->v6.sin6_family = AF_INET6;
	addr->v6.sin6_port = htons(port);
	addr->size = sizeof addr->v6;
	return true;
}

bool addr_unix(struct addr *addr, const char *dir, uint16_t port)
{
	*addr = (struct addr){0};
	char *path = addr->local.sun_path;
	int length = snprintf(path, sizeof addr->local.sun_path, "%s/.s.PGSQL.%u", dir, port);
	if (length < 0 || (size_t)length >= sizeof addr->local.sun_path)
		return false;
	addr->local.sun_family = AF_UNIX;
	addr->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length);
	if (path[0] == '@')
		path[0] = '\0'; /* abstract: the name is as long as the size says */
	else
		addr->size++; /* a path ends with its NUL */
	return true;
}

struct addr_short addr_shorten(const struct addr *addr)
{
	struct addr_short brief = {0};
	if (addr->size == 0)
		return brief;
	switch (addr->any.sa_family) {
	case AF_INET:
		brief.family = AF_INET;
		brief.port = ntohs(addr->v4.sin_port);
		memcpy(brief.ip, &addr->v4.sin_addr, sizeof addr->v4.sin_addr);
		break;
	case AF_INET6:
		brief.family = AF_INET6;
		brief.port = ntohs(addr->v6.sin6_port);
		memcpy(brief.ip, &addr->v6.sin6_addr, sizeof addr->v6.sin6_addr);
		break;
	case AF_UNIX: brief.family = AF_UNIX; break;
	default: break;
	}
	return brief;
}

bool addr_equal(const struct addr *a, const struct addr *b)
{
	if (a->size == 0 || b->size == 0)
		return a->size == b->size;
	if (a->any.sa_family != b->any.sa_family)
		return false;
	switch (a->any.sa_family) {
	case AF_INET:
		return a->v4.sin_port == b->v4.sin_port &&
		       a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
	case AF_INET6:
		return a->v6.sin6_port == b->v6.sin6_port &&
		       a->v6.sin6_scope_id == b->v6.sin6_scope_id &&
		       memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr) == 0;
	default: return a->size == b->size && memcmp(&a->local, &b->local, a->size) == 0;
	}
}

static struct text text_over(char text[ADDR_TEXT_MAX])
{
	return (struct text){text, text + ADDR_TEXT_MAX - 1};
}

static void ip4_text(const struct addr_short *addr, char text[ADDR_TEXT_MAX])
{
	struct text out = text_over(text);
	for (int i = 0; i < 4; i++) {
		if (i > 0)
			text_add(&out, ".", 1);
		text_add_number(&out, addr->ip[i]);
	}
	*out.at = '\0';
}

void addr_host_text(const struct addr_short *addr, char text[ADDR_TEXT_MAX])
{
	if (addr->family == AF_UNIX)
		text_set(text, ADDR_TEXT_MAX, "unix");
	else if (addr->family == AF_INET)
		ip4_text(addr, text);
	else if (inet_ntop(addr->family, addr->ip, text, ADDR_TEXT_MAX) == NULL)
		text_set(text, ADDR_TEXT_MAX, "none");
}

void addr_text(const struct addr_short *addr, char text[ADDR_TEXT_MAX])
{
	char host[ADDR_TEXT_MAX];
	struct text out = text_over(text);
	bool is_six = addr->family == AF_INET6;
	addr_host_text(addr, host);
	if (is_six)
		text_add(&out, "[", 1);
	text_add_string(&out, host);
	if (is_six)
		text_add(&out, "]", 1);
	if (is_six || addr->family == AF_INET) {
		text_add(&out, ":", 1);
		text_add_number(&out, addr->port);
	}
	*out.at = '\0';
}
