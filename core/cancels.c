/*
 * cancels.c - see cancels.h.
 *
 * PostgreSQL's postmaster closes a cancel connection after it has signalled
 * the backend; so once that end has been seen, the signal is there, and a
 * backend that is idle by then forgets it when the next query comes.  Until
 * then the server stays with its client or is BEING_CANCELED.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "core/cancels.h"

#include <string.h>

#include "cancel/table.h"
#include "core/base/check.h"
#include "core/client.h"
#include "core/config.h"
#include "core/pool.h"
#include "core/post.h"
#include "core/process.h"
#include "core/relay.h"
#include "core/server.h"
#include "core/sockets.h"
#include "core/worker.h"
#include "net/ring.h"
#include "proto/write.h"

enum { GUESSES_MAX = 100, GUESS_PERIOD_US = 1000 * 1000 };

static void reply_to(struct worker *worker, uint32_t to, uint32_t slot, uint32_t generation)
{
	struct post *post = post_new(POST_CANCEL_DONE, worker->index);
	post->cancel.requester_slot = slot;
	post->cancel.requester_generation = generation;
	post_send(worker->process, to, post);
}

/* The entry of the client's address; another one's if there are too many. */
static struct guesser *guesser_of(const struct client *client)
{
	struct worker *worker = client->worker;
	const struct addr_short *address = &client->address;
	uint64_t hash = bytes_hash(address->ip, sizeof address->ip, worker->process->seed);
	struct guesser *guesser = &worker->guessers[hash % GUESSERS];
	uint64_t now = worker->loop.now_us;
	if (guesser->hash != hash || now - guesser->since_us > GUESS_PERIOD_US)
		*guesser = (struct guesser){.hash = hash, .since_us = now};
	return guesser;
}

/* Whoever has guessed wrong too often is not heard for the rest of a second. */
static bool key_is_known(struct client *client, struct span key, struct cancel_place *place)
{
	struct guesser *guesser = guesser_of(client);
	if (guesser->count >= GUESSES_MAX)
		return false;
	if (cancel_table_find(client->worker->process->cancels, key, place))
		return true;
	guesser->count++;
	return false;
}

void cancel_requested(struct client *client, struct span key)
{
	struct worker *worker = client->worker;
	struct cancel_place place;
	client_move(client, CLIENT_CANCEL);
	if (key.size > sizeof((struct post *)0)->cancel.key || !key_is_known(client, key, &place) ||
	    place.worker >= worker->process->worker_count) {
		client_close(client, "failed cancel request");
		return;
	}
	struct post *post = post_new(POST_CANCEL, worker->index);
	memcpy(post->cancel.key, key.data, key.size);
	post->cancel.key_size = (uint8_t)key.size;
	post->cancel.slot = place.slot;
	post->cancel.generation = place.generation;
	post->cancel.requester_worker = worker->index;
	post->cancel.requester_slot = op_slot_of(&client->conn.owner);
	post->cancel.requester_generation = op_generation_of(&client->conn.owner);
	post_send(worker->process, place.worker, post);
}

void cancel_done(struct worker *worker, struct post *post)
{
	struct client *client = worker_find_client(worker, post->cancel.requester_slot,
	                                           post->cancel.requester_generation);
	if (client != NULL && client->state == CLIENT_CANCEL)
		client_close(client, "successfully sent cancel request");
}

static struct cancel_job *job_of(struct conn *conn)
{
	return CONTAINER(struct cancel_job, conn, conn);
}

static void on_open(struct conn *conn)
{
	struct cancel_job *job = job_of(conn);
	uint8_t packet[32];
	struct writer out = writer_over(packet, sizeof packet);
	if (job->server == NULL) {
		conn_close(conn); /* released meanwhile: there is nothing to cancel */
		return;
	}
	write_cancel_request(&out, span_of(job->key, sizeof job->key));
	conn_send_copy(conn, packet, out.size);
	job->sent = true;
}

static void on_bytes(struct conn *conn, struct buf *buf, uint32_t from, uint32_t to)
{
	(void)conn;
	(void)buf;
	(void)from;
	(void)to;
}

static void on_eof(struct conn *conn)
{
	conn_close(conn);
}

static void on_nothing(struct conn *conn)
{
	(void)conn;
}

static void job_start(struct server *server, const struct post *post);

static void on_closed(struct conn *conn, int error)
{
	struct cancel_job *job = job_of(conn);
	struct worker *worker = job->worker;
	struct server *server = job->server;
	(void)error;
	for (uint32_t i = 0; i < job->requesters; i++)
		reply_to(worker, job->requester[i].worker, job->requester[i].slot,
		         job->requester[i].generation);
	bool again = job->again;
	wheel_disarm(&worker->loop.wheel, &job->timer);
	list_remove(&worker->cancel_jobs, &job->link);
	slab_release(&worker->jobs, job);
	if (server == NULL)
		return;
	server->cancel = NULL;
	if (server->state == SERVER_BEING_CANCELED)
		server_release(server);
	else if (again && server->client != NULL && track_owes(&server->track))
		job_start(server, NULL);
}

static const struct conn_events job_events = {
	.on_open = on_open,
	.on_bytes = on_bytes,
	.on_eof = on_eof,
	.on_room = on_nothing,
	.on_hangup = on_nothing,
	.on_closed = on_closed,
};

/* It may be on its way to the backend for ever: that server is not reused. */
static void job_timeout(struct timer *timer)
{
	struct cancel_job *job = CONTAINER(struct cancel_job, timer, timer);
	struct server *server = job->server;
	if (server != NULL && job->sent)
		server_close(server, "cancel_wait_timeout");
	conn_close(&job->conn);
}

static void job_add(struct cancel_job *job, const struct post *post)
{
	if (post == NULL)
		return;
	if (job->requesters == sizeof job->requester / sizeof job->requester[0]) {
		reply_to(job->worker, post->cancel.requester_worker, post->cancel.requester_slot,
		         post->cancel.requester_generation);
		return;
	}
	job->requester[job->requesters].worker = post->cancel.requester_worker;
	job->requester[job->requesters].slot = post->cancel.requester_slot;
	job->requester[job->requesters].generation = post->cancel.requester_generation;
	job->requesters++;
}

static void job_start(struct server *server, const struct post *post)
{
	struct worker *worker = server->worker;
	struct cancel_job *job = slab_acquire(&worker->jobs);
	uint64_t limit = worker->config->settings.cancel_wait_timeout;
	if (job == NULL) {
		if (post != NULL)
			reply_to(worker, post->cancel.requester_worker, post->cancel.requester_slot,
			         post->cancel.requester_generation);
		return;
	}
	job->worker = worker;
	job->server = server;
	job->timer.fire = job_timeout;
	memcpy(job->key, server->key, sizeof job->key);
	if (conn_connect(&job->conn, &worker->loop, &server->address, RING_GROUP_CLIENT,
	                 &job_events) < 0) {
		slab_release(&worker->jobs, job);
		if (post != NULL)
			reply_to(worker, post->cancel.requester_worker, post->cancel.requester_slot,
			         post->cancel.requester_generation);
		return;
	}
	struct sys_tcp tcp = sockets_tcp(&worker->config->settings);
	sys_tcp_options(job->conn.fd, &tcp);
	job_add(job, post);
	server->cancel = job;
	list_append(&worker->cancel_jobs, &job->link);
	if (limit != 0)
		wheel_arm(&worker->loop.wheel, &job->timer, worker->loop.now_us + limit);
}

void cancel_owner(struct worker *worker, struct post *post)
{
	struct client *client = worker_find_client(worker, post->cancel.slot,
	                                           post->cancel.generation);
	struct span key = span_of(post->cancel.key, post->cancel.key_size);
	struct server *server = NULL;
	if (client != NULL && client_key_is(client, key)) {
		server = client->server;
		if (client->state == CLIENT_WAITING)
			relay_cancel_waiting(client);
	}
	bool runs = server != NULL && server->state == SERVER_ACTIVE && !server->setting_vars &&
	            track_owes(&server->track);
	if (!runs) {
		reply_to(worker, post->cancel.requester_worker, post->cancel.requester_slot,
		         post->cancel.requester_generation);
	} else if (server->cancel != NULL) {
		server->cancel->again = server->cancel->again || server->cancel->sent;
		job_add(server->cancel, post);
	} else {
		job_start(server, post);
	}
}

void cancel_forget_server(struct server *server)
{
	struct cancel_job *job = server->cancel;
	if (job == NULL)
		return;
	server->cancel = NULL;
	job->server = NULL;
}

bool cancel_holds(struct server *server)
{
	if (server->cancel != NULL && !server->cancel->sent)
		cancel_forget_server(server);
	return server->cancel != NULL;
}
