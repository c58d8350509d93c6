/*
 * drive.h - what stands between the clients and the server in a run.
 *
 *	self   nothing: the actors are tested against each other
 *	relay  net alone: each client's bytes to a connection of its own
 *	core   the pooler, with any number of workers
 *
 * The main loop fires alarms, lets the drive step, and lets time jump when
 * neither has anything to do.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TESTS_SIM_DRIVE_H
#define TESTS_SIM_DRIVE_H

#include "tests/sim/postgres.h"
#include "tests/sim/world.h"

#include <stdbool.h>
#include <stdint.h>

struct plan {
	const char *drive;
	const struct faults *faults;
	const struct postgres *postgres;
	uint64_t seed;
	uint32_t workers, clients, operations;
	uint32_t pool_size, reserve, users, databases;
	uint32_t limit_user, limit_database;
	bool session_mode;
	uint32_t prepared; /* max_prepared_statements; 0: as it is */
	bool prepare_unnamed;
};

struct drive {
	const char *name;
	void (*open)(const struct plan *plan, const struct addr *front, const struct addr *back);

	/* Turns of rings that have something to do; false: there are none. */
	bool (*step)(void);
	uint64_t (*next_us)(void);

	/* After the clients have gone: sim_fail() unless all is back at baseline. */
	void (*settle)(struct postgres *postgres);
	void (*close)(void);
	void (*print)(void); /* who is left, to stderr */
};

extern const struct drive drive_self, drive_relay, drive_core;

/* Rings of the world that have something to do, turned in seeded order by
 * turn(index); shared by drives. */
bool drive_step_rings(void (*turn)(uint32_t index));
uint64_t drive_next_us(void);

/* Goes on with the world for at most this long. */
void drive_run_for(const struct drive *drive, uint64_t us);

#endif
