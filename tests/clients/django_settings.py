"""Django's settings for the server of a story. Import it before any part of Django that reads them."""

from __future__ import annotations

import django
from django.conf import settings


def set_up(arguments: list[str], *applications: str, search_path: str = "public") -> None:
    """`arguments` are the server's host, port, user and database."""
    host, port, user, database = arguments
    settings.configure(
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "HOST": host,
                "PORT": port,
                "USER": user,
                "NAME": database,
                "OPTIONS": {"options": f"-c search_path={search_path}"},
            }
        },
        INSTALLED_APPS=applications,
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()
