/*
 * config_parts.h - what the files of config share; for core/config*.c only.
 *
 *	ini.c            cuts a file into lines          (pure)
 *	connstr.c        cuts an entry into pairs        (pure)
 *	users.c          cuts an auth_file into entries  (pure)
 *	config_value.c   settings: text to value and back
 *	config_entry.c   one entry of [databases], [users], [peers]
 *	config_sort.c    sorts entries, joins what is known of one user
 *	config_check.c   what this build does not do
 *	config_load.c    reads the files, builds a snapshot, reports
 *	config.c         a snapshot's life and look-ups
 *
 * A snapshot owns a config_memory: texts are cut from its blocks and never
 * freed one by one.  Running out of memory sets `failed` and yields empty
 * texts, so that only the end of a load has to look.
 */
/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CORE_CONFIG_PARTS_H
#define CORE_CONFIG_PARTS_H

#include <stddef.h>

#include "core/base/bytes.h"
#include "core/config.h"

enum {
	/* Bytes of one file, so that a path to a device ends in an error. */
	CONFIG_FILE_MAX = 256 * 1024 * 1024,
	INCLUDE_DEPTH_MAX = 10,
	CONFIG_LINE_MAX = 1024, /* of a line for the operator */
	PEER_ID_MAX = 65535,
};

enum setting_number {
#define SETTING(kind, name, ...) SETTING_NUMBER_##name,
#include "core/settings.def"
	SETTING_COUNT
};

enum setting_kind {
	SETTING_KIND_INT,
	SETTING_KIND_UINT,
	SETTING_KIND_BOOL,
	SETTING_KIND_TIME,
	SETTING_KIND_ENUM,
	SETTING_KIND_TEXT,
};

/* A SETTING row. */
struct setting {
	const char *name;
	enum setting_kind kind;
	bool is_live, is_later;
	const char *initial;
	int64_t min, max;
	size_t offset; /* in struct settings */
	const char *help;
};

extern const struct setting setting_table[SETTING_COUNT];

struct config_block;

struct config_memory {
	/* Snapshots that config_with() made of this one hold it too. */
	atomic_uint holders;
	struct config_memory *below;
	struct config_block *blocks;
	struct database_entry autodb; /* what config->autodb points to */
	uint32_t database_room, user_room, peer_room;
	bool failed;

	/* By the file or by SET; and where in the file (NULL: not there). */
	bool is_set[SETTING_COUNT];
	const char *set_file[SETTING_COUNT];
	uint32_t set_line[SETTING_COUNT];
};

/* Where something stands, and whom to tell. */
struct config_place {
	const struct config_report *report; /* NULL: nobody */
	const char *file;
	uint32_t line; /* 0: the file as a whole */
};

__attribute__((format(printf, 3, 4))) void config_tell(const struct config_report *report,
                                                       bool is_error, const char *format, ...);

/* With " (file:line)" behind it. */
__attribute__((format(printf, 3, 4))) void config_tell_at(const struct config_place *place,
                                                          bool is_error, const char *format, ...);

struct config *config_create(void);

/* Bytes, and a copy, that live as long as the snapshot.  NULL, "" without memory. */
char *config_room(struct config_memory *memory, size_t size);
const char *config_text(struct config_memory *memory, struct span text);

/* One more object at the end of an array; NULL without memory. */
void *config_grow(struct config_memory *memory, void **array, uint32_t *count, uint32_t *room,
                  size_t object_size);

/* NULL if there is none. */
const struct setting *setting_find(const char *name);
uint32_t setting_number(const struct setting *setting);

/* False: nothing changed and `reason` says why. */
bool setting_set(struct config *config, const struct setting *setting, const char *text,
                 char *reason, size_t room);
bool setting_equal(const struct setting *setting, const struct settings *a,
                   const struct settings *b);
void setting_copy(const struct setting *setting, struct config *to, const struct settings *from);
void setting_show(const struct setting *setting, const struct settings *settings, char *text,
                  size_t room);

/* Why this build must not run with the value, or NULL. */
const char *setting_refusal(const struct setting *setting, const struct settings *settings);

/* The index of a word in a list ended by NULL, or -1; upper case is the same. */
int word_find(const char *const *words, const char *word);
bool pool_mode_read(const char *word, enum pool_mode *mode);

/* The nearest of `count` names that are `stride` apart, if it may have been
 * meant; else NULL. */
const char *name_nearest(const char *name, const char *const *names, size_t count, size_t stride);

enum entry_section { SECTION_DATABASES, SECTION_USERS, SECTION_PEERS };

/* Adds the entry, or says what is wrong with it and returns false. */
bool entry_read(struct config *config, enum entry_section section, const char *name,
                const char *pairs, const struct config_place *place);

/* NULL if there is none; `users` must be in order. */
const struct user_entry *user_find(const struct user_entry *users, uint32_t count,
                                   const char *name);

/* Sorts the arrays; of entries with one name the last one stays.  Puts what
 * several sources know of one user together. */
void entries_sort(struct config *config);

/* Reads the text of one file into `config`.  Includes are read from disk up to
 * `depth_left` deep.  False: something is wrong, and it was reported. */
bool config_read_text(struct config *config, const struct config_report *report, const char *name,
                      struct span text, uint32_t depth_left);

/* The entries of an auth_file; `text` is changed.  False: it breaks off. */
bool config_read_users(struct config *config, const struct config_report *report, const char *name,
                       char *text, size_t size);

#endif
