# Parts of bench/locks and bench/instructions: a pooler, under valgrind or not, in front of the
# stub.  All they make lies in one folder under /tmp, which goes away at the end, also on Ctrl-C.
# shellcheck shell=bash disable=SC2034,SC2154

folder='' pooler='' stub='' load='' binary='' as=() serve=()

# stop PID: asks it to end, then makes it.
stop() {
	[[ $1 ]] || return
	kill -TERM "$1" 2>/dev/null
	gone "$1" 3 || kill -KILL "$1" 2>/dev/null
	wait "$1" 2>/dev/null
}

stop_all() {
	stop "$load"
	stop "$pooler"
	stop "$stub"
	load='' pooler='' stub=''
}

# shellcheck disable=SC2317 # the trap calls it
clean_up() {
	trap '' INT TERM HUP
	stop_all
	[[ ! $folder ]] || rm -rf "$folder"
}

# ports_find FIRST LAST: $port and the next one, if it is set, or two free ones.
ports_find() {
	local candidates number found=''
	# shellcheck disable=SC2207 # numbers
	[[ $port ]] && candidates=("$port") || candidates=($(seq "$1" 2 "$2"))
	for number in "${candidates[@]}"; do
		taken "$number" || taken $((number + 1)) || found=${found:-$number}
	done
	[[ $found ]] || die "port ${candidates[0]} or the next one is taken: use --port N"
	port=$found
}

programs_need() {
	local program
	for program; do
		command -v "$program" >/dev/null || die "no $program"
	done
}

# place_make: the folder, with a copy of $binary, so that all that is said is of one file, whoever
# builds meanwhile; its configuration; which CPU is whose; and who it runs as.
place_make() {
	folder=$(mktemp -d "/tmp/ringbouncer-$(basename "$0").XXXXXX") || die "no folder under /tmp"
	cp "$binary" "$folder/" || die "no $binary"
	binary=$folder/$(basename "$binary")
	serve=("$binary" "$folder/pooler.ini")
	server=$((port + 1))
	pooler_ini bench 1 >"$folder/pooler.ini"
	echo '"bench" ""' >"$folder/users.txt"
	if [[ $EUID == 0 ]]; then # the pooler does not run as root
		chown -R nobody: "$folder"
		as=(setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups --)
	fi
	mapfile -t cpus < <(python3 -c 'import os
for cpu in sorted(os.sched_getaffinity(0)): print(cpu)')
	other=${cpus[1]:-${cpus[0]}}
	callgrind=(valgrind --tool=callgrind --dump-instr=yes --separate-threads=yes
		--compress-pos=no --compress-strings=no --vgdb-prefix="$folder/vgdb"
		--callgrind-out-file="$folder/counts")
}

# start CPU PREFIX...: the stub on this CPU, and the pooler by PREFIX; false if not both answer.
start() {
	local cpu=$1 tries
	shift
	taskset -c "$cpu" "$build/bench/stub" --port $((port + 1)) --quiet \
		>"$folder/stub.log" 2>&1 &
	stub=$!
	"${as[@]}" "$@" "${serve[@]}" >"$folder/pooler.log" 2>&1 &
	pooler=$!
	for tries in {1..200}; do
		[[ -e /proc/$pooler && -e /proc/$stub ]] || break
		if taken "$port" && taken $((port + 1)); then
			return
		fi
		sleep 0.05
	done
	tail -n 20 "$folder/stub.log" "$folder/pooler.log"
	echo "not up after $tries tries: the logs are above"
	return 1
}
