# A row of the table of bench/try.  Reads `thread nanoseconds` before and after, and pgbench's report.
FILENAME == "before" {
	before[$1] = $2
}
FILENAME == "after" {
	spent = $2 - before[$1]
	total += spent
	name[++count] = $1
	used[count] = spent
}
/^number of transactions actually processed/ {
	transactions = $NF
	sub(/\/.*/, "", transactions)
}
/^latency average/ {
	latency = $4
}
/^tps = / {
	rate = $3
}
END {
	for (i = 1; i <= count; i++) {
		if (total == 0 || used[i] * 100 < total)
			continue # threads that do next to nothing
		shown++
		sub(/:[0-9]+$/, "", name[i])
		if (shown <= 8)
			shares = shares sprintf("%s %.0f%%  ", name[i], used[i] * 100 / total)
	}
	if (shown > 8)
		shares = shares "and " shown - 8 " more"
	cost = transactions > 0 && count > 0 ? sprintf("%.1f", total / 1000 / transactions) : "?"
	printf "%8d %15.0f %11.3f %11s   %s\n", clients, rate, latency, cost, shares
}
