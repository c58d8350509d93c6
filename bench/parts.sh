# Parts of bench/try: start, measure and stop.  Variables are those of bench/try.  bench/locks uses
# the general ones, too.
# shellcheck shell=bash disable=SC2154

die() {
	echo "bench/$(basename "$0"): $1" >&2
	exit 1
}

# die_with LOG REASON
die_with() {
	tail -n 30 "$1" >&2
	die "$2"
}

step() {
	echo "== $1"
}

# Whether somebody listens on this port of 127.0.0.1.
taken() {
	(exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# PostgreSQL refuses to run as root.
as_postgres() {
	if [[ $EUID == 0 ]]; then
		setpriv --reuid postgres --regid postgres --init-groups -- "$@"
	else
		"$@"
	fi
}

console() {
	"$pg/psql" -X -h 127.0.0.1 -p "$port" -U postgres pgbouncer -c "$1"
}

# build_release TARGETS...: a build of its own: optimised, without the slow checks that the build for
# development has.
build_release() {
	local log code
	step "build"
	log=$(mktemp) || exit 1
	{
		if [[ ! -e build-release/build.ninja ]] || ! meson setup --reconfigure build-release; then
			rm -rf build-release # none yet, or made by another meson or in another place
			meson setup build-release --buildtype=release
		fi && ninja -C build-release -j2 "$@"
	} >"$log" 2>&1 </dev/null
	code=$?
	[[ $code == 0 ]] || tail -n 30 "$log" >&2
	rm -f "$log"
	[[ $code == 0 ]] || die "it does not build"
	binary=$PWD/build-release/ringbouncer
}

cluster_start() {
	step "PostgreSQL 15 in $folder"
	as_postgres "$pg/initdb" -D "$folder/data" -U postgres -A trust --no-sync \
		-E UTF8 --locale=C >initdb.log 2>&1 </dev/null || die_with initdb.log "no cluster"
	for server in {25432..25499}; do # below those that the kernel gives to clients
		taken "$server" || break
	done
	cat >>"$folder/data/postgresql.conf" <<-END
		listen_addresses = '127.0.0.1'
		port = $server
		unix_socket_directories = '$folder'
		fsync = off
		synchronous_commit = off
		full_page_writes = off
		shared_buffers = 256MB
		max_wal_size = 2GB
		autovacuum = off
	END
	as_postgres "$pg/pg_ctl" start -w -D "$folder/data" -l "$folder/postgresql.log" \
		>pg_ctl.log 2>&1 </dev/null || die_with postgresql.log "PostgreSQL does not start"
	"$pg/createdb" -h "$folder" -p "$server" -U postgres bench </dev/null || die "no database"
}

# pooler_ini USER WORKERS: what every pooler of the family reads; `workers` is ours alone.
pooler_ini() {
	cat <<-END
		[databases]
		bench = host=127.0.0.1 port=$server dbname=bench user=$1

		[pgbouncer]
		listen_addr = 127.0.0.1
		listen_port = $port
		unix_socket_dir =
		auth_type = trust
		auth_file = $folder/users.txt
		admin_users = $1
		pool_mode = transaction
		default_pool_size = 20
		max_client_conn = 1000
	END
	[[ $(basename "$binary") == pgbouncer* ]] || echo "workers = $2"
}

write_config() {
	pooler_ini postgres "$(nproc)" >pooler.ini
	[[ $EUID != 0 ]] || echo "user = postgres" >>pooler.ini
	echo '"postgres" ""' >users.txt
	chmod 644 pooler.ini users.txt
}

pooler_start() {
	write_config
	step "$(basename "$binary") on 127.0.0.1:$port"
	[[ $(ulimit -n) == unlimited || $(ulimit -n) -ge 4096 ]] || ulimit -n 4096 2>/dev/null ||
		ulimit -n "$(ulimit -Hn)"
	setsid "$binary" "$folder/pooler.ini" >pooler.log 2>&1 </dev/null &
	pooler=$!
	local tries
	for tries in {1..50}; do
		kill -0 "$pooler" 2>/dev/null || break
		if "$pg/psql" -X -h 127.0.0.1 -p "$port" -U postgres bench -c 'SELECT 1' \
			>connect.log 2>&1 </dev/null; then
			return
		fi
		sleep 0.1
	done
	cat connect.log >>pooler.log 2>/dev/null
	die_with pooler.log "the pooler does not answer (tried $tries times; its log is above)"
}

# The CPU time of each thread of the pooler so far: lines of `name nanoseconds`.
threads() {
	local task name spent rest
	for task in /proc/"$pooler"/task/*; do
		read -r name 2>/dev/null <"$task/comm" || continue
		read -r spent rest 2>/dev/null <"$task/schedstat" || continue
		echo "${name// /_}:${task##*/} $spent"
	done
}

# measure CLIENTS: a row of the table.  Logins are in the pooler's time, as they are in life.
measure() {
	local clients=$1
	[[ ! -t 1 ]] || printf '%8d  running for %d s\r' "$clients" "$seconds"
	threads >before
	"$pg/pgbench" -h 127.0.0.1 -p "$port" -U postgres -S -n -c "$clients" -j 2 -T "$seconds" bench \
		>pgbench.log 2>&1 </dev/null &
	pgbench=$!
	if ! wait "$pgbench"; then
		tail -n 30 pooler.log >&2
		die_with pgbench.log "pgbench failed with $clients clients"
	fi
	pgbench=''
	threads >after
	kill -0 "$pooler" 2>/dev/null || die_with pooler.log "the pooler is gone"
	awk -v clients="$clients" -f "$top/bench/row.awk" before after pgbench.log
}

write_stop() {
	cat >stop <<-END
		#!/bin/sh
		# Ends the pooler and the PostgreSQL of this folder, and removes the folder.
		kill -TERM $pooler
		kill -QUIT \$(head -n 1 $folder/data/postmaster.pid)
		sleep 1
		kill -KILL $pooler 2>/dev/null
		rm -rf $folder
	END
	chmod 755 stop
}

# gone PID SECONDS: waits for a process to be gone; one that nobody has waited for yet is, too.
gone() {
	local tries=$(($2 * 20))
	while [[ -e /proc/$1/stat && $(cat "/proc/$1/stat" 2>/dev/null) != *") Z "* ]]; do
		[[ $((tries -= 1)) -gt 0 ]] || return 1
		sleep 0.05
	done
}

clean_up() {
	trap '' INT TERM HUP
	local postmaster=''
	[[ ! $pgbench ]] || kill -TERM "$pgbench" 2>/dev/null
	if [[ $pooler ]]; then
		kill -TERM "$pooler" 2>/dev/null
		gone "$pooler" 3 || kill -KILL "$pooler" 2>/dev/null
	fi
	[[ $folder ]] || return
	read -r postmaster 2>/dev/null <"$folder/data/postmaster.pid"
	if [[ $postmaster ]]; then
		kill -QUIT "$postmaster" 2>/dev/null
		gone "$postmaster" 10
	fi
	cd / && rm -rf "$folder"
}
