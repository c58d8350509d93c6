/* The table of message.c against a second one, over all bytes of both sides. */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "proto/message.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct {
	enum side side;
	const char *types;
	enum message_use use;
} rows[] = {
	{SIDE_CLIENT, "PBDECSQF", USE_REQUEST},
	{SIDE_CLIENT, "H", USE_ASIDE},
	{SIDE_CLIENT, "dcf", USE_COPY},
	{SIDE_CLIENT, "X", USE_END},
	{SIDE_CLIENT, "p", USE_LOGIN},
	{SIDE_SERVER, "RKv", USE_LOGIN},
	{SIDE_SERVER, "SZ", USE_WHOLE},
	{SIDE_SERVER, "NA", USE_ASYNC},
	{SIDE_SERVER, "23CdcGHWDIEVnt1sT", USE_REPLY},
};

static enum message_use expected(enum side side, uint8_t type)
{
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (rows[i].side == side && type != 0 && strchr(rows[i].types, type) != NULL)
			return rows[i].use;
	return USE_NONE;
}

Test(message, table_of_all_bytes)
{
	uint32_t known[2] = {0, 0};
	for (uint32_t side = 0; side < 2; side++) {
		for (uint32_t type = 0; type < 256; type++) {
			enum message_use use = message_use((enum side)side, (uint8_t)type);
			cr_assert_eq(use, expected((enum side)side, (uint8_t)type),
			             "side %u type %u", side, type);
			const char *name = message_name((enum side)side, (uint8_t)type);
			cr_assert_eq(use == USE_NONE, strcmp(name, "unknown") == 0);
			known[side] += use != USE_NONE;
		}
	}
	cr_assert_eq(known[SIDE_CLIENT], 14);
	cr_assert_eq(known[SIDE_SERVER], 24);
	cr_assert_str_eq(message_name(SIDE_CLIENT, 'D'), "Describe");
	cr_assert_str_eq(message_name(SIDE_SERVER, 'D'), "DataRow");
	cr_assert_str_eq(message_name(SIDE_CLIENT, 'S'), "Sync");
	cr_assert_str_eq(message_name(SIDE_SERVER, 'S'), "ParameterStatus");
}
