/*
 * world.h - the virtual world: time, chance, sockets, faults.
 *
 * One world per process, one thread, one seed.  Time stands still while code
 * runs and jumps to the next alarm when everybody sleeps.  A wire is a pair of
 * socks; each sock holds the bytes on their way to it, in order: those that
 * have arrived and those in flight.  A sock belongs to a virtual descriptor
 * (the product sees it through tests/sim/ring.c and sys.c) or to an actor
 * (postgres.c, client.c), which is woken on every change and calls sock_*().
 *
 * What the kernel would do is kept: bytes before the end of file, unread bytes
 * at close make a reset, bytes to a closed sock are answered by a reset, a
 * window bounds what is under way, a file lives as long as an operation.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "net/addr.h"

struct rng {
	uint64_t state;
};

struct rng rng_make(uint64_t seed, uint64_t stream);
uint64_t rng_next(struct rng *rng);
uint32_t rng_below(struct rng *rng, uint32_t limit);                /* [0, limit) */
uint32_t rng_between(struct rng *rng, uint32_t low, uint32_t high); /* [low, high] */
bool rng_chance(struct rng *rng, uint32_t per_million);

/* A timer of the world; a zeroed one is disarmed. */
struct alarm {
	uint64_t at_us, order;
	uint32_t place; /* in the heap, counted from 1; 0: disarmed */
	void (*fire)(struct alarm *alarm);
};

void alarm_set(struct alarm *alarm, uint64_t at_us, void (*fire)(struct alarm *alarm));
void alarm_clear(struct alarm *alarm);

/* What goes wrong, chances per million. */
struct faults {
	const char *name;
	uint32_t cut;   /* a transfer: ends at a random byte */
	uint32_t delay; /* a completion: comes up to delay_us late */
	uint32_t delay_us;
	uint32_t latency_us; /* at most, of bytes in flight */
	uint32_t early_end;  /* a multishot operation: ends for no reason */
	uint32_t op_error;   /* an operation: ends with an error */
	uint32_t refuse;     /* a connect: refused, or hangs */
	uint32_t window;     /* bytes in flight to a sock, at most */
	uint16_t buffers;    /* receive buffers of a group in play; 0: all */
	uint32_t client_vanish, server_vanish, client_cancel, client_stall;
	bool uneven; /* workers run at very unequal rates */
	bool named;  /* not a fault: clients use prepared statements */
};

enum { FD_BASE = 1000, FILES_MAX = 4096, RINGS_MAX = 64 };

struct segment {
	uint64_t at_us;
	uint32_t size; /* 0: an end */
	bool reset;
};

enum sock_state { SOCK_NEW, SOCK_CONNECTING, SOCK_OPEN, SOCK_FAILED };

struct sock {
	uint32_t id;
	uint8_t state;
	bool is_first;   /* of its wire */
	bool closed;     /* nobody on this side */
	bool end_sent;   /* nothing more will be written */
	bool eof, reset; /* have arrived */
	bool told;       /* of the reset, by a write that failed */
	int error;       /* SOCK_FAILED: of the connect */
	struct addr own, target;

	/* On the way to this sock: a ring of bytes and the segments in flight. */
	uint8_t *bytes;
	uint32_t window, head, count, arrived;
	struct segment *segments;
	uint32_t segment_room, segment_head, segment_count;
	uint64_t last_at_us;
	uint64_t received, sent; /* bytes in all */
	struct alarm arrival, room;

	void (*wake)(struct sock *sock); /* of an actor */
	void *owner;                     /* the actor, or the ring */
	bool is_ringed;                  /* owner is a ring */
};

struct wire {
	struct sock ends[2];
	struct wire *next, *previous;
};

struct door {
	struct addr addr;
	bool open;
	bool (*on_accept)(struct door *door, struct sock *sock); /* of an actor; false: refused */
	void *owner;
	struct sock *queue[256]; /* of a descriptor: not accepted yet */
	uint32_t queued;
	bool is_ringed;
	struct door *next;
};

enum file_kind { FILE_FREE, FILE_SOCK, FILE_DOOR, FILE_BELL };

struct file {
	enum file_kind kind;
	uint32_t operations; /* in a ring */
	struct sock *sock;
	struct door *door;
	uint64_t rung;
	void *ring; /* that reads the bell, accepts at the door */
};

struct world {
	uint64_t seed, now_us, start_us;
	struct rng net, chance, secrets;
	struct faults faults;
	struct alarm **heap;
	uint32_t alarm_count, alarm_room;
	uint64_t alarms_set;
	struct wire *wires;
	struct door *doors;
	uint32_t socks_made;
	uint32_t wires_open;
	struct file files[FILES_MAX];
	struct ring *rings[RINGS_MAX];
	uint32_t ring_count;
	bool calm; /* no more faults: the end of a run */
};

extern struct world world;

void world_open(uint64_t seed, const struct faults *faults);
void world_close(void);

/* Fires what is due.  False if nothing was. */
bool world_run(void);

/* The time of the next alarm; UINT64_MAX: none. */
uint64_t world_next_us(void);
void world_advance(uint64_t to_us);

/* A chance of the fault plan; never in the calm at the end. */
bool fault(uint32_t per_million);

/* Sockets of actors.  A sock that is closed is not to be touched again. */
struct sock *sock_open(void);
void sock_own(struct sock *sock, void (*wake)(struct sock *sock), void *owner);
void sock_connect(struct sock *sock, const struct addr *target);
uint32_t sock_read(struct sock *sock, void *bytes, uint32_t size);

/* Bytes taken (0: no room), or -EPIPE, -ECONNRESET. */
int32_t sock_write(struct sock *sock, const void *bytes, uint32_t size);
uint32_t sock_room(const struct sock *sock);
void sock_end(struct sock *sock);
void sock_close(struct sock *sock);
void sock_reset(struct sock *sock);

/* The connection breaks for both sides; this one is told at once. */
void sock_break(struct sock *sock);

struct door *door_open(const struct addr *addr);
void door_close(struct door *door);
struct sock *door_take(struct door *door);

/* Descriptors; NULL or -errno. */
int file_open(enum file_kind kind);
struct file *file_get(int fd);
void file_close(int fd);
uint32_t files_open(enum file_kind kind);

/* tests/sim/ring.c: whether this ring has something to say now, when it wants
 * to be turned at the latest, and that something has changed for it. */
bool ring_is_ready(const struct ring *ring);
uint64_t ring_deadline_us(const struct ring *ring);
void ring_wake(struct ring *ring);

/* A completion is on its way that the ring's owner has not seen. */
bool ring_is_late(const struct ring *ring);

/* Receive buffers and operations that a ring has not got back. */
uint32_t ring_lent(const struct ring *ring);
uint32_t ring_operations(const struct ring *ring);

#endif
