"""The operators' pages of plans, tenants, keys, the whitelist, stored prompts, prices, adjustments and usage."""

from tenants.admin.adjustments import AdjustmentAdmin
from tenants.admin.hot_keys import HotKeyAdmin
from tenants.admin.keys import ApiKeyAdmin
from tenants.admin.plans import PlanAdmin
from tenants.admin.prices import PriceAdmin
from tenants.admin.rollups import UsageRollupAdmin
from tenants.admin.stored_prompts import StoredPromptAdmin
from tenants.admin.tenants import TenantAdmin
from tenants.admin.usage import UsageRecordAdmin
from tenants.admin.warnings import BudgetWarningAdmin

__all__ = [
    "AdjustmentAdmin",
    "ApiKeyAdmin",
    "BudgetWarningAdmin",
    "HotKeyAdmin",
    "PlanAdmin",
    "PriceAdmin",
    "StoredPromptAdmin",
    "TenantAdmin",
    "UsageRecordAdmin",
    "UsageRollupAdmin",
]
