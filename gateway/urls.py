"""Addresses of the data plane."""

from django.urls import URLPattern, path

from gateway.views.batches import Batches, CancelBatch, OneBatch
from gateway.views.chat import ChatCompletions
from gateway.views.completions import Completions
from gateway.views.embeddings import Embeddings
from gateway.views.files import AllFiles, FileContent, OneFile
from gateway.views.filters import PromptFilter
from gateway.views.health import Livez, Metrics, Readyz
from gateway.views.limits import Limits
from gateway.views.models import Models, OneModel
from gateway.views.prompts import OnePrompt, Prompts, PromptVersions
from gateway.views.usage import Usage

urlpatterns: list[URLPattern] = [
    path("v1/chat/completions", ChatCompletions.as_view(), name="chat-completions"),
    path("v1/completions", Completions.as_view(), name="completions"),
    path("v1/embeddings", Embeddings.as_view(), name="embeddings"),
    path("v1/models", Models.as_view(), name="models"),
    path("v1/models/<path:model>", OneModel.as_view(), name="model"),
    path("v1/prompts", Prompts.as_view(), name="prompts"),
    path("v1/prompts/<str:prompt>", OnePrompt.as_view(), name="prompt"),
    path("v1/prompts/<str:prompt>/versions", PromptVersions.as_view(), name="prompt-versions"),
    path("v1/files", AllFiles.as_view(), name="files"),
    path("v1/files/<str:file>", OneFile.as_view(), name="file"),
    path("v1/files/<str:file>/content", FileContent.as_view(), name="file-content"),
    path("v1/batches", Batches.as_view(), name="batches"),
    path("v1/batches/<str:batch>", OneBatch.as_view(), name="batch"),
    path("v1/batches/<str:batch>/cancel", CancelBatch.as_view(), name="batch-cancel"),
    path("v1/filters/prompts", PromptFilter.as_view(), name="prompt-filter"),
    path("v1/limits", Limits.as_view(), name="limits"),
    path("v1/usage", Usage.as_view(), name="usage"),
    path("livez", Livez.as_view(), name="livez"),
    path("readyz", Readyz.as_view(), name="readyz"),
    path("metrics", Metrics.as_view(), name="metrics"),
]
