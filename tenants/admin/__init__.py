"""The operators' pages of plans, tenants, keys and usage."""

from tenants.admin.keys import ApiKeyAdmin
from tenants.admin.plans import PlanAdmin
from tenants.admin.tenants import TenantAdmin
from tenants.admin.usage import UsageRecordAdmin

__all__ = ["ApiKeyAdmin", "PlanAdmin", "TenantAdmin", "UsageRecordAdmin"]
