"""Lists that people write one entry a line."""

from ipaddress import ip_address, ip_network
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from unfold.widgets import UnfoldAdminTextareaWidget


class LinesField(forms.CharField):
    """A list of texts, one a line, without empty ones and repetitions."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(widget=UnfoldAdminTextareaWidget(attrs={"rows": 4}), required=False, **kwargs)

    def prepare_value(self, value: Any) -> Any:
        """Show a stored list as lines."""
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        """Read lines as a list."""
        lines = (line.strip() for line in (super().to_python(value) or "").splitlines())
        return list(dict.fromkeys(line for line in lines if line))

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Compare lists, so that an extra line break is no change."""
        return bool(list(initial or []) != self.to_python(data))


class NetworksField(LinesField):
    """IP addresses and networks, one a line."""

    def to_python(self, value: Any) -> Any:
        """Read and check the lines.

        Raises:
            django.core.exceptions.ValidationError: a line is neither an address nor a network; it is named.
        """
        return [_checked(line) for line in super().to_python(value)]

    def has_changed(self, initial: Any, data: Any) -> bool:
        """What cannot be read is a change."""
        try:
            return super().has_changed(initial, data)
        except ValidationError:
            return True


def _checked(line: str) -> str:
    try:
        meant = ip_network(line, strict=False)
    except ValueError:
        told = _("“%(line)s” is not an IP address or network such as 203.0.113.7 or 203.0.113.0/24.")
        raise ValidationError(told % {"line": line}) from None
    if "/" not in line or meant.network_address == ip_address(line.partition("/")[0]):
        return line
    told = _("“%(line)s” names one address inside a network: write %(network)s for all of it, or the address alone.")
    raise ValidationError(told % {"line": line, "network": meant})
