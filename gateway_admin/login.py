"""The operators' login: after a few wrong passwords from one address, an account rests for a while."""

import hashlib
from typing import Any

from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _
from unfold.forms import AuthenticationForm

ATTEMPTS = 8
REST_S = 300


class LoginForm(AuthenticationForm):
    """Counts failures per account and address, in this process: N gateway processes allow N times as many."""

    def clean(self) -> Any:
        """Refuse while resting, else check the password and count a failure.

        Raises:
            django.core.exceptions.ValidationError: wrong password, or too many of them.
        """
        counter = self._counter()
        if cache.get(counter, 0) >= ATTEMPTS:
            raise ValidationError(_("Too many wrong passwords. Try again in five minutes."), code="resting")
        try:
            cleaned = super().clean()
        except ValidationError:
            cache.add(counter, 0, REST_S)
            cache.incr(counter)
            raise
        cache.delete(counter)
        return cleaned

    def _counter(self) -> str:
        address = self.request.META.get("REMOTE_ADDR", "") if self.request else ""
        who = f"{self.cleaned_data.get('username', '')}\n{address}"
        return f"login-{hashlib.sha256(who.encode()).hexdigest()}"
