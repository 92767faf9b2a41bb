"""Django's settings; the only module that reads the environment. Everybody else uses ``settings.SLUICE``."""

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

from domain.config import Config, ConfigError, parse_config
from gateway_admin.database import database_settings
from gateway_admin.mail_server import mail_server
from gateway_admin.secret import read_secret_key
from gateway_admin.theme import theme


def _load() -> tuple[Config, str, dict[str, Any]]:
    config = parse_config(os.environ, lambda name: Path(name).read_text(encoding="utf-8"))
    return config, read_secret_key(config), database_settings(config)


try:
    SLUICE, SECRET_KEY, _DATABASE = _load()
except ConfigError as error:
    sys.exit(f"sluice: {error}")  # one line for the person who set it wrong; a traceback would hide it

BASE_DIR = Path(__file__).resolve().parent.parent

DEBUG = False
ALLOWED_HOSTS = list(SLUICE.allowed_hosts)
ROOT_URLCONF = "gateway_admin.urls"
ASGI_APPLICATION = "gateway_admin.asgi.application"
DATABASES = {"default": _DATABASE}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "rest_framework",
    "django_filters",
    "knox",
    "auditlog",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "tenants",
    "tracing",
    "gateway_admin",
]

# The operators' side only: the data plane has a handler of its own without any of these.
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "gateway_admin.audit.AuditMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "gateway_admin" / "locale"]
FORMAT_MODULE_PATH = ["gateway_admin.formats"]
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "/static/"
LOGIN_URL = "admin:login"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

# Browsers share cookies between the ports of one host: without a name of its own, each of two instances on one
# machine would log its operator out of the other.
_COOKIE_MARK = "" if SLUICE.production else hashlib.sha256(bytes(SLUICE.data_dir.absolute())).hexdigest()[:8]
SESSION_COOKIE_NAME = f"sluice_session{_COOKIE_MARK}"
CSRF_COOKIE_NAME = f"sluice_csrf{_COOKIE_MARK}"
SESSION_COOKIE_AGE = 12 * 3600
SESSION_COOKIE_HTTPONLY = True

SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
if SLUICE.https:
    # Something in front ends TLS and sets this header; it must not pass on a client's own.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SECURE_HSTS_SECONDS = 365 * 24 * 3600
    SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    SECURE_HSTS_PRELOAD = True
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True

REST_FRAMEWORK = {
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    # A view that names nothing is closed to all but operators; the data plane's views name their own classes.
    "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.SessionAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAdminUser"],
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Sluice",
    "DESCRIPTION": "OpenAI's API, shared by many tenants.",
    "VERSION": "0.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    # Fields of several names take these values; each set of values has one name in the schemas.
    "ENUM_NAME_OVERRIDES": {
        "HotKeyStateEnum": "tenants.models.hot_key.HotKey.State",
        "KeyStateEnum": "gateway_admin.api.keys.STATES",
        "HotKeySetByHandEnum": "gateway_admin.api.hot_keys.SET_BY_HAND",
        "QosClassEnum": "tenants.models.QOS_CHOICES",
        "RoleEnum": "gateway_admin.automation_token.ROLE_CHOICES",
    },
}

KNOX_TOKEN_MODEL = "gateway_admin.AutomationToken"
# Its own table, which ours replaces, would stay empty for ever, and Postgres could not empty auth_user beside it.
MIGRATION_MODULES = {"knox": None}
# Programs that look for leaked secrets know a token by its beginning.
REST_KNOX = {"TOKEN_PREFIX": "sluice-op-"}

_MAIL = mail_server(SLUICE.smtp_url)
EMAIL_HOST, EMAIL_PORT, EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _MAIL.host, _MAIL.port, _MAIL.user, _MAIL.password
EMAIL_USE_SSL, EMAIL_USE_TLS = _MAIL.scheme == "smtps", _MAIL.scheme == "smtp+starttls"
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = SLUICE.alert_mail_from

UNFOLD = theme(SLUICE)
