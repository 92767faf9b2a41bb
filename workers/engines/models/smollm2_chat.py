"""The chat template of SmolLM2-135M-Instruct, with tools.

The published template ignores tools and fails on an answer that only calls one. Without tools this one renders the
same text; with them it adds the common ``<tools>`` / ``<tool_call>`` form, which vLLM's "hermes" parser reads back.
"""

DEFAULT_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

TEMPLATE = (
    "{%- set own_system = messages[0]['role'] == 'system' -%}"
    "{{- '<|im_start|>system\\n' -}}"
    "{{- messages[0]['content'] if own_system else '" + DEFAULT_SYSTEM + "' -}}"
    "{%- if tools -%}"
    "{{- '\\n\\nYou can call these functions:\\n<tools>\\n' -}}"
    "{%- for tool in tools -%}{{- (tool | tojson) + '\\n' -}}{%- endfor -%}"
    "{{- '</tools>\\nTo call one, answer with:\\n<tool_call>\\n' -}}"
    '{{- \'{"name": "the function", "arguments": {"its": "arguments"}}\\n</tool_call>\' -}}'
    "{%- endif -%}"
    "{{- '<|im_end|>\\n' -}}"
    "{%- for message in messages -%}"
    "{%- if not (loop.first and own_system) -%}"
    "{{- '<|im_start|>' + message['role'] + '\\n' + (message['content'] or '') -}}"
    "{%- for call in message['tool_calls'] or [] -%}"
    "{%- set arguments = call['function']['arguments'] -%}"
    '{{- \'<tool_call>\\n{"name": \' + (call["function"]["name"] | tojson) + \', "arguments": \' -}}'
    "{{- arguments if arguments is string else (arguments | tojson) -}}"
    "{{- '}\\n</tool_call>' -}}"
    "{%- endfor -%}"
    "{{- '<|im_end|>\\n' -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)
