/* Texts to addresses and back; unix names to the letter of libpq's rule. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "net/addr.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>

#include "core/base/check.h"

Test(addr, literals)
{
	static const struct {
		const char *text;
		int family; /* 0: not a literal */
		const char *shown, *host;
	} cases[] = {
		{"127.0.0.1", AF_INET, "127.0.0.1:6432", "127.0.0.1"},
		{"255.255.255.255", AF_INET, "255.255.255.255:6432", "255.255.255.255"},
		{"::1", AF_INET6, "[::1]:6432", "::1"},
		{"::", AF_INET6, "[::]:6432", "::"},
		{"2001:DB8::a", AF_INET6, "[2001:db8::a]:6432", "2001:db8::a"},
		{"::ffff:10.0.0.1", AF_INET6, "[::ffff:10.0.0.1]:6432", "::ffff:10.0.0.1"},
		{"fe80::1%lo", AF_INET6, "[fe80::1]:6432", "fe80::1"},
		{"fe80::1%no-such-link", 0, "", ""},
		{"fe80::1%", 0, "", ""},
		{"", 0, "", ""},
		{"*", 0, "", ""},
		{"localhost", 0, "", ""},
		{"10.1", 0, "", ""},
		{"1.2.3.4.5", 0, "", ""},
		{"1.2.3.256", 0, "", ""},
		{"[::1]", 0, "", ""},
		{"1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17:18:19:20:21:22:23", 0, "", ""},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct addr addr;
		bool is_literal = addr_literal(&addr, cases[i].text, 6432);
		cr_assert_eq(is_literal, cases[i].family != 0, "%s", cases[i].text);
		if (!is_literal)
			continue;
		cr_assert_eq(addr.any.sa_family, cases[i].family);
		struct addr_short brief = addr_shorten(&addr);
		char text[ADDR_TEXT_MAX];
		addr_text(&brief, text);
		cr_assert_str_eq(text, cases[i].shown);
		addr_host_text(&brief, text);
		cr_assert_str_eq(text, cases[i].host);
		cr_assert_eq(brief.port, 6432);
	}
}

Test(addr, unix_names)
{
	static const struct {
		const char *dir;
		uint16_t port;
		const char *path; /* '@' for the NUL of an abstract name */
		size_t size;      /* of the name, as the kernel counts */
	} cases[] = {
		{"/tmp", 6432, "/tmp/.s.PGSQL.6432", 19},
		{"/tmp", 65535, "/tmp/.s.PGSQL.65535", 20},
		{"relative", 1, "relative/.s.PGSQL.1", 20},
		{"@abstract", 6432, "@abstract/.s.PGSQL.6432", 23},
	};
	char text[ADDR_TEXT_MAX];
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct addr addr;
		cr_assert(addr_unix(&addr, cases[i].dir, cases[i].port));
		cr_assert_eq(addr.any.sa_family, AF_UNIX);
		cr_assert_eq(addr.size, offsetof(struct sockaddr_un, sun_path) + cases[i].size);
		char *path = addr.local.sun_path;
		cr_assert_eq(path[0] == '\0', cases[i].path[0] == '@');
		cr_assert_str_eq(path + 1, cases[i].path + 1);
		struct addr_short brief = addr_shorten(&addr);
		addr_text(&brief, text);
		cr_assert_str_eq(text, "unix");
		addr_host_text(&brief, text);
		cr_assert_str_eq(text, "unix");
	}
	/* "/.s.PGSQL.6432" has 14 bytes; a path needs its NUL in 108. */
	char dir[128];
	memset(dir, 'd', sizeof dir);
	struct addr addr;
	for (size_t length = 90; length < sizeof dir; length++) {
		dir[length] = '\0';
		cr_assert_eq(addr_unix(&addr, dir, 6432), length + 14 + 1 <= 108);
		dir[length] = 'd';
	}
}

Test(addr, equality)
{
	struct addr all[9] = {{.size = 0}};
	cr_assert(addr_literal(&all[1], "10.0.0.1", 5432));
	cr_assert(addr_literal(&all[2], "10.0.0.2", 5432));
	cr_assert(addr_literal(&all[3], "10.0.0.1", 5433));
	cr_assert(addr_literal(&all[4], "::1", 5432));
	cr_assert(addr_literal(&all[5], "::2", 5432));
	cr_assert(addr_unix(&all[6], "/tmp", 5432));
	cr_assert(addr_unix(&all[7], "/tmp", 5433));
	cr_assert(addr_unix(&all[8], "@tmp", 5432));
	for (size_t a = 0; a < ARRAY_LEN(all); a++) {
		for (size_t b = 0; b < ARRAY_LEN(all); b++) {
			/* What lies behind the size does not count. */
			struct addr other = all[b];
			memset((char *)&other.any + other.size, 0x55,
			       sizeof other.local - other.size);
			cr_assert_eq(addr_equal(&all[a], &other), a == b, "%zu %zu", a, b);
		}
	}
	char text[ADDR_TEXT_MAX];
	struct addr_short none = addr_shorten(&all[0]);
	cr_assert_eq(none.family, 0);
	addr_text(&none, text);
	cr_assert_str_eq(text, "none");
}
