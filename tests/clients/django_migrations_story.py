"""Django's `migrate`: its contrib applications and one of the tests, forwards and backwards.

Run with the host, port, user and database of a server; prints what it sees. See test_django.py.
"""

from __future__ import annotations

import sys

from tests.clients.django_settings import set_up

_CONTRIBUTED = ("admin", "auth", "contenttypes", "sessions", "messages")
set_up(
    sys.argv[1:],
    *(f"django.contrib.{name}" for name in _CONTRIBUTED),
    "tests.clients.library",
    search_path="migrated_by_django",
)

from django.contrib.auth.models import Permission, User  # noqa: E402  after the settings
from django.core.management import call_command  # noqa: E402

from tests.clients.library.models import Author, Book  # noqa: E402


def story() -> None:
    """From nothing to everything, and back."""
    call_command("migrate", no_color=True)
    call_command("makemigrations", check=True, dry_run=True, no_color=True)
    print(Permission.objects.count(), list(Permission.objects.order_by("codename").values_list("codename", flat=True)))
    User.objects.create_superuser("ann", "ann@example.org", "secret")
    print(User.objects.get(username="ann").has_perm("library.add_book"))
    for book in Book.objects.order_by("slug").prefetch_related("authors"):
        print(book.pk, book.heading, book.slug, book.pages, [author.name for author in book.authors.all()])
    Book.objects.create(heading="New", slug="new").authors.set(Author.objects.filter(name="Bob"))
    call_command("migrate", "library", "0003", no_color=True)
    call_command("migrate", "library", no_color=True)
    print(list(Book.objects.order_by("id").values_list("heading", "slug", "pages", "authors__name")))
    for application in ("library", "admin", "auth", "sessions", "contenttypes"):
        call_command("migrate", application, "zero", no_color=True)
    call_command("showmigrations", no_color=True)


story()
