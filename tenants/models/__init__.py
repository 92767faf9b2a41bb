"""Plans, tenants, their keys, prices, and what they used."""

from tenants.models.adjustment import Adjustment
from tenants.models.budget_warning import BudgetWarning
from tenants.models.bulk import BulkJob, BulkSlice
from tenants.models.choices import (
    CACHE_CHOICES,
    CACHING_CHOICES,
    OUTCOME_CHOICES,
    QOS_CHOICES,
    ROLLBACK_CHOICES,
    SCOPE_CHOICES,
    SHARING_CHOICES,
)
from tenants.models.hot_key import HotKey
from tenants.models.key import ApiKey
from tenants.models.limits import LIMIT_FIELDS, NANO
from tenants.models.plan import Plan
from tenants.models.price import Price
from tenants.models.stored_file import StoredFile
from tenants.models.stored_prompt import PromptVersion, StoredPrompt
from tenants.models.tenant import Tenant, make_cache_salt
from tenants.models.usage import UsageRecord, UsageRollup
from tenants.revision import SnapshotRevision

__all__ = [
    "CACHE_CHOICES",
    "CACHING_CHOICES",
    "LIMIT_FIELDS",
    "NANO",
    "OUTCOME_CHOICES",
    "QOS_CHOICES",
    "ROLLBACK_CHOICES",
    "SCOPE_CHOICES",
    "SHARING_CHOICES",
    "Adjustment",
    "ApiKey",
    "BudgetWarning",
    "BulkJob",
    "BulkSlice",
    "HotKey",
    "Plan",
    "Price",
    "PromptVersion",
    "SnapshotRevision",
    "StoredFile",
    "StoredPrompt",
    "Tenant",
    "UsageRecord",
    "UsageRollup",
    "make_cache_salt",
]
