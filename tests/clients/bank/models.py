"""The bank's models."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class Branch(models.Model):
    """A branch of the bank."""

    number = models.IntegerField(unique=True)
    name = models.TextField()


class Account(models.Model):
    """An account of a branch's. Its foreign key has no index of its own: the lake has none yet."""

    branch = models.ForeignKey(Branch, on_delete=models.CASCADE, db_index=False)
    owner = models.TextField()
    balance = models.DecimalField(max_digits=12, decimal_places=2, default=0)
    active = models.BooleanField(default=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["branch", "owner"], name="one_account_each"),
            models.CheckConstraint(condition=Q(balance__gte=0), name="no_debts"),
        )
