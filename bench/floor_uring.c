/*
 * floor_uring.c - the bare relay over io_uring.
 *
 * Set up and used like net/ring.c: SINGLE_ISSUER, DEFER_TASKRUN, SUBMIT_ALL,
 * 256 entries, 4096 completions, ring fd registered; multishot receive into two
 * groups of provided buffers, the first time behind a poll; one send in flight
 * per socket, and all that queues meanwhile leaves in one SENDMSG; one enter per
 * turn, which submits, waits and fetches.
 *
 * A received buffer goes into the queue of the other side as it is and back to
 * the kernel when it has been sent: a buffer is in one queue at most, so each
 * has one piece for life.  user_data is the address of a side with the kind of
 * operation in its low bits; a pair is reused when nothing of it is in flight.
 *
 * `now` makes small sends hasty: they are tried while the ring is entered, and
 * no completion means that all was taken (MSG_DONTWAIT, MSG_WAITALL, and
 * CQE_SKIP_SUCCESS).  It saves a turn in which nothing else completes.  Not where
 * a wait for the send's end could last (the turn may sleep), nor after one that
 * was not taken whole: those complete as usual.
 *
 * A side whose peer takes less than comes is not read above FLOOR_QUEUE_HIGH
 * (of buffers held, so that short pieces cannot hold them all).  Peers that take
 * nothing at all can still use a group up between them; then all wait for them.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "bench/floor.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <unistd.h>

enum { ENTRIES = 256, COMPLETIONS = 4096, PARTS_MAX = 64, HASTY_MAX = 16 * 1024 };

enum group_id { GROUP_CLIENT, GROUP_SERVER, GROUPS };

static const struct {
	uint16_t count;
	uint32_t size;
} shapes[GROUPS] = {{512, 4096}, {256, 16384}};

/* The low bits of user_data; the last three have no side. */
enum operation { DO_RECEIVE, DO_SEND, DO_CONNECT, DO_ACCEPT, DO_CANCEL, DO_STOP };

/* A buffer, and what of it is still to be sent. */
struct piece {
	STAILQ_ENTRY(piece) link;
	uint32_t from, to;
	uint16_t id, group;
};

struct group {
	struct io_uring_buf_ring *queue;
	uint8_t *memory;
	struct piece *pieces; /* by buffer */
	uint32_t free;        /* buffers that the kernel has, or will have */
	int given;            /* since the kernel was last told */
};

struct gather {
	struct gather *next; /* free ones */
	struct msghdr message;
	struct iovec parts[PARTS_MAX];
};

TAILQ_HEAD(sides, side);

struct side {
	int fd;
	uint16_t group;
	bool armed;  /* has been once */
	bool paused; /* its peer has enough */
	bool receiving, canceling, sending, starved, listed;
	bool hasty;   /* its send; in the list of these, by send_link */
	bool patient; /* the last send was not taken whole */
	int32_t size; /* of the send in flight */
	struct side *peer;
	struct pair *pair;
	STAILQ_HEAD(, piece) queue; /* to be sent to it */
	uint32_t held;              /* bytes of their buffers */
	struct gather *gather;
	TAILQ_ENTRY(side) send_link, starved_link;
};

struct pair {
	struct side client, server;
	struct side *ended; /* the first to say so; the other gets the rest */
	uint32_t in_flight; /* operations of both */
	bool closing;
	struct pair *next;   /* free ones */
	struct pair *before; /* all there ever were */
};

static struct {
	const struct relay *relay;
	struct io_uring uring;
	struct group groups[GROUPS];
	struct sides to_send, hasty, starved[GROUPS];
	struct gather *gathers;
	struct pair *pairs, *all;
	bool now, stopped;
} self;

/* ------------------------------------------------------------------ the ring */

static void *pages(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		floor_fail("mmap", errno);
	return memory;
}

static void *zeroed(size_t count, size_t size)
{
	void *memory = calloc(count, size);
	if (memory == NULL)
		floor_fail("calloc", ENOMEM);
	return memory;
}

static void buffer_give(struct piece *piece)
{
	struct group *group = &self.groups[piece->group];
	uint32_t size = shapes[piece->group].size;
	io_uring_buf_ring_add(group->queue, group->memory + (size_t)piece->id * size, size,
	                      piece->id, shapes[piece->group].count - 1, group->given++);
	group->free++;
}

static void group_open(uint16_t id)
{
	struct group *group = &self.groups[id];
	uint16_t count = shapes[id].count;
	group->memory = pages((size_t)count * shapes[id].size);
	group->queue = pages(count * sizeof(struct io_uring_buf));
	group->pieces = zeroed(count, sizeof group->pieces[0]);
	struct io_uring_buf_reg reg = {
		.ring_addr = (uint64_t)(uintptr_t)group->queue,
		.ring_entries = count,
		.bgid = id,
	};
	int result = io_uring_register_buf_ring(&self.uring, &reg, 0);
	if (result < 0)
		floor_fail("io_uring_register_buf_ring", -result);
	for (uint16_t i = 0; i < count; i++) {
		group->pieces[i] = (struct piece){.id = i, .group = id};
		buffer_give(&group->pieces[i]);
	}
}

static void groups_publish(void)
{
	for (int i = 0; i < GROUPS; i++) {
		struct group *group = &self.groups[i];
		if (group->given > 0)
			io_uring_buf_ring_advance(group->queue, group->given);
		group->given = 0;
	}
}

static void uring_open(void)
{
	struct io_uring_params params = {
		.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
	                 IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP,
		.cq_entries = COMPLETIONS,
	};
	int result = io_uring_queue_init_params(ENTRIES, &self.uring, &params);
	if (result < 0)
		floor_fail("io_uring_queue_init", -result);
	if (io_uring_register_ring_fd(&self.uring) != 1)
		floor_fail("io_uring_register_ring_fd", EINVAL);
	for (uint16_t i = 0; i < GROUPS; i++)
		group_open(i);
}

/* An entry whose user_data is set last: the helpers of liburing clear it. */
static struct io_uring_sqe *entry_get(void)
{
	struct io_uring_sqe *sqe;
	while ((sqe = io_uring_get_sqe(&self.uring)) == NULL) {
		int result = io_uring_submit(&self.uring);
		if (result < 0)
			floor_fail("io_uring_submit", -result);
	}
	return sqe;
}

static uint64_t name_of(const struct side *side, enum operation operation)
{
	return (uint64_t)(uintptr_t)side | operation;
}

static void accept_arm(void)
{
	struct io_uring_sqe *sqe = entry_get();
	io_uring_prep_multishot_accept(sqe, self.relay->listener, NULL, NULL, SOCK_CLOEXEC);
	sqe->user_data = name_of(NULL, DO_ACCEPT);
}

static void cancel(const struct side *side, enum operation operation)
{
	struct io_uring_sqe *sqe = entry_get();
	io_uring_prep_cancel64(sqe, name_of(side, operation), 0);
	sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	sqe->user_data = name_of(NULL, DO_CANCEL);
}

/* ---------------------------------------------------------------------- pairs */

static void side_init(struct side *side, struct pair *pair, struct side *peer, uint16_t group)
{
	*side = (struct side){.fd = -1, .pair = pair, .peer = peer, .group = group};
	STAILQ_INIT(&side->queue);
}

static struct pair *pair_get(void)
{
	struct pair *pair = self.pairs;
	if (pair != NULL) {
		self.pairs = pair->next;
	} else {
		pair = zeroed(1, sizeof *pair);
		pair->before = self.all;
		self.all = pair;
	}
	side_init(&pair->client, pair, &pair->server, GROUP_CLIENT);
	side_init(&pair->server, pair, &pair->client, GROUP_SERVER);
	pair->ended = NULL;
	pair->closing = false;
	return pair;
}

static void queue_drop_first(struct side *side)
{
	struct piece *piece = STAILQ_FIRST(&side->queue);
	STAILQ_REMOVE_HEAD(&side->queue, link);
	side->held -= shapes[piece->group].size;
	buffer_give(piece);
}

static void side_close(struct side *side)
{
	while (!STAILQ_EMPTY(&side->queue))
		queue_drop_first(side);
	close(side->fd);
}

static void side_let_go(struct side *side)
{
	if (side->listed)
		TAILQ_REMOVE(&self.to_send, side, send_link);
	if (side->starved)
		TAILQ_REMOVE(&self.starved[side->group], side, starved_link);
	side->listed = side->starved = false;
	if (side->receiving && !side->canceling)
		cancel(side, DO_RECEIVE);
	if (side->sending)
		cancel(side, DO_SEND);
}

/* The end is near: pair_tend() closes when the kernel has handed all back. */
static void pair_close(struct pair *pair)
{
	if (pair->closing)
		return;
	pair->closing = true;
	side_let_go(&pair->client);
	side_let_go(&pair->server);
}

static void pair_tend(struct pair *pair)
{
	if (!pair->closing || pair->in_flight > 0)
		return;
	side_close(&pair->client);
	side_close(&pair->server);
	pair->next = self.pairs;
	self.pairs = pair;
}

/* -------------------------------------------------------------------- receive */

static void receive_tend(struct side *side)
{
	const struct pair *pair = side->pair;
	bool wanted = !side->paused && pair->ended == NULL && !pair->closing;
	if (side->receiving) {
		if (!wanted && !side->canceling) {
			cancel(side, DO_RECEIVE);
			side->canceling = true;
		}
	} else if (wanted && !side->starved) {
		struct io_uring_sqe *sqe = entry_get();
		io_uring_prep_recv_multishot(sqe, side->fd, NULL, 0, 0);
		sqe->flags |= IOSQE_BUFFER_SELECT;
		sqe->buf_group = side->group;
		if (!side->armed)
			sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
		sqe->user_data = name_of(side, DO_RECEIVE);
		side->armed = side->receiving = true;
		side->pair->in_flight++;
	}
}

static void side_list(struct side *side)
{
	if (side->listed || side->sending)
		return;
	TAILQ_INSERT_TAIL(&self.to_send, side, send_link);
	side->listed = true;
}

static void queue_append(struct side *side, struct piece *piece)
{
	STAILQ_INSERT_TAIL(&side->queue, piece, link);
	side->held += shapes[piece->group].size;
	if (side->held > FLOOR_QUEUE_HIGH)
		side->peer->paused = true;
	side_list(side);
}

static void buffer_received(struct side *side, const struct io_uring_cqe *cqe)
{
	struct group *group = &self.groups[side->group];
	struct piece *piece = &group->pieces[cqe->flags >> IORING_CQE_BUFFER_SHIFT];
	group->free--;
	piece->from = 0;
	piece->to = cqe->res > 0 ? (uint32_t)cqe->res : 0;
	if (piece->to > 0 && !side->pair->closing)
		queue_append(side->peer, piece);
	else
		buffer_give(piece);
}

static void received(struct side *side, const struct io_uring_cqe *cqe)
{
	struct pair *pair = side->pair;
	if ((cqe->flags & IORING_CQE_F_MORE) == 0) {
		side->receiving = side->canceling = false;
		pair->in_flight--;
	}
	if ((cqe->flags & IORING_CQE_F_BUFFER) != 0)
		buffer_received(side, cqe);
	if (cqe->res == 0 && pair->ended == NULL) {
		pair->ended = side;
		receive_tend(side->peer);
		if (STAILQ_EMPTY(&side->peer->queue))
			pair_close(pair);
	} else if (cqe->res == -ENOBUFS) {
		if (!side->receiving && !side->starved && !pair->closing) {
			TAILQ_INSERT_TAIL(&self.starved[side->group], side, starved_link);
			side->starved = true;
		}
	} else if (cqe->res < 0 && cqe->res != -ECANCELED && cqe->res != -EINTR &&
	           cqe->res != -EAGAIN) {
		pair_close(pair);
	}
	receive_tend(side);
}

/* As many as there are buffers: more would only find none. */
static void starved_feed(void)
{
	for (int i = 0; i < GROUPS; i++) {
		struct side *side;
		for (uint32_t left = self.groups[i].free;
		     left > 0 && (side = TAILQ_FIRST(&self.starved[i])) != NULL; left--) {
			TAILQ_REMOVE(&self.starved[i], side, starved_link);
			side->starved = false;
			receive_tend(side);
		}
	}
}

/* ----------------------------------------------------------------------- send */

static void *piece_bytes(const struct piece *piece)
{
	return self.groups[piece->group].memory + (size_t)piece->id * shapes[piece->group].size +
	       piece->from;
}

/* Of as many pieces as fit; the side knows their size then. */
static struct gather *gather_get(struct side *side)
{
	struct gather *gather = self.gathers;
	if (gather != NULL)
		self.gathers = gather->next;
	else
		gather = zeroed(1, sizeof *gather);
	const struct piece *piece = STAILQ_FIRST(&side->queue);
	size_t count = 0;
	for (side->size = 0; piece != NULL && count < PARTS_MAX; piece = STAILQ_NEXT(piece, link)) {
		uint32_t size = piece->to - piece->from;
		gather->parts[count++] = (struct iovec){piece_bytes(piece), size};
		side->size += (int32_t)size;
	}
	gather->message = (struct msghdr){.msg_iov = gather->parts, .msg_iovlen = count};
	return gather;
}

static bool may_hasten(const struct side *side)
{
	return self.now && !side->patient && side->held <= HASTY_MAX && !side->peer->paused &&
	       side->pair->ended == NULL && TAILQ_EMPTY(&self.starved[GROUP_CLIENT]) &&
	       TAILQ_EMPTY(&self.starved[GROUP_SERVER]);
}

static void send_start(struct side *side)
{
	const struct piece *first = STAILQ_FIRST(&side->queue);
	struct io_uring_sqe *sqe = entry_get();
	int flags = MSG_WAITALL | MSG_NOSIGNAL;
	side->hasty = may_hasten(side);
	if (side->hasty)
		flags |= MSG_DONTWAIT;
	if (STAILQ_NEXT(first, link) == NULL) {
		side->size = (int32_t)(first->to - first->from);
		io_uring_prep_send(sqe, side->fd, piece_bytes(first), (size_t)side->size, flags);
	} else {
		side->gather = gather_get(side);
		io_uring_prep_sendmsg(sqe, side->fd, &side->gather->message, (unsigned)flags);
	}
	if (side->hasty) {
		sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
		TAILQ_INSERT_TAIL(&self.hasty, side, send_link);
	}
	sqe->user_data = name_of(side, DO_SEND);
	side->sending = true;
	side->pair->in_flight++;
}

static void all_send(void)
{
	struct side *side;
	while ((side = TAILQ_FIRST(&self.to_send)) != NULL) {
		TAILQ_REMOVE(&self.to_send, side, send_link);
		side->listed = false;
		send_start(side);
	}
}

static void queue_consume(struct side *side, uint32_t size)
{
	while (size > 0) {
		struct piece *piece = STAILQ_FIRST(&side->queue);
		uint32_t left = piece->to - piece->from;
		if (size < left) {
			piece->from += size;
			return;
		}
		size -= left;
		queue_drop_first(side);
	}
}

static void sent(struct side *side, int32_t result)
{
	struct pair *pair = side->pair;
	if (side->hasty)
		TAILQ_REMOVE(&self.hasty, side, send_link);
	side->sending = side->hasty = false;
	pair->in_flight--;
	if (side->gather != NULL) {
		side->gather->next = self.gathers;
		self.gathers = side->gather;
		side->gather = NULL;
	}
	side->patient = result != side->size;
	if (result > 0)
		queue_consume(side, (uint32_t)result);
	else if (result != -ECANCELED && result != -EINTR && result != -EAGAIN)
		pair_close(pair);
	if (pair->closing)
		return;
	if (!STAILQ_EMPTY(&side->queue))
		side_list(side);
	else if (pair->ended == side->peer)
		pair_close(pair);
	if (side->peer->paused && side->held < FLOOR_QUEUE_LOW) {
		side->peer->paused = false;
		receive_tend(side->peer);
	}
}

/* ---------------------------------------------------------- accept and connect */

static void pair_open(int fd)
{
	const struct relay *relay = self.relay;
	struct pair *pair = pair_get();
	pair->client.fd = fd;
	pair->server.fd = floor_socket(relay, 0);
	struct io_uring_sqe *sqe = entry_get();
	io_uring_prep_connect(sqe, pair->server.fd, (const struct sockaddr *)&relay->server,
	                      relay->server_size);
	sqe->user_data = name_of(&pair->server, DO_CONNECT);
	pair->in_flight = 1;
}

static void accepted(const struct io_uring_cqe *cqe)
{
	if (cqe->res >= 0)
		pair_open(cqe->res);
	else if (cqe->res == -EMFILE || cqe->res == -ENFILE || cqe->res == -ENOMEM)
		floor_fail("accept", -cqe->res);
	if ((cqe->flags & IORING_CQE_F_MORE) == 0)
		accept_arm();
}

static void connected(struct side *side, int32_t result)
{
	side->pair->in_flight--;
	if (result < 0) {
		pair_close(side->pair);
		return;
	}
	receive_tend(side);
	receive_tend(side->peer);
}

/* ------------------------------------------------------------------- the turn */

static void completed(const struct io_uring_cqe *cqe)
{
	enum { LOW_BITS = 7 };
	_Static_assert(_Alignof(struct side) > LOW_BITS, "low bits are free");
	enum operation operation = cqe->user_data & LOW_BITS;
	struct side *side = (struct side *)(uintptr_t)(cqe->user_data & ~(uint64_t)LOW_BITS);
	switch (operation) {
	case DO_RECEIVE: received(side, cqe); break;
	case DO_SEND: sent(side, cqe->res); break;
	case DO_CONNECT: connected(side, cqe->res); break;
	case DO_ACCEPT: accepted(cqe); return;
	case DO_STOP: self.stopped = true; return;
	case DO_CANCEL: return;
	}
	pair_tend(side->pair);
}

/* What nothing was heard of is done. */
static void hasty_end(void)
{
	struct side *side;
	while ((side = TAILQ_FIRST(&self.hasty)) != NULL) {
		sent(side, side->size);
		pair_tend(side->pair);
	}
}

static void turn(void)
{
	groups_publish();
	starved_feed();
	all_send();
	unsigned ready = io_uring_sq_ready(&self.uring);
	int result = io_uring_submit_and_wait(&self.uring, 1);
	if (result < 0 && result != -EINTR && result != -EBUSY)
		floor_fail("io_uring_enter", -result);
	if (!TAILQ_EMPTY(&self.hasty) &&
	    (result != (int)ready || io_uring_cq_has_overflow(&self.uring)))
		floor_fail("silence that says nothing", EBUSY);
	const struct io_uring_cqe *cqe;
	unsigned head, count = 0;
	io_uring_for_each_cqe(&self.uring, head, cqe)
	{
		completed(cqe);
		count++;
	}
	io_uring_cq_advance(&self.uring, count);
	hasty_end();
}

void floor_uring(const struct relay *relay, bool now)
{
	self.relay = relay;
	self.now = now;
	TAILQ_INIT(&self.to_send);
	TAILQ_INIT(&self.hasty);
	for (int i = 0; i < GROUPS; i++)
		TAILQ_INIT(&self.starved[i]);
	uring_open();
	accept_arm();
	struct io_uring_sqe *sqe = entry_get();
	io_uring_prep_poll_add(sqe, relay->signals, POLLIN);
	sqe->user_data = name_of(NULL, DO_STOP);
	while (!self.stopped)
		turn();
	io_uring_queue_exit(&self.uring);
}
