# SPDX-License-Identifier: GPL-2.0-or-later
"""Who may log in, and how he proves it, towards clients and towards PostgreSQL."""
import subprocess

from harness import AUTH_FILE, PASSWORD, SAME_SECRET, as_postgres, check, fails, same, test
from wire import P, Q, Closed, Wire, cstr, md5_secret, message, scram_secret, startup

SECRETS = f"""
"postgres" ""
"admin" "admin"
"stats" "stats"
"plain" "{PASSWORD}"
"md5" "{md5_secret('md5', PASSWORD)}"
"scram" "{scram_secret(PASSWORD)}"
"nobody" ""
"""
FORCED = "test = host=127.0.0.1 port=PG dbname=test user=postgres"
REFUSED = "password authentication failed"


@test()
def trust(stage):
    """auth_type trust lets known users in without a password."""
    one = stage.wire("postgres", "test")
    same(one.asked, None)
    same(one.value("select current_user"), "postgres")
    fails('"trust" authentication failed', stage.wire, "stranger", "test")
    same(one.value("select 1"), "1")


@test("auth_type = any", databases=FORCED + "\nfree = host=127.0.0.1 port=PG dbname=test")
def any_user(stage):
    """auth_type any asks nothing, and wants a database with a forced user."""
    one = stage.wire("stranger", "test")
    same(one.value("select current_user"), "postgres")
    fails("bouncer config error", stage.wire, "stranger", "free")


@test("auth_type = plain", databases=FORCED, auth=SECRETS)
def plain(stage):
    """auth_type plain takes plain, MD5 and SCRAM secrets."""
    for user in ("plain", "md5", "scram"):
        one = stage.wire(user, "test", PASSWORD)
        same((one.asked, one.value("select 1")), ("plain", "1"), user)
        for wrong in ("x", PASSWORD + "x", PASSWORD[:-1]):
            fails(REFUSED, stage.wire, user, "test", wrong)
    fails("empty password returned by client", stage.wire, "plain", "test", "")
    fails(REFUSED, stage.wire, "nobody", "test", "x")
    fails(REFUSED, stage.wire, "stranger", "test", PASSWORD)
    fails(REFUSED, stage.wire, "md5", "test", md5_secret("md5", PASSWORD))


@test("auth_type = md5", databases=FORCED, auth=SECRETS)
def md5(stage):
    """auth_type md5 takes plain and MD5 secrets, and turns to SCRAM for SCRAM secrets."""
    for user, asked, text in (("plain", "md5", REFUSED), ("md5", "md5", REFUSED),
                              ("scram", "scram", "authentication failed")):
        one = stage.wire(user, "test", PASSWORD)
        same((one.asked, one.value("select 1")), (asked, "1"), user)
        fails(text, stage.wire, user, "test", "wrong")
    fails(REFUSED, stage.wire, "nobody", "test", "x")
    fails(REFUSED, stage.wire, "stranger", "test", PASSWORD)


@test("auth_type = scram-sha-256", databases=FORCED, auth=SECRETS)
def scram(stage):
    """auth_type scram-sha-256 takes SCRAM and plain secrets, MD5 ones fail."""
    for user in ("plain", "scram", "plain", "scram"):
        one = stage.wire(user, "test", PASSWORD)
        same((one.asked, one.mechanisms, one.value("select 1")),
             ("scram", [b"SCRAM-SHA-256"], "1"), user)
        fails("SASL authentication failed", stage.wire, user, "test", "wrong")
    for user in ("md5", "nobody", "stranger"):
        fails("SASL authentication failed", stage.wire, user, "test", PASSWORD)


@test("auth_type = scram-sha-256", databases=FORCED, auth=SECRETS)
def scram_mistakes(stage):
    """SCRAM: y,, is fine; channel binding, authzid, foreign nonces and wrong bindings are not."""
    same(stage.wire("scram", "test", PASSWORD, scram=dict(gs2="y,,")).value("select 1"), "1")
    for options in (dict(gs2="p=tls-server-end-point,,"), dict(gs2="n,a=scram,"), dict(gs2="x,,"),
                    dict(bad_nonce=True), dict(binding="y,,"), dict(gs2="y,,", binding="n,,"),
                    dict(gs2="n,,m=1,"), dict(gs2="")):
        fails("SASL authentication failed", stage.wire, "scram", "test", PASSWORD, scram=options)
    fails("client selected an invalid SASL authentication mechanism", stage.wire, "scram", "test",
          PASSWORD, scram=dict(mechanism="SCRAM-SHA-256-PLUS"))
    same(stage.wire("scram", "test", PASSWORD).value("select 1"), "1")


@test("auth_type = md5", databases=FORCED, auth=SECRETS)
def same_sequence(stage):
    """Nobody can tell an unknown user or database from a wrong password by what is said."""
    def sequence(user, database, password):
        one = stage.raw()
        one.send(startup([("user", user), ("database", database)]))
        kinds = []
        while True:
            try:
                got = one.read()
            except Closed:
                return kinds
            kinds.append((got.kind, got.body[:4] if got.kind == "R" else got.fields().get("M")))
            if got.kind == "R":
                one.send(message("p", cstr("md5" + "0" * 32)))
    wrong = sequence("md5", "test", "wrong")
    same([k for k, _ in wrong], ["R", "E"])
    same(sequence("stranger", "test", "wrong"), wrong)
    same(sequence("stranger", "nowhere", "wrong"), wrong)
    same(sequence("plain", "nowhere", "wrong"), wrong)


@test("auth_type = md5", databases=FORCED, auth=SECRETS)
def unknown_database(stage):
    """Only who has proved who he is hears that a database does not exist."""
    fails("no such database: nowhere", stage.wire, "plain", "nowhere", PASSWORD)
    fails("no such database: nowhere", stage.wire, "scram", "nowhere", PASSWORD)
    fails(REFUSED, stage.wire, "plain", "nowhere", "wrong")


@test("auth_type = scram-sha-256", databases=FORCED, auth=SECRETS, new=True)
def bad_packets_in_login(stage):
    """Queries, foreign messages and junk in place of a password end the connection."""
    for junk in (Q("select 1"), P("", "select 1"), message("p"), message("p", b"\xff" * 300),
                 message("p", cstr("SCRAM-SHA-256")), message("p", cstr("SCRAM-SHA-256") + b"\xff" * 4),
                 message("p", cstr("SCRAM-SHA-256") + b"\0\0\0\x08n,,n=,r="), b"\0" * 8,
                 b"p\xff\xff\xff\xff", b"p\0\0\0\0"):
        one = stage.raw()
        one.send(startup([("user", "scram"), ("database", "test")]))
        same(one.reply(1), ["R"])
        one.send(junk)
        got = one.reply(2, 3)
        check(got in (["EOF"], ["E[08P01]", "EOF"]), junk[:40], got)
    same(stage.wire("scram", "test", PASSWORD).value("select 1"), "1")


@test("auth_type = plain")
def to_server(stage):
    """Plain secrets get servers that want cleartext, MD5 and SCRAM."""
    for user in ("u_trust", "u_plain", "u_md5", "u_scram"):
        one = stage.wire(user, "test", "trusted" if user == "u_trust" else PASSWORD)
        same(one.value("select current_user"), user)


@test("auth_type = trust", auth=f"""
"admin" "admin"
"u_md5" "{md5_secret('u_md5', PASSWORD)}"
"u_scram" "{md5_secret('u_scram', PASSWORD)}"
"u_same" "{SAME_SECRET}"
"u_plain" "{md5_secret('u_plain', PASSWORD)}"
""", new=True)
def to_server_secrets(stage):
    """An MD5 secret is good for MD5 only; a SCRAM secret for nothing until a client has proved it."""
    same(stage.wire("u_md5", "test").value("select current_user"), "u_md5")
    fails("server login failed: wrong password type", stage.wire, "u_scram", "test")
    fails("server login failed: wrong password type", stage.wire, "u_same", "test")
    fails("28P01", stage.wire, "u_plain", "test")


@test("auth_type = scram-sha-256")
def scram_passed_through(stage):
    """Keys of a client's SCRAM login open servers that hold the same secret, also after RECONNECT."""
    one = stage.wire("u_same", "test", PASSWORD)
    same(one.value("select current_user"), "u_same")
    first = one.value("select pg_backend_pid()")
    stage.ask("reconnect")
    two = stage.wire("u_same", "test", PASSWORD)
    check(two.value("select pg_backend_pid()") != first)
    same(one.value("select current_user"), "u_same")


@test("auth_type = scram-sha-256", auth=AUTH_FILE.replace(SAME_SECRET, scram_secret(PASSWORD)), new=True)
def scram_of_another(stage):
    """Keys do not open a server with another secret of the same password."""
    fails("28P01", stage.wire, "u_same", "test", PASSWORD)


@test("auth_type = scram-sha-256", databases="test = host=127.0.0.1 port=PG user=u_scram "
      f"password='{PASSWORD}'\nfile = host=127.0.0.1 port=PG dbname=test user=u_scram",
      auth=f'"admin" "admin"\n"someone" "{scram_secret("other")}"\n"u_scram" "{PASSWORD}"', new=True)
def forced_user(stage):
    """A forced user logs in with its own password, whatever the clients prove (K32)."""
    for number in range(6):
        one = stage.wire("someone", "test" if number % 3 else "file", "other")
        same(one.value("select current_user"), "u_scram")
        stage.ask("reconnect")


@test(databases="* = host=127.0.0.1 port=PG", new=True)
def any_database(stage):
    """`*` serves databases that have no entry, and PostgreSQL's own error comes for unknown ones."""
    same(stage.wire(database="third").value("select current_database()"), "third")
    same(stage.wire(database="second").value("select current_database()"), "second")
    error = fails('database "nowhere" does not exist', stage.wire, database="nowhere")
    same(error.sqlstate, "3D000")
    stage.pooler.wait_log('registered new auto-database: third')
    stage.pooler.wait_log('server login failed: FATAL database "nowhere" does not exist')
    same({r["name"] for r in stage.ask("show databases")} >= {"third", "second"}, True)


@test(databases="sock = host=PG_SOCKET port=PG dbname=test\ntest = port=PG",
      config="unix_socket_dir = PG_SOCKET")
def unix_sockets(stage):
    """Clients and servers on unix sockets, servers also where the entry has no host."""
    one = stage.keep(Wire(str(stage.cluster.folder), stage.pooler.port)).login("postgres", "sock")
    same(one.value("select inet_client_addr()"), None)
    same(stage.wire().value("select inet_client_addr()"), None)
    row = [r for r in stage.ask("show clients") if r["database"] == "sock"][0]
    same(row["addr"], "unix")


@test("listen_addr = 127.0.0.1, ::1", databases="test = host=::1 port=PG")
def ipv6(stage):
    """Clients and servers on IPv6."""
    one = stage.keep(Wire("::1", stage.pooler.port)).login("postgres", "test")
    same(one.value("select host(inet_client_addr())"), "::1")
    row = [r for r in stage.ask("show clients") if r["database"] == "test"][0]
    same(row["addr"], "::1")


@test("auth_type = md5")
def own_console(stage):
    """The process's own user gets to the console on the unix socket without a password."""
    def psql(user):
        return subprocess.run(
            as_postgres() + ["psql", "-X", "-w", "-h", stage.pooler.folder, "-p",
                             str(stage.pooler.port), "-U", user, "-Atc", "show version", "pgbouncer"],
            capture_output=True, text=True, cwd="/", stdin=subprocess.DEVNULL)
    done = psql("pgbouncer")
    check(done.stdout.startswith("PgBouncer "), done)
    check(psql("admin").returncode != 0)
    stage.pooler.wait_log("pgbouncer access from unix socket")


@test("auth_type = md5", new=True)
def console_rights(stage):
    """Admins may all, stats users may look, others nothing; passwords are asked of all."""
    fails("not allowed", stage.wire, "alice", "pgbouncer", "alice")
    fails(REFUSED, stage.wire, "admin", "pgbouncer", "wrong")
    fails(REFUSED, stage.wire, "stats", "pgbouncer", "wrong")
    stats = stage.wire("stats", "pgbouncer", "stats")
    check(stats.query("show pools"))
    for command in ("reload", "pause", "kill test", "set verbose = 0", "shutdown", "reconnect",
                    "disable test", "resume", "suspend", "kill_client 1", "show fds"):
        fails("admin access needed", stats.query, command)
    same(stats.value("show client_encoding"), "UTF-8")


@test(auth=AUTH_FILE.replace('"alice" "alice"', '"u_nologin" ""'), new=True)
def server_refuses(stage):
    """What PostgreSQL says against a login is what the client hears."""
    same(fails("pg_hba.conf rejects", stage.wire, "u_refused").sqlstate, "28000")
    same(fails("is not permitted to log in", stage.wire, "u_nologin").sqlstate, "28000")
    fails(["is not permitted to log in", "server login has been failing"], stage.wire, "u_nologin")
    same(stage.wire().value("select 1"), "1")


@test("auth_type = md5")
def password_changed(stage):
    """After a change of a password in auth_file and RELOAD the new one counts."""
    same(stage.wire("alice", password="alice").value("select 1"), "1")
    stage.reload(config="auth_type = md5", auth=AUTH_FILE.replace('"alice" "alice"', '"alice" "new"'))
    fails(REFUSED, stage.wire, "alice", password="alice")
    same(stage.wire("alice", password="new").value("select 1"), "1")


@test("auth_type = plain", auth='"admin" "admin"\n"postgres" "' + "p" * 65530 + '"', new=True)
def long_password(stage):
    """A password of the greatest length is taken, one byte more is not."""
    same(stage.wire(password="p" * 65530).value("select 1"), "1")
    fails(REFUSED, stage.wire, password="p" * 65529)
    one = stage.raw()
    one.send(startup([("user", "postgres"), ("database", "test")]))
    same(one.reply(1), ["R"])
    one.send(message("p", cstr("p" * 65531)))
    got = one.reply(2, 3)
    check(got[-1] == "EOF", got)


@test("auth_type = plain", auth='"admin" "admin"\n"a""b" "q""x"\n"sp ace" "\\"\n; "no" "no"\n'
      '  "late"   "late" more\n', databases=FORCED)
def auth_file_quoting(stage):
    """Quotes in names and secrets of auth_file, comments, text behind."""
    for user, password in (('a"b', 'q"x'), ("sp ace", "\\"), ("late", "late")):
        same(stage.wire(user, password=password).value("select 1"), "1", user)
    fails(REFUSED, stage.wire, "no", password="no")


@test("auth_type = md5\nverbose = 3")
def secrets_stay(stage):
    """Secrets are in no log line, however much is logged (looked at after every test)."""
    stage.wire("u_md5", password=PASSWORD)
    stage.wire("u_scram", password=PASSWORD)
    stage.wire("u_same", "second", password=PASSWORD).value("select 1")
    fails(REFUSED, stage.wire, "u_md5", password=PASSWORD + "x")
    stage.ask("show config")


@test("client_login_timeout = 1", slow=True, new=True)
def login_timeout(stage):
    """Who does not finish his login in time is cut off, whether silent or slow."""
    silent, half = stage.raw(), stage.raw()
    half.send(startup([("user", "postgres")])[:9])
    for one in (silent, half):
        error = one.ended(4)
        check(error is None or error.text == "client_login_timeout", error)


@test("login_notify_message = Welcome to the pool", new=True)
def notify_at_login(stage):
    """login_notify_message comes as a notice at each login."""
    same([n["M"] for n in stage.wire().notices], ["Welcome to the pool"])
