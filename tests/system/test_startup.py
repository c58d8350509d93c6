# SPDX-License-Identifier: GPL-2.0-or-later
"""The first packets of a client: negotiation, parameters, and what is wrong with them."""
import struct

from harness import check, fails, same, test
from tools import until
from wire import (CANCEL_REQUEST, GSS_REQUEST, SSL_REQUEST, V30, V32, PgError, Q, S, cstr, packet,
                  startup)

# What a pool that was filled by another client may not have right at login.
ALWAYS = ("server_version", "server_encoding", "client_encoding", "DateStyle", "TimeZone",
          "integer_datetimes", "standard_conforming_strings", "application_name", "is_superuser",
          "session_authorization", "default_transaction_read_only", "in_hot_standby", "IntervalStyle")


@test()
def welcome(stage):
    """The ParameterStatus messages of the welcome are those of a direct connection."""
    params = [("application_name", "me"), ("client_encoding", "LATIN1"), ("TimeZone", "Asia/Tokyo"),
              ("DateStyle", "German, DMY")]
    for given in ([], params):
        through, direct = stage.wire(params=given), stage.direct(params=given)
        names = set(direct.settings)
        check(names >= set(ALWAYS) - {"in_hot_standby"}, names)
        same(through.settings, direct.settings)


@test(new=True)
def welcome_values(stage):
    """Startup parameters are in force on whichever server the client gets."""
    one = stage.wire(params=[("application_name", "one"), ("TimeZone", "Asia/Tokyo"),
                             ("DateStyle", "German"), ("IntervalStyle", "iso_8601"),
                             ("client_encoding", "LATIN1")] if not stage.options.pgbouncer else
                     [("application_name", "one"), ("TimeZone", "Asia/Tokyo"),
                      ("DateStyle", "German"), ("client_encoding", "LATIN1")])
    two = stage.wire()
    for _ in range(3):
        same(one.value("show timezone"), "Asia/Tokyo")
        same(one.value("show application_name"), "one")
        same(one.value("show datestyle"), "German, DMY")
        same(one.value("show client_encoding"), "LATIN1")
        same(two.value("show application_name"), "")
        check(two.value("show timezone") != "Asia/Tokyo")
        same(two.value("show client_encoding"), "UTF8")


@test(new=True)
def protocol_versions(stage):
    """3.0 and 3.2 are spoken; higher ones are negotiated down to 3.2, once, before anything else."""
    for protocol, long, asked in ((V30, False, None), (V32, True, None), (V30 + 9999, True, V32),
                                  (V30 + 3, True, V32)):
        one = stage.wire(protocol=protocol)
        same(one.negotiated and one.negotiated[0], asked, f"{protocol:x}")
        same(len(one.key), 36 if long else 8, f"{protocol:x}")
        same(one.value("select 1"), "1")


@test(new=True)
def protocol_options(stage):
    """_pq_. options that nobody knows are named in NegotiateProtocolVersion."""
    one = stage.wire(params=[("_pq_.one", "1"), ("_pq_.two", "x")])
    same(one.negotiated[1], [b"_pq_.one", b"_pq_.two"])
    same(one.value("select 1"), "1")


@test(databases="test = host=127.0.0.1 port=PG pool_size=1", config="pool_mode = session", new=True)
def negotiated_once(stage):
    """A login that has to wait for a server hears of the version once, and first (K39)."""
    raw = stage.raw()
    raw.send(startup([("user", "postgres"), ("database", "test")], V30 + 77))
    found = raw.reply(4, ignore="SN")
    same(found, ["v", "R", "K", "Zi"])


@test()
def ssl_and_gss(stage):
    """SSLRequest and GSSENCRequest are answered N, in any order, and a login may follow."""
    for requests in ([SSL_REQUEST], [GSS_REQUEST], [GSS_REQUEST, SSL_REQUEST],
                     [SSL_REQUEST, GSS_REQUEST]):
        one = stage.raw()
        for request in requests:
            one.send(packet(request))
            same(one.raw(1), b"N")
        same(one.login("postgres", "test").value("select 1"), "1")


@test(new=True)
def bytes_behind_requests(stage):
    """Bytes sent behind SSLRequest or GSSENCRequest without waiting are refused."""
    for request, text in ((SSL_REQUEST, "received unencrypted data after SSL request"),
                          (GSS_REQUEST, "received unencrypted data after GSSAPI encryption request")):
        one = stage.raw()
        one.send(packet(request), startup([("user", "postgres"), ("database", "test")]))
        error = one.ended(3) if one.sock.recv(1, 2) != b"N" else one.raw(1) and one.ended(3)
        check(error and error.text == text, error)


@test()
def bad_first_packets(stage):
    """Junk in place of a startup packet ends the connection with an error or without."""
    cases = [packet(0x20000, cstr("x")), b"GET / HTTP/1.0\r\n\r\n", b"\0" * 64, b"\xff" * 64,
             struct.pack("!I", 4), struct.pack("!II", 7, V30), struct.pack("!II", 0x7FFFFFFF, V30),
             struct.pack("!II", 0x80000008, V30), packet(0x40000), packet(V30), packet(V30, b"\0"),
             packet(V30, b"user\0postgres"), packet(V30, b"user\0postgres\0"),
             packet(V30, b"user\0postgres\0database\0"), packet(CANCEL_REQUEST),
             packet(CANCEL_REQUEST, b"1234567"), packet(CANCEL_REQUEST, b"1" * 8),
             packet(CANCEL_REQUEST, b"1" * 36), packet(CANCEL_REQUEST, b"1" * 300),
             packet(SSL_REQUEST, b"12345678"), b"\x16\x03\x01\x02\x00\x01", packet(V30, b"\0" * 30),
             packet(V30, b"a" * 70000)]
    for data in cases:
        one = stage.raw()
        try:
            one.send(data)
            one.sock.shutdown(1)
        except OSError:
            pass
        got = one.reply(3, 3, ignore="") if one.sock else []
        check(got[-1] == "EOF" and len(got) <= 3, data[:40], got)
    same(stage.wire().value("select 1"), "1")


@test(new=True)
def bad_first_packets_texts(stage):
    """What is said about junk in place of a startup packet."""
    for data, text in (
            (packet(0x20000, cstr("x")), "old V2 protocol not supported"),
            (packet(0x40000, cstr("x")), "bad packet header: '"),
            (packet(V30, b"\0"), "no username supplied"),
            (startup([("user", ""), ("database", "test")]), "no username supplied"),
            (startup([("user", "u" * 128), ("database", "test")]), "username too long"),
            (packet(V30, cstr("user") + cstr("postgres")),
             "invalid startup packet layout: expected terminator as last byte"),
            (packet(V30, cstr("user") + cstr("postgres") + b"\0x"),
             "invalid startup packet layout: expected terminator as last byte")):
        one = stage.raw()
        one.send(data)
        error = one.ended(3)
        check(error and error.text.startswith(text), data[:40], error)
        same((error.sqlstate, error.fields["S"]), ("08P01", "FATAL"))
        check(set(error.fields) <= set("SCM"), error.fields)


@test(new=True)
def packets_in_pieces(stage):
    """A login that comes byte by byte."""
    one = stage.raw()
    for byte in startup([("user", "postgres"), ("database", "test"), ("application_name", "slow")]):
        one.send(bytes([byte]))
    one.finish_login("postgres", None)
    for byte in Q("show application_name"):
        one.send(bytes([byte]))
    same(one.rows(), [["slow"]])


@test()
def packet_and_query_at_once(stage):
    """A query that is sent with the startup packet, before the welcome, is not lost."""
    one = stage.raw()
    one.send(startup([("user", "postgres"), ("database", "test")]), Q("select 42"))
    one.finish_login("postgres", None)
    same(one.rows(), [["42"]])


@test()
def unknown_parameters(stage):
    """A parameter that nobody tracks is refused unless it is to be ignored."""
    error = fails("unsupported startup parameter: work_mem", stage.wire, params=[("work_mem", "1MB")])
    same(error.sqlstate, "08P01")
    same(stage.wire(params=[("extra_float_digits", "2")]).value("select 1"), "1")
    stage.pooler.wait_log("unsupported startup parameter: work_mem=1MB")
    fails("unsupported startup parameter", stage.wire, params=[("Extra_Float_Digits", "2")])


@test()
def database_defaults_to_user(stage):
    """Without a database its name is the user's."""
    error = fails(["no such database: postgres", "postgres"], stage.wire, database=None)
    check("postgres" in error.text, error)


@test(config="ignore_startup_parameters = extra_float_digits, work_mem", new=True)
def options(stage):
    """-c a=b, -ca=b and --a=b in options, with escapes, as PostgreSQL reads them (K40)."""
    for text in ("-c datestyle=German", "-cdatestyle=German", "--datestyle=German",
                 "  -c   datestyle=German  ", "-c application_name=a\\ b", "-c application_name=a\\\\b",
                 "-c datestyle=German -c timezone=Asia/Tokyo", "-c DateStyle=German",
                 "--application_name=x=y", "-c application_name=one -c application_name=two",
                 "-c intervalstyle=iso_8601", "", "-c application_name=" + "x" * 5000,
                 "-c work_mem=2MB -c datestyle=German"):
        through = stage.wire(params=[("options", text)])
        direct = stage.direct(params=[("options", text)])
        for name in ("datestyle", "timezone", "application_name", "intervalstyle"):
            same(through.value(f"show {name}"), direct.value(f"show {name}"), f"{text[:60]}: {name}")


@test(new=True)
def options_refused(stage):
    """Options of other forms, and of parameters nobody tracks."""
    form = "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed"
    for text, wanted in (("-c work_mem=1MB", "unsupported startup parameter in options: work_mem"),
                         ("--work_mem=1MB", "unsupported startup parameter in options: work_mem"),
                         ("-d 5", form), ("-c datestyle", form), ("datestyle=ISO", form), ("-c", form)):
        error = fails(wanted, stage.wire, params=[("options", text)])
        same(error.sqlstate, "08P01", text)


@test(config="ignore_startup_parameters = options", new=True)
def options_ignored(stage):
    """With options among the ignored, unknown ones vanish and tracked ones count."""
    one = stage.wire(params=[("options", "-c work_mem=1MB -c datestyle=German")])
    same(one.value("show datestyle"), "German, DMY")


@test("application_name_add_host = 1")
def name_with_address(stage):
    """application_name_add_host appends the client's address and port."""
    for name in ("me", None):
        one = stage.wire(params=[("application_name", name)] if name else [])
        port = one.sock.getsockname()[1]
        same(one.value("show application_name"), f"{name or 'app'} - 127.0.0.1:{port}")


@test()
def second_startup_packet(stage):
    """A second startup packet within a session ends it."""
    one = stage.wire()
    one.send(startup([("user", "postgres"), ("database", "test")]))
    error = one.ended(3)
    check(error is None or error.sqlstate == "08P01", error)
    same(stage.wire().value("select 1"), "1")


@test(new=True)
def unknown_messages(stage):
    """Messages that do not exist, or come from the wrong side, end the session."""
    for junk in (b"y\0\0\0\4", b"R\0\0\0\x08\0\0\0\0", b"Z\0\0\0\5I", b"\0\0\0\0\4", b"Q\0\0\0\3",
                 b"Q\xff\xff\xff\xff", b"p\0\0\0\x05\0"):
        one = stage.wire()
        one.send(junk)
        error = one.ended(3)
        check(error is None or error.sqlstate == "08P01", junk, error)
    same(stage.wire().value("select 1"), "1")


@test(new=True)
def many_parameters(stage):
    """A startup packet of almost the greatest size."""
    fill = [("extra_float_digits", "1")] * 2500
    one = stage.raw()
    one.send(startup([("user", "postgres"), ("database", "test")] + fill))
    one.finish_login("postgres", None)
    same(one.value("select 1"), "1")


@test("max_packet_size = 100000")
def packet_limit(stage):
    """max_packet_size is kept on both sides, and packets below it pass."""
    one = stage.wire()
    same(one.value(f"select length('{'x' * 99000}')"), "99000")
    one.send(Q(f"select length('{'x' * 100100}')"))
    error = one.ended(5)
    check(error and error.text.startswith("bad packet header"), error)
    two = stage.wire()
    two.send(Q("select repeat('x', 200000)"))
    until(lambda: stage.pools().get("sv_active") == 0)
    error = two.ended(5)
    same(stage.wire().value("select 1"), "1")


@test("pool_mode = session")
def bytes_after_terminate(stage):
    """What comes behind Terminate is nobody's."""
    one = stage.wire()
    one.send(Q("select 1"), b"X\0\0\0\4", Q("select 2"), S)
    got = one.reply(8, 3)
    check(got[-1] == "EOF" and "D(2)" not in got, got)
    try:
        same(stage.wire().value("select 3"), "3")
    except PgError as error:
        check(False, error)
