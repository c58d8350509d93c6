/*
 * load_request.c - the bytes of requests.
 *
 * Each kind is made once with a placeholder where the nonce goes; to send one
 * is to copy it and to write the nonce over the placeholders.  The texts are
 * valid for real PostgreSQL.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/text.h"

#define PLACEHOLDER    "####-######-########"
#define STATEMENT_NAME "load"

_Static_assert(sizeof PLACEHOLDER - 1 == NONCE_SIZE, "a nonce fits");

static const char hex_digits[] = "0123456789abcdef";

static char *hex_write(char *to, uint64_t value, uint32_t digits)
{
	for (uint32_t i = digits; i-- > 0; value >>= 4)
		to[i] = hex_digits[value & 15];
	return to + digits;
}

void nonce_write(const struct client *client, uint64_t sequence, char nonce[NONCE_SIZE])
{
	char *to = hex_write(nonce, client->thread->load->run, 4);
	*to++ = '-';
	to = hex_write(to, client->number, 6);
	*to++ = '-';
	hex_write(to, sequence, 8);
}

void variant_write(uint32_t variant, char text[16])
{
	snprintf(text, 16, "variant-%07u", variant % 10000000);
}

/* ------------------------------------------------------------------- making */

static void parse_write(struct writer *out, const char *name, const char *sql)
{
	writer_begin(out, 'P');
	writer_text(out, name);
	writer_text(out, sql);
	writer_u16(out, 0);
	writer_end(out);
}

static void bind_write(struct writer *out, const char *name)
{
	writer_begin(out, 'B');
	writer_text(out, "");
	writer_text(out, name);
	writer_u16(out, 0);
	writer_u16(out, 1);
	writer_u32(out, NONCE_SIZE);
	writer_bytes(out, PLACEHOLDER, NONCE_SIZE);
	writer_u16(out, 0);
	writer_end(out);
}

static void execute_write(struct writer *out)
{
	writer_begin(out, 'E');
	writer_text(out, "");
	writer_u32(out, 0);
	writer_end(out);
	writer_begin(out, 'S');
	writer_end(out);
}

static void extended_write(struct writer *out)
{
	parse_write(out, "", "SELECT '" PLACEHOLDER "', $1::text");
	bind_write(out, "");
	writer_begin(out, 'D');
	writer_bytes(out, "P", 2);
	writer_end(out);
	execute_write(out);
}

static void request_keep(struct request *request, const struct writer *out, uint8_t wants)
{
	struct span bytes = writer_span(out);
	CHECK(!out->failed);
	request->wants = wants;
	buffer_add(&request->bytes, bytes.data, bytes.size);
	const uint8_t *front = buffer_front(&request->bytes);
	const uint8_t *at = front;
	while ((at = memmem(at, (size_t)(front + bytes.size - at), PLACEHOLDER, NONCE_SIZE)) !=
	       NULL) {
		CHECK(request->nonce_count < ARRAY_LEN(request->nonce_at));
		request->nonce_at[request->nonce_count++] = (uint32_t)(at - front);
		at += NONCE_SIZE;
	}
}

static void query_make(struct load *load, enum request_kind kind, const char *sql, uint8_t wants)
{
	uint8_t bytes[512];
	struct writer out = writer_over(bytes, sizeof bytes);
	write_query(&out, sql);
	request_keep(&load->requests[kind], &out, wants);
}

static void prepares_make(struct load *load)
{
	uint32_t count = load->options.variants;
	load->prepares = memory_new(count * sizeof *load->prepares);
	for (uint32_t i = 0; i < count; i++) {
		uint8_t bytes[256];
		char variant[16], sql[64];
		struct writer out = writer_over(bytes, sizeof bytes);
		variant_write(i, variant);
		snprintf(sql, sizeof sql, "SELECT '%s', $1::text", variant);
		parse_write(&out, STATEMENT_NAME, sql);
		writer_begin(&out, 'S');
		writer_end(&out);
		request_keep(&load->prepares[i], &out, REPLY_PARSE);
	}
	load->requests[REQUEST_PREPARE].wants = REPLY_PARSE;
}

void requests_make(struct load *load)
{
	uint8_t bytes[512], rows = REPLY_DESCRIBE | REPLY_ROW | REPLY_COMPLETE;
	char sql[256];
	query_make(load, REQUEST_SIMPLE, "SELECT '" PLACEHOLDER "'", rows);
	query_make(load, REQUEST_SLEEP, "SELECT '" PLACEHOLDER "', pg_sleep(0.02)", rows);
	query_make(load, REQUEST_BEGIN, "BEGIN", REPLY_COMPLETE);
	query_make(load, REQUEST_COMMIT, "COMMIT", REPLY_COMPLETE);
	snprintf(sql, sizeof sql,
	         "SELECT '" PLACEHOLDER "', repeat('x', %u) FROM generate_series(1, %u)",
	         load->options.size, load->options.rows);
	query_make(load, REQUEST_BULK, sql, rows);

	struct writer out = writer_over(bytes, sizeof bytes);
	extended_write(&out);
	request_keep(&load->requests[REQUEST_EXTENDED], &out, rows | REPLY_PARSE | REPLY_BIND);

	out = writer_over(bytes, sizeof bytes);
	bind_write(&out, STATEMENT_NAME);
	execute_write(&out);
	request_keep(&load->requests[REQUEST_BOUND], &out, REPLY_BIND | REPLY_ROW | REPLY_COMPLETE);
	prepares_make(load);
}

void requests_free(struct load *load)
{
	for (uint32_t i = 0; i < REQUEST_KINDS; i++)
		buffer_fini(&load->requests[i].bytes);
	for (uint32_t i = 0; i < load->options.variants; i++)
		buffer_fini(&load->prepares[i].bytes);
	free(load->prepares);
}

/* ------------------------------------------------------------------ sending */

void request_send(struct client *client, enum request_kind kind)
{
	struct load *load = client->thread->load;
	const struct request *request = kind == REQUEST_PREPARE ? &load->prepares[client->variant]
	                                                        : &load->requests[kind];
	size_t size = buffer_size(&request->bytes);
	uint8_t *to = buffer_room(&client->out, size);
	memcpy(to, buffer_front(&request->bytes), size);
	client->out.end += size;
	client->sequence++;
	char nonce[NONCE_SIZE];
	nonce_write(client, client->sequence, nonce);
	for (uint32_t i = 0; i < request->nonce_count; i++)
		memcpy(to + request->nonce_at[i], nonce, NONCE_SIZE);

	CHECK(client->expected_count < load->options.batches);
	uint32_t place = (client->expected_head + client->expected_count++) % load->options.batches;
	client->expected[place] = (struct expected){.sequence = client->sequence,
	                                            .kind = (uint8_t)kind};
}
