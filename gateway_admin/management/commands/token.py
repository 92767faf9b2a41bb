"""Tokens for automation, without a browser: ``manage.py token create --user ci --name nightly --role billing``."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from gateway_admin.automation_token import DEFAULT_DAYS, MOST_DAYS, make_token
from gateway_admin.roles import Role, roles_within


class Command(BaseCommand):
    help = "Make an automation token of a user; its text is printed once."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create")
        create.add_argument("--user", required=True, help="name of the user whose token it is")
        create.add_argument("--name", required=True, help="where it is used")
        create.add_argument("--role", choices=list(Role), help="what it may; the most that the user may if left out")
        create.add_argument("--days", type=int, default=DEFAULT_DAYS, help=f"until it ends, at most {MOST_DAYS}")

    def handle(self, *args: Any, **options: Any) -> None:
        if not 1 <= options["days"] <= MOST_DAYS:
            raise CommandError(f"--days must be from 1 to {MOST_DAYS}.")
        if not 0 < len(options["name"]) <= 100:
            raise CommandError("--name must have 1 to 100 characters.")
        user = User.objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"There is no user {options['user']}.")
        role = Role(options["role"]) if options["role"] else _most(user)
        try:
            _token, text = make_token(user, options["name"], role, options["days"])
        except PermissionError as error:
            raise CommandError(f"{error} Add the user to the group of that name, or choose a lesser role.") from error
        self.stdout.write(text)


def _most(user: User) -> Role:
    roles = roles_within(user.get_all_permissions()) if user.is_active else []
    if not roles:
        raise CommandError(f"{user.get_username()} has no role. Add the user to a group: {', '.join(Role)}.")
    return roles[-1]
