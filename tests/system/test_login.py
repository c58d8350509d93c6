# SPDX-License-Identifier: GPL-2.0-or-later
"""Who may log in, and how he proves it, towards clients and towards PostgreSQL."""
from harness import PASSWORD, SAME_SECRET, check, fails, same, test


@test()
def trust(stage):
    """auth_type trust lets known users in without a password."""
    one = stage.wire("postgres", "test")
    same(one.asked, None)
    same(one.value("select current_user"), "postgres")
