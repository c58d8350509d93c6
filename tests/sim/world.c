/*
 * world.c - time, chance, alarms and descriptors.  The sockets: socket.c.
 *
 * Alarms lie in a binary heap by time and order of setting, so two alarms of
 * one moment fire in an order that the seed alone decides.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tests/sim/world.h"

#include "tests/sim/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct world world;

struct rng rng_make(uint64_t seed, uint64_t stream)
{
	struct rng rng = {seed * 0x9e3779b97f4a7c15U ^ stream * 0xd1342543de82ef95U};
	rng_next(&rng);
	return rng;
}

/* splitmix64 */
uint64_t rng_next(struct rng *rng)
{
	uint64_t z = rng->state += 0x9e3779b97f4a7c15U;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
	z = (z ^ z >> 27) * 0x94d049bb133111ebU;
	return z ^ z >> 31;
}

uint32_t rng_below(struct rng *rng, uint32_t limit)
{
	return limit == 0 ? 0 : (uint32_t)(rng_next(rng) >> 32) % limit;
}

uint32_t rng_between(struct rng *rng, uint32_t low, uint32_t high)
{
	return low + rng_below(rng, high - low + 1);
}

bool rng_chance(struct rng *rng, uint32_t per_million)
{
	return per_million > 0 && rng_below(rng, 1000000) < per_million;
}

bool fault(uint32_t per_million)
{
	return !world.calm && rng_chance(&world.chance, per_million);
}

static bool alarm_before(const struct alarm *a, const struct alarm *b)
{
	return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void heap_put(uint32_t place, struct alarm *alarm)
{
	world.heap[place] = alarm;
	alarm->place = place;
}

static void heap_up(uint32_t place)
{
	struct alarm *alarm = world.heap[place];
	while (place > 1 && alarm_before(alarm, world.heap[place / 2])) {
		heap_put(place, world.heap[place / 2]);
		place /= 2;
	}
	heap_put(place, alarm);
}

static void heap_down(uint32_t place)
{
	struct alarm *alarm = world.heap[place];
	for (;;) {
		uint32_t child = place * 2;
		if (child > world.alarm_count)
			break;
		if (child < world.alarm_count &&
		    alarm_before(world.heap[child + 1], world.heap[child]))
			child++;
		if (!alarm_before(world.heap[child], alarm))
			break;
		heap_put(place, world.heap[child]);
		place = child;
	}
	heap_put(place, alarm);
}

void alarm_clear(struct alarm *alarm)
{
	uint32_t place = alarm->place;
	if (place == 0)
		return;
	alarm->place = 0;
	struct alarm *last = world.heap[world.alarm_count--];
	if (last == alarm)
		return;
	heap_put(place, last);
	heap_up(place);
	heap_down(last->place);
}

void alarm_set(struct alarm *alarm, uint64_t at_us, void (*fire)(struct alarm *alarm))
{
	alarm_clear(alarm);
	if (world.alarm_count + 2 > world.alarm_room) {
		world.alarm_room = world.alarm_room == 0 ? 64 : world.alarm_room * 2;
		world.heap = (struct alarm **)realloc((void *)world.heap,
		                                      world.alarm_room * sizeof world.heap[0]);
		SIM_CHECK(world.heap != NULL, "no memory");
	}
	alarm->at_us = at_us < world.now_us ? world.now_us : at_us;
	alarm->order = world.alarms_set++;
	alarm->fire = fire;
	heap_put(++world.alarm_count, alarm);
	heap_up(world.alarm_count);
}

void world_open(uint64_t seed, const struct faults *faults)
{
	memset(&world, 0, sizeof world);
	world.seed = seed;
	world.faults = *faults;
	world.net = rng_make(seed, 1);
	world.chance = rng_make(seed, 2);
	world.secrets = rng_make(seed, 3);
	world.now_us = 1000000 + rng_below(&world.net, 1000000);
	world.start_us = world.now_us;
}

void world_close(void)
{
	while (world.wires != NULL) {
		struct wire *wire = world.wires;
		world.wires = wire->next;
		for (int i = 0; i < 2; i++) {
			free(wire->ends[i].bytes);
			free(wire->ends[i].segments);
		}
		free(wire);
	}
	while (world.doors != NULL) {
		struct door *door = world.doors;
		world.doors = door->next;
		free(door);
	}
	free((void *)world.heap);
	world.heap = NULL;
	world.alarm_count = world.alarm_room = 0;
}

bool world_run(void)
{
	bool any = false;
	while (world.alarm_count > 0 && world.heap[1]->at_us <= world.now_us) {
		struct alarm *alarm = world.heap[1];
		alarm_clear(alarm);
		alarm->fire(alarm);
		any = true;
	}
	return any;
}

uint64_t world_next_us(void)
{
	return world.alarm_count == 0 ? UINT64_MAX : world.heap[1]->at_us;
}

void world_advance(uint64_t to_us)
{
	if (to_us > world.now_us)
		world.now_us = to_us;
}

/* The lowest free number, as the kernel gives it: numbers come back at once. */
int file_open(enum file_kind kind)
{
	for (uint32_t i = 0; i < FILES_MAX; i++)
		if (world.files[i].kind == FILE_FREE) {
			world.files[i] = (struct file){.kind = kind};
			return FD_BASE + (int)i;
		}
	return -EMFILE;
}

struct file *file_get(int fd)
{
	if (fd < FD_BASE || fd >= FD_BASE + FILES_MAX)
		return NULL;
	struct file *file = &world.files[fd - FD_BASE];
	return file->kind == FILE_FREE ? NULL : file;
}

void file_close(int fd)
{
	struct file *file = file_get(fd);
	SIM_CHECK(file != NULL, "close of descriptor %d, which is not open", fd);
	SIM_CHECK(file->operations == 0, "close of descriptor %d with %u operations in the ring",
	          fd, file->operations);
	if (file->kind == FILE_SOCK)
		sock_close(file->sock);
	else if (file->kind == FILE_DOOR)
		door_close(file->door);
	*file = (struct file){0};
}

uint32_t files_open(enum file_kind kind)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < FILES_MAX; i++)
		count += world.files[i].kind == kind;
	return count;
}
