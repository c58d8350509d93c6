/*
 * Mistakes in a configuration: each with the lines that tell it, in one file or
 * in what it includes, and no snapshot comes of it.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/unit/config_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/base/check.h"
#include "core/config.h"

#define LONG_NAME "a123456789012345678901234567890123456789012345678901234567890123"

/* Everything that must be told of the text, behind "[pgbouncer]\n" or whole. */
static const struct mistake {
	const char *text, *told;
} mistakes[] = {
	{"", "E load_init_file: main section missing from config file (f)\n"},
	{"[databases]\na =\n", "E load_init_file: main section missing from config file (f)\n"},
	{"a = b\n[pgbouncer]\n", "E load_init_file: value without section: a (f:1)\n"
                                 "E invalid value \"b\" for parameter a in configuration (f:1)\n"},
	{"[pgbouncer]\nfoo\nbar\n", "E syntax error in configuration (f:2), stopping loading\n"},
	{"[pgbouncer]\n[nobody]\nx = y\n",
         "E fill_defaults fail (f:2)\nE invalid section \"nobody\" in configuration (f:2)\n"},
	{"[pgbouncer]\nserver_lifetim = 5\nqqq=1\n",
         "E unknown parameter: pgbouncer/server_lifetim; did you mean server_lifetime? (f:2)\n"
         "E invalid value \"5\" for parameter server_lifetim in configuration (f:2)\n"
         "E unknown parameter: pgbouncer/qqq (f:3)\n"
         "E invalid value \"1\" for parameter qqq in configuration (f:3)\n"},
	{"[pgbouncer]\nDefault_Pool_Size = 5\n",
         "E unknown parameter: pgbouncer/Default_Pool_Size; did you mean default_pool_size? (f:2)\n"
         "E invalid value \"5\" for parameter Default_Pool_Size in configuration (f:2)\n"},
	{"[pgbouncer]\n\ndefault_pool_size = x\n",
         "E default_pool_size: not an integer; expected 0..2147483647 (f:3)\n"
         "E invalid value \"x\" for parameter default_pool_size in configuration (f:3)\n"},
	{"[pgbouncer]\nauth_dbname = pgbouncer\n",
         "E cannot use the reserved \"pgbouncer\" database as an auth_dbname (f:2)\n"
         "E invalid value \"pgbouncer\" for parameter auth_dbname in configuration (f:2)\n"},
	{"[pgbouncer]\n%include nofile\n",
         "E could not load file \"nofile\": No such file or directory\n"
         "E error processing include file in configuration (f:2), stopping loading\n"},
	{"[pgbouncer]\n%include /tmp\n",
         "E could not load file \"/tmp\": Is a directory\n"
         "E error processing include file in configuration (f:2), stopping loading\n"},
	{"[pgbouncer]\n[databases]\nx = hots=a\n",
         "E unrecognized connection parameter: hots (f:3)\n"
         "E invalid value \"hots=***\" for parameter x in configuration (f:3)\n"},
	{"[pgbouncer]\n[databases]\nx = host=a prot=1\n",
         "E unrecognized connection parameter: prot (f:3)\n"
         "E invalid value \"host=a prot=***\" for parameter x in configuration (f:3)\n"},
	{"[pgbouncer]\n[databases]\nx = pool_sizes=a\n",
         "E unrecognized connection parameter: pool_sizes; did you mean pool_size? (f:3)\n"
         "E invalid value \"pool_sizes=***\" for parameter x in configuration (f:3)\n"},
	{"[pgbouncer]\n[databases]\nx = host\n",
         "E syntax error in connection string (f:3)\n"
         "E invalid value \"...\" for parameter x in configuration (f:3)\n"},
	{"[pgbouncer]\n[databases]\nx = port=0\ny = port=70000\n",
         "E invalid port: 0; expected 1..65535 (f:3)\n"
         "E invalid value \"port=0\" for parameter x in configuration (f:3)\n"
         "E invalid port: 70000; expected 1..65535 (f:4)\n"
         "E invalid value \"port=70000\" for parameter y in configuration (f:4)\n"},
	{"[pgbouncer]\n[databases]\nx = pool_mode=f\n",
         "E invalid pool mode: f; expected session, transaction or statement (f:3)\n"
         "E invalid value \"pool_mode=f\" for parameter x in configuration (f:3)\n"},
	{"[pgbouncer]\n[databases]\nx = load_balance_hosts=f\n",
         "E invalid load_balance_hosts: f; expected round-robin or disable (f:3)\n"
         "E invalid value \"load_balance_hosts=f\" for parameter x in configuration (f:3)\n"},
	{"[pgbouncer]\n[databases]\nx = pool_size=1k\n",
         "E pool_size: not an integer: 1k; expected 0..2147483647 (f:3)\n"
         "E invalid value \"pool_size=1k\" for parameter x in configuration (f:3)\n"},
	{"[pgbouncer]\n[databases]\nx = pool_size=2147483648\n",
         "E pool_size: out of range: 2147483648; expected 0..2147483647 (f:3)\n"
         "E invalid value \"pool_size=2147483648\" for parameter x in configuration (f:3)\n"},
	{"[pgbouncer]\n[databases]\npgbouncer = host=a\n",
         "E database name \"pgbouncer\" is reserved (f:3)\n"
         "E invalid value \"host=a\" for parameter pgbouncer in configuration (f:3)\n"},
	{"[pgbouncer]\n[databases]\nx = auth_dbname=pgbouncer\n",
         "E cannot use the reserved \"pgbouncer\" database as an auth_dbname (f:3)\n"
         "E invalid value \"auth_dbname=pgbouncer\" for parameter x in configuration (f:3)\n"},
	{"[pgbouncer]\n[databases]\n" LONG_NAME " =\n",
         "W too long db name: " LONG_NAME " (f:3)\n"
         "E invalid value \"\" for parameter " LONG_NAME " in configuration (f:3)\n"},
	{"[pgbouncer]\n[users]\nx = foo=1\ny = pool_mode\n",
         "E unrecognized user parameter: foo (f:3)\n"
         "E invalid value \"foo=***\" for parameter x in configuration (f:3)\n"
         "E syntax error in user settings (f:4)\n"
         "E invalid value \"...\" for parameter y in configuration (f:4)\n"},
	{"[pgbouncer]\n[peers]\n0 = host=a\nx = host=a\n65536 = host=a\n5 = port=1\n",
         "E ids of peers must be a number larger than 0 and at most 65536 (f:3)\n"
         "E invalid value \"host=a\" for parameter 0 in configuration (f:3)\n"
         "E ids of peers must be a number larger than 0 and at most 65536 (f:4)\n"
         "E invalid value \"host=a\" for parameter x in configuration (f:4)\n"
         "E ids of peers must be a number larger than 0 and at most 65536 (f:5)\n"
         "E invalid value \"host=a\" for parameter 65536 in configuration (f:5)\n"
         "E host was not provided for peer 5 (f:6)\n"
         "E invalid value \"port=1\" for parameter 5 in configuration (f:6)\n"},
	/* nothing that may be a password is told */
	{"[pgbouncer]\n[databases]\nx = password='top se''cret' pasword=cret host=a port=cret\n",
         "E unrecognized connection parameter: pasword; did you mean password? (f:3)\n"
         "E invalid value \"password=*** pasword=*** host=a port=cret\" for parameter x "
         "in configuration (f:3)\n"},
	{"[pgbouncer]\n[databases]\nx = host=b  password=top secret\n",
         "E syntax error in connection string (f:3)\n"
         "E invalid value \"host=b password=*** ...\" for parameter x in configuration (f:3)\n"},
};

static void includes_check(void)
{
	file_write("a", "default_pool_size = 7\n[databases]\nx = host=h\n%include b\n");
	file_write("b", "y = host=i\n[pgbouncer]\n");
	struct config *config = load_good("[pgbouncer]\n%include a\nmin_pool_size = 3\n");
	cr_assert_eq(config->settings.default_pool_size, 7);
	cr_assert_eq(config->settings.min_pool_size, 3);
	cr_assert_str_eq(config_find_database(config, "y")->host, "i");
	config_drop(config);

	/* a mistake two files down */
	file_write("b", "y = host=i\nbad line\n");
	cr_assert_null(load("[pgbouncer]\n%include a\n", NULL));
	cr_assert_str_eq(
		told, "E syntax error in configuration (b:2), stopping loading\n"
		      "E error processing include file in configuration (a:4), stopping loading\n"
		      "E error processing include file in configuration (f:2), stopping loading\n");

	/* deep, and wide */
	cr_assert_null(load("[pgbouncer]\n%include f\n", NULL));
	cr_assert_eq(strncmp(told, "E include nesting level too deep (f:2), stopping loading\n",
	                     57),
	             0, "%s", told);
	file_write("a", "%include b\n%include b\n%include b\n%include b\n%include b\n");
	file_write("b", "\n");
	char text[2048] = "[pgbouncer]\n";
	for (int i = 0; i < 100; i++)
		strncat(text, "%include a\n", sizeof(text) - strlen(text) - 1);
	config = load_good(text);
	config_drop(config);
	file_write("b", "%include other\n%include other\n");
	file_write("other", "");
	cr_assert_null(load(text, NULL));
	cr_assert_not_null(strstr(told, "E could not load file \"other\": Too many open files\n"));
}

Test(config, mistakes)
{
	directory_enter();
	cr_assert_null(config_load("f", NULL, &report));
	cr_assert_str_eq(told, "E could not load file \"f\": No such file or directory\n");
	for (size_t i = 0; i < ARRAY_LEN(mistakes); i++) {
		cr_assert_null(load(mistakes[i].text, NULL), "row %zu", i);
		cr_assert_str_eq(told, mistakes[i].told, "row %zu: %s", i, told);
	}
	includes_check();
	directory_leave();
}
