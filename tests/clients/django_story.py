"""A day of a Django application: models made by the schema editor, rows by the ORM, in `atomic` blocks.

Run with the host, port, user and database of a server; prints what it sees. See test_django.py.
"""

from __future__ import annotations

import sys
from decimal import Decimal

from tests.clients.django_settings import set_up

set_up(sys.argv[1:], "tests.clients.bank")

from django.db import IntegrityError, connection, transaction  # noqa: E402  after the settings
from django.db.models import Count, F, Q, Sum  # noqa: E402

from tests.clients.bank.models import Account, Branch  # noqa: E402


def refused(what: str) -> None:
    """Say what the error was that is being handled."""
    error = sys.exc_info()[1]
    assert error is not None
    print(what, type(error).__name__, str(error).splitlines()[0])


def story() -> None:
    """From the first table to the last."""
    with connection.schema_editor() as editor:
        editor.create_model(Branch)
        editor.create_model(Account)

    north = Branch.objects.create(number=1, name="North")
    south, created = Branch.objects.get_or_create(number=2, defaults={"name": "South"})
    print(north.pk, south.pk, created, Branch.objects.get_or_create(number=2)[1])
    Account.objects.bulk_create(
        Account(branch=north, owner=name, balance=Decimal(amount)) for name, amount in [("ann", "10.50"), ("bob", "20")]
    )
    Account.objects.create(branch=south, owner="cid", balance=5)

    with transaction.atomic():
        Account.objects.filter(owner="ann").update(balance=F("balance") + 1)
        try:
            with transaction.atomic():
                Account.objects.create(branch=north, owner="ann")
        except IntegrityError:
            refused("inner")
        try:
            with transaction.atomic():
                Account.objects.filter(owner="bob").update(balance=-1)
        except IntegrityError:
            refused("check")
        print(Account.objects.get(owner="ann").balance)
    try:
        with transaction.atomic():
            Account.objects.create(branch_id=99, owner="nobody")
            print("not yet looked at", Account.objects.filter(owner="nobody").count())
    except IntegrityError:
        refused("at COMMIT")
    try:
        with transaction.atomic():
            Account.objects.all().delete()
            raise KeyError
    except KeyError:
        print("undone", Account.objects.count())

    Account.objects.bulk_create(
        [Account(branch=north, owner="ann", balance=100), Account(branch=south, owner="dan", balance=7)],
        update_conflicts=True,
        unique_fields=["branch", "owner"],
        update_fields=["balance"],
    )
    Account.objects.bulk_create([Account(branch=north, owner="ann", balance=3)], ignore_conflicts=True)
    ann = Account.objects.select_related("branch").get(owner="ann")
    print(ann.owner, ann.balance, ann.branch.name, ann.active)
    ann.owner = "anna"
    ann.save()
    totals = Branch.objects.annotate(total=Sum("account__balance"), count=Count("account")).order_by("number")
    print([(branch.name, branch.total, branch.count) for branch in totals])
    print(
        list(Account.objects.filter(Q(balance__gt=6) | Q(owner__startswith="c")).order_by("owner").values_list("owner"))
    )
    accounts = list(Account.objects.order_by("owner"))
    for account in accounts:
        account.balance += 1
    print(Account.objects.bulk_update(accounts, ["balance"]))
    print([str(balance) for balance in Account.objects.order_by("owner").values_list("balance", flat=True).iterator(2)])
    print(north.delete(), Account.objects.count())

    with connection.schema_editor() as editor:
        editor.delete_model(Account)
        editor.delete_model(Branch)


story()
